package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// referring are two tiers, of which the list of one names the other.
const referring = `
{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/16]}}
---
{apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: l, vpc: shop}, spec: {rules: [{number: 10, protocol: tcp, tiers: [web]}, {number: 20, protocol: udp}]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: web, vpc: shop}, spec: {cidrs: [10.0.1.0/24]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: db, vpc: shop}, spec: {cidrs: [10.0.2.0/24], acl: l}}
---
{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: w, vpc: shop}, spec: {tier: web}}
`

// A tier that is deleted by its second copy is taken out of the rules of a list, and
// these out of the switches of the tiers that use the list.
func TestDeleteLostTierThatAListNames(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring)
	f.nbctl("set", "Logical_Switch", "shop/web", `external_ids:"ovn-vpc:spec"=nonsense`)
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "web"}}, true, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
}

// What keeps a row that goes is told of by name, whoever's it is, instead of trying
// again; and drift sees a port that stands in two of our switches.
func TestHeldRows(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring)
	rule := strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", "ACL", `external_ids:"ovn-vpc:key"=acl-rule/shop/l/ingress/20`))
	port := strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", "Logical_Switch_Port", "name=shop/w"))
	f.nbctl("--", "create", "Logical_Switch", "name=theirs", "acls="+rule, "ports="+port)
	f.nbctl("add", "Logical_Switch", "shop/db", "ports", port)
	theirs := strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", "Logical_Switch", "name=theirs"))
	tiers := []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "db"}, {Kind: model.KindACL, VPC: "shop", Name: "l"}}
	attachment := []model.ID{{Kind: model.KindAttachment, VPC: "shop", Name: "w"}}
	before := f.dump()

	_, err := f.Delete(f.ctx, tiers, true, engine.WaitNone)
	var invalid *engine.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "ACL shop/l: Logical_Switch \"theirs\" (row "+theirs+") refers to acl-rule/shop/l/ingress/20, which is to be deleted")
	_, err = f.Delete(f.ctx, attachment, false, engine.WaitNone)
	require.ErrorContains(t, err, " refers to address/shop/")
	require.Equal(t, before, f.dump())

	f.nbctl("ls-del", "theirs")
	_, err = f.Delete(f.ctx, attachment, false, engine.WaitNone)
	var damaged *engine.DamagedError
	require.ErrorAs(t, err, &damaged)
	require.ErrorContains(t, err, "Logical_Switch tier/shop/db refers to address/shop/")
	d, err := f.Drift(f.ctx, "shop", true, engine.WaitNone)
	require.NoError(t, err)
	require.Len(t, d.Faults, 1)
	require.True(t, d.Repaired)
	_, err = f.Delete(f.ctx, append(tiers, attachment...), true, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
}

// Who has the name of a row that is brought back beside what changes is told at once.
func TestRepairWithTakenName(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring)
	f.nbctl("lrp-del", "shop/web/gw", "--", "lr-add", "theirs", "--", "lrp-add", "theirs", "shop/web/gw", "02:00:00:00:00:01", "192.0.2.1/24")
	_, err := f.ReplaceACL(f.ctx, "shop", "web", "l", engine.WaitNone)
	require.ErrorContains(t, err, "Logical_Router_Port")
	require.NotContains(t, err.Error(), "constraint violation")
}

// A plan that is kept finds rows that have lost their marks, as an apply does with its
// second plan: it is not stale from the beginning.
func TestKeptPlanFindsUnmarkedRows(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring)
	f.nbctl("remove", "Logical_Router_Port", "shop/web/gw", "external_ids", `"ovn-vpc:owner"`)
	changed := load(t, strings.NewReplacer("protocol: udp", "protocol: sctp", "cidrs: [10.0.1.0/24]", "cidrs: [10.0.1.0/24], reserved: [10.0.1.77]").Replace(referring))
	p, err := f.Plan(f.ctx, changed, false)
	require.NoError(t, err)
	_, err = f.ApplyPlan(f.ctx, p, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
}

// With a list that is replaced its rows without marks go from the switch too: they
// would stay in force.
func TestReplacedListLeavesNoUnmarkedRules(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring)
	for _, key := range []string{"acl-rule/shop/l/ingress/20", "acl-default/shop/l/egress"} {
		row := strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", "ACL", `external_ids:"ovn-vpc:key"=`+key))
		f.nbctl("remove", "ACL", row, "external_ids", `"ovn-vpc:owner"`)
	}
	_, err := f.ReplaceACL(f.ctx, "shop", "db", "default-deny", engine.WaitNone)
	require.NoError(t, err)
	for _, row := range strings.Fields(f.nbctl("--bare", "--columns=acls", "find", "Logical_Switch", "name=shop/db")) {
		require.NotContains(t, f.nbctl("get", "ACL", row, "external_ids"), "shop/l/")
	}
	_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
}

// A row that has lost its marks and is in the way of a change is named.
func TestUnmarkedRowsInTheWay(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring + expectation("shop", "e", "from: outside, to: web, expect: deny"))
	for _, c := range []struct {
		table, row string
		change     func() error
	}{
		{"Port_Group", "ovnvpc.shop.default_deny", func() error {
			_, err := f.Apply(f.ctx, load(t, expectation("shop", "e2", "from: outside, to: web, expect: deny")), false, engine.WaitNone)
			return err
		}},
		{"Logical_Router", "shop", func() error {
			_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindExpectation, VPC: "shop", Name: "e"}}, false, engine.WaitNone)
			return err
		}},
	} {
		f.nbctl("remove", c.table, c.row, "external_ids", `"ovn-vpc:owner"`)
		err := c.change()
		var damaged *engine.DamagedError
		require.ErrorAs(t, err, &damaged)
		require.ErrorContains(t, err, "has lost marks of ours")
		_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
		require.NoError(t, err)
		f.noDrift()
		require.NoError(t, c.change())
	}
}

// So is one that is gone.
func TestGoneRowsInTheWay(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring)
	f.nbctl("destroy", "Port_Group", "ovnvpc.shop.default_deny")
	_, err := f.Apply(f.ctx, load(t, expectation("shop", "e", "from: outside, to: web, expect: deny")), false, engine.WaitNone)
	var damaged *engine.DamagedError
	require.ErrorAs(t, err, &damaged)
	require.ErrorContains(t, err, "a row of Port_Group is gone")
}
