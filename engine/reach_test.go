package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

func acl(vpc, name, rules string) string {
	return document("ACL", vpc, name, "rules: ["+rules+"]")
}

// guarded is a VPC shop with two tiers, of which db lets tcp 5432 of app in.
func guarded() string {
	return vpc("shop", "10.0.0.0/16") + acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], tiers: [app]}") +
		acl("shop", "app", "") +
		tierWith("shop", "app", "cidrs: [10.0.1.0/24], acl: app") + tierWith("shop", "db", "cidrs: [10.0.2.0/24], acl: db")
}

func (f *fixture) reach(set *model.Set, o engine.ReachOptions) *engine.ReachReport {
	f.t.Helper()
	r, err := f.Reach(f.ctx, set, o)
	require.NoError(f.t, err)
	return r
}

// A rule that goes is told of field by field, and nothing beside.
func TestAPlanTellsOfTheRuleThatGoes(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	f.apply(acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], tiers: [app]}, {number: 20, protocol: udp}"))
	p, err := f.Plan(f.ctx, load(t, acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], tiers: [app]}")), false)
	require.NoError(t, err)
	for _, field := range p.VPCs[0].Changes[0].Fields {
		require.Contains(t, field.Field, "spec.rules[number=20].")
	}
}

func TestReach(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + vpc("lab", "10.0.0.0/16") + tier("lab", "web", "10.0.1.0/24"))
	before := f.dump()
	r := f.reach(nil, engine.ReachOptions{})
	require.Len(t, r.VPCs, 2)
	require.Equal(t, "lab", r.VPCs[0].VPC)
	app, db := reach.End{Kind: reach.Tier, Name: "app"}, reach.End{Kind: reach.Tier, Name: "db"}
	require.Equal(t, "tcp 5432", r.VPCs[1].Find(app, db).Traffic)

	// As it would be, of the VPC of the input alone.
	set := load(t, acl("shop", "db", "{number: 10, protocol: tcp, ports: [22, 5432], tiers: [app]}"))
	r = f.reach(set, engine.ReachOptions{Rules: true})
	require.Len(t, r.VPCs, 1)
	path := r.VPCs[0].Find(app, db)
	require.Equal(t, "tcp 22, 5432", path.Traffic)
	require.Equal(t, "db/rule 10 (spec.yaml:2)", path.Parts[0].Ingress.String())
	r = f.reach(set, engine.ReachOptions{VPC: "lab"})
	require.Equal(t, "lab", r.VPCs[0].VPC)
	require.Equal(t, before, f.dump(), "it has written something")

	// A name is a tier's or an attachment's, and where VPCs are left out for want
	// of it, one has to have it.
	f.apply(att("shop", "app-1", "app"))
	r = f.reach(nil, engine.ReachOptions{From: []reach.End{{Name: "app-1"}}, To: []reach.End{{Name: "db"}}})
	require.Len(t, r.VPCs, 1)
	require.Equal(t, "app-1", r.VPCs[0].Paths[0].From.Name)
	r = f.reach(nil, engine.ReachOptions{VPC: "shop", By: reach.Attachment})
	require.Equal(t, reach.Attachment, r.VPCs[0].By)
	ssh, err := traffic.Parse("tcp/22")
	require.NoError(t, err)
	require.Empty(t, f.reach(nil, engine.ReachOptions{VPC: "shop", To: []reach.End{{Name: "db"}}, From: []reach.End{{Name: "app"}}, Traffic: &ssh}).VPCs[0].Paths)
	for want, o := range map[string]engine.ReachOptions{
		"VPC nosuch not found":           {VPC: "nosuch"},
		"Tier shop/nosuch not found":     {VPC: "shop", From: []reach.End{{Name: "nosuch"}}},
		"Attachment shop/app not found":  {VPC: "shop", To: []reach.End{{Kind: reach.Attachment, Name: "app"}}},
		"Tier nosuch not found":          {To: []reach.End{{Name: "nosuch"}}},
		"Attachment nosuch not found":    {By: reach.Attachment, To: []reach.End{{Name: "nosuch"}}},
		"Attachment shop/none not found": {VPC: "shop", By: reach.Attachment, To: []reach.End{{Name: "none"}}},
	} {
		_, err := f.Reach(f.ctx, nil, o)
		var missing *engine.NotFoundError
		require.ErrorAs(t, err, &missing)
		require.EqualError(t, err, want)
	}
	_, err = f.Reach(f.ctx, load(t, tierWith("shop", "app", "cidrs: [10.9.1.0/24]")), engine.ReachOptions{})
	var invalid *engine.InvalidError
	require.ErrorAs(t, err, &invalid)
}

// part is the only VPC's of a plan.
func (f *fixture) part(text string) engine.VPCPlan {
	f.t.Helper()
	p, err := f.Plan(f.ctx, load(f.t, text), false)
	require.NoError(f.t, err)
	require.Len(f.t, p.VPCs, 1)
	return p.VPCs[0]
}

func TestPlanTellsWhatOpens(t *testing.T) {
	f := newFixture(t, false)
	require.Contains(t, f.part(guarded()).Reach.String(), "+ app -> db tcp 5432   by app/egress default (spec.yaml:6), db/rule 10 (spec.yaml:4)\n")
	f.apply(guarded())
	part := f.part(acl("shop", "db", "{number: 10, protocol: tcp, ports: [22], cidrs: [10.0.1.0/24, 192.0.2.0/24]}"))
	require.Equal(t, ""+
		"+ app -> db tcp 22   by db/rule 10 (spec.yaml:2)\n"+
		"+ outside -> db tcp 22 from 192.0.2.0/24   by db/rule 10 (spec.yaml:2)   OUTSIDE\n"+
		"- app -> db tcp 5432   by db/ingress default (spec.yaml:2)\n", part.Reach.String())

	// Nothing is reckoned of what can't open anything.
	require.Nil(t, f.part(att("shop", "app-1", "app")).Reach)
	require.Nil(t, f.part(strings.Replace(vpc("shop", "10.0.0.0/16"), "name: shop", "name: shop, labels: {a: b}", 1)).Reach)
	// An attachment that brings addresses takes them from outside.
	part = f.part(document("Attachment", "shop", "vpn", "tier: app, allowedAddresses: [192.0.2.0/24]"))
	require.Contains(t, part.Reach.String(), "+ app -> outside all from 192.0.2.0/24")
	// Where a list of the stored state is gone, a plan is made all the same.
	f.nbctl("destroy", "Port_Group", strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", "Port_Group", "external_ids:ovn-vpc\\:key=acl/shop/db")))
	part = f.part(acl("shop", "db", "") + tier("shop", "web", "10.0.3.0/24"))
	require.Contains(t, part.ReachSkipped, "there is no list db")
	require.Nil(t, part.Reach)
	f.refusedToConfirm(acl("shop", "db", "")+tier("shop", "web", "10.0.3.0/24"), nil, "was not reckoned")
}

// A VPC too large to be reckoned on the way is planned with a note, and reckoned
// where it is asked for.
func TestPlanOfALargeVPCIsNotHeldUp(t *testing.T) {
	f := newFixture(t, false)
	text := vpc("big", "10.0.0.0/8")
	for i := range 520 {
		list := "default-deny"
		if i == 0 {
			list = "default-allow"
		}
		text += tierWith("big", fmt.Sprintf("t%d", i), fmt.Sprintf("cidrs: [10.%d.%d.0/24], acl: %s", i/256, i%256, list))
	}
	part := f.part(text)
	require.Nil(t, part.Reach)
	require.Contains(t, part.ReachSkipped, "it would take long")
	_, err := f.ApplyConfirmed(f.ctx, load(t, text), false, nil, engine.WaitNone)
	var invalid *engine.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Contains(t, err.Error(), "the plan opens t0 -> outside all")
}

func (f *fixture) confirmed(text string, named ...string) error {
	f.t.Helper()
	var openings []reach.Opening
	for _, n := range named {
		o, err := reach.ParseOpening(n)
		require.NoError(f.t, err)
		openings = append(openings, o)
	}
	_, err := f.ApplyConfirmed(f.ctx, load(f.t, text), false, openings, engine.WaitNone)
	return err
}

func (f *fixture) refusedToConfirm(text string, named []string, words ...string) {
	f.t.Helper()
	before := f.dump()
	err := f.confirmed(text, named...)
	var invalid *engine.InvalidError
	require.ErrorAs(f.t, err, &invalid)
	for _, w := range words {
		require.Contains(f.t, err.Error(), w)
	}
	require.Equal(f.t, before, f.dump(), "a refused plan has written something")
}

func TestConfirmOpens(t *testing.T) {
	f := newFixture(t, false)
	f.refusedToConfirm(guarded(), nil, "the plan opens app -> db tcp 5432")
	f.apply(guarded())
	opens := acl("shop", "db", "{number: 10, protocol: tcp, ports: [22, 5432, 8080], cidrs: [10.0.1.0/24, 192.0.2.0/24]}")
	f.refusedToConfirm(opens, []string{"app -> db tcp 22", "db -> app all"},
		`spec.yaml:2:85: error: ACL shop/db: spec.rules[0]: the plan opens app -> db tcp 8080 (name it as 'app -> db tcp 8080', or change what opens it)`,
		"the plan opens outside -> db tcp 22, 5432, 8080 from 192.0.2.0/24, to or from outside")
	require.NoError(t, f.confirmed(opens, "app -> db tcp 22, 8080", "outside -> db tcp"))
	// What closes, and what changes nothing of the kind, needs no name.
	require.NoError(t, f.confirmed(acl("shop", "db", "")+att("shop", "app-1", "app")))
	f.noDrift()
}

// A plan that was kept is confirmed by what it says, and does not land when
// another tier or list has moved: what it opens hangs on them.
func TestConfirmAKeptPlan(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + acl("shop", "idle", "{number: 1}"))
	p, err := f.Plan(f.ctx, load(t, acl("shop", "db", "{number: 10, protocol: tcp, ports: [22]}")), false)
	require.NoError(t, err)
	data, err := json.Marshal(p)
	require.NoError(t, err)
	var kept engine.Plan
	require.NoError(t, json.Unmarshal(data, &kept))
	require.ErrorContains(t, kept.Confirm(nil), "the plan opens outside -> db tcp 22")
	app, err := reach.ParseOpening("app -> db tcp 22")
	require.NoError(t, err)
	outside, err := reach.ParseOpening("outside -> db tcp 22")
	require.NoError(t, err)
	require.NoError(t, kept.Confirm([]reach.Opening{app, outside}))
	f.apply(acl("shop", "idle", "{number: 2}"))
	_, err = f.ApplyPlan(f.ctx, &kept, engine.WaitNone)
	var conflict *engine.ConflictError
	require.ErrorAs(t, err, &conflict)
}

// Two changes that open nothing alone open something together: the second is
// planned again, and refused.
func TestConfirmAfterReplanning(t *testing.T) {
	f := newFixture(t, false)
	closed := document("ACL", "shop", "app", "defaults: {egress: deny}")
	f.apply(guarded())
	f.apply(closed)
	other := connect(t, f.sandbox, "default")
	meddled := false
	f.NB = &meddler{f.NB, func() {
		meddled = true
		other.apply(acl("shop", "app", ""))
	}}
	err := f.confirmed(acl("shop", "db", "{number: 10, protocol: tcp, ports: [22, 5432], tiers: [app]}"))
	require.True(t, meddled)
	var invalid *engine.InvalidError
	require.True(t, errors.As(err, &invalid), "%v", err)
	require.Contains(t, err.Error(), "the plan opens app -> db tcp 22")
}

// What is stored counts, and what is found there is not told of an input that
// doesn't hold it.
func TestLint(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + acl("shop", "idle", ""))
	found, err := f.Lint(f.ctx, load(t, acl("shop", "db", "{number: 10, protocol: tcp, tiers: [app]}, {number: 20, protocol: tcp, ports: [22], tiers: [app]}")))
	require.NoError(t, err)
	require.Len(t, found, 1, found.String())
	require.Contains(t, found.String(), "spec.yaml:2:128: warning: ACL shop/db: spec.rules[1]: is never reached: rule 10 decides")
	f.nbctl("destroy", "Port_Group", strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", "Port_Group", "external_ids:ovn-vpc\\:key=acl/shop/db")))
	found, err = f.Lint(f.ctx, load(t, acl("shop", "app", "")))
	require.NoError(t, err)
	require.Contains(t, found.String(), "warning: VPC shop: beside what is stored it can't be read")
}
