package model_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// A rule differs from another by each of its fields.
func TestRulesDifferByEachField(t *testing.T) {
	full := func() model.Rule {
		return model.Rule{Number: 1, Action: model.Allow, Direction: model.Ingress, Protocol: model.ProtoTCP, Ports: []model.PortRange{{First: 1, Last: 2}},
			ICMP: &model.ICMP{Type: 8, Code: 0}, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Tiers: []string{"web"},
			Log: model.SeverityInfo, Description: "d"}
	}
	require.True(t, full().Equal(full()))
	for i := range reflect.TypeFor[model.Rule]().NumField() {
		other := full()
		reflect.ValueOf(&other).Elem().Field(i).SetZero()
		require.False(t, full().Equal(other), reflect.TypeFor[model.Rule]().Field(i).Name)
		require.False(t, other.Equal(full()), reflect.TypeFor[model.Rule]().Field(i).Name)
	}
	other := full()
	other.ICMP = &model.ICMP{Type: 8, Code: 1}
	require.False(t, full().Equal(other))
}
