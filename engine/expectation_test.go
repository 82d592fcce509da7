package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func expectation(vpc, name, spec string) string { return document("Expectation", vpc, name, spec) }

func expectationID(vpc, name string) model.ID {
	return model.ID{Kind: model.KindExpectation, VPC: vpc, Name: name}
}

// An expectation is stored at its VPC's router, and read, changed and removed
// like any resource.
func TestExpectationIsStored(t *testing.T) {
	f := newFixture(t, false)
	closed := expectation("shop", "closed", "from: outside, to: db, expect: deny")
	f.apply(guarded() + closed)
	objects, err := f.Get(f.ctx, engine.Filter{Kind: model.KindExpectation})
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.Equal(t, expectationID("shop", "closed"), objects[0].Resource.ID())
	require.Equal(t, "all", objects[0].Resource.Spec.(*model.ExpectationSpec).Traffic.String())
	again := f.apply(guarded() + closed)
	require.False(t, again.Changed())
	f.noDrift()

	// Beside one, another; the VPC's own change leaves both.
	p, err := f.Plan(f.ctx, load(t, expectation("shop", "closed", "from: outside, to: db, traffic: tcp, expect: deny")), false)
	require.NoError(t, err)
	require.Equal(t, []engine.FieldChange{{Field: "spec.traffic", Old: "all", New: "tcp"}}, p.VPCs[0].Changes[0].Fields)
	w := f.watch()
	f.apply(expectation("shop", "app", "from: app, to: db, traffic: tcp/5432, expect: allow"))
	f.apply(vpc("shop", "10.0.0.0/16, 10.1.0.0/16"))
	exported, err := f.Export(f.ctx, "shop")
	require.NoError(t, err)
	require.Equal(t, expectationID("shop", "app"), exported[len(exported)-2].ID())

	require.Equal(t, []string{"+Expectation shop/app", "~VPC shop"}, w.told())

	// It keeps what it names, and goes with it.
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "app"}}, false, engine.WaitNone)
	require.ErrorContains(t, err, "it is in use by ACL shop/db, Expectation shop/app")
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "app"}}, true, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
	require.Contains(t, w.told(), "-Expectation shop/app")
	_, err = f.Delete(f.ctx, []model.ID{expectationID("shop", "app")}, false, engine.WaitNone)
	require.EqualError(t, err, "Expectation shop/app not found")
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
	require.NoError(t, err)
	require.Empty(t, f.nbctl("list", "Logical_Router"))
}

// An expectation that somebody has removed or damaged stands by its second copy
// against what breaks it: also for a list alone, about an attachment, and in a mirror.
// It goes with its VPC.
func TestLostExpectationStands(t *testing.T) {
	const key = `"ovn-vpc-expectation:closed"`
	opened := acl("shop", "db", "{number: 10, protocol: tcp, ports: [22, 5432], tiers: [app]}")
	for name, damage := range map[string][]string{
		"removed": {"remove", "Logical_Router", "shop", "external_ids", key},
		"damaged": {"set", "Logical_Router", "shop", "external_ids:" + key + "=junk"},
	} {
		for _, mirrored := range []bool{false, true} {
			t.Run(fmt.Sprint(name, mirrored), func(t *testing.T) {
				f := newFixture(t, false)
				f.apply(guarded() + att("shop", "db-1", "db") + expectation("shop", "closed", "from: app, to: db-1, traffic: tcp/22, expect: deny"))
				if mirrored {
					f.mirror()
				}
				f.nbctl(damage...)
				_, err := f.Apply(f.ctx, load(t, opened), false, engine.WaitNone)
				require.ErrorContains(t, err, "Expectation shop/closed: deny app -> db-1 tcp 22 will not hold")
				edited := f.edit(engine.Edit{ID: model.ID{Kind: model.KindACL, VPC: "shop", Name: "db"},
					Change: func(*model.Resource) (*model.Resource, error) { return load(t, opened).Resources[0], nil }})
				require.ErrorContains(t, edited[0].Err, "will not hold")
				_, err = f.Repairing().Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
				require.NoError(t, err)
			})
		}
	}
}

// What an expectation names by its name alone is in use too, and an attachment of
// that name doesn't come in for a tier.
func TestExpectationKeepsWhatItNames(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + att("shop", "app-1", "app") + tier("shop", "both", "10.0.3.0/24") + att("shop", "both", "app") +
		expectation("shop", "one", "from: app-1, to: db, traffic: tcp/5432, expect: allow") +
		expectation("shop", "two", "from: outside, to: both, expect: deny"))
	before := f.dump()
	for id, user := range map[model.ID]string{
		{Kind: model.KindAttachment, VPC: "shop", Name: "app-1"}: "Expectation shop/one",
		{Kind: model.KindTier, VPC: "shop", Name: "both"}:        "Expectation shop/two",
	} {
		_, err := f.Delete(f.ctx, []model.ID{id}, false, engine.WaitNone)
		require.ErrorContains(t, err, "it is in use by "+user)
		edited := f.edit(engine.Edit{ID: id, Change: func(*model.Resource) (*model.Resource, error) { return nil, nil }})
		require.ErrorContains(t, edited[0].Err, "it is in use by "+user)
	}
	require.Equal(t, before, f.dump(), "it has written something")
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindAttachment, VPC: "shop", Name: "both"}}, false, engine.WaitNone)
	require.NoError(t, err)
}

// What somebody has damaged is told of, and mended by applying it again, when that is told to.
func TestDamagedExpectation(t *testing.T) {
	f := newFixture(t, false)
	all := guarded() + expectation("shop", "closed", "from: outside, to: db, expect: deny")
	f.apply(all)
	f.nbctl("set", "Logical_Router", "shop", `external_ids:ovn-vpc-expectation\:closed="{}x"`)
	r, err := f.Drift(f.ctx, "shop", false, engine.WaitNone)
	require.NoError(t, err)
	require.Len(t, r.Faults, 2)
	require.Equal(t, engine.DriftUnreadable, r.Faults[0].Kind)
	require.Contains(t, r.Faults[0].Problem, "external_ids:ovn-vpc-expectation:closed: ")
	require.Equal(t, engine.DriftChanged, r.Faults[1].Kind)
	f.repair(all)
	f.noDrift()
}

// What is gone from the router, or with it, is brought back from its second copy.
func TestLostExpectationsAreRestored(t *testing.T) {
	const key, home = `ovn-vpc-expectation\:closed`, "ovnvpc.shop.default_deny"
	f := newFixture(t, false)
	f.apply(guarded() + att("shop", "db-1", "db") + expectation("shop", "closed", "from: outside, to: db-1, expect: deny") +
		expectation("shop", "served", "from: app, to: db, traffic: tcp/5432, expect: allow"))
	whole := f.dump()
	for name, damage := range map[string][]string{
		"the router":     {"lr-del", "shop"},
		"the entry":      {"remove", "Logical_Router", "shop", "external_ids", key},
		"its value":      {"set", "Logical_Router", "shop", "external_ids:" + key + "={}x"},
		"the copy":       {"remove", "Port_Group", home, "external_ids", key},
		"a copy's value": {"set", "Port_Group", home, "external_ids:" + key + "={}x"},
	} {
		f.nbctl(damage...)
		r, err := f.Drift(f.ctx, "", true, engine.WaitNone)
		require.NoError(t, err, name)
		require.NotEmpty(t, r.Faults, name)
		require.True(t, r.Repaired, name)
		require.Equal(t, whole, f.dump(), name)
	}
	require.Equal(t, map[string]string{"shop/closed": "", "shop/served": ""}, f.verify(nil, ""))

	// Nothing is said of expectations while one is missing, and it goes with what it names.
	f.nbctl("remove", "Logical_Router", "shop", "external_ids", key)
	_, err := f.Verify(f.ctx, nil, "shop")
	require.ErrorContains(t, err, "Expectation shop/closed: somebody has removed its rows")
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindAttachment, VPC: "shop", Name: "db-1"}}, false, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
	require.Equal(t, map[string]string{"shop/served": ""}, f.verify(nil, ""))
}

func (f *fixture) verify(set *model.Set, vpc string) map[string]string {
	f.t.Helper()
	r, err := f.Verify(f.ctx, set, vpc)
	require.NoError(f.t, err)
	found := map[string]string{}
	for _, v := range r.Expectations {
		found[v.VPC+"/"+v.Name] = strings.Join(v.Reasons(), "; ")
	}
	return found
}

func TestVerify(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + vpc("lab", "10.0.0.0/16") +
		expectation("shop", "closed", "from: outside, to: db, expect: deny") +
		expectation("shop", "served", "from: app, to: db, traffic: tcp/5432, expect: allow"))
	before := f.dump()
	require.Equal(t, map[string]string{"shop/closed": "", "shop/served": ""}, f.verify(nil, ""))
	require.Empty(t, f.verify(nil, "lab"))
	set := load(t, acl("shop", "db", "{number: 10, protocol: tcp, ports: [22], cidrs: [192.0.2.0/24]}"))
	require.Equal(t, map[string]string{
		"shop/closed": "tcp 22 from 192.0.2.0/24 passes by db/rule 10 (spec.yaml:2)",
		"shop/served": "tcp 5432 is stopped by db/ingress default (spec.yaml:2)",
	}, f.verify(set, ""))
	require.Equal(t, before, f.dump(), "it has written something")
	_, err := f.Verify(f.ctx, nil, "nosuch")
	require.EqualError(t, err, "VPC nosuch not found")
}

// A change that breaks an expectation is refused, unless that is wanted: then the
// VPC keeps a note of it.
func TestExpectationsStandAgainstChanges(t *testing.T) {
	f := newFixture(t, false)
	f.Manager = "ops"
	closed := expectation("shop", "closed", "from: outside, to: db, expect: deny")
	f.apply(guarded() + closed + att("shop", "app-1", "app"))
	leak := acl("shop", "db", "{number: 10, protocol: tcp, ports: [22, 5432]}")
	before := f.dump()
	const word = "Expectation shop/closed: deny outside -> db all will not hold: tcp 22, 5432 passes by db/rule 10 (spec.yaml:2)"
	f.refused(leak, word)
	f.refused(expectation("shop", "new", "from: app-1, to: db, traffic: tcp/80, expect: allow"), "Expectation shop/new: allow app-1 -> db tcp 80 will not hold")
	_, err := f.Delete(f.ctx, []model.ID{expectationID("shop", "closed"), {Kind: model.KindACL, VPC: "shop", Name: "db"}}, false, engine.WaitNone)
	require.ErrorContains(t, err, "in use")
	edited := f.edit(engine.Edit{ID: model.ID{Kind: model.KindACL, VPC: "shop", Name: "db"},
		Change: func(*model.Resource) (*model.Resource, error) { return load(t, leak).Resources[0], nil }})
	require.ErrorContains(t, edited[0].Err, "will not hold")
	require.Equal(t, before, f.dump(), "it has written something")

	// A plan warns, and isn't carried out.
	p, err := f.Plan(f.ctx, load(t, leak), false)
	require.NoError(t, err)
	require.Equal(t, model.CodeExpectation, p.Diagnostics[0].Code)
	require.Equal(t, model.LevelWarning, p.Diagnostics[0].Severity)
	_, err = f.ApplyPlan(f.ctx, p, engine.WaitNone)
	require.ErrorContains(t, err, word)

	// What is broken once no longer stands against other changes.
	result, err := f.Overriding().Apply(f.ctx, load(t, leak), false, engine.WaitNone)
	require.NoError(t, err)
	require.Len(t, result.Diagnostics, 1)
	note := f.nbctl("get", "Logical_Router", "shop", `external_ids:ovn-vpc-run\:overridden`)
	require.Contains(t, note, `\"manager\":\"ops\"`)
	require.Contains(t, note, `\"expectations\":[\"closed\"]`)
	f.noDrift()
	f.apply(tier("shop", "web", "10.0.3.0/24") + closed)
	f.apply(guarded())
	f.refused(leak, word)
}
