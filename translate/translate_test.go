package translate_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// A caller that has not checked references, or not allocated, gets an error
// and no rows.
func TestFragmentRefuses(t *testing.T) {
	tier := model.NewSpec(model.KindTier).(*model.TierSpec)
	tier.ACL = "nope"
	there := &model.Resource{Kind: model.KindTier, Metadata: model.Metadata{Name: "web", VPC: "shop"}, Spec: tier}
	network := &model.Resource{Kind: model.KindVPC, Metadata: model.Metadata{Name: "shop"}, Spec: model.NewSpec(model.KindVPC)}
	address := []netip.Addr{netip.MustParseAddr("10.0.1.5")}
	for _, c := range []struct {
		spec    model.Spec
		problem string
	}{
		{&model.AttachmentSpec{Tier: "nope", MAC: "0a:58:0a:00:01:05", Addresses: address}, `its tier "nope" is unknown`},
		{&model.AttachmentSpec{Tier: "web", MAC: "0a:58:0a:00:01:05"}, "it has no address or no MAC yet"},
		{&model.AttachmentSpec{Tier: "web", Addresses: address}, "it has no address or no MAC yet"},
		{tier, `its VPC or its list "nope" is unknown`},
		{nil, "no translation for kind Tier"},
	} {
		r := &model.Resource{Kind: model.KindTier, Metadata: model.Metadata{Name: "x", VPC: "shop"}, Spec: c.spec}
		f, err := translate.Fragment(r, contextOf([]*model.Resource{there, network}))
		require.ErrorContains(t, err, "translating Tier shop/x: "+c.problem)
		require.Empty(t, f)
	}
}

// The largest list that the model permits keeps its order between the bands of
// the system and of the defaults.
func TestLargestList(t *testing.T) {
	spec := model.NewSpec(model.KindACL).(*model.ACLSpec)
	for n := range 2 * model.MaxRules {
		direction := model.Ingress
		if n%2 == 1 {
			direction = model.Egress
		}
		spec.Rules = append(spec.Rules, model.Rule{Number: n + 1, Action: model.Allow, Direction: direction, Protocol: model.ProtoAll})
	}
	r := &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{Name: "large", VPC: "shop"}, Spec: spec}
	require.Empty(t, r.Check())
	last := map[string]int{"from-lport": 30001, "to-lport": 30001}
	for _, row := range fragment(t, r, contextOf(nil)).Rows {
		if acl, ok := row.(*nbdb.ACL); ok {
			require.Less(t, acl.Priority, last[acl.Direction])
			require.GreaterOrEqual(t, acl.Priority, 100)
			last[acl.Direction] = acl.Priority
		}
	}
	require.Equal(t, map[string]int{"from-lport": 100, "to-lport": 100}, last)
}

func TestListRowOf(t *testing.T) {
	for key, want := range map[string]translate.ListRow{
		"acl-rule/shop/db/ingress/20":          {VPC: "shop", ACL: "db", Direction: model.Ingress, Number: 20},
		"acl-rule/shop/db/egress/7/ipv6":       {VPC: "shop", ACL: "db", Direction: model.Egress, Number: 7},
		"acl-default/shop/default-deny/egress": {VPC: "shop", ACL: "default-deny", Direction: model.Egress},
	} {
		row, ok := translate.ListRowOf(key)
		require.True(t, ok, key)
		require.Equal(t, want, row)
	}
	for _, key := range []string{"", "acl/shop/db", "acl-rule/shop/db/ingress", "acl-rule/shop/db/ingress/x", "acl-rule/shop/db/ingress/0", "tier-acl/shop/web/from-lport/32012"} {
		_, ok := translate.ListRowOf(key)
		require.False(t, ok, key)
	}
}
