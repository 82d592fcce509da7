package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// split is a datagram, or with kind "tcp" or "echo" another packet, in three
// fragments, of which the first alone holds the header of its protocol.
func (w *wire) split(from, to *guest, f family, kind string, port uint16) []lab.Packet {
	var p lab.Packet
	switch kind {
	case "udp":
		p = w.udp(from, to, f, port)
	case "tcp":
		p = w.syn(from, to, f, port)
	case "echo":
		p = w.echo(from, to, f)
	}
	p.FragmentID = w.id()
	p.Payload = append(append([]byte{}, p.Payload...), make([]byte, 2*fragmentSize)...)
	return p.Fragments(fragmentSize)
}

// fragmentSize is what the userspace datapath's connection tracking takes: it
// calls smaller fragments invalid (ovs-vswitchd(8), ipf-set-min-frag).
const fragmentSize = 1280

// fragments pass only by rules without ports and ICMP types; a deny or reject
// with them stops all fragments of its protocol.
func (w *wire) fragments(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		for _, c := range []struct {
			name  string
			rules []string
			pass  map[string]bool // by kind
		}{
			{"allow without ports", []string{"{number: 10, protocol: udp}", "{number: 20, protocol: tcp}", "{number: 30, protocol: icmp}", "{number: 40, protocol: icmpv6}"},
				map[string]bool{"udp": true, "tcp": true, "echo": true}},
			{"allow with ports", []string{"{number: 10, protocol: udp, ports: [80]}", "{number: 20, protocol: tcp, ports: [80]}", "{number: 30, protocol: icmp, icmp: {type: 8}}", "{number: 40, protocol: icmpv6, icmp: {type: 128}}"}, nil},
			{"deny of another port", []string{"{number: 10, action: deny, protocol: tcp, ports: [22]}", "{number: 20}"},
				map[string]bool{"udp": true, "echo": true}},
			{"reject of another port", []string{"{number: 10, action: reject, protocol: udp, ports: [22]}", "{number: 20}"},
				map[string]bool{"tcp": true, "echo": true}},
			{"deny of another type", []string{"{number: 10, action: deny, protocol: icmp, icmp: {type: 13}}", "{number: 11, action: deny, protocol: icmpv6, icmp: {type: 1}}", "{number: 20}"},
				map[string]bool{"tcp": true, "udp": true}},
		} {
			w.lists(t, open(), list{stateless: stateless, rules: c.rules}, list{})
			for _, to := range []*guest{w.app1, w.app2} {
				for _, f := range []family{ipv4, ipv6} {
					for _, kind := range []string{"udp", "tcp", "echo"} {
						parts := w.split(w.web1, to, f, kind, 80)
						got := w.arrived(t, w.web1, to, parts...)
						if c.pass[kind] {
							require.Equal(t, len(parts), got, "stateless %t, %s: %s IPv%d to %s", stateless, c.name, kind, f, to.Spec.Name)
						} else {
							require.Zero(t, got, "stateless %t, %s: %s IPv%d to %s", stateless, c.name, kind, f, to.Spec.Name)
						}
					}
				}
			}
		}
	}
}
