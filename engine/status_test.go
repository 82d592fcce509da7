package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// southbound joins the fixture's engine to the southbound database.
func (f *fixture) southbound() *fixture {
	f.t.Helper()
	c, err := nbdb.Dial(f.ctx, nbdb.Options{Remotes: f.sandbox.SB(), Database: nbdb.Southbound})
	require.NoError(f.t, err)
	f.t.Cleanup(c.Close)
	f.SB = c
	return f
}

func (f *fixture) sbctl(args ...string) string {
	f.t.Helper()
	out, err := f.sandbox.SBCtl(f.ctx, args...)
	require.NoError(f.t, err, out)
	return strings.TrimSpace(out)
}

// chassis registers a hypervisor that is not there.
func (f *fixture) chassis(name string) {
	f.t.Helper()
	f.sbctl("chassis-add", name, "geneve", name)
	f.sbctl("create", "Chassis_Private", "name="+name, "chassis="+f.sbctl("--bare", "--columns=_uuid", "find", "Chassis", "name="+name))
}

func TestAwaitTellsWhatIsPending(t *testing.T) {
	f := newFixture(t, true).southbound()
	shop(f)
	f.chassis("hv1")
	f.chassis("hv2")
	_, target, err := f.Edit(f.ctx, []engine.Edit{create(t, att("shop", "a", "web"))}, true)
	require.NoError(t, err)
	require.Positive(t, target)
	pending, err := f.Await(f.ctx, engine.WaitSB, target)
	require.NoError(t, err)
	require.Nil(t, pending)
	require.Contains(t, f.sbctl("find", "Port_Binding", "logical_port=shop/a"), "shop/a")
	pending, err = f.Await(f.ctx, engine.WaitNone, target+1000)
	require.NoError(t, err)
	require.Nil(t, pending)

	brief := func() (*engine.Pending, error) {
		ctx, cancel := context.WithTimeout(f.ctx, 2*time.Second)
		defer cancel()
		return f.Await(ctx, engine.WaitHV, target)
	}
	f.sbctl("set", "Chassis_Private", "hv2", fmt.Sprintf("nb_cfg=%d", target))
	pending, err = brief()
	require.NoError(t, err)
	require.Equal(t, &engine.Pending{For: engine.WaitHV, Target: target, Chassis: []string{"hv1"}}, pending)
	text, err := json.Marshal(pending)
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"for":"hv","target":%d,"reached":0,"chassis":["hv1"]}`, target), string(text))

	// Edits that change nothing have something to wait for too.
	_, again, err := f.Edit(f.ctx, []engine.Edit{put(t, att("shop", "a", "web"))}, true)
	require.NoError(t, err)
	require.Equal(t, target+1, again)
	refused, none, err := f.Edit(f.ctx, []engine.Edit{put(t, att("shop", "b", "nowhere"))}, true)
	require.NoError(t, err)
	require.Error(t, refused[0].Err)
	require.Zero(t, none)

	f.sbctl("set", "Chassis_Private", "hv1", fmt.Sprintf("nb_cfg=%d", target))
	pending, err = f.Await(f.ctx, engine.WaitHV, target)
	require.NoError(t, err)
	require.Nil(t, pending)
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err = f.Await(ended, engine.WaitHV, again)
	require.ErrorIs(t, err, context.Canceled)
}

// An edit tells the status that Get would tell.
func TestStatusOfEdits(t *testing.T) {
	f := newFixture(t, true).southbound()
	shop(f)
	f.chassis("hv1")
	a := id(model.KindAttachment, "shop", "a")
	text := func(more string) string { return document("Attachment", "shop", "a", "tier: web, chassis: hv1"+more) }
	edited, n, err := f.Edit(f.ctx, []engine.Edit{create(t, text(""))}, true)
	require.NoError(t, err)
	st := edited[0].Object.Status.(*engine.AttachmentStatus)
	require.Nil(t, st.Up)
	require.Contains(t, st.Reason, "not processed")
	arrived := func() {
		t.Helper()
		pending, err := f.Await(f.ctx, engine.WaitSB, n)
		require.NoError(t, err)
		require.Nil(t, pending)
	}
	arrived()
	f.sbctl("set", "Port_Binding", "shop/a", "chassis="+f.sbctl("--bare", "--columns=_uuid", "find", "Chassis", "name=hv1"), "up=true")
	require.Eventually(t, func() bool {
		st := f.get(a).Status.(*engine.AttachmentStatus)
		return st.Up != nil && *st.Up
	}, time.Minute, 50*time.Millisecond)
	edited, n, err = f.Edit(f.ctx, []engine.Edit{put(t, text(", hostname: h"))}, true)
	require.NoError(t, err)
	st = edited[0].Object.Status.(*engine.AttachmentStatus)
	require.True(t, *st.Up)
	require.Equal(t, "hv1", st.Chassis)
	arrived()
	require.Equal(t, f.get(a), edited[0].Object)

	// With another address it has another port, which nobody has seen yet.
	edited = f.edit(put(t, text(", addresses: [10.0.0.77]")))
	st = edited[0].Object.Status.(*engine.AttachmentStatus)
	require.Nil(t, st.Up)
	require.Empty(t, st.Chassis)
	require.Equal(t, "10.0.0.77", st.Addresses[0].String())
}

func TestFilters(t *testing.T) {
	f := newFixture(t, true).southbound()
	shop(f)
	f.chassis("hv1")
	f.chassis("hv2")
	_, n, err := f.Edit(f.ctx, []engine.Edit{
		create(t, document("Attachment", "shop", "asks", "tier: web, chassis: hv1")),
		create(t, document("Attachment", "shop", "moves", "tier: small, chassis: hv2, migratingTo: hv1")),
		create(t, att("shop", "bound", "web")),
		create(t, att("shop", "none", "web")),
	}, true)
	require.NoError(t, err)
	_, err = f.Await(f.ctx, engine.WaitSB, n)
	require.NoError(t, err)
	f.sbctl("set", "Port_Binding", "shop/bound", "chassis="+f.sbctl("--bare", "--columns=_uuid", "find", "Chassis", "name=hv1"), "up=true")
	yes, no := true, false
	names := func(filter engine.Filter) []string {
		objects, err := f.Get(f.ctx, filter)
		require.NoError(t, err)
		var out []string
		for _, o := range objects {
			require.Equal(t, model.KindAttachment, o.Resource.Kind)
			require.True(t, filter.Matches(o))
			out = append(out, o.Resource.Metadata.Name)
		}
		return out
	}
	require.Eventually(t, func() bool { return len(names(engine.Filter{Up: &yes})) == 1 }, time.Minute, 50*time.Millisecond)
	require.Equal(t, []string{"bound"}, names(engine.Filter{Up: &yes}))
	require.Equal(t, []string{"asks", "moves", "none"}, names(engine.Filter{Up: &no}))
	require.Equal(t, []string{"asks", "bound", "none"}, names(engine.Filter{VPC: "shop", Tier: "web"}))
	require.Equal(t, []string{"asks", "bound", "moves"}, names(engine.Filter{Chassis: "hv1"}))
	require.Equal(t, []string{"bound"}, names(engine.Filter{Chassis: "hv1", Tier: "web", Up: &yes, Kind: model.KindAttachment}))
	require.Empty(t, names(engine.Filter{Kind: model.KindTier, Tier: "web"}))
	require.Empty(t, names(engine.Filter{VPC: "nothing"}))
}

// A request's mark stays with what it created, whatever becomes of that.
func TestRequestsAreRemembered(t *testing.T) {
	f := newFixture(t, false)
	const mark = "0123456789abcdef fedcba9876543210"
	marked := func(text string) engine.Edit {
		r := *load(t, text).Resources[0]
		r.Request = mark
		return engine.Edit{ID: r.ID(), Change: func(*model.Resource) (*model.Resource, error) { return &r, nil }}
	}
	offering := func(limits string) string {
		return "---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {capabilities: {distributedRouting: true}, limits: {" + limits + "}}}\n"
	}
	network := func(more string) string {
		return "---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/16" + more + "], offering: small}}\n"
	}
	first := []string{offering(""), network(""), document("ACL", "shop", "l", ""), tierWith("shop", "web", "cidrs: [10.0.0.0/24], acl: l"), att("shop", "a", "web")}
	then := []string{offering("tiers: 9"), network(", 10.1.0.0/16"), document("ACL", "shop", "l", "stateless: true"),
		tierWith("shop", "web", "cidrs: [10.0.0.0/24], acl: l, dhcp: {leaseTime: 60}"), document("Attachment", "shop", "a", "tier: web, hostname: h")}
	var ids []model.ID
	for _, text := range first {
		x := marked(text)
		edited := f.edit(x)
		require.NoError(t, edited[0].Err)
		require.Equal(t, mark, edited[0].Object.Resource.Request)
		ids = append(ids, x.ID)
	}
	kept := func() {
		t.Helper()
		for _, x := range ids {
			o := f.get(x)
			require.Equal(t, mark, o.Resource.Request, x)
			unmarked := *o.Resource
			unmarked.Request = ""
			require.Equal(t, engine.Version(&unmarked), engine.Version(o.Resource))
			text, err := json.Marshal(model.Envelope(o.Resource, o.Status))
			require.NoError(t, err)
			require.NotContains(t, string(text), mark)
		}
		f.noDrift()
	}
	kept()
	for _, text := range then {
		f.apply(text)
	}
	kept()
	// An update's mark is none.
	other := *load(t, then[4]).Resources[0]
	other.Request = "another"
	f.edit(engine.Edit{ID: other.ID(), Change: func(*model.Resource) (*model.Resource, error) { return &other, nil }})
	kept()

	repair := func(args ...string) {
		t.Helper()
		f.nbctl(args...)
		d, err := f.Drift(f.ctx, "", false, engine.WaitNone)
		require.NoError(t, err)
		require.NotEmpty(t, d.Faults, args)
		d, err = f.Drift(f.ctx, "", true, engine.WaitNone)
		require.NoError(t, err)
		require.True(t, d.Repaired)
		kept()
	}
	repair("remove", "Logical_Switch_Port", "shop/a", "external_ids", `"ovn-vpc:request"`)
	repair("remove", "Logical_Switch", "shop/web", "external_ids", `"ovn-vpc:request"`)
	repair("remove", "Logical_Router", "shop", "external_ids", `"ovn-vpc:request"`)
	repair("remove", "Port_Group", "ovnvpc.shop.web.attachments", "external_ids", `"ovn-vpc:request"`)
	repair("lsp-del", "shop/a")
	repair("ls-del", "shop/web")
	repair("lr-del", "shop")

	for _, bad := range []string{strings.Repeat("x", 65), "{", "a\n", "é", " a", "a "} {
		x := *load(t, att("shop", "bad", "web")).Resources[0]
		x.Request = bad
		edited := f.edit(engine.Edit{ID: x.ID(), Change: func(*model.Resource) (*model.Resource, error) { return &x, nil }})
		require.ErrorContains(t, edited[0].Err, "can't mark a request")
	}
}

func TestVersion(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	one := f.edit(create(t, att("shop", "a", "web")))[0].Object.Resource
	require.Equal(t, engine.Version(one), engine.Version(f.get(one.ID()).Resource))
	require.Regexp(t, "^[0-9a-f]{16}$", engine.Version(one))
	other := *f.Engine.As("other")
	require.NotEqual(t, other.Manager, f.Manager)
	changed := f.edit(put(t, document("Attachment", "shop", "a", "tier: web, hostname: h")))[0].Object.Resource
	labelled := *changed
	labelled.Metadata.Labels = map[string]string{"a": "b"}
	brought := *changed
	brought.Manager, brought.Request = "else", "r"
	require.NotEqual(t, engine.Version(one), engine.Version(changed))
	require.NotEqual(t, engine.Version(changed), engine.Version(&labelled))
	require.Equal(t, engine.Version(changed), engine.Version(&brought))
}

// Faults that are none of the input by itself say so by a code.
func TestCodes(t *testing.T) {
	f := newFixture(t, false)
	offering := func(spec string) string {
		return "---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {" + spec + "}}\n"
	}
	network := func(name, spec string) string {
		return "---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: " + name + "}, spec: {" + spec + "}}\n"
	}
	f.nbctl("lr-add", "theirs")
	f.nbctl("set", "NB_Global", ".", `external_ids:"ovn-vpc:offering/other"=x`)
	f.apply(offering("capabilities: {distributedRouting: true}, limits: {tiers: 2, attachments: 1}") + network("shop", "cidrs: [10.0.0.0/16], offering: small") +
		network("free", "cidrs: [10.0.0.0/16]") + tier("free", "one", "10.0.0.0/30") + att("free", "x", "one") +
		tier("shop", "web", "10.0.0.0/24, 10.0.1.0/24") + tier("shop", "app", "10.0.2.0/24") + document("Attachment", "shop", "a", "tier: web, addresses: [10.0.0.9]"))
	for _, c := range []struct {
		code model.Code
		text string
	}{
		{model.CodeTaken, network("theirs", "cidrs: [10.0.0.0/16]")},
		{model.CodeTaken, "---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: other}, spec: {}}\n"},
		{model.CodeTaken, tier("free", "two", "10.0.0.0/24")},
		{model.CodeTaken, tierWith("shop", "web", "cidrs: [10.0.0.0/24, 10.0.1.0/24], gateways: [10.0.0.9, 10.0.1.1]")},
		{model.CodeTaken, document("Attachment", "free", "y", "tier: one, addresses: [10.0.0.1]")},
		{model.CodeTaken, document("Attachment", "free", "y", "tier: one, addresses: [10.0.0.2]")},
		{model.CodeInUse, tier("shop", "web", "10.0.1.0/24")},
		{model.CodeInUse, network("free", "cidrs: [10.9.0.0/16]")},
		{model.CodeInUse, offering("capabilities: {distributedRouting: true}, limits: {tiers: 1}")},
		{model.CodeInUse, offering("capabilities: {distributedRouting: false}")},
		{model.CodeLimit, tier("shop", "three", "10.0.3.0/24")},
		{model.CodeLimit, att("shop", "b", "web")},
		{model.CodeLimit, att("free", "y", "one")},
		{model.CodeImmutable, document("Attachment", "shop", "a", "tier: app")},
		{"", att("free", "z", "nowhere")},
		{"", tier("shop", "web", "10.9.0.0/24")},
	} {
		r, err := f.Apply(f.ctx, load(t, c.text), false, engine.WaitNone)
		require.Error(t, err, "%s: %v", c.text, r)
		var invalid *engine.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Contains(t, invalid.Diagnostics.Errors().String(), ":", c.text)
		codes := map[model.Code]bool{}
		for _, d := range invalid.Diagnostics.Errors() {
			codes[d.Code] = true
		}
		require.Contains(t, codes, c.code, "%s: %v", c.text, err)
	}
	_, found := model.Load(model.Input{Name: "spec.yaml", Data: []byte(document("ACL", "shop", "default-deny", ""))})
	require.Equal(t, model.CodeImmutable, found.Errors()[0].Code)
}
