package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The size of the VPC whose OpenFlow flows are counted.
const (
	manyTiers       = 10
	manyAttachments = 20
	manyRules       = 50
	// Each rule has so many ports and prefixes.
	manyPorts    = 2
	manyPrefixes = 3
)

// flows counts the OpenFlow flows of a hypervisor that has all guests of a
// VPC of 10 tiers, 20 attachments each and a list of 50 rules. A match without
// a port costs the product of the rule's ports and prefixes, once for new and
// once for established connections, on each switch, and nothing for each
// attachment. In port groups such rules came to 24,502 flows at the least.
// A hypervisor without a guest of the VPC has none of it (26.03: four).
func (w *wire) flows(t *testing.T) {
	h := w.lab.Hypervisors[2]
	before := w.flowCounts(t)
	var open, guarded strings.Builder
	open.WriteString("{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: many}, spec: {cidrs: [10.20.0.0/16]}}\n---\n")
	var plug []string
	for tier := range manyTiers {
		const doc = "{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: t%d, vpc: many}, spec: {cidrs: [10.20.%d.0/24], acl: %s}}\n---\n"
		fmt.Fprintf(&open, doc, tier, tier, "default-allow")
		fmt.Fprintf(&guarded, doc, tier, tier, "rules")
		for i := range manyAttachments {
			fmt.Fprintf(&open, "{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: a%d-%d, vpc: many}, spec: {tier: t%d}}\n---\n", tier, i, tier)
			port := fmt.Sprintf("m%d_%d", tier, i)
			plug = append(plug, "--", "add-port", "br-int", port, "--", "set", "Interface", port, "type=internal", fmt.Sprintf(`external_ids:iface-id="many/a%d-%d"`, tier, i))
		}
	}
	var rules []string
	for i := range manyRules {
		direction, protocol := []string{"ingress", "egress"}[i%2], []string{"tcp", "udp"}[i/2%2]
		rules = append(rules, fmt.Sprintf("{number: %d, direction: %s, protocol: %s, ports: [%d, %d], cidrs: [10.20.%d.0/24, 192.0.2.%d/32, 198.51.100.%d/32]}",
			i+1, direction, protocol, 1000+i, 2000+i, i%manyTiers, i, i))
	}
	fmt.Fprintf(&guarded, "{apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: rules, vpc: many}, spec: {rules: [%s]}}", strings.Join(rules, ", "))
	w.apply(t, open.String())
	_, err := h.Vsctl(t.Context(), plug...)
	require.NoError(t, err)
	_, err = w.lab.Sandbox().NBCtl(t.Context(), "--timeout=60", "wait-until", "Logical_Switch_Port", "many/a9-19", "up=true")
	require.NoError(t, err)
	require.NoError(t, w.lab.WaitHV(t.Context()))
	allowed := w.flowCounts(t)
	w.apply(t, guarded.String())
	guardedBy := w.flowCounts(t)
	t.Logf("flows for %d x %d x %d: %d with default-allow, %d with the list", manyTiers, manyAttachments, manyRules,
		allowed[2]-before[2], guardedBy[2]-before[2])
	rest := 20 * manyTiers // how far the rows of two lists' defaults may differ
	require.LessOrEqual(t, guardedBy[2]-allowed[2], 2*manyTiers*manyRules*manyPorts*manyPrefixes+rest)
	require.Less(t, guardedBy[2]-before[2], 24502)
	require.InDeltaSlice(t, before[:2], guardedBy[:2], manyTiers, "hypervisors without a guest of the VPC")
}

// flowCounts are the numbers of OpenFlow flows of the hypervisors.
func (w *wire) flowCounts(t *testing.T) []int {
	t.Helper()
	var counts []int
	for _, h := range w.lab.Hypervisors {
		n, err := h.Flows(t.Context())
		require.NoError(t, err)
		counts = append(counts, n)
	}
	return counts
}
