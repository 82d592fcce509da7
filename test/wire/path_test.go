package wire_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// pings is how many echo requests a path is counted with.
const pings = 3

// crossings are what the three hypervisors' interfaces to the underlay receive
// and send of some pings and their answers.
type crossings [3][2]int

// crossing counts pings on the underlay. The first of a path, while
// neighbours are resolved, don't count.
func (w *wire) crossing(t *testing.T, from *guest, to netip.Addr, source netip.Addr) crossings {
	t.Helper()
	require.NoError(t, from.WaitPing(t.Context(), to))
	counts := make([]*lab.UnderlayCount, len(w.lab.Hypervisors))
	for i, h := range w.lab.Hypervisors {
		var err error
		counts[i], err = h.CountUnderlay(func(inner []byte) bool {
			p, err := lab.ParsePacket(inner)
			echo := err == nil && (p.ICMPType() == 8 || p.ICMPType() == 0 || p.ICMPType() == 128 || p.ICMPType() == 129)
			return echo && (p.Src == source && p.Dst == to || p.Src == to && p.Dst == source)
		})
		require.NoError(t, err)
	}
	received, err := from.Ping(t.Context(), to, pings)
	require.NoError(t, err)
	require.Equal(t, pings, received)
	var sum crossings
	for i, count := range counts {
		in, out, err := count.Stop()
		require.NoError(t, err)
		sum[i] = [2]int{in, out}
	}
	return sum
}

// requirePaths requires the crossings of both families.
func (w *wire) requirePaths(t *testing.T, name string, from, to *guest, want crossings) {
	t.Helper()
	for _, f := range []family{ipv4, ipv6} {
		require.Equal(t, want, w.crossing(t, from, to.addr(f), from.addr(f)), "%s, IPv%d: {received, sent} of hv1, hv2, hv3", name, f)
	}
}

// pathDistributed: on one hypervisor nothing is on the underlay; on two each
// packet crosses it once, straight.
func (w *wire) pathDistributed(t *testing.T) {
	w.lists(t, open(), open(), open())
	straight := crossings{{pings, pings}, {pings, pings}, {}}
	w.requirePaths(t, "across tiers, one hypervisor", w.web1, w.app1, crossings{})
	w.requirePaths(t, "across tiers, two hypervisors", w.web1, w.app2, straight)
	w.requirePaths(t, "in a tier, two hypervisors", w.web1, w.web2, straight)
	w.requirePaths(t, "in a tier, one hypervisor", w.web3, w.rogue, crossings{})
}

// pathCentralised: every packet between tiers visits the named chassis, also
// where both guests are on one hypervisor; within a tier none does.
func (w *wire) pathCentralised(t *testing.T) {
	w.lists(t, open(), open(), open())
	w.apply(t, `{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.10.0.0/16, "fd00:10::/32"], distributedRouting: false, chassis: hv3}}`)
	w.requirePaths(t, "across tiers, two hypervisors", w.web1, w.app2, crossings{{pings, pings}, {pings, pings}, {2 * pings, 2 * pings}})
	w.requirePaths(t, "across tiers, one hypervisor", w.web1, w.app1, crossings{{2 * pings, 2 * pings}, {}, {2 * pings, 2 * pings}})
	w.requirePaths(t, "in a tier, two hypervisors", w.web1, w.web2, crossings{{pings, pings}, {pings, pings}, {}})
	w.apply(t, `{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.10.0.0/16, "fd00:10::/32"]}}`)
	w.requirePaths(t, "distributed again", w.web1, w.app1, crossings{})
}
