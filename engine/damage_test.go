package engine_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

const damagedSpec = traced + "---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {limits: {tiers: 7}}}\n" +
	"---\n{apiVersion: ovn-vpc/v1, kind: Expectation, metadata: {name: e, vpc: v}, spec: {from: outside, to: b, traffic: tcp 99, expect: deny}}\n"

type damage struct {
	how   []string // arguments of ovn-nbctl
	whose string   // resource; "": what is stored can be read, though it is not what was written
	says  string   // of drift
	stays bool     // a repair alone does not mend it
}

// damages are what others may do to damagedSpec.
func damages() map[string]damage {
	key := func(id string) string { return `external_ids:"ovn-vpc:` + id + `"` }
	return map[string]damage{
		"absurd values":           {[]string{"set", "Logical_Router", "v", key("spec") + `="{\"metadata\":{\"name\":\"v\"},\"spec\":{\"cidrs\":[\"10.0.0.0/16\"],\"mtu\":-1}}"`}, "VPC v", "spec.mtu", false},
		"no address where one is": {[]string{"set", "Logical_Switch_Port", "v/a1", key("spec") + `="{\"metadata\":{\"name\":\"a1\",\"vpc\":\"v\"},\"spec\":{\"tier\":\"a\",\"addresses\":[\"\"]}}"`}, "", "Attachment v/a1", false},
		"no address":              {[]string{"set", "Logical_Switch_Port", "v/a1", key("spec") + `="{\"metadata\":{\"name\":\"a1\",\"vpc\":\"v\"},\"spec\":{\"tier\":\"a\",\"addresses\":[\"x\"]}}"`}, "Attachment v/a1", "address/v/10.0.1.10", false},
		"of another resource":     {[]string{"set", "Logical_Switch", "v/a", key("spec") + `="{\"metadata\":{\"name\":\"b\",\"vpc\":\"v\"},\"spec\":{\"cidrs\":[\"10.0.1.0/24\"]}}"`}, "Tier v/a", "it is of Tier v/b, in a row of Tier v/a", false},
		"of another kind":         {[]string{"set", "Port_Group", "ovnvpc.v.a", key("spec") + `="{\"metadata\":{\"name\":\"a\",\"vpc\":\"v\"},\"spec\":{\"tier\":\"a\"}}"`}, "ACL v/a", "tier", true},
		"an offering, ours":       {[]string{"set", "NB_Global", ".", key("offering/small") + `="{\"owner\":\"default\",\"stored\":{\"metadata\":{\"name\":\"small\"},\"spec\":{\"limits\":{\"tiers\":-1}}}}"`}, "VPCOffering small", "external_ids:ovn-vpc:offering/small", true},
		"an expectation":          {[]string{"set", "Logical_Router", "v", `external_ids:"ovn-vpc-expectation:e"=nonsense`}, "Expectation v/e", "external_ids:ovn-vpc-expectation:e", false},
	}
}

// A stored spec without what every one has is damaged, also where its digest fits:
// nothing relies on it, and a repair takes the second copy.
func TestHollowSpecs(t *testing.T) {
	f := newFixture(t, false)
	f.apply(damagedSpec)
	for _, c := range []struct{ table, row, spec, says string }{
		{"Logical_Router", "v", `{"metadata":{"name":"v"},"spec":{}}`, "it has no cidrs"},
		{"Logical_Switch", "v/a", `{"metadata":{"name":"a","vpc":"v"},"spec":{}}`, "it has no cidrs or gateways"},
		{"Logical_Switch_Port", "v/a1", `{"metadata":{"name":"a1","vpc":"v"},"spec":{"tier":"a"}}`, "it has no addresses"},
		{"Logical_Switch_Port", "v/a1", `{"metadata":{"name":"a1","vpc":"v"},"spec":{"tier":"b","addresses":["10.0.2.10"],"mac":"0a:58:0a:00:02:0a","interfaceID":"v/a1"}}`,
			"it is of 10.0.2.10 of VPC v, in the row of address/v/10.0.1.10"},
	} {
		t.Run(c.table+" "+c.says, func(t *testing.T) {
			f := *f
			f.t = t
			f.nbctl("set", c.table, c.row, `external_ids:"ovn-vpc:spec"=`+strconv.Quote(c.spec), `external_ids:"ovn-vpc:digest"=`+translate.Digest([]byte(c.spec), f.Manager))
			_, err := f.Get(f.ctx, engine.Filter{})
			require.NoError(t, err)
			_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindACL, VPC: "v", Name: "a"}}, false, engine.WaitNone)
			require.Error(t, err)
			d, err := f.Drift(f.ctx, "", true, engine.WaitNone)
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(d.Faults), c.says)
			require.True(t, d.Repaired)
		})
	}
}

// A port that has lost its spec is taken over by the attachment that is applied again,
// and goes with the one that is deleted.
func TestPortWithoutSpec(t *testing.T) {
	f := newFixture(t, false)
	f.apply(damagedSpec)
	lose := func() {
		f.nbctl("remove", "Logical_Switch_Port", "v/a1", "external_ids", `"ovn-vpc:spec"`, `"ovn-vpc:digest"`)
	}
	lose()
	f.apply(damagedSpec)
	f.noDrift()
	lose()
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindAttachment, VPC: "v", Name: "a1"}}, false, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
}

// Specs that others have damaged are told of by the row and by what is wrong,
// never used; where there is a second copy a repair restores them, and else
// applying them again does, when it is told to. (cmd/ovn-vpc has the same at random.)
func TestDamagedSpecs(t *testing.T) {
	f := newFixture(t, false)
	f.apply(damagedSpec)
	good := f.dump()
	for name, c := range damages() {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t = t
			f.nbctl(c.how...)
			damaged := f.dump()
			d, err := f.Drift(f.ctx, "", false, engine.WaitNone)
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(d.Faults), c.says)
			require.Equal(t, damaged, f.dump())
			d, err = f.Drift(f.ctx, "", true, engine.WaitNone)
			require.NoError(t, err)
			require.NotEqual(t, c.stays, d.Repaired, "%+v", d.Faults)
			if c.stays {
				f.repair(damagedSpec)
			}
			f.noDrift()
			require.Equal(t, good, f.dump())
		})
	}
}

// repair applies with leave to overwrite what is damaged.
func (f *fixture) repair(text string) {
	f.t.Helper()
	_, err := f.Repairing().Apply(f.ctx, load(f.t, text), false, engine.WaitNone)
	require.NoError(f.t, err)
}

// What can't be read is overwritten by no change that isn't told to, and the error
// names resource, row and way out; what doesn't touch it goes on.
func TestDamageIsNotOverwritten(t *testing.T) {
	for name, c := range damages() {
		if c.whose == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, false)
			f.apply(damagedSpec)
			f.nbctl(c.how...)
			before := f.dump()
			refused := func(err error) {
				t.Helper()
				var broken *engine.DamagedError
				require.ErrorAs(t, err, &broken)
				for _, words := range []string{c.whose + ": the spec stored in " + c.how[1] + " ", c.says, "apply --repair"} {
					require.ErrorContains(t, err, words)
				}
				require.Equal(t, before, f.dump())
			}
			_, err := f.Apply(f.ctx, load(t, damagedSpec), false, engine.WaitNone)
			refused(err)
			p, err := f.Plan(f.ctx, load(t, damagedSpec), false)
			require.NoError(t, err)
			require.Contains(t, p.Diagnostics.String(), "warning: "+c.whose+": the spec stored in ")
			_, err = f.ApplyPlan(f.ctx, p, engine.WaitNone)
			refused(err)

			// Another VPC of the same input goes on, unless it might rely on the damage.
			r, err := f.Apply(f.ctx, load(t, damagedSpec+vpc("w", "10.0.0.0/8")), true, engine.WaitNone)
			if c.whose == "VPCOffering small" {
				refused(err)
			} else {
				require.Len(t, r.VPCs, 2)
				require.Equal(t, "w", r.VPCs[0].VPC)
				require.True(t, r.VPCs[0].Done)
				require.Equal(t, "v", r.VPCs[1].VPC)
				require.Zero(t, r.VPCs[1].Landed)
				require.Equal(t, err.Error(), r.VPCs[1].Error)
				before = f.dump()
				_, err = f.Apply(f.ctx, load(t, damagedSpec+vpc("w", "10.0.0.0/8")), true, engine.WaitNone)
				refused(err)
			}
			f.apply(vpc("w", "10.0.0.0/8") + tier("w", "a", "10.0.1.0/24") + att("w", "a1", "a"))
			if c.whose != "VPC v" {
				f.apply(att("v", "b9", "b"))
				_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindAttachment, VPC: "v", Name: "b9"}}, false, engine.WaitNone)
				require.NoError(t, err)
			} else {
				_, err = f.Apply(f.ctx, load(t, att("v", "b9", "b")), false, engine.WaitNone)
				var invalid *engine.InvalidError
				require.ErrorAs(t, err, &invalid)
				require.Contains(t, invalid.Diagnostics.String(), "warning: VPC v: the spec stored in Logical_Router vpc/v can't be read: ")
			}
			p, err = f.Plan(f.ctx, load(t, damagedSpec), false)
			require.NoError(t, err)
			_, err = f.Repairing().ApplyPlan(f.ctx, p, engine.WaitNone)
			require.NoError(t, err)
			f.noDrift()
			f.nbctl(c.how...)
			f.repair(damagedSpec)
			f.noDrift()
		})
	}
}

// What is stored and does not fit together any more is an error that says so.
func TestQuestionsAboutWhatIsDamaged(t *testing.T) {
	f := newFixture(t, false)
	f.apply(traced + document("Expectation", "v", "e", "from: outside, to: b, traffic: tcp 99, expect: deny"))
	damaged := func(err error) {
		t.Helper()
		var broken *engine.DamagedError
		require.ErrorAs(t, err, &broken)
		require.Equal(t, "v", broken.VPC)
	}
	f.nbctl("set", "Port_Group", "ovnvpc.v.b", `external_ids:"ovn-vpc:spec"=nonsense`)
	var missing *engine.InvalidError
	_, err := f.Verify(f.ctx, nil, "")
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "Tier v/b: ACL v/b is not there")
	_, err = f.Reach(f.ctx, nil, engine.ReachOptions{VPC: "v"})
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "ovn-vpc drift")
	_, err = f.Apply(f.ctx, load(t, acl("v", "a", "{protocol: tcp}")), false, engine.WaitNone)
	require.ErrorContains(t, err, "error: VPC v: the expectations can't be judged: Tier v/b: ACL v/b is not there, "+
		"which it needs: its rows are gone, or can't be read (see ovn-vpc drift, and apply ACL v/b again)")
	f.repair(traced)
	f.noDrift()

	// Without its marks the switch is not read: its guests stand nowhere.
	f.nbctl("remove", "Logical_Switch", "v/a", "external_ids", `"ovn-vpc:owner"`)
	_, err = f.Trace(f.ctx, engine.TraceQuery{VPC: "v", From: "a1", To: "b1"})
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "Tier v/a: somebody has removed its rows")
	_, err = f.ReplaceACL(f.ctx, "v", "b", "a", engine.WaitNone)
	damaged(err)
	require.True(t, strings.Contains(err.Error(), `tier "a" is unknown`), err)
	_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	_, err = f.Trace(f.ctx, engine.TraceQuery{VPC: "v", From: "a1", To: "b1"})
	require.NoError(t, err)
	_, err = f.Get(f.ctx, engine.Filter{Kind: model.KindTier})
	require.NoError(t, err)
}

// Of changes that are carried out together those fail that would overwrite what
// can't be read, and no others.
func TestDamageBesideOtherEdits(t *testing.T) {
	f := newFixture(t, false)
	f.apply(traced + att("v", "c1", "a"))
	f.nbctl("set", "Logical_Switch_Port", "v/c1", `external_ids:"ovn-vpc:spec"=nonsense`)
	for _, damage := range [][]string{nil, {"remove", "Port_Group", "ovnvpc.v.a.attachments", "external_ids", `"ovn-vpc-attachment:c1"`}} {
		if damage != nil { // the second copy too
			f.nbctl(damage...)
		}
		edited := f.edit(put(t, att("v", "c1", "a")), put(t, att("v", fmt.Sprintf("d%d", len(damage)), "a")), put(t, att("v", "b1", "b")))
		var broken *engine.DamagedError
		require.ErrorAs(t, edited[0].Err, &broken)
		require.ErrorContains(t, edited[0].Err, "Attachment v/c1: the spec stored in Logical_Switch_Port address/v/10.0.1.")
		require.NoError(t, edited[1].Err)
		require.NoError(t, edited[2].Err)
	}
	require.Contains(t, f.nbctl("list", "Logical_Switch_Port", "v/c1"), "nonsense")
	f.repair(att("v", "c1", "a"))
	f.noDrift()
}

// Who refers to what somebody has deleted learns that, and how it is mended: also
// with a mirror, and when the input is only looked at. What the input itself removes
// or brings is not meant.
func TestReferencesToWhatIsLost(t *testing.T) {
	rules := acl("shop", "db", "{number: 10, protocol: tcp, ports: [22], tiers: [app]}")
	for _, mirrored := range []bool{false, true} {
		t.Run(fmt.Sprint(mirrored), func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(guarded())
			if mirrored {
				f.mirror()
			}
			lost := func(text, id string) {
				t.Helper()
				word := "somebody has deleted the rows of " + id + ", or damaged them (see ovn-vpc drift, which restores it with --repair)"
				f.refused(text, word)
				_, err := f.Plan(f.ctx, load(t, text), false)
				require.ErrorContains(t, err, word)
				edited := f.edit(put(t, text))
				require.ErrorContains(t, edited[0].Err, word)
				found, err := f.Faults(f.ctx, load(t, text))
				require.NoError(t, err)
				require.Contains(t, found.String(), word)
			}
			f.nbctl("ls-del", "shop/app")
			lost(rules, "Tier shop/app")
			lost(att("shop", "a", "app"), "Tier shop/app")
			lost(expectation("shop", "e", "from: app, to: db, expect: deny"), "Tier shop/app")
			found, err := f.Faults(f.ctx, load(t, rules+tierWith("shop", "app", "cidrs: [10.0.1.0/24], acl: app")))
			require.NoError(t, err)
			require.Empty(t, found)
			f.refused(acl("shop", "db", "{number: 10, tiers: [nosuch]}"), "there is no Tier shop/nosuch")
			_, err = f.Apply(f.ctx, load(t, rules), true, engine.WaitNone)
			require.ErrorContains(t, err, "there is no Tier shop/app") // it would be removed
			_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
			require.NoError(t, err)
			f.apply(rules)

			f.nbctl("lr-del", "shop")
			lost(tier("shop", "new", "10.0.9.0/24"), "VPC shop")
		})
	}
}

// What somebody has deleted or damaged by hand is deleted by its name, with its second
// copy: nothing is left that a repair would bring back.
func TestWhatIsLostIsDeletedByName(t *testing.T) {
	tierID, attID := model.ID{Kind: model.KindTier, VPC: "v", Name: "b"}, model.ID{Kind: model.KindAttachment, VPC: "v", Name: "b1"}
	e := expectationID("v", "e")
	for name, c := range map[string]struct {
		how  []string
		what model.ID
	}{
		"an expectation":           {[]string{"remove", "Logical_Router", "v", "external_ids", `"ovn-vpc-expectation:e"`}, e},
		"a damaged expectation":    {[]string{"set", "Logical_Router", "v", `external_ids:"ovn-vpc-expectation:e"=nonsense`}, e},
		"an attachment":            {[]string{"lsp-del", "v/b1"}, attID},
		"a damaged attachment":     {[]string{"set", "Logical_Switch_Port", "v/b1", `external_ids:"ovn-vpc:spec"=nonsense`}, attID},
		"an attachment's marks":    {[]string{"clear", "Logical_Switch_Port", "v/b1", "external_ids"}, attID},
		"a tier's marks":           {[]string{"clear", "Logical_Switch", "v/b", "external_ids"}, tierID},
		"an attachment of a tier":  {[]string{"ls-del", "v/b"}, attID},
		"a tier":                   {[]string{"ls-del", "v/b"}, tierID},
		"a damaged tier":           {[]string{"set", "Logical_Switch", "v/b", `external_ids:"ovn-vpc:spec"=nonsense`}, tierID},
		"a VPC":                    {[]string{"lr-del", "v"}, model.ID{Kind: model.KindVPC, Name: "v"}},
		"a VPC with a damaged row": {[]string{"set", "Logical_Router", "v", `external_ids:"ovn-vpc:spec"=nonsense`}, model.ID{Kind: model.KindVPC, Name: "v"}},
	} {
		for _, by := range []string{"delete", "edit", "edit in a mirror"} {
			t.Run(name+" by "+by, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, false)
				f.apply(damagedSpec)
				if by == "edit in a mirror" {
					f.mirror()
				}
				f.nbctl(c.how...)
				if by == "delete" {
					_, err := f.Delete(f.ctx, []model.ID{c.what}, true, engine.WaitNone)
					require.NoError(t, err)
				} else {
					x := remove(c.what, true)
					x.Lost = true
					edited := f.edit(x)
					require.NoError(t, edited[0].Err)
					require.True(t, edited[0].Existed)
					require.Equal(t, c.what, edited[0].Object.Resource.ID())
				}
				_, err := f.Delete(f.ctx, []model.ID{c.what}, true, engine.WaitNone)
				require.EqualError(t, err, c.what.String()+" not found")
				d, err := f.Drift(f.ctx, "", true, engine.WaitNone)
				require.NoError(t, err)
				if c.how[0] != "ls-del" || c.what == tierID { // where the tier's rows are still gone
					require.Empty(t, d.Faults)
				}
				found, err := f.Get(f.ctx, engine.Filter{Kind: c.what.Kind, Name: c.what.Name})
				require.NoError(t, err)
				require.Empty(t, found)
				if c.what == tierID || c.what.Kind == model.KindVPC {
					require.NotContains(t, f.nbctl("show"), "v/b")
				}
				if c.what == attID {
					require.NotContains(t, f.nbctl("show"), "v/b1")
				}
			})
		}
	}
}

// What can't be read, and has no second copy, is deleted when that is told to repair;
// the error without it names the row and that way out. What uses it still stands
// against it, and with the VPC it goes.
func TestWhatCantBeReadIsDeleted(t *testing.T) {
	nonsense := func(table, row, key string) []string {
		return []string{"set", table, row, "external_ids:" + strings.ReplaceAll(key, ":", `\:`) + "=nonsense"}
	}
	const spec, home = "ovn-vpc:spec", "ovnvpc.v.default_deny"
	for what, c := range map[model.ID]struct {
		how  [][]string
		user string
	}{
		{Kind: model.KindACL, VPC: "v", Name: "a"}:         {[][]string{nonsense("Port_Group", "ovnvpc.v.a", spec)}, "Tier v/a"},
		{Kind: model.KindTier, VPC: "v", Name: "b"}:        {[][]string{nonsense("Logical_Switch", "v/b", spec), nonsense("Port_Group", "ovnvpc.v.b.attachments", "ovn-vpc:tier-spec")}, "Attachment v/b1"},
		{Kind: model.KindAttachment, VPC: "v", Name: "b1"}: {[][]string{nonsense("Logical_Switch_Port", "v/b1", spec), {"remove", "Port_Group", "ovnvpc.v.b.attachments", "external_ids", `"ovn-vpc-attachment:b1"`}}, ""},
		expectationID("v", "e"):                            {[][]string{nonsense("Logical_Router", "v", "ovn-vpc-expectation:e"), nonsense("Port_Group", home, "ovn-vpc-expectation:e")}, ""},
		{Kind: model.KindVPCOffering, Name: "small"}:       {[][]string{damages()["an offering, ours"].how}, ""},
		{Kind: model.KindVPC, Name: "v"}:                   {[][]string{nonsense("Logical_Router", "v", spec), nonsense("Port_Group", home, "ovn-vpc:vpc-spec")}, ""},
	} {
		t.Run(what.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, false)
			f.apply(damagedSpec)
			for _, how := range c.how {
				f.nbctl(how...)
			}
			before := f.dump()
			ids := []model.ID{what}
			_, err := f.Delete(f.ctx, ids, true, engine.WaitNone)
			var broken *engine.DamagedError
			require.ErrorAs(t, err, &broken)
			require.ErrorContains(t, err, what.String()+": the spec stored in ")
			require.ErrorContains(t, err, "delete --repair removes it")
			require.Equal(t, before, f.dump())
			if c.user != "" {
				_, err = f.Repairing().Delete(f.ctx, ids, false, engine.WaitNone)
				require.ErrorContains(t, err, what.String()+": it is in use by "+c.user)
			}
			r, err := f.Repairing().Delete(f.ctx, ids, true, engine.WaitNone)
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(r.VPCs[0].Changes), "delete "+what.String())
			_, err = f.Repairing().Delete(f.ctx, ids, true, engine.WaitNone)
			require.EqualError(t, err, what.String()+" not found")
			f.noDrift()

			if what.Kind != model.KindVPC {
				f.apply(damagedSpec)
				for _, how := range c.how {
					f.nbctl(how...)
				}
				_, err = f.Repairing().Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "v"}}, true, engine.WaitNone)
				require.NoError(t, err)
			}
			require.Empty(t, f.nbctl("list", "Port_Group")+f.nbctl("list", "ACL")+f.nbctl("show"))
		})
	}
}

// What can't be read is not called absent where it is asked for by its name, and is told
// of in the log where it would be among others, unless a watch does.
func TestWhatCantBeReadIsThere(t *testing.T) {
	for _, mirrored := range []bool{false, true} {
		f := newFixture(t, false)
		if mirrored {
			f.mirror()
		}
		var said strings.Builder
		f.Log = slog.New(slog.NewTextHandler(&said, nil))
		f.apply(damagedSpec)
		for name, c := range damages() {
			if c.whose == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s, mirrored: %t", name, mirrored), func(t *testing.T) {
				f := *f
				f.t = t
				whose, ok := model.ParseID(c.whose)
				require.True(t, ok)
				f.nbctl(c.how...)
				_, err := f.Get(f.ctx, engine.Filter{Kind: whose.Kind, VPC: whose.VPC, Name: whose.Name})
				require.ErrorAs(t, err, new(*engine.DamagedError))
				require.ErrorContains(t, err, c.says)
				_, err = f.Get(f.ctx, engine.Filter{Kind: whose.Kind, VPC: "another", Name: whose.Name})
				require.NoError(t, err)
				said.Reset()
				objects, err := f.Get(f.ctx, engine.Filter{Kind: whose.Kind})
				require.NoError(t, err)
				require.False(t, slices.ContainsFunc(objects, func(o engine.Object) bool { return o.Resource.ID() == whose }))
				const unread = "left out, since what is stored of it is damaged"
				require.Equal(t, !mirrored, strings.Contains(said.String(), unread), said.String())
				said.Reset()
				_, err = f.Export(f.ctx, whose.VPC)
				require.NoError(t, err)
				require.Equal(t, !mirrored, strings.Contains(said.String(), unread), said.String())
				f.repair(damagedSpec)
			})
		}
	}
}
