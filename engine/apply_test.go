package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func TestApplyAgainIsEmpty(t *testing.T) {
	f := newFixture(t, true)
	set := example(t, "three-tier")
	r, err := f.Apply(f.ctx, set, false, engine.WaitSB)
	require.NoError(t, err)
	require.Len(t, r.VPCs, 1)
	require.Equal(t, 1, r.VPCs[0].Landed, "more than one transaction")
	before := f.dump()
	p, err := f.Plan(f.ctx, set, true)
	require.NoError(t, err)
	require.True(t, p.Empty())
	r, err = f.Apply(f.ctx, set, true, engine.WaitNone)
	require.NoError(t, err)
	require.False(t, r.Changed())
	require.Equal(t, before, f.dump())
	f.noDrift()
}

func TestExportMakesTheSameState(t *testing.T) {
	f := newFixture(t, false)
	_, err := f.Apply(f.ctx, example(t, "three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	export := func(f *fixture) string {
		resources, err := f.Export(f.ctx, "")
		require.NoError(t, err)
		var documents []model.Document
		for _, r := range resources {
			documents = append(documents, model.Envelope(r, nil))
		}
		var text strings.Builder
		require.NoError(t, model.EncodeYAML(&text, documents...))
		return text.String()
	}
	first := export(f)
	p, err := f.Plan(f.ctx, load(t, first), true)
	require.NoError(t, err)
	require.True(t, p.Empty())
	other := newFixture(t, false)
	other.apply(first)
	require.Equal(t, first, export(other))
}

func TestPlanFile(t *testing.T) {
	f := newFixture(t, false)
	set := example(t, "three-tier")
	p, err := f.Plan(f.ctx, set, false)
	require.NoError(t, err)
	file, err := json.Marshal(p)
	require.NoError(t, err)
	kept := func() *engine.Plan {
		var p engine.Plan
		require.NoError(t, json.Unmarshal(file, &p))
		return &p
	}
	_, err = f.ApplyPlan(f.ctx, kept(), engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
	before := f.dump()
	_, err = f.ApplyPlan(f.ctx, kept(), engine.WaitNone)
	var conflict *engine.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, before, f.dump())

	// A plan for an update, and the rule changes meanwhile.
	p, err = f.Plan(f.ctx, load(t, document("Attachment", "shop", "web-1", "tier: web, chassis: h1")), false)
	require.NoError(t, err)
	f.apply(document("Attachment", "shop", "web-1", "tier: web, chassis: h2"))
	_, err = f.ApplyPlan(f.ctx, p, engine.WaitNone)
	require.ErrorAs(t, err, &conflict)
	other := newFixture(t, false)
	_, err = other.ApplyPlan(other.ctx, kept(), engine.WaitNone)
	require.ErrorAs(t, err, &conflict)
	require.ErrorContains(t, err, "another database")
}

func TestAddressesAreKeptAndFreedOnesRest(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16, 2001:db8::/48") + tier("shop", "web", "10.0.0.0/28, 2001:db8::/64") +
		att("shop", "a", "web") + att("shop", "b", "web"))
	first := f.attachments("shop")
	require.Len(t, first["a"].Addresses, 2)
	a4 := first["a"].Addresses[0].As4()
	require.Equal(t, fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", a4[0], a4[1], a4[2], a4[3]), string(first["a"].MAC))
	f.apply(att("shop", "a", "web"))
	require.Equal(t, first["a"], f.attachments("shop")["a"])

	// The freed address comes back only when nothing else is left.
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindAttachment, VPC: "shop", Name: "a"}}, false, engine.WaitNone)
	require.NoError(t, err)
	const others = 16 - 3 - 2 // network, broadcast, gateway; b and the freed one
	for i := range others {
		f.apply(att("shop", fmt.Sprintf("c%d", i), "web"))
	}
	for name, spec := range f.attachments("shop") {
		require.NotContains(t, spec.Addresses, first["a"].Addresses[0], name)
	}
	f.apply(att("shop", "a", "web"))
	require.Equal(t, first["a"].Addresses[0], f.attachments("shop")["a"].Addresses[0])
	f.refused(att("shop", "surplus", "web"), "shop/web", "13", "10.0.0.0/28")
	f.checkTier("shop", others+2)
}

func TestIPv6OnlyTier(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("six", "2001:db8::/48") + tier("six", "web", "2001:db8:0:1::/64"))
	for i := range 20 {
		f.apply(att("six", fmt.Sprintf("a%d", i), "web"))
	}
	f.checkTier("six", 20)
	for _, spec := range f.attachments("six") {
		require.True(t, strings.HasPrefix(string(spec.MAC), "0a:59:"))
	}
}

func TestATierGrowsAnAddressFamily(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24") + att("shop", "a", "web"))
	was := f.attachments("shop")["a"].Addresses
	f.apply(vpc("shop", "10.0.0.0/16, 2001:db8::/48") + tier("shop", "web", "10.0.0.0/24, 2001:db8::/64") + att("shop", "a", "web"))
	is := f.attachments("shop")["a"].Addresses
	require.Len(t, is, 2)
	require.Equal(t, was[0], is[0])
	f.refused(tier("shop", "web", "2001:db8::/64"), "10.0.0.0/24", "spec.cidrs")
	// Not even when the attachment stands in the input too and names no address.
	f.refused(tier("shop", "web", "2001:db8::/64")+att("shop", "a", "web"), "10.0.0.0/24", "spec.cidrs")
	f.noDrift()
}

func TestSwapAddresses(t *testing.T) {
	f := newFixture(t, false)
	base := vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24")
	two := func(a, b int) string {
		return document("Attachment", "shop", "a", fmt.Sprintf("tier: web, addresses: [10.0.0.%d]", a)) +
			document("Attachment", "shop", "b", fmt.Sprintf("tier: web, addresses: [10.0.0.%d]", b))
	}
	f.apply(base + two(10, 11))
	f.apply(two(11, 10))
	require.Equal(t, netip.MustParseAddr("10.0.0.11"), f.attachments("shop")["a"].Addresses[0])
	require.Equal(t, model.MAC("0a:58:0a:00:00:0b"), f.attachments("shop")["a"].MAC)
	f.checkTier("shop", 2)
}

func TestRefusals(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + tierWith("shop", "web", "cidrs: [10.0.0.0/24], acl: open") +
		document("ACL", "shop", "open", "rules: []") + tier("shop", "app", "10.0.1.0/24") +
		document("Attachment", "shop", "a", `tier: web, addresses: [10.0.0.10], mac: "02:00:00:00:00:01", interfaceID: one`) +
		"---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {limits: {tiers: 1, attachments: 2, aclRules: 1}}}\n")
	f.nbctl("ls-add", "theirs", "--", "lsp-add", "theirs", "foreign", "--", "lr-add", "taken", "--", "pg-add", "ovnvpc.shop.theirs")
	for name, c := range map[string]struct {
		text  string
		words []string
	}{
		"overlap with the database":   {tier("shop", "x", "10.0.0.128/25"), []string{"spec.yaml:2:", "spec.cidrs[0]", "shop/web"}},
		"outside of the VPC":          {tier("shop", "x", "10.1.0.0/24"), []string{"spec.cidrs[0]"}},
		"address taken":               {document("Attachment", "shop", "b", "tier: web, addresses: [10.0.0.10]"), []string{"spec.addresses[0]", "shop/a"}},
		"MAC taken":                   {document("Attachment", "shop", "b", `tier: web, mac: "02:00:00:00:00:01"`), []string{"spec.mac", "shop/a"}},
		"interfaceID taken by us":     {document("Attachment", "shop", "b", "tier: web, interfaceID: one"), []string{"spec.interfaceID"}},
		"interfaceID taken by others": {document("Attachment", "shop", "b", "tier: web, interfaceID: foreign"), []string{"spec.interfaceID", "another tool"}},
		"router name taken":           {vpc("taken", "10.0.0.0/8"), []string{"taken", "another tool"}},
		"list name taken":             {document("ACL", "shop", "theirs", "rules: []"), []string{"another tool"}},
		"unknown tier":                {att("shop", "b", "wbe"), []string{"spec.tier", "web"}},
		"unknown list":                {tierWith("shop", "web", "cidrs: [10.0.0.0/24], acl: opne"), []string{"spec.acl", "open"}},
		"unknown VPC":                 {tier("shpo", "web", "10.0.0.0/24"), []string{"metadata.vpc", "shpo"}},
		"unknown offering":            {"---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: v}, spec: {cidrs: [10.0.0.0/8], offering: x}}", []string{"spec.offering"}},
		"tier is immutable":           {document("Attachment", "shop", "a", "tier: app"), []string{"spec.tier"}},
		"prefix in use":               {tierWith("shop", "web", "cidrs: [10.0.5.0/24], acl: open"), []string{"spec.cidrs", "in it: a"}},
		"VPC prefix in use":           {vpc("shop", "10.0.1.0/24"), []string{"spec.cidrs", "web"}},
		"built-in list":               {tierWith("shop", "x", "cidrs: [10.0.5.0/24], acl: default-permit"), []string{"spec.acl", "default-allow"}},
		"no capability":               {"---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: v}, spec: {cidrs: [10.0.0.0/8], offering: small}}", []string{"distributedRouting"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t = t
			f.refused(c.text, c.words...)
		})
	}
}

func TestInUse(t *testing.T) {
	f := newFixture(t, false)
	_, err := f.Apply(f.ctx, example(t, "three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	for _, c := range []struct {
		id   model.ID
		user string
	}{
		{model.ID{Kind: model.KindVPC, Name: "shop"}, "Tier shop/app"},
		{model.ID{Kind: model.KindTier, VPC: "shop", Name: "web"}, "Attachment shop/web-1"},
		{model.ID{Kind: model.KindACL, VPC: "shop", Name: "db"}, "Tier shop/db"},
	} {
		_, err := f.Delete(f.ctx, []model.ID{c.id}, false, engine.WaitNone)
		var invalid *engine.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.ErrorContains(t, err, c.user)
	}
	// The lists that name the tier stay, without it.
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "web"}}, true, engine.WaitNone)
	require.NoError(t, err)
	objects, err := f.Get(f.ctx, engine.Filter{Kind: model.KindACL, Name: "app"})
	require.NoError(t, err)
	rules := objects[0].Resource.Spec.(*model.ACLSpec).Rules
	require.Len(t, rules, 1)
	require.Equal(t, []string{"db"}, rules[0].Tiers)
	require.Len(t, f.attachments("shop"), 3)
	f.noDrift()
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
	require.NoError(t, err)
	require.NotContains(t, f.dump(), "ovn-vpc")
}

func TestDeleteUnknown(t *testing.T) {
	f := newFixture(t, false)
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "nothing"}}, false, engine.WaitNone)
	var missing *engine.NotFoundError
	require.ErrorAs(t, err, &missing)
}

func TestPrune(t *testing.T) {
	f := newFixture(t, false)
	base := vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24")
	f.apply(base + tier("shop", "old", "10.0.1.0/24") + att("shop", "mine", "web") +
		vpc("other", "10.0.0.0/16") + tier("other", "t", "10.0.0.0/24"))
	rest := *f
	rest.Engine = engine.New(f.NB, "default", "rest")
	rest.apply(att("shop", "theirs", "web"))
	// An update by another manager doesn't make the resource its own.
	f.apply(document("Attachment", "shop", "theirs", "tier: web, hostname: h"))

	r, err := f.Apply(f.ctx, load(t, base), true, engine.WaitNone)
	require.NoError(t, err)
	require.True(t, r.Changed())
	require.Len(t, f.attachments("shop"), 1)
	require.Contains(t, f.attachments("shop"), "theirs")
	objects, err := f.Get(f.ctx, engine.Filter{Kind: model.KindTier})
	require.NoError(t, err)
	require.Len(t, objects, 2)

	// What another manager's attachment uses can't be pruned away.
	rest.apply(tier("shop", "second", "10.0.2.0/24"))
	f.apply(tier("shop", "third", "10.0.3.0/24"))
	rest.apply(att("shop", "guest", "third"))
	_, err = f.Apply(f.ctx, load(t, base), true, engine.WaitNone)
	var invalid *engine.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "Attachment shop/guest")

	before := f.dump()
	_, err = f.Apply(f.ctx, load(t, "# nothing\n"), true, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, before, f.dump(), "an empty input has pruned")
}

func TestOfferings(t *testing.T) {
	f := newFixture(t, false)
	offering := func(spec string) string {
		return "---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {capabilities: {distributedRouting: true}, limits: {" + spec + "}}}\n"
	}
	under := "---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/16], offering: small}}\n"
	f.nbctl("set", "NB_Global", ".", "external_ids:foreign=stays")
	f.apply(offering("tiers: 2, attachments: 2, aclRules: 1") + under + tier("shop", "a", "10.0.0.0/24") +
		tier("shop", "b", "10.0.1.0/24") + att("shop", "x", "a") + document("ACL", "shop", "l", "rules: [{protocol: tcp}]"))
	f.refused(tier("shop", "c", "10.0.2.0/24"), "permits 2", "small")
	f.refused(att("shop", "y", "a")+att("shop", "z", "a"), "permits 2")
	f.refused(document("ACL", "shop", "m", "rules: [{protocol: udp}]"), "permits 1")
	f.refused(offering("tiers: 1"), "spec.limits.tiers")
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindVPCOffering, Name: "small"}}, false, engine.WaitNone)
	require.ErrorContains(t, err, "VPC shop")
	f.apply(offering("tiers: 3"))
	f.apply(tier("shop", "c", "10.0.2.0/24"))
	f.noDrift()
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPCOffering, Name: "small"}, {Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
	require.NoError(t, err)
	require.NotContains(t, f.dump(), "ovn-vpc")
	require.Contains(t, f.dump(), "foreign=stays")
}

func TestCapacity(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/8") + tier("shop", "web", "10.0.0.0/16"))
	many := func(n int) string {
		var text strings.Builder
		for i := range n {
			text.WriteString(att("shop", fmt.Sprintf("a%d", i), "web"))
		}
		return text.String()
	}
	f.refused(many(2047), "2048", "2047", "VXLAN")
	r := f.apply(many(2046))
	require.NotEmpty(t, r.Diagnostics, "no warning from 80 % on")
	var args []string
	for i := range 4091 {
		args = append(args, "--", "ls-add", fmt.Sprintf("theirs%d", i))
	}
	f.nbctl(args[1:]...)
	f.apply(tier("shop", "fits", "10.1.0.0/24") + tier("shop", "fits-too", "10.2.0.0/24"))
	f.refused(tier("shop", "surplus", "10.3.0.0/24"), "4096", "4095")
	f.nbctl("set", "NB_Global", ".", "options:max_tunid=16711680")
	f.apply(tier("shop", "surplus", "10.3.0.0/24") + att("shop", "one-more", "web"))
}

// More rows than one transaction takes.
func TestManyTransactions(t *testing.T) {
	f := newFixture(t, false)
	f.nbctl("set", "NB_Global", ".", "options:max_tunid=16711680")
	var text strings.Builder
	text.WriteString(vpc("shop", "10.0.0.0/8") + tier("shop", "web", "10.0.0.0/16"))
	for i := range 11500 {
		spec := "tier: web"
		if i%100 == 0 {
			spec += fmt.Sprintf(`, mac: "02:00:00:00:%02x:%02x"`, i>>8, i&255)
		}
		text.WriteString(document("Attachment", "shop", fmt.Sprintf("a%d", i), spec))
	}
	set := load(t, text.String())
	r, err := f.Apply(f.ctx, set, false, engine.WaitNone)
	require.NoError(t, err)
	require.Greater(t, r.VPCs[0].Landed, 1)
	p, err := f.Plan(f.ctx, set, true)
	require.NoError(t, err)
	require.True(t, p.Empty())
	f.checkTier("shop", 11500)
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
	require.NoError(t, err)
	require.NotContains(t, f.dump(), "ovn-vpc")
}

// One VPC lands, the other is refused by the database: the result says which.
func TestPartialFailureSaysWhatLanded(t *testing.T) {
	f := newFixture(t, false)
	p, err := f.Plan(f.ctx, load(t, vpc("alpha", "10.0.0.0/8")+vpc("beta", "10.0.0.0/8")), false)
	require.NoError(t, err)
	f.apply(vpc("beta", "10.0.0.0/16"))
	r, err := f.ApplyPlan(f.ctx, p, engine.WaitNone)
	require.Error(t, err)
	require.True(t, r.VPCs[0].Done)
	require.False(t, r.VPCs[1].Done)
	require.NotEmpty(t, r.VPCs[1].Error)
	require.Contains(t, f.nbctl("lr-list"), "alpha")
}

func TestUnreachableInTheMiddle(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16"))
	require.NoError(t, f.sandbox.Stop(f.ctx, "nb"))
	_, err := f.Apply(f.ctx, load(t, tier("shop", "web", "10.0.0.0/24")), false, engine.WaitNone)
	require.Error(t, err)
	require.False(t, errors.Is(err, f.ctx.Err()) && f.ctx.Err() != nil)
	require.NoError(t, f.sandbox.Start(f.ctx))
	f.apply(tier("shop", "web", "10.0.0.0/24"))
	f.noDrift()
}

func TestOldOVN(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24"))
	f.SchemaVersion = func() string { return "6.1.0" } // OVN 22.03
	migrating := document("Attachment", "shop", "a", "tier: web, chassis: h1, migratingTo: h2")
	f.refused(migrating, "spec.migratingTo", "22.09", "6.1.0")
	f.SchemaVersion = func() string { return "6.3.0" }
	f.apply(migrating)
	require.Contains(t, f.nbctl("list", "Logical_Switch_Port", "shop/a"), "activation-strategy=rarp")
}
