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
)

// flows counts the OpenFlow flows of a hypervisor that has all guests of a
// VPC of 10 tiers, 20 attachments each and a list of 50 rules. Matches without
// a port cost no flows per attachment: the same rules in port groups came to
// 70,000 and more, and the same VPC without lists to 10,500.
func (w *wire) flows(t *testing.T) {
	h := w.lab.Hypervisors[2]
	count := func() int {
		n, err := h.Flows(t.Context())
		require.NoError(t, err)
		return n
	}
	before := count()
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
	allowed := count() - before
	w.apply(t, guarded.String())
	all := count() - before
	t.Logf("flows for %d x %d x %d: %d with default-allow, %d with the list", manyTiers, manyAttachments, manyRules, allowed, all)
	require.Less(t, all-allowed, 11872)
	require.Less(t, all, 24502)
}
