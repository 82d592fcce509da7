package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// What is planned in haste is refused where something comes before it that it does
// not go with.
func TestHasteOvertaken(t *testing.T) {
	rule := func(list, text string) engine.Edit {
		r, found := model.LoadRule(model.Input{Data: []byte(text)}, aclID("shop", list))
		require.Empty(t, found)
		return ruleEdit{list, r.Number, r}.edit(true)
	}
	hasty := func(x engine.Edit) engine.Edit {
		x.Hasty = true
		return x
	}
	leak := rule("db", "{number: 7, protocol: tcp, ports: [22, 5432]}")
	closed := expectation("shop", "closed", "from: outside, to: db, expect: deny")
	drop := func(ids ...model.ID) func(*fixture) {
		return func(f *fixture) {
			_, err := f.Delete(f.ctx, ids, false, engine.WaitNone)
			require.NoError(f.t, err)
		}
	}
	apply := func(text string) func(*fixture) { return func(f *fixture) { f.apply(text) } }
	for name, c := range map[string]struct {
		x     engine.Edit
		comes func(*fixture)
		says  string
	}{
		"an expectation that the rule breaks":       {leak, apply(closed), "will not hold"},
		"an expectation that names what goes":       {hasty(remove(id(model.KindAttachment, "shop", "app-1"), false)), apply(expectation("shop", "named", "from: app-1, to: db, traffic: tcp/5432, expect: allow")), "it is in use by"},
		"an expectation that addresses break":       {hasty(create(t, document("Attachment", "shop", "vpn", "tier: app, allowedAddresses: [192.0.2.0/24]"))), apply(expectation("shop", "served", "from: app, to: db, traffic: tcp/5432, expect: allow")), "will not hold"},
		"the tier that a rule names goes":           {rule("app", "{number: 3, protocol: tcp, tiers: [spare]}"), drop(id(model.KindTier, "shop", "spare")), "spare"},
		"the list goes":                             {rule("free", "{number: 3, protocol: tcp}"), drop(aclID("shop", "free")), "no such rule"},
		"the tier of an attachment goes":            {hasty(create(t, att("shop", "x", "spare"))), drop(id(model.KindTier, "shop", "spare")), "spare"},
		"a change comes that waits to be confirmed": {rule("app", "{number: 3, protocol: tcp}"), func(f *fixture) { f.provisional(acl("shop", "app", "{number: 9, protocol: udp}")) }, "waits for its confirmation"},
		"the offering limits the rules": {leak, apply("---\napiVersion: ovn-vpc/v1\nkind: VPCOffering\nmetadata: {name: few}\nspec: {capabilities: {distributedRouting: true}, limits: {aclRules: 1}}\n" +
			"---\napiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: shop}\nspec: {cidrs: [10.0.0.0/16], offering: few}\n"), "rules"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, false)
			f.apply(guarded() + tier("shop", "spare", "10.0.9.0/24") + acl("shop", "free", "") + att("shop", "app-1", "app"))
			slow := connect(t, f.sandbox, "default")
			slow.mirror()
			store := &overtaken{Store: slow.NB, comes: func() { c.comes(f) }}
			slow.NB = store
			edited, _, err := slow.Edit(slow.ctx, []engine.Edit{c.x}, false)
			if err == nil {
				err = edited[0].Err
			}
			require.ErrorContains(t, err, c.says)
			require.Positive(t, store.commits)
			f.noDrift()
		})
	}
}

// A rule in haste goes to a list that tiers come to and leave meanwhile.
func TestHastyRuleOfAListThatTiersTake(t *testing.T) {
	for name, comes := range map[string]string{
		"a tier takes it":   tierWith("shop", "db", "cidrs: [10.0.2.0/24], acl: app"),
		"a tier leaves it":  tierWith("shop", "app", "cidrs: [10.0.1.0/24], acl: db"),
		"a tier comes":      tierWith("shop", "more", "cidrs: [10.0.5.0/24], acl: app"),
		"a rule comes":      acl("shop", "app", "{number: 2, protocol: udp}"),
		"rules come":        acl("shop", "app", "{number: 2, protocol: udp}, {number: 9, tiers: [db]}"),
		"the named changes": tierWith("shop", "db", "cidrs: [10.0.2.0/24, 10.0.7.0/24], acl: db"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, false)
			f.apply(guarded())
			slow := connect(t, f.sandbox, "default")
			slow.mirror()
			store := &overtaken{Store: slow.NB, comes: func() { f.apply(comes) }}
			slow.NB = store
			r, found := model.LoadRule(model.Input{Data: []byte("{number: 5, protocol: tcp, tiers: [db]}")}, aclID("shop", "app"))
			require.Empty(t, found)
			edited, _, err := slow.Edit(slow.ctx, []engine.Edit{ruleEdit{"app", 5, r}.edit(true)}, false)
			require.NoError(t, err)
			require.NoError(t, edited[0].Err)
			require.Positive(t, store.commits)
			f.noDrift()
			require.Eventually(t, func() bool { return slow.Mirror.Current(slow.ctx) }, time.Minute, time.Millisecond)
			slow.noDrift()
		})
	}
}

// What may have been added is not added again, but what was certainly overtaken is,
// also where somebody else has added the same.
func TestWhatMayHaveLandedIsNotAddedAgain(t *testing.T) {
	f := newFixture(t, false)
	ruled(f)
	slow := connect(t, f.sandbox, "default")
	slow.mirror()
	list, added := aclID("shop", "l0"), model.Rule{}
	rules := func(now *model.Resource) []model.Rule { return now.Spec.(*model.ACLSpec).Rules }
	edit := engine.Edit{ID: list, Hasty: true, Rules: true, Change: func(now *model.Resource) (*model.Resource, error) {
		added = rules(now)[len(rules(now))-1]
		added.Number++
		return ruleEdit{"l0", added.Number, &added}.edit(true).Change(now)
	}, Again: func(now *model.Resource) error {
		if slices.ContainsFunc(rules(now), added.Equal) {
			return errExists
		}
		return nil
	}}
	numbers := func() (out []int) {
		for _, r := range rules(f.get(list).Resource) {
			out = append(out, r.Number)
		}
		return out
	}
	way := sever(t, f)
	other, found := model.LoadRule(model.Input{Data: []byte("{number: 1, protocol: udp}")}, list)
	require.Empty(t, found)
	for _, c := range []struct {
		lost string
		want []int
	}{{"answer", []int{1, 3, 4}}, {"request", []int{1, 3, 4, 5}}} {
		f.edit(ruleEdit{list: "l0", number: 1}.edit(false)) // if it is there
		require.Eventually(t, func() bool { return slow.Mirror.Current(f.ctx) }, time.Minute, time.Millisecond)
		slow.NB = way
		slow.history("shop") // is connected again
		way.armed = []string{c.lost}
		slow.NB = &hidden{Store: way, comes: func() { f.edit(ruleEdit{"l0", 1, other}.edit(false)) }}
		edited := slow.edit(edit)
		if c.lost == "answer" {
			require.ErrorIs(t, edited[0].Err, errExists)
			require.True(t, engine.UnknownOutcome(edited[0].Err))
		} else {
			require.NoError(t, edited[0].Err)
		}
		require.Equal(t, c.want, numbers())
	}
	slow.NB = &overtaken{Store: way, comes: func() {
		same := added
		same.Number = 6
		f.edit(ruleEdit{"l0", 6, &same}.edit(false))
	}}
	require.NoError(t, slow.edit(edit)[0].Err)
	require.Equal(t, []int{1, 3, 4, 5, 6, 7}, numbers())
	f.noDrift()
}
