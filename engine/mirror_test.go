package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// The mirror holds what the database holds, whatever has been done to it.
func TestMirrorIsTheDatabase(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	f.apply(att("shop", "a0", "web") + att("shop", "a1", "web") + att("shop", "a2", "web"))
	f.mirror()
	other := connect(t, f.sandbox, "default")
	compare := func(t require.TestingT) {
		mirrored, fresh, err := engine.Worlds(f.ctx, f.Engine)
		require.NoError(t, err)
		require.Equal(t, fresh, mirrored)
		f.eachAlone(t)
		for _, kind := range model.Kinds() {
			for _, filter := range []engine.Filter{{Kind: kind}, {Kind: kind, VPC: "shop"}, {Kind: kind, Name: "shop"}, {Kind: kind, Tier: "web"}} {
				mirrored, err := f.Get(f.ctx, filter)
				require.NoError(t, err)
				fresh, err := other.Get(f.ctx, filter)
				require.NoError(t, err)
				require.Equal(t, fresh, mirrored, filter)
			}
		}
	}
	compare(t)
	seen := 0
	rapid.Check(t, func(r *rapid.T) {
		switch rapid.IntRange(0, 5).Draw(r, "what") {
		case 0:
			f.tamper(r)
		case 1:
			_, err := other.Drift(f.ctx, "", true, engine.WaitNone)
			require.NoError(r, err)
		default:
			who := rapid.SampledFrom([]*fixture{f, other}).Draw(r, "who")
			edit := drawEdit(t, r)
			edit.Hasty = rapid.Bool().Draw(r, "hasty")
			_, _, err := who.Edit(f.ctx, []engine.Edit{edit}, false)
			require.NoError(r, err)
		}
		compare(r)
		seen += len(f.attachments("shop"))
	})
	require.Positive(t, seen)
}

// eachAlone looks at each resource alone: it is as it is among all.
func (f *fixture) eachAlone(t require.TestingT) {
	all, err := f.Get(f.ctx, engine.Filter{VPC: "shop"})
	require.NoError(t, err)
	for _, o := range all {
		id := o.Resource.ID()
		if id.Kind == model.KindVPC {
			continue
		}
		alone, err := f.Get(f.ctx, engine.Filter{Kind: id.Kind, VPC: id.VPC, Name: id.Name})
		require.NoError(t, err)
		require.Equal(t, []engine.Object{o}, alone)
	}
	for _, kind := range []model.Kind{model.KindAttachment, model.KindACL, model.KindTier} {
		none, err := f.Get(f.ctx, engine.Filter{Kind: kind, VPC: "shop", Name: "none"})
		require.NoError(t, err)
		require.Empty(t, none)
	}
}

// tamper does something by hand to rows of ours.
func (f *fixture) tamper(r *rapid.T) {
	var names []string
	for _, spec := range f.attachments("shop") {
		names = append(names, spec.InterfaceID)
	}
	if len(names) == 0 {
		return
	}
	port := rapid.SampledFrom(names).Draw(r, "port")
	registry := "ovnvpc.shop.web.attachments"
	switch rapid.IntRange(0, 6).Draw(r, "damage") {
	case 0:
		f.nbctl("lsp-del", port)
	case 1:
		f.nbctl("--if-exists", "remove", "Logical_Switch_Port", port, "external_ids", `"ovn-vpc:owner"`)
	case 2:
		f.nbctl("--if-exists", "set", "Logical_Switch_Port", port, `external_ids:"ovn-vpc:spec"="{}"`)
	case 3:
		f.nbctl("--if-exists", "set", "Port_Group", registry, "external_ids:mine=x")
	case 4:
		f.nbctl("--if-exists", "clear", "Port_Group", registry, "external_ids")
	case 5:
		f.nbctl("--if-exists", "set", "Logical_Switch_Port", port, `external_ids:"ovn-vpc:manager"=x`, "addresses=unknown")
	case 6:
		f.nbctl("--if-exists", "remove", "Port_Group", registry, "external_ids", `"ovn-vpc:key"`)
	}
}

// Edits see what somebody else had committed before, also in haste, and one that is
// carried out after the others of its call sees those.
func TestEditsSeeWhatCameBefore(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	f.mirror()
	other := connect(t, f.sandbox, "default")
	hasty := func(x engine.Edit) engine.Edit {
		x.Hasty = true
		return x
	}
	list, tier := id(model.KindACL, "shop", "used"), id(model.KindTier, "shop", "guarded")
	for range 20 {
		other.edit(put(t, acl("shop", "used", "")), put(t, att("shop", "theirs", "web")))
		saw := 0
		looked := hasty(engine.Edit{ID: id(model.KindAttachment, "shop", "theirs"), Change: func(now *model.Resource) (*model.Resource, error) {
			if now != nil {
				saw++
			}
			return nil, nil
		}})
		f.edit(looked)
		require.Equal(t, 1, saw)

		both := f.edit(hasty(put(t, tierWith("shop", "guarded", "cidrs: [10.0.9.0/29], acl: used"))), hasty(remove(list, false)))
		require.NoError(t, both[0].Err)
		require.ErrorContains(t, both[1].Err, "in use by")
		for _, gone := range []model.ID{tier, list} {
			require.NoError(t, f.edit(hasty(remove(gone, false)))[0].Err)
		}
	}
}

// What is listed from the mirror is what the database says, counts and verdicts included.
func TestListsFromTheMirror(t *testing.T) {
	f := newFixture(t, false)
	f.apply("{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {limits: {tiers: 7}, capabilities: {distributedRouting: true}}}\n" +
		document("VPC", "", "u", "cidrs: [10.0.0.0/8], offering: small") + tier("u", "t", "10.1.0.0/24") + att("u", "x", "t") +
		document("VPC", "", "v", "cidrs: [10.0.0.0/8], offering: small") + document("ACL", "v", "l", "rules: [{protocol: tcp, ports: [80]}]") +
		tierWith("v", "a", "cidrs: [10.1.0.0/24], acl: l") + tier("v", "b", "10.2.0.0/24") + tier("v", "empty", "10.3.0.0/24") +
		document("Attachment", "v", "x", "tier: a, allowedAddresses: [10.9.0.0/24]") + att("v", "y", "b") + att("v", "z", "b") +
		document("Expectation", "v", "holds", "from: attachment/y, to: attachment/x, traffic: tcp 80, expect: deny") +
		document("Expectation", "v", "closed", "from: b, to: a, traffic: tcp 81, expect: deny"))
	other := connect(t, f.sandbox, "default")
	f.mirror()
	compare := func() (all []engine.Object) {
		for _, kind := range append(model.Kinds(), "") {
			for _, filter := range []engine.Filter{{Kind: kind}, {Kind: kind, VPC: "v"}, {Kind: kind, Name: "v"}, {Kind: kind, VPC: "v", Name: "v"},
				{Kind: kind, VPC: "none"}, {Kind: kind, VPC: "v", Name: "a"}, {Kind: kind, Name: "small"}} {
				mirrored, err := f.Get(f.ctx, filter)
				require.NoError(t, err)
				fresh, err := other.Get(f.ctx, filter)
				require.NoError(t, err)
				require.Equal(t, fresh, mirrored, filter)
				all = append(all, mirrored...)
			}
		}
		return all
	}
	compare()
	looked := func(f *fixture, filter engine.Filter) [2]int {
		rules, ports, err := engine.Looked(f.ctx, f.Engine, filter)
		require.NoError(t, err)
		return [2]int{rules, ports}
	}
	const routers, guests = 3, 3 // of v
	require.Equal(t, [2]int{0, routers + 2}, looked(f, engine.Filter{Kind: model.KindVPC, VPC: "v"}), "those that an expectation names")
	require.Equal(t, [2]int{0, routers + guests}, looked(f, engine.Filter{Kind: model.KindAttachment, VPC: "v"}))
	require.Equal(t, [2]int{0, routers + 1}, looked(f, engine.Filter{Kind: model.KindVPC}), "nobody's")
	for _, kind := range []model.Kind{model.KindACL, model.KindExpectation} {
		require.Equal(t, [2]int{0, routers}, looked(f, engine.Filter{Kind: kind, VPC: "v"}), kind)
		require.Equal(t, routers, looked(other, engine.Filter{Kind: kind, VPC: "v"})[1], kind)
	}
	one, err := f.Get(f.ctx, engine.Filter{Kind: model.KindVPC, Name: "v"})
	require.NoError(t, err)
	held := 2
	require.Equal(t, &engine.VPCStatus{Tiers: 3, ACLs: 1, Attachments: 3, Expectations: 2, ExpectationsHeld: &held}, one[0].Status)
	f.nbctl("lsp-del", "v/y")
	compare()
}
