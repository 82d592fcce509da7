package wire_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// fragmentSize is what the userspace datapath's connection tracking takes: it
// calls smaller fragments invalid (ovs-appctl dpctl/ipf-set-min-frag).
const fragmentSize = 1280

// split is a packet in three fragments, of which the first alone holds the
// header of its protocol. kind is "udp", "tcp" or "echo".
func (w *wire) split(from, to *guest, f family, kind string, port uint16) []lab.Packet {
	data := append(w.token(), make([]byte, 2*fragmentSize)...)
	src, dst := netip.AddrPortFrom(from.addr(f), w.port()), netip.AddrPortFrom(to.addr(f), port)
	var p lab.Packet
	switch kind {
	case "udp":
		p = lab.UDP(src, dst, data)
	case "tcp":
		src = netip.AddrPortFrom(src.Addr(), w.tcpPort())
		p = lab.TCP(src, dst, lab.FlagSYN, w.id(), 0, data)
	case "echo":
		p = w.ping(from.addr(f), to.addr(f), data...)
	}
	p.FragmentID = w.id()
	return from.to(to, p).Fragments(fragmentSize)
}

// fragments pass only by rules without ports and ICMP types; a deny or reject
// with them stops all fragments of its protocol. The later fragments of IPv6
// have no protocol either for Open vSwitch (nw_proto is 44): they pass only by
// rules for all protocols, and a deny with ports stops the first one, without
// which the rest is nothing.
func (w *wire) fragments(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		for _, c := range []struct {
			name  string
			rules []string
			pass4 string // kinds whose fragments all arrive
			pass6 string
		}{
			{"allow without ports", []string{"{number: 10, protocol: udp}", "{number: 20, protocol: tcp}", "{number: 30, protocol: icmp}", "{number: 40, protocol: icmpv6}"}, "udp tcp echo", ""},
			{"allow with ports", []string{"{number: 10, protocol: udp, ports: [80]}", "{number: 20, protocol: tcp, ports: [80]}",
				"{number: 30, protocol: icmp, icmp: {type: 8}}", "{number: 40, protocol: icmpv6, icmp: {type: 128}}"}, "", ""},
			{"deny of another port", []string{"{number: 10, action: deny, protocol: tcp, ports: [22]}", "{number: 20}"}, "udp echo", "udp echo"},
			{"reject of another port", []string{"{number: 10, action: reject, protocol: udp, ports: [22]}", "{number: 20}"}, "tcp echo", "tcp echo"},
			{"deny of another type", []string{"{number: 10, action: deny, protocol: icmp, icmp: {type: 13}}",
				"{number: 11, action: deny, protocol: icmpv6, icmp: {type: 1}}", "{number: 20}"}, "udp tcp", "udp tcp"},
		} {
			web := open()
			web.stateless = stateless
			w.lists(t, web, list{stateless: stateless, rules: c.rules}, list{})
			for _, to := range []*guest{w.app1, w.app2} {
				for _, kind := range []string{"udp", "tcp", "echo"} {
					for f, pass := range map[family]string{ipv4: c.pass4, ipv6: c.pass6} {
						parts := w.split(w.web1, to, f, kind, 80)
						complete := w.arrived(t, w.web1, to, parts...) == len(parts)
						require.Equal(t, strings.Contains(pass, kind), complete, "stateless %t, %s: %s IPv%d to %s", stateless, c.name, kind, f, to.Spec.Name)
					}
				}
			}
		}
	}
}
