// Package wire_test proves with packets what a spec means: who reaches whom,
// by which path, and what no list can stop. Three hypervisors, tunnels by
// VXLAN, guests of three dual-stack tiers, and a second VPC that uses the same
// addresses. Every point stands in a test of its name.
package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
)

// TestWire runs all points on one lab. Each brings its own lists first, so any
// of them runs alone too (-run TestWire/PortSecurity).
func TestWire(t *testing.T) {
	w := newWire(t)
	for _, point := range []struct {
		name string
		test func(*testing.T)
	}{
		{"PortSecurity", w.portSecurity},
		{"TierInsideIsNotJudged", w.tierInside},
		{"PrefixesOfATier", w.prefixes},
		{"AcrossTiersByRuleOfBothLists", w.acrossTiers},
		{"RejectAnswersDenyIsSilent", w.rejectAndDeny},
		{"RepliesPass", w.repliesPass},
		{"StatelessJudgesEachPacket", w.stateless},
		{"DenyStopsEstablished", w.denyStopsEstablished},
		{"RejectOnEstablished", w.rejectOnEstablished},
		{"ListReplacedUnderTraffic", w.replacedUnderTraffic},
		{"Fragments", w.fragments},
		{"AlwaysWorks", w.alwaysWorks},
		{"AlwaysWorksRouterErrors", w.routerErrors},
		{"VPCsAreIsolated", w.isolation},
		{"BroadcastStaysInItsTier", w.broadcast},
		{"HoleMulticastFrame", w.holeMulticastFrame},
		{"HoleTrackedInTier", w.holeTracked},
		{"HoleListenerReports", w.holeListenerReports},
		{"HoleFragments", w.holeFragments},
		{"PathDistributed", w.pathDistributed},
		{"PathCentralised", w.pathCentralised},
		{"Migration", w.migration},
		{"Status", w.status},
		{"Flows", w.flows},
		{"ForeignRowsStay", w.foreignRows},
	} {
		t.Run(point.name, point.test)
		require.Empty(t, w.emergencies(t), "a process of a hypervisor has ended")
	}
}
