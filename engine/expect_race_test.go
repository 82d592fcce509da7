package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// overtaken is a store on which another writer comes before the first
// transaction.
type overtaken struct {
	engine.Store
	comes   func()
	commits int
}

func (o *overtaken) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	if o.commits++; o.commits == 1 {
		o.comes()
	}
	return o.Store.Commit(ctx, p, bump)
}

// What breaks an expectation is refused whichever of the two comes first.
func TestExpectationsOvertaken(t *testing.T) {
	closed := expectation("shop", "closed", "from: outside, to: db, expect: deny")
	served := expectation("shop", "served", "from: app, to: db, traffic: tcp/5432, expect: allow")
	named := expectation("shop", "named", "from: app-1, to: db, traffic: tcp/5432, expect: allow")
	leak := acl("shop", "db", "{number: 10, protocol: tcp, ports: [22, 5432]}")
	vpn := document("Attachment", "shop", "vpn", "tier: app, allowedAddresses: [192.0.2.0/24]")
	fits := document("Attachment", "shop", "vpn", "tier: app, allowedAddresses: [10.0.1.128/25]")
	more := document("Attachment", "shop", "app-1", "tier: app, allowedAddresses: [192.0.2.0/24]")
	quiet := expectation("shop", "quiet", "from: app, to: db, traffic: tcp/22, expect: deny")
	opened := acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], tiers: [app]}, {number: 20, protocol: tcp, ports: [22], cidrs: [192.0.2.0/24]}")
	off := document("Attachment", "shop", "app-1", "tier: app, enabled: false")
	at := func(host int) string {
		return document("Attachment", "shop", "vpn", fmt.Sprintf("tier: app, addresses: [10.0.1.%d]", host))
	}
	of := expectation("shop", "named", "from: vpn, to: db, traffic: tcp/5432, expect: allow")
	asleep := document("Attachment", "shop", "vpn", "tier: app, enabled: false") + expectation("shop", "named", "from: vpn, to: db, traffic: tcp/22, expect: deny")
	for name, c := range map[string]struct{ there, slow, fast string }{
		"the first expectation comes before its breach":   {"", leak, closed},
		"another expectation comes before its breach":     {served, leak, closed},
		"the breach comes before the expectation":         {"", closed, leak},
		"an attachment brings addresses that are stopped": {"", vpn, served},
		"addresses that are stopped come before":          {"", served, vpn},
		"further ones do":                                 {fits, served, more},
		"a list lets in what comes before it":             {quiet, opened, vpn},
		"what a list lets in comes after it":              {quiet, vpn, opened},
		"the one that is named gets further addresses":    {closed, more, named},
		"the one that is named is disabled":               {"", off, named},
		"the one that is to be named is disabled":         {"", named, off},
		"the one that is named moves":                     {at(50) + of, acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], cidrs: [10.0.1.50/32]}"), at(51)},
		"the one that is named is enabled":                {asleep, leak, att("shop", "vpn", "app")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(guarded() + att("shop", "app-1", "app") + c.there)
			fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
			store := &overtaken{Store: slow.NB, comes: func() { fast.apply(c.fast) }}
			slow.NB = store
			_, err := slow.Apply(slow.ctx, load(t, c.slow), false, engine.WaitNone)
			require.Equal(t, 1, store.commits)
			require.ErrorContains(t, err, "will not hold")
			f.noDrift()
		})
	}
}

// What was planned in a VPC without expectations is overtaken by those of another one
// of the same name and the same specs.
func TestExpectationsOfARecreatedVPC(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
	store := &overtaken{Store: slow.NB, comes: func() {
		_, err := fast.Delete(fast.ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
		require.NoError(t, err)
		fast.apply(guarded() + expectation("shop", "closed", "from: outside, to: db, expect: deny"))
	}}
	slow.NB = store
	_, err := slow.Apply(slow.ctx, load(t, acl("shop", "db", "{number: 10, protocol: tcp, ports: [22, 5432]}")), false, engine.WaitNone)
	require.Equal(t, 1, store.commits)
	require.ErrorContains(t, err, "will not hold")
}

// What an expectation has come to name meanwhile isn't deleted any more.
func TestDeletionsOvertakenByExpectations(t *testing.T) {
	for name, remove := range map[string]func(*fixture, model.ID) error{
		"by a command": func(f *fixture, id model.ID) error {
			_, err := f.Delete(f.ctx, []model.ID{id}, false, engine.WaitNone)
			return err
		},
		"by an edit": func(f *fixture, id model.ID) error {
			return f.edit(engine.Edit{ID: id, Change: func(*model.Resource) (*model.Resource, error) { return nil, nil }})[0].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(guarded() + att("shop", "app-1", "app"))
			fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
			store := &overtaken{Store: slow.NB, comes: func() {
				fast.apply(expectation("shop", "named", "from: app-1, to: db, traffic: tcp/5432, expect: allow"))
			}}
			slow.NB = store
			require.ErrorContains(t, remove(slow, model.ID{Kind: model.KindAttachment, VPC: "shop", Name: "app-1"}), "it is in use by Expectation shop/named")
			require.Equal(t, 1, store.commits)
			f.noDrift()
		})
	}
}

// Attachments that bring addresses don't wait for each other.
func TestAllowedAddressesPassEachOtherBy(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + document("Attachment", "shop", "vpn-0", "tier: app, allowedAddresses: [192.0.2.0/28]"))
	fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
	store := &overtaken{Store: slow.NB, comes: func() {
		fast.apply(document("Attachment", "shop", "vpn-1", "tier: app, allowedAddresses: [192.0.2.16/28]"))
	}}
	slow.NB = store
	slow.apply(document("Attachment", "shop", "vpn-2", "tier: app, allowedAddresses: [192.0.2.32/28]"))
	require.Equal(t, 1, store.commits)
	f.noDrift()
}

// An attachment doesn't wait for what happens to its VPC's expectations.
func TestAttachmentsPassExpectationsBy(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + expectation("shop", "served", "from: app, to: db, traffic: tcp/5432, expect: allow"))
	fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
	store := &overtaken{Store: slow.NB, comes: func() { fast.apply(expectation("shop", "closed", "from: outside, to: db, expect: deny")) }}
	slow.NB = store
	slow.apply(att("shop", "app-1", "app"))
	require.Equal(t, 1, store.commits)
}

// Writers that add expectations and writers that break them, all at once: in the
// end all expectations hold.
func TestExpectationsAndBreachesAtOnce(t *testing.T) {
	f := newFixture(t, false)
	const pairs = 4
	text := vpc("shop", "10.0.0.0/16")
	for i := range pairs {
		text += acl("shop", fmt.Sprintf("l%d", i), "") + tierWith("shop", fmt.Sprintf("t%d", i), fmt.Sprintf("cidrs: [10.0.%d.0/24], acl: l%d", i, i))
	}
	f.apply(text)
	var wg sync.WaitGroup
	errs := make([]error, 2*pairs)
	for i := range pairs {
		for k, text := range []string{
			expectation("shop", fmt.Sprintf("e%d", i), fmt.Sprintf("from: outside, to: t%d, expect: deny", i)),
			acl("shop", fmt.Sprintf("l%d", i), "{number: 10, protocol: tcp}"),
		} {
			c, set := connect(t, f.sandbox, "default"), load(t, text)
			wg.Go(func() { _, errs[2*i+k] = c.Apply(c.ctx, set, false, engine.WaitNone) })
		}
	}
	wg.Wait()
	for i := range pairs {
		refused := 0
		for _, err := range errs[2*i : 2*i+2] {
			if err != nil {
				require.ErrorContains(t, err, "will not hold")
				refused++
			}
		}
		require.Equal(t, 1, refused)
	}
	for name, broken := range f.verify(nil, "shop") {
		require.Empty(t, broken, name)
	}
	f.noDrift()
}

// What is deleted by its second copy is deleted also when a repair brings it back
// meanwhile.
func TestDeletionsOfWhatIsLostOvertakenByARepair(t *testing.T) {
	for id, damage := range map[model.ID][]string{
		expectationID("v", "e"):                            {"remove", "Logical_Router", "v", "external_ids", `"ovn-vpc-expectation:e"`},
		{Kind: model.KindAttachment, VPC: "v", Name: "b1"}: {"lsp-del", "v/b1"},
		{Kind: model.KindTier, VPC: "v", Name: "b"}:        {"ls-del", "v/b"},
		{Kind: model.KindTier, VPC: "v", Name: "empty"}:    {"ls-del", "v/empty"},
		{Kind: model.KindVPC, Name: "empty"}:               {"lr-del", "empty"},
		{Kind: model.KindVPC, Name: "v"}:                   {"lr-del", "v"},
	} {
		t.Run(id.String(), func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(damagedSpec + vpc("empty", "10.0.0.0/16"))
			fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
			f.nbctl(damage...)
			store := &overtaken{Store: slow.NB, comes: func() {
				d, err := fast.Drift(fast.ctx, "", true, engine.WaitNone)
				require.NoError(t, err)
				require.True(t, d.Repaired)
			}}
			slow.NB = store
			_, err := slow.Delete(slow.ctx, []model.ID{id}, true, engine.WaitNone)
			require.NoError(t, err)
			found, err := f.Get(f.ctx, engine.Filter{Kind: id.Kind, Name: id.Name})
			require.NoError(t, err)
			require.Empty(t, found)
			f.noDrift()
		})
	}
}
