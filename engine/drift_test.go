package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Every way in which rows can be damaged by hand is found, named and mended.
func TestDriftIsFoundAndRepaired(t *testing.T) {
	f := newFixture(t, false)
	_, err := f.Apply(f.ctx, example(t, "three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	f.apply(vpc("six", "2001:db8::/48") + tier("six", "web", "2001:db8::/64") +
		"---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {}}\n")
	good := f.dump()
	find := func(table, column, value string) string {
		return strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", table, column+"="+value))
	}
	key := func(table, key string) string { return find(table, `external_ids:"ovn-vpc:key"`, key) }
	for name, c := range map[string]struct {
		damage   []string
		resource string
		kind     engine.DriftKind
	}{
		"rules off the switch": {[]string{"acl-del", "shop/db"}, "Tier shop/db", engine.DriftMissing},
		"attachment's port":    {[]string{"lsp-del", "shop/web-1"}, "Attachment shop/web-1", engine.DriftMissing},
		"router's switch port": {[]string{"lsp-del", "shop/web/rtr"}, "Tier shop/web", engine.DriftMissing},
		"router port":          {[]string{"lrp-del", "shop/web/gw"}, "Tier shop/web", engine.DriftMissing},
		"switch":               {[]string{"ls-del", "shop/app"}, "Attachment shop/app-1", engine.DriftMissing},
		"router":               {[]string{"lr-del", "shop"}, "VPC shop", engine.DriftMissing},
		"policy":               {[]string{"lr-policy-del", "six"}, "VPC six", engine.DriftMissing},
		"DHCP options":         {[]string{"dhcp-options-del", "@web"}, "Tier shop/web", engine.DriftMissing},
		"addresses":            {[]string{"lsp-set-addresses", "shop/web-1", "unknown"}, "Attachment shop/web-1", engine.DriftChanged},
		"port security":        {[]string{"lsp-set-port-security", "shop/web-1"}, "Attachment shop/web-1", engine.DriftChanged},
		"port disabled":        {[]string{"lsp-set-enabled", "shop/web-1", "disabled"}, "Attachment shop/web-1", engine.DriftChanged},
		"centralised by hand":  {[]string{"set", "Logical_Router", "shop", "options:chassis=h1"}, "VPC shop", engine.DriftChanged},
		"nested port":          {[]string{"set", "Logical_Switch_Port", "shop/web-1", "parent_name=shop/web-2", "tag=7"}, "Attachment shop/web-1", engine.DriftChanged},
		"router port's peer":   {[]string{"set", "Logical_Router_Port", "shop/web/gw", "peer=other"}, "Tier shop/web", engine.DriftChanged},
		"rule's label":         {[]string{"set", "ACL", "@rule", "label=7"}, "ACL shop/db", engine.DriftChanged},
		"rule's match":         {[]string{"set", "ACL", "@rule", "match=ip4"}, "ACL shop/db", engine.DriftChanged},
		"rule's priority":      {[]string{"set", "ACL", "@rule", "priority=7"}, "ACL shop/db", engine.DriftChanged},
		"spec damaged":         {[]string{"set", "Logical_Switch_Port", "shop/web-1", `external_ids:"ovn-vpc:spec"=nonsense`}, "Attachment shop/web-1", engine.DriftChanged},
		"manager edited":       {[]string{"set", "Logical_Switch", "shop/web", `external_ids:"ovn-vpc:manager"=other`}, "Tier shop/web", engine.DriftChanged},
		"spec edited":          {[]string{"set", "Logical_Switch_Port", "shop/db-1", `external_ids:"ovn-vpc:spec"="{\"metadata\":{\"name\":\"db-1\",\"vpc\":\"shop\"},\"spec\":{\"tier\":\"db\",\"addresses\":[\"10.10.3.10\"],\"mac\":\"0a:58:0a:0a:03:0a\",\"interfaceID\":\"shop/db-1\",\"portSecurity\":false,\"enabled\":true}}"`}, "Attachment shop/db-1", engine.DriftChanged},
		"spec removed":         {[]string{"remove", "Logical_Switch", "shop/web", "external_ids", `"ovn-vpc:spec"`}, "Tier shop/web", engine.DriftChanged},
		"rule taken by a list": {[]string{"add", "Port_Group", "ovnvpc.shop.web", "acls", "@rule"}, "ACL shop/web", engine.DriftLeftover},
		"port moved to a neighbour": {[]string{"remove", "Logical_Switch", "shop/web", "ports", "@port", "--", "add", "Logical_Switch", "shop/db", "ports", "@port"},
			"Tier shop/db", engine.DriftLeftover},
		"left over row": {[]string{"create", "DHCP_Options", "cidr=10.9.9.0/24", `external_ids={"ovn-vpc:owner"=default,"ovn-vpc:key"="tier-dhcp/shop/gone/10.9.9.0/24","ovn-vpc:vpc"=shop}`},
			"Tier shop/gone", engine.DriftLeftover},
		"marks off a port":   {[]string{"clear", "Logical_Switch_Port", "shop/web-1", "external_ids"}, "Attachment shop/web-1", engine.DriftChanged},
		"marks off a switch": {[]string{"clear", "Logical_Switch", "shop/web", "external_ids"}, "Tier shop/web", engine.DriftChanged},
		"owner off a router": {[]string{"remove", "Logical_Router", "shop", "external_ids", `"ovn-vpc:owner"`}, "VPC shop", engine.DriftChanged},
		"marks off a rule":   {[]string{"clear", "ACL", "@rule", "external_ids"}, "ACL shop/db", engine.DriftChanged},
		"registry":           {[]string{"pg-del", "ovnvpc.shop.web.attachments"}, "Tier shop/web", engine.DriftMissing},
	} {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t = t
			args := []string{}
			for _, a := range c.damage {
				switch a {
				case "@web":
					a = key("DHCP_Options", "tier-dhcp/shop/web/10.10.1.0/24")
				case "@rule":
					a = key("ACL", "acl-rule/shop/db/ingress/10")
				case "@port":
					a = find("Logical_Switch_Port", "name", "shop/web-1")
				}
				args = append(args, a)
			}
			f.nbctl(args...)
			d, err := f.Drift(f.ctx, "", false, engine.WaitNone)
			require.NoError(t, err)
			named := false
			for _, x := range d.Faults {
				named = named || x.Resource == c.resource && x.Kind == c.kind
			}
			require.True(t, named, "%+v", d.Faults)
			d, err = f.Drift(f.ctx, "", true, engine.WaitNone)
			require.NoError(t, err)
			require.True(t, d.Repaired)
			f.noDrift()
			require.Equal(t, good, f.dump())
		})
	}
}

// A second row for one thing, made by hand with our marks on it.
func TestDriftNamesWhatItCannotRepair(t *testing.T) {
	f := newFixture(t, false)
	_, err := f.Apply(f.ctx, example(t, "three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	f.nbctl("set", "Port_Group", "ovnvpc.shop.db", `external_ids:"ovn-vpc:spec"=nonsense`)
	rules := f.nbctl("acl-list", "shop/db")
	d, err := f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	require.False(t, d.Repaired)
	require.NotEmpty(t, d.Faults)
	require.Equal(t, rules, f.nbctl("acl-list", "shop/db"), "a list that can't be read lost its rules")
	// Applying the spec again mends it, when that is told to.
	_, err = f.Repairing().Apply(f.ctx, example(t, "three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
}

// A list that is gone with its spec does not stand in the way of the rest.
func TestDriftRepairsBesideALostList(t *testing.T) {
	f := newFixture(t, false)
	_, err := f.Apply(f.ctx, example(t, "three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	f.apply(vpc("other", "10.0.0.0/16") + tier("other", "web", "10.0.0.0/24"))
	good := f.dump()
	f.nbctl("pg-del", "ovnvpc.shop.app", "--", "lsp-set-enabled", "shop/web-1", "disabled", "--", "lsp-del", "other/web/rtr")
	d, err := f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	require.False(t, d.Repaired)
	require.Contains(t, fmt.Sprint(d.Faults), "ACL shop/app")
	d, err = f.Drift(f.ctx, "", false, engine.WaitNone)
	require.NoError(t, err)
	require.Len(t, d.Faults, 1, fmt.Sprint(d.Faults))
	require.Contains(t, d.Faults[0].Problem, "apply it again")
	_, err = f.Apply(f.ctx, example(t, "three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
	require.Equal(t, good, f.dump())
}

// Plan and apply mend what they are asked for, too.
func TestPlanSeesTheLiveRows(t *testing.T) {
	f := newFixture(t, false)
	set := example(t, "three-tier")
	_, err := f.Apply(f.ctx, set, false, engine.WaitNone)
	require.NoError(t, err)
	f.nbctl("acl-del", "shop/db", "--", "lsp-del", "shop/web-1", "--", "clear", "Logical_Switch_Port", "shop/app-1", "external_ids")
	p, err := f.Plan(f.ctx, set, false)
	require.NoError(t, err)
	require.Len(t, p.VPCs[0].Changes, 3)
	for _, c := range p.VPCs[0].Changes {
		require.Equal(t, engine.Repair, c.Action)
	}
	_, err = f.Apply(f.ctx, set, false, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
}

// Whatever we do, the rows of others stay as they are, also those that stand
// on our switches.
func TestForeignRowsStay(t *testing.T) {
	f := newFixture(t, false)
	theirs := connect(t, f.sandbox, "theirs")
	theirs.apply(vpc("other", "10.0.0.0/16") + tier("other", "web", "10.0.0.0/24") + att("other", "a", "web") +
		"---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: gold}, spec: {}}\n")
	f.nbctl("ls-add", "plain", "--", "lsp-add", "plain", "plain-port", "--", "acl-add", "plain", "to-lport", "1", "ip", "drop",
		"--", "lr-add", "plain-router", "--", "set", "NB_Global", ".", "external_ids:note=theirs")
	foreign := func() string {
		var kept []string
		for _, table := range []string{"Logical_Switch", "Logical_Switch_Port", "Logical_Router", "Logical_Router_Port", "ACL", "Port_Group", "DHCP_Options"} {
			for _, row := range strings.Split(f.nbctl("--format=list", "list", table), "\n\n") {
				if strings.Contains(row, `"ovn-vpc:owner"=theirs`) || !strings.Contains(row, "ovn-vpc:owner") {
					kept = append(kept, strings.TrimSpace(row))
				}
			}
		}
		slices.Sort(kept)
		return strings.Join(kept, "\n\n")
	}
	before := foreign()
	require.Contains(t, before, "plain-port")

	f.refused(vpc("other", "10.0.0.0/16"), `the installation "theirs"`)
	f.refused("---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: gold}, spec: {}}\n", "gold", "theirs")
	set := example(t, "three-tier")
	_, err := f.Apply(f.ctx, set, false, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, before, foreign())

	// A port, a rule and keys of others on our own rows.
	f.nbctl("lsp-add", "shop/web", "guest-of-others", "--", "acl-add", "shop/web", "to-lport", "7", "ip6", "drop",
		"--", "set", "Logical_Switch", "shop/web", "external_ids:colour=blue", "--", "set", "Logical_Switch_Port", "shop/web-1", "external_ids:colour=blue")
	before = foreign()
	d, err := f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	require.Empty(t, d.Faults)
	require.Len(t, d.Notes, 2, fmt.Sprint(d.Notes))
	f.apply(att("shop", "extra", "web"))
	_, err = f.Apply(f.ctx, set, true, engine.WaitNone)
	require.NoError(t, err)
	_, err = f.ReplaceACL(f.ctx, "shop", "web", "default-deny", engine.WaitNone)
	require.NoError(t, err)
	f.nbctl("lsp-del", "shop/web-2")
	_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, before, foreign())
	require.Contains(t, f.nbctl("get", "Logical_Switch", "shop/web", "external_ids"), "colour=blue")
	require.Contains(t, f.nbctl("get", "Logical_Switch_Port", "shop/web-1", "external_ids"), "colour=blue")

	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "web"}}, true, engine.WaitNone)
	require.ErrorContains(t, err, "guest-of-others")
	require.ErrorContains(t, err, "an ACL row")
	f.nbctl("lsp-del", "guest-of-others", "--", "acl-del", "shop/web", "to-lport", "7", "ip6")
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
	require.NoError(t, err)
	require.Contains(t, f.nbctl("list", "NB_Global"), "note=theirs")
	theirs.noDrift()
	objects, err := theirs.Get(f.ctx, engine.Filter{})
	require.NoError(t, err)
	require.Len(t, objects, 6) // offering, VPC, two built-in lists, tier, attachment
}

// A switch of ours too many that holds somebody else's port stays with it, for a
// repair and for an apply that may overwrite.
func TestLeftoverWithAGuestStays(t *testing.T) {
	f := newFixture(t, false)
	text := vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.1.0/24")
	f.apply(text)
	ids := func(column string) string {
		return strings.TrimSpace(f.nbctl("get", "Logical_Switch", "shop/web", column))
	}
	f.nbctl("ls-add", "second", "--", "set", "Logical_Switch", "second", "external_ids="+ids("external_ids"),
		"--", "lsp-add", "second", "guest")
	before := f.dump()
	d, err := f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	require.False(t, d.Repaired)
	require.Contains(t, fmt.Sprint(d.Faults), "it stays: it holds what somebody else made")
	require.Equal(t, before, f.dump())
	_, err = f.Repairing().Apply(f.ctx, load(t, text), false, engine.WaitNone)
	require.ErrorContains(t, err, `Tier shop/web: it holds the port "guest" that somebody else made`)
	require.Equal(t, before, f.dump())

	f.nbctl("lsp-del", "guest")
	d, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	require.True(t, d.Repaired, d.Faults)
	require.NotContains(t, f.dump(), "second")
}
