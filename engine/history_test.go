package engine_test

import (
	"crypto/sha512"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func (f *fixture) history(vpc string) *engine.History {
	f.t.Helper()
	h, err := f.History(f.ctx, vpc)
	require.NoError(f.t, err)
	return h
}

// lines are a history in words, the newest first.
func lines(h *engine.History) []string {
	var out []string
	for _, x := range h.Entries {
		line := fmt.Sprintf("%d %s %s: %s", x.Number, x.Manager, x.Through, x.Summary)
		if x.To != nil {
			line += fmt.Sprintf(" (to %d)", *x.To)
		}
		out = append(out, line)
	}
	return out
}

// structure is what is stored of a VPC's structure, as text.
func (f *fixture) structure(vpc string) string {
	f.t.Helper()
	all, err := f.Export(f.ctx, vpc)
	require.NoError(f.t, err)
	return texts(f.t, all)
}

func texts(t *testing.T, all []*model.Resource) string {
	t.Helper()
	var out strings.Builder
	for _, r := range all {
		if r.Kind != model.KindAttachment && r.Kind != model.KindVPCOffering {
			data, err := model.MarshalStored(r)
			require.NoError(t, err)
			fmt.Fprintf(&out, "%s %s %s\n", r.Kind, data, r.Manager)
		}
	}
	return out.String()
}

func (f *fixture) state(vpc string, number int) string {
	f.t.Helper()
	all, err := f.HistoryState(f.ctx, vpc, number)
	require.NoError(f.t, err)
	return texts(f.t, all)
}

func (f *fixture) rollback(vpc string, o engine.RollbackOptions) *engine.Result {
	f.t.Helper()
	r, err := f.Rollback(f.ctx, vpc, o, engine.WaitNone)
	require.NoError(f.t, err)
	return r
}

func (f *fixture) delete(cascade bool, ids ...model.ID) {
	f.t.Helper()
	_, err := f.Delete(f.ctx, ids, cascade, engine.WaitNone)
	require.NoError(f.t, err)
}

func tierID(vpc, name string) model.ID { return model.ID{Kind: model.KindTier, VPC: vpc, Name: name} }
func aclID(vpc, name string) model.ID  { return model.ID{Kind: model.KindACL, VPC: vpc, Name: name} }

// Every kind of change is kept, each of the states can be had, and gone back to
// and forth, with the managers of what comes back.
func TestHistoryOfEachKindOfChange(t *testing.T) {
	f := newFixture(t, false)
	f.Manager = "ops"
	var states []string
	note := func() { states = append(states, f.structure("shop")) }
	f.apply(guarded())
	note()
	f.apply(att("shop", "app-1", "app")) // leaves no entry
	f.apply(tier("shop", "web", "10.0.3.0/24") + expectation("shop", "closed", "from: outside, to: db, expect: deny"))
	note()
	f.Manager = "ci"
	f.apply(acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], tiers: [app]}, {number: 20, protocol: udp, ports: [53], tiers: [app]}"))
	note()
	_, err := f.ReplaceACL(f.ctx, "shop", "web", "default-allow", engine.WaitNone)
	require.NoError(t, err)
	note()
	f.edit(engine.Edit{ID: model.ID{Kind: model.KindVPC, Name: "shop"}, Change: func(*model.Resource) (*model.Resource, error) {
		return load(t, vpc("shop", "10.0.0.0/16, 10.1.0.0/16")).Resources[0], nil
	}})
	note()
	f.delete(false, tierID("shop", "web"), expectationID("shop", "closed"))
	note()
	f.apply(att("shop", "app-2", "app"))
	require.Equal(t, []string{
		"6 ci delete: -1 tier -1 expectation",
		"5 ci edit: ~1 vpc",
		"4 ci acl replace: ~1 tier",
		"3 ci apply: ~1 acl",
		"2 ops apply: +1 tier +1 expectation",
		"1 ops apply: +1 vpc +2 acls +2 tiers",
	}, lines(f.history("shop")))
	for i, state := range states {
		require.Equal(t, state, f.state("shop", i+1), "state %d", i+1)
	}
	for _, to := range []int{2, 5, 1, 6, 3, 4} {
		f.rollback("shop", engine.RollbackOptions{To: to})
		require.Equal(t, states[to-1], f.structure("shop"), "back to %d", to)
		f.noDrift()
	}
	for i, state := range states {
		require.Equal(t, state, f.state("shop", i+1), "state %d, after all", i+1)
	}
	require.Len(t, f.attachments("shop"), 2)
	require.Contains(t, lines(f.history("shop"))[0], "ci rollback:")
	require.Contains(t, lines(f.history("shop"))[0], "(to 4)")
	f.delete(true, model.ID{Kind: model.KindVPC, Name: "shop"})
	_, err = f.History(f.ctx, "shop")
	require.EqualError(t, err, "VPC shop not found")
}

// Of many changes the last twenty are kept.
func TestHistoryIsBounded(t *testing.T) {
	f := newFixture(t, false)
	var states []string
	f.apply(guarded())
	states = append(states, f.structure("shop"))
	for i := range 24 {
		f.apply(acl("shop", "db", fmt.Sprintf("{number: 10, protocol: tcp, ports: [%d], tiers: [app]}", 5000+i)))
		states = append(states, f.structure("shop"))
	}
	h := f.history("shop")
	require.Len(t, h.Entries, 20)
	require.Equal(t, 25, h.Entries[0].Number)
	require.Equal(t, 6, h.Entries[19].Number)
	for n := 5; n <= 25; n++ {
		require.Equal(t, states[n-1], f.state("shop", n))
	}
	for _, n := range []int{4, 0, 26, -1} {
		_, err := f.HistoryState(f.ctx, "shop", n)
		require.ErrorContains(t, err, fmt.Sprintf("there is no state %d in its history", n))
	}
	home := f.nbctl("get", "Port_Group", "ovnvpc.shop.default_deny", "external_ids")
	require.Equal(t, 20, strings.Count(home, "ovn-vpc-history:"))
	f.noDrift()
	_, err := f.HistoryState(f.ctx, "nosuch", 1)
	require.EqualError(t, err, "VPC nosuch not found")
}

// A VPC that is older than its history has a state before its first change.
func TestHistoryBegins(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	before := f.structure("shop")
	f.nbctl("remove", "Port_Group", "ovnvpc.shop.default_deny", "external_ids", "ovn-vpc-history\\:1")
	require.Empty(t, f.history("shop").Entries)
	_, err := f.Rollback(f.ctx, "shop", engine.RollbackOptions{}, engine.WaitNone)
	require.ErrorContains(t, err, "its history is empty")
	f.apply(tier("shop", "web", "10.0.3.0/24"))
	require.Equal(t, []string{"2 cli apply: +1 tier"}, lines(f.history("shop")))
	f.rollback("shop", engine.RollbackOptions{})
	require.Equal(t, before, f.structure("shop"))
	require.Equal(t, []string{"3 cli rollback: -1 tier (to 1)", "2 cli apply: +1 tier"}, lines(f.history("shop")))
}

// What attachments stand in is not taken away, unless that is asked for.
func TestRollbackUnderAttachments(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	f.apply(tier("shop", "web", "10.0.3.0/24"))
	f.apply(att("shop", "web-1", "web") + att("shop", "app-1", "app"))
	before := f.dump()
	_, err := f.Rollback(f.ctx, "shop", engine.RollbackOptions{}, engine.WaitNone)
	require.ErrorContains(t, err, "Tier shop/web: it is in use by Attachment shop/web-1")
	p, err := f.PlanRollback(f.ctx, "shop", engine.RollbackOptions{Cascade: true})
	require.NoError(t, err)
	require.Equal(t, "delete Tier shop/web", p.VPCs[0].Changes[0].String())
	require.Equal(t, before, f.dump(), "it has written something")
	f.rollback("shop", engine.RollbackOptions{Cascade: true})
	require.Len(t, f.attachments("shop"), 1)
	f.noDrift()
}

// A rollback that opens something, or breaks an expectation, is stopped where an
// apply is.
func TestRollbackHasTheGatesOfApply(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	f.apply(acl("shop", "db", ""))
	_, err := f.Rollback(f.ctx, "shop", engine.RollbackOptions{ConfirmOpens: true}, engine.WaitNone)
	require.ErrorContains(t, err, "the plan opens app -> db tcp 5432")
	f.rollback("shop", engine.RollbackOptions{})
	f.apply(acl("shop", "db", ""))
	f.apply(expectation("shop", "closed", "from: app, to: db, expect: deny"))
	f.apply(vpc("shop", "10.0.0.0/16, 10.1.0.0/16"))
	f.rollback("shop", engine.RollbackOptions{To: 3}) // without the expectation nothing breaks
	f.apply(acl("shop", "db", "") + expectation("shop", "closed", "from: app, to: db, expect: deny"))
	f.apply(tier("shop", "web", "10.0.3.0/24"))
	_, err = f.Overriding().Apply(f.ctx, load(t, acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], tiers: [app]}")), false, engine.WaitNone)
	require.NoError(t, err)
	require.True(t, f.history("shop").Entries[0].Overridden)
	number := f.history("shop").Entries[0].Number
	f.rollback("shop", engine.RollbackOptions{})
	_, err = f.Rollback(f.ctx, "shop", engine.RollbackOptions{To: number}, engine.WaitNone)
	require.ErrorContains(t, err, "Expectation shop/closed: deny app -> db all will not hold")
	_, err = f.Overriding().Rollback(f.ctx, "shop", engine.RollbackOptions{To: number}, engine.WaitNone)
	require.NoError(t, err)
}

// Writers at once leave a history in which every number is taken once, and every
// state can be had.
func TestHistoryOfRacingWriters(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/8"))
	var writers sync.WaitGroup
	for i := range 4 {
		other := connect(t, f.sandbox, "default")
		other.Manager = fmt.Sprintf("w%d", i)
		writers.Go(func() {
			for k := range 4 {
				set, _ := model.Load(model.Input{Data: []byte(acl("shop", fmt.Sprintf("l%d", i), fmt.Sprintf("{number: %d}", k+1)))})
				if _, err := other.Apply(other.ctx, set, false, engine.WaitNone); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	h := f.history("shop")
	require.Len(t, h.Entries, 17)
	for i, x := range h.Entries {
		require.Equal(t, 17-i, x.Number)
		require.NotEmpty(t, f.state("shop", x.Number))
	}
	require.Equal(t, 5, strings.Count(f.state("shop", 17), "\n"))
	require.Equal(t, 1, strings.Count(f.state("shop", 1), "\n"))
}

// One rule costs the history little, however long its list is.
func TestHistoryCostsWhatTheChangeCosts(t *testing.T) {
	f := newFixture(t, false)
	rules := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("{number: %d, protocol: tcp, ports: [%d], cidrs: [192.0.2.%d/32]}", i+1, 1000+i, i%250))
		}
		return acl("shop", "web", strings.Join(all, ", "))
	}
	f.apply(vpc("shop", "10.0.0.0/8") + rules(100))
	p, err := f.Plan(f.ctx, load(t, rules(101)), false)
	require.NoError(t, err)
	one := entrySize(p)
	require.NotZero(t, one)
	require.Less(t, one, 200)
	f.apply(rules(100) + acl("shop", "other", ""))
	p, err = f.PlanDelete(f.ctx, []model.ID{aclID("shop", "web")}, false)
	require.NoError(t, err)
	require.Less(t, entrySize(p), 3000, "a hundred rules that go")
	t.Logf("one rule more: %d bytes; a hundred rules less: %d bytes", one, entrySize(p))
}

func entrySize(p *engine.Plan) int {
	size := 0
	for _, tx := range p.VPCs[0].Transactions {
		for _, x := range tx.Entries {
			if x.New != nil && strings.HasPrefix(x.Key, "ovn-vpc-history:") {
				size += len(x.Key) + len(*x.New)
			}
		}
	}
	return size
}

// What is too large is not kept, and said so; what is damaged is told of and
// stands in nobody's way.
func TestHistoryThatIsNotWhole(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/8"))
	var rules strings.Builder
	for i := range 1400 {
		noise := sha512.Sum512([]byte{byte(i), byte(i >> 8)})
		fmt.Fprintf(&rules, "{number: %d, protocol: udp, description: %q}, ", i+1, fmt.Sprintf("%x", noise))
	}
	f.apply(acl("shop", "long", rules.String()))
	f.apply(acl("shop", "other", ""))
	require.Contains(t, f.state("shop", 2), "long")
	f.delete(false, aclID("shop", "long"))
	h := f.history("shop")
	require.Contains(t, h.Entries[0].NotKept, "too large to be kept")
	require.Equal(t, "-1 acl", h.Entries[0].Summary)
	_, err := f.Rollback(f.ctx, "shop", engine.RollbackOptions{}, engine.WaitNone)
	require.ErrorContains(t, err, "state 3 can't be had any more: the change 4 can't be taken back: what it replaced is too large to be kept")
	f.apply(acl("shop", "third", ""))
	f.rollback("shop", engine.RollbackOptions{})

	f.nbctl("set", "Port_Group", "ovnvpc.shop.default_deny", `external_ids:ovn-vpc-history\:5="{}x"`, `external_ids:ovn-vpc-history\:x="{}x"`)
	h = f.history("shop")
	require.Contains(t, h.Entries[1].NotKept, "can't be read")
	_, err = f.HistoryState(f.ctx, "shop", 4)
	require.ErrorContains(t, err, "state 4 can't be had any more: the change 5 can't be taken back")
	f.nbctl("remove", "Port_Group", "ovnvpc.shop.default_deny", "external_ids", "ovn-vpc-history\\:5")
	_, err = f.HistoryState(f.ctx, "shop", 4)
	require.ErrorContains(t, err, "the change 5 is gone from its history")
	f.apply(acl("shop", "fourth", ""))
	f.rollback("shop", engine.RollbackOptions{})

	// Without its row a history ends, and begins anew with it.
	f.nbctl("destroy", "Port_Group", "ovnvpc.shop.default_deny")
	require.Empty(t, f.history("shop").Entries)
	f.apply(acl("shop", "fifth", ""))
	_, err = f.Provisional(engine.MinConfirm).Apply(f.ctx, load(t, acl("shop", "sixth", "")), false, engine.WaitNone)
	require.ErrorContains(t, err, "the row that keeps its history is gone")
	_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	f.apply(acl("shop", "sixth", ""))
	require.Equal(t, []string{"2 cli apply: +1 acl"}, lines(f.history("shop")))
	f.noDrift()
}

// What an older version has kept is read by all later ones.
func TestHistoryKeepsItsForm(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	f.nbctl("set", "Port_Group", "ovnvpc.shop.default_deny", `external_ids:ovn-vpc-history\:2="hNJBysMgEAXgq8isDf/82jbgOXoBY0ZasChm7d2LmjTGFrITYeDjvbfLRCeTA17ueFV4UzgeZT4sR5ZxLFJw2lD+96DGbyMb/hntKXXk5eHD3zydyLHSOUgsg1rpEptWt2k0pdKPTrVzUBLg0HZXHHS6YfqsOB+0U7bRv2pTaxQwT/kVtbVPU8fEhAAONYxNnFKfcErpHQAA//8"`)
	h := f.history("shop")
	require.Equal(t, []string{"2 ops acl replace: ~1 acl -1 expectation (to 7)", "1 cli apply: +1 vpc +2 acls +2 tiers"}, lines(h))
	require.Equal(t, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), h.Entries[0].Time)
	require.Contains(t, f.state("shop", 1), `{"number":30,`)
	require.Contains(t, f.state("shop", 1), `"traffic":"tcp 22"`)
}

// A plan that was kept is stale once the structure has changed.
func TestPlanFilesAndHistory(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	p, err := f.Plan(f.ctx, load(t, acl("shop", "one", "")), false)
	require.NoError(t, err)
	f.apply(acl("shop", "two", ""))
	_, err = f.ApplyPlan(f.ctx, p, engine.WaitNone)
	var conflict *engine.ConflictError
	require.ErrorAs(t, err, &conflict)
}
