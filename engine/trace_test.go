package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// traced is a VPC of a stateful tier and a stateless one, and one that drops
// what of it is odd.
const traced = `
apiVersion: ovn-vpc/v1
kind: VPC
metadata: {name: v}
spec: {cidrs: [10.0.0.0/16, "fd00::/48"]}
---
apiVersion: ovn-vpc/v1
kind: Tier
metadata: {name: a, vpc: v}
spec: {cidrs: [10.0.1.0/24, "fd00:0:0:1::/64"], acl: a}
---
apiVersion: ovn-vpc/v1
kind: Tier
metadata: {name: b, vpc: v}
spec: {cidrs: [10.0.2.0/24, "fd00:0:0:2::/64"], acl: b}
---
apiVersion: ovn-vpc/v1
kind: Tier
metadata: {name: empty, vpc: v}
spec: {cidrs: [10.0.3.0/24]}
---
apiVersion: ovn-vpc/v1
kind: ACL
metadata: {name: a, vpc: v}
spec:
  rules:
    - {number: 10, protocol: tcp, ports: [80], cidrs: [10.0.2.128/25]}
    - {number: 20, action: reject, protocol: tcp, ports: [81]}
    - {number: 30, protocol: icmp, cidrs: [198.51.100.0/24]}
---
apiVersion: ovn-vpc/v1
kind: ACL
metadata: {name: b, vpc: v}
spec:
  stateless: true
  rules:
    - {number: 1, protocol: tcp, ports: [22]}
    - {number: 2, protocol: tcp, ports: [23]}
    - {number: 3, direction: egress, protocol: tcp, ports: [40000], cidrs: [10.0.1.0/24]}
    - {number: 4, protocol: icmpv6}
  defaults: {ingress: deny, egress: deny}
---
apiVersion: ovn-vpc/v1
kind: Attachment
metadata: {name: a1, vpc: v}
spec: {tier: a, addresses: [10.0.1.10, "fd00:0:0:1::10"], allowedAddresses: [10.9.0.0/24]}
---
apiVersion: ovn-vpc/v1
kind: Attachment
metadata: {name: a2, vpc: v}
spec: {tier: a, addresses: [10.0.1.20, "fd00:0:0:1::20"], enabled: false}
---
apiVersion: ovn-vpc/v1
kind: Attachment
metadata: {name: b1, vpc: v}
spec: {tier: b, addresses: [10.0.2.10, "fd00:0:0:2::10"]}
---
apiVersion: ovn-vpc/v1
kind: Attachment
metadata: {name: b2, vpc: v}
spec: {tier: b, addresses: [10.0.2.200, "fd00:0:0:2::20"]}
`

// shown is a path in one line: ends, packet, outcome, then the hops.
func shown(p engine.TracePath) string {
	hops := func(list []engine.TraceHop) string {
		var parts []string
		for _, h := range list {
			by := h.Text
			if h.Decision != nil {
				by = h.Decision.String()
			}
			parts = append(parts, fmt.Sprintf("%s %s %s", h.Where, h.Verdict, by))
		}
		return strings.Join(parts, "; ")
	}
	text := fmt.Sprintf("%s %s: %s x%d: %s", p.From.Address, p.To.Address, p.Outcome, p.Alike, hops(p.Hops))
	if p.Reply != nil {
		text += " | " + hops(p.Reply.Hops)
	}
	return text
}

func TestTrace(t *testing.T) {
	set := load(t, traced)
	for query, want := range map[string][]string{
		"a1 b2 tcp/22": {"10.0.1.10 10.0.2.200: delivered x1: tier a allow a/egress default (spec.yaml:26); router v routed tier a to tier b; tier b allow b/rule 1 (spec.yaml:37)" +
			" | tier b allow b/rule 3 (spec.yaml:39); tier a allow a reply of its connection",
			"fd00:0:0:1::10 fd00:0:0:2::20: delivered x1: tier a allow a/egress default (spec.yaml:26); router v routed tier a to tier b; tier b allow b/rule 1 (spec.yaml:37)" +
				" | tier b deny b/egress default (spec.yaml:41)"},
		"a1 10.0.2.10 udp/53":    {"10.0.1.10 10.0.2.10: dropped x1: tier a allow a/egress default (spec.yaml:26); router v routed tier a to tier b; tier b deny b/ingress default (spec.yaml:41)"},
		"tier/b a1 ipv4 tcp 80":  {"10.0.2.10 10.0.1.10: dropped x2: tier b deny b/egress default (spec.yaml:41)"},
		"outside a1 ipv4 tcp 81": {"192.0.2.1 10.0.1.10: rejected x2: router v routed outside to tier a; tier a reject a/rule 20 (spec.yaml:28)"},
		"outside a1 icmp": {
			"192.0.2.1 10.0.1.10: dropped x1: router v routed outside to tier a; tier a deny a/ingress default (spec.yaml:26)",
			"198.51.100.1 10.0.1.10: delivered x1: router v routed outside to tier a; tier a allow a/rule 30 (spec.yaml:29) | tier a allow a reply of its connection"},
		"a1 203.0.113.9 udp/53": {"10.0.1.10 203.0.113.9: no route x1: tier a allow a/egress default (spec.yaml:26); router v no route to 203.0.113.9 | tier a allow a reply of its connection"},
		"a1 a2 ipv4 udp 1":      {"10.0.1.10 10.0.1.20: dropped x1: tier a dropped in the tier: no list applies"},
		"a2 b1 ipv4 udp 1":      {"10.0.1.20 10.0.2.10: dropped x1: tier a dropped the port is disabled"},
		"a1 10.0.1.1":           {"10.0.1.10 10.0.1.1: answered x1: tier a allow a row that every tier has; router v answered by the router itself"},
		"a1 10.0.3.7":           {"10.0.1.10 10.0.3.7: no host x1: tier a allow a/egress default (spec.yaml:26); router v no host nobody has 10.0.3.7"},
		"10.9.0.1 b1 ipv4 tcp 23": {"10.9.0.1 10.0.2.10: delivered x1: tier a allow a/egress default (spec.yaml:26); router v routed tier a to tier b; tier b allow b/rule 2 (spec.yaml:38)" +
			" | tier b deny b/egress default (spec.yaml:41)"},
		"a1 tier/b icmpv6 128/0": {"fd00:0:0:1::10 fd00:0:0:2::10: delivered x2: tier a allow a/egress default (spec.yaml:26); router v routed tier a to tier b; tier b allow b/rule 4 (spec.yaml:40)" +
			" | tier b deny b/egress default (spec.yaml:41)"},
		"tier/b tier/b tcp/22":     {"10.0.2.10 10.0.2.200: delivered x4: tier b delivered in the tier: no list applies"},
		"b1 tier/b ipv6 tcp 22":    {"fd00:0:0:2::10 fd00:0:0:2::20: delivered x1: tier b delivered in the tier: no list applies"},
		"a1 b1 ipv6 tcp fragments": {"fd00:0:0:1::10 fd00:0:0:2::10: dropped x1: tier a allow a/egress default (spec.yaml:26); router v routed tier a to tier b; tier b deny b/ingress default (spec.yaml:41)"},
	} {
		t.Run(strings.ReplaceAll(query, "/", "_"), func(t *testing.T) {
			words := append(strings.SplitN(query, " ", 3), "")
			r, err := engine.New(engine.Nowhere{}, "default", "cli").Trace(t.Context(), engine.TraceQuery{From: words[0], To: words[1], Traffic: words[2], Set: set})
			require.NoError(t, err)
			var got []string
			reachable := true
			for _, p := range r.Paths {
				got = append(got, shown(p))
				reachable = reachable && p.Passes
			}
			require.Equal(t, want, got)
			require.Equal(t, reachable, r.Reachable)
		})
	}
}

func TestTraceRefuses(t *testing.T) {
	set := load(t, traced+"---\napiVersion: ovn-vpc/v1\nkind: Attachment\nmetadata: {name: a, vpc: v}\nspec: {tier: a}\n")
	e := engine.New(engine.Nowhere{}, "default", "cli")
	for query, want := range map[string]string{
		"a b tcp/22":              `"a" is a tier and an attachment`,
		"nic/a1 b tcp/22":         `"nic/a1" is no end`,
		"v/a1 b tcp/22":           "the VPC is named with --vpc",
		" b tcp/22":               "an end is missing",
		"a1 b tcp":                `"tcp" means more than 16 different packets`,
		"a1 b nonsense":           "starts with none of",
		"tier/a empty tcp/22":     "tier empty has no attachment",
		"10.0.3.7 b tcp/22":       "nobody in tier empty has the address 10.0.3.7",
		"a1 10.0.2.10 icmpv6":     "no packet of icmpv6 echo can go from a1 to 10.0.2.10",
		"a1 a1 tcp/22":            "no packet of tcp 22 can go",
		"b1 b1 tcp/22":            "name two ends that differ",
		"outside 192.0.2.7 udp/1": "both ends are outside the VPC",
		"a1 224.0.0.1 udp/1":      "224.0.0.1 is an address that no router forwards",
		"127.0.0.1 b1 udp/1":      "127.0.0.1 is an address that no router forwards",
		"fe80::1 b1 udp/1":        "fe80::1 is an address that no router forwards",
	} {
		words := strings.SplitN(query, " ", 3)
		_, err := e.Trace(t.Context(), engine.TraceQuery{From: words[0], To: words[1], Traffic: words[2], Set: set})
		var invalid *engine.InvalidError
		require.ErrorAs(t, err, &invalid, query)
		require.ErrorContains(t, err, want, query)
	}
	var missing *engine.NotFoundError
	for end, want := range map[string]model.ID{
		"x":                {Kind: model.KindAttachment, VPC: "v", Name: "x"},
		"attachment/empty": {Kind: model.KindAttachment, VPC: "v", Name: "empty"},
		"tier/a1":          {Kind: model.KindTier, VPC: "v", Name: "a1"},
	} {
		_, err := e.Trace(t.Context(), engine.TraceQuery{From: "b1", To: end, Traffic: "tcp/22", Set: set})
		require.ErrorAs(t, err, &missing, end)
		require.Equal(t, want, missing.ID)
	}
	_, err := e.Trace(t.Context(), engine.TraceQuery{VPC: "other", From: "a1", To: "b", Set: set})
	require.ErrorContains(t, err, "the input holds nothing of VPC other")
	_, err = e.Trace(t.Context(), engine.TraceQuery{VPC: "other", From: "a1", To: "b"})
	require.ErrorAs(t, err, &missing)
	_, err = e.Trace(t.Context(), engine.TraceQuery{From: "a1", To: "b"})
	require.ErrorContains(t, err, "there is no VPC to trace in")
}

// ovn-trace's word on neighbour advertisements isn't one on the lists.
func TestOVNIsNotAskedAboutAdvertisements(t *testing.T) {
	r, err := engine.New(engine.Nowhere{}, "default", "cli").Trace(t.Context(), engine.TraceQuery{From: "a1", To: "b1", Traffic: "icmpv6 135-136", Set: load(t, traced)})
	require.NoError(t, err)
	require.Len(t, r.Paths, 2)
	require.NoError(t, r.AskOVN(func(flow string) (string, error) {
		require.NotContains(t, flow, "136")
		return "", nil
	}))
	require.NotNil(t, r.Paths[0].OVN)
	require.Nil(t, r.Paths[1].OVN)
	require.Contains(t, r.Notes[0], "136")
}

// What is traced of the database are its rows, also those of somebody else; of
// a plan, those that would be.
func TestTraceStored(t *testing.T) {
	f := newFixture(t, false)
	f.apply(traced)
	trace := func(set *model.Set) *engine.TraceReport {
		r, err := f.Trace(f.ctx, engine.TraceQuery{VPC: "v", From: "a1", To: "10.0.2.200", Traffic: "tcp/23", Set: set})
		require.NoError(t, err)
		require.Len(t, r.Paths, 1)
		return r
	}
	stored := trace(nil)
	require.True(t, stored.Reachable)
	require.Empty(t, stored.Paths[0].Hops[2].Decision.File)
	require.Equal(t, nbdb.UUID("b"), nbdb.UUID(stored.Paths[0].Hops[2].Decision.List))
	_, err := f.sandbox.NBCtl(f.ctx, "--", "acl-add", "v/b", "to-lport", "32000", "tcp.dst == 23", "drop")
	require.NoError(t, err)
	foreign := trace(nil)
	require.False(t, foreign.Reachable)
	require.Equal(t, "a row that somebody else made", foreign.Paths[0].Hops[2].Text)
	planned := trace(load(t, strings.Split(traced, "---\n")[4]))
	require.True(t, planned.Planned)
}
