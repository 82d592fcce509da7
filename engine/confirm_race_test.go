package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// A VPC is not deleted from under a change that waits for its confirmation, also
// where that comes between the deletion's plan and its transaction; once the change
// is taken back the VPC goes, with nothing left that waits.
func TestDeletionIsOvertakenByAProvisionalChange(t *testing.T) {
	whole := guarded() + expectation("shop", "served", "from: app, to: db, traffic: tcp/5432, expect: allow")
	for name, c := range map[string]struct{ there, comes string }{
		"a VPC's mtu":             {whole, strings.Replace(guarded(), "[10.0.0.0/16]}", "[10.0.0.0/16], mtu: 1400}", 1)},
		"a tier":                  {whole, tier("shop", "web", "10.0.3.0/24")},
		"a list":                  {whole, acl("shop", "more", "")},
		"a list's rules":          {whole, acl("shop", "app", "{number: 7, protocol: udp}")},
		"an expectation":          {whole, expectation("shop", "closed", "from: outside, to: db, expect: deny")},
		"what one expects":        {whole, expectation("shop", "served", "from: app, to: db, traffic: tcp/5432, expect: allow, description: x")},
		"an empty VPC's mtu":      {vpc("shop", "10.0.0.0/16"), strings.Replace(vpc("shop", "10.0.0.0/16"), "]}", "], mtu: 1400}", 1)},
		"an empty VPC's tier":     {vpc("shop", "10.0.0.0/16"), tier("shop", "web", "10.0.3.0/24")},
		"an empty VPC's list":     {vpc("shop", "10.0.0.0/16"), acl("shop", "more", "")},
		"an empty VPC's prefixes": {vpc("shop", "10.0.0.0/16"), vpc("shop", "10.0.0.0/16, 10.1.0.0/16")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, false)
			f.apply(c.there)
			slow := connect(t, f.sandbox, "default")
			store := &meanwhile{Store: slow.NB, commits: []func(){func() { f.provisional(c.comes) }}}
			slow.NB = store
			ids := []model.ID{{Kind: model.KindVPC, Name: "shop"}}
			_, err := slow.Delete(slow.ctx, ids, true, engine.WaitNone)
			conflicts(t, err, "waits for its confirmation until ")
			require.Empty(t, store.commits)
			_, _, err = f.Edit(f.ctx, []engine.Edit{remove(ids[0], true)}, false)
			conflicts(t, err, "waits for its confirmation until ")
			f.noDrift()

			slow.later(time.Hour)
			r, err := slow.Delete(slow.ctx, ids, true, engine.WaitNone)
			require.NoError(t, err)
			require.Contains(t, r.Diagnostics.String(), "it was taken back before this one")
			require.NotContains(t, f.nbctl("list", "NB_Global"), "unconfirmed")
			require.NotContains(t, f.dump(), "shop")
		})
	}
}

// Where somebody else has deleted the VPC's rows, the note of the change that waits
// is all there is: a confirmation takes it out, or the end of its time does, and
// nothing comes back.
func TestNoteOfAVPCThatIsGone(t *testing.T) {
	f := newFixture(t, false)
	vanish := func() {
		t.Helper()
		for _, table := range []string{"Logical_Router", "Logical_Switch", "Port_Group", "DHCP_Options"} {
			f.nbctl("--all", "destroy", table)
		}
	}
	gone := func() {
		t.Helper()
		require.NotContains(t, f.dump(), "shop")
	}
	for _, change := range []string{tier("shop", "web", "10.0.3.0/24"), acl("shop", "app", "{number: 7, protocol: udp}")} {
		f.apply(guarded())
		f.provisional(change)
		vanish()
		_, err := f.Apply(f.ctx, load(t, guarded()), false, engine.WaitNone)
		conflicts(t, err, "waits for its confirmation until ")
		_, err = f.Confirm(f.ctx, "shop")
		require.NoError(t, err)
		gone()

		f.apply(guarded())
		f.provisional(change)
		vanish()
		late := connect(t, f.sandbox, "default")
		late.later(time.Hour)
		_, err = late.Confirm(late.ctx, "shop")
		conflicts(t, err, "the confirmation comes too late")
		gone()

		f.provisional(guarded())
		vanish()
		r, err := late.Apply(late.ctx, load(t, guarded()), false, engine.WaitNone)
		require.NoError(t, err)
		require.Contains(t, r.Diagnostics.String(), "it was taken back before this one")
		require.Equal(t, []string{"1 cli apply: +1 vpc +2 acls +2 tiers"}, lines(f.history("shop")))
		f.noDrift()
		vanish()
		gone()
	}
}
