package wire_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// without runs arrives, which reports whether a packet gets through a hole,
// three times: with the rows that close it, without them, and repaired. open
// says whether this OVN has the hole at all: where it has not, the row is a
// second lock, and nothing arrives without it either.
func (w *wire) without(t *testing.T, open bool, arrives func() bool, remove func()) {
	t.Helper()
	require.False(t, arrives(), "with the row")
	remove()
	require.Equal(t, open, arrives(), "without the row")
	w.repair(t)
	require.False(t, arrives(), "repaired")
}

// removeACL takes a row of the tier web out of its switch.
func (w *wire) removeACL(t *testing.T, direction, priority string) func() {
	return func() {
		t.Helper()
		row := w.row(t, "ACL", "tier-acl/shop/web/"+direction+"/"+priority)
		w.nbctl(t, "remove", "Logical_Switch", "shop/web", "acls", row)
	}
}

// holeMulticastFrame: the router takes a frame with a multicast MAC around a
// unicast packet, and routes it, round the rules of egress. The drop of such
// frames has to let real broadcast and multicast through.
func (w *wire) holeMulticastFrame(t *testing.T) {
	w.lists(t, list{}, open(), list{})
	broadcast, multicast4 := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, net.HardwareAddr{0x01, 0x00, 0x5e, 0, 0, 1}
	for _, c := range []struct {
		name string
		f    family
		mac  net.HardwareAddr
		open bool
	}{
		// OVN 26.03 routes no multicast frame.
		{"IPv4", ipv4, multicast4, w.version < "26"},
		{"IPv6", ipv6, net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, w.version < "26"},
	} {
		for _, to := range []*guest{w.app1, w.app2} {
			w.without(t, c.open, func() bool {
				return w.arrived(t, w.web1, to, w.udp(w.web1, to, c.f, 80).Via(w.web1.mac, c.mac)) > 0
			}, w.removeACL(t, "from-lport", "32010"))
			w.requireArrived(t, false, w.web1, to, w.udp(w.web1, to, c.f, 80).Via(w.web1.mac, broadcast), "a broadcast frame")
		}
	}
	// Without the two rows above the drop, it would take these as well.
	for priority, group := range map[string][]string{"32012": {"255.255.255.255", "10.10.1.255"}, "32011": {"224.0.0.251", "ff02::fb"}} {
		for _, dst := range group {
			w.requireArrived(t, true, w.web1, w.web2, w.groupPackets(w.web1)[dst], dst)
		}
		w.removeACL(t, "from-lport", priority)()
		for _, dst := range group {
			w.requireArrived(t, false, w.web1, w.web2, w.groupPackets(w.web1)[dst], dst)
		}
		w.repair(t)
	}
}

// holeTracked: were in-tier traffic tracked, a frame to a neighbour with
// another tier's address in it would open a way back in for that address.
func (w *wire) holeTracked(t *testing.T) {
	w.lists(t, list{}, list{egress: "allow"}, list{})
	for _, f := range []family{ipv4, ipv6} {
		// A guest for itself, with its own addresses.
		w.without(t, true, func() bool { return w.opens(t, w.web1, w.web1, w.web2, w.app1, f) },
			w.removeACL(t, "from-lport", "32009"))
		// A guest without port security, for its neighbour.
		w.without(t, true, func() bool { return w.opens(t, w.rogue, w.web2, w.web2, w.app2, f) },
			w.removeACL(t, "to-lport", "32009"))
	}
}

// opens sends a frame from sender to receiver, its neighbour, that seems to
// come from inside and go to outside, and reports whether outside then gets an
// answer to it in.
func (w *wire) opens(t *testing.T, sender, inside, receiver, outside *guest, f family) bool {
	t.Helper()
	at, far := netip.AddrPortFrom(inside.addr(f), w.port()), netip.AddrPortFrom(outside.addr(f), w.port())
	answer := func() lab.Packet { return outside.route(lab.UDP(far, at, w.token())) }
	w.requireArrived(t, false, outside, inside, answer(), "before")
	// The receiver's port security keeps it from the guest, late.
	w.arrived(t, sender, receiver, lab.UDP(at, far, w.token()).Via(sender.mac, receiver.mac))
	return w.arrived(t, outside, inside, answer()) > 0
}

// holeListenerReports: northd lets listener reports of IPv6 pass whatever the
// lists say, and the router forwards them from a link-local source to another
// tier (RFC 4291, 2.5.6 forbids it). The VPC's router policy drops them.
func (w *wire) holeListenerReports(t *testing.T) {
	w.lists(t, list{}, list{}, list{})
	for _, kind := range []uint8{130, 131, 132} {
		for _, to := range []*guest{w.app1, w.app2} {
			// Newer routers forward none.
			w.without(t, w.version < "25", func() bool {
				p := lab.ICMP(w.web1.ll, to.v6, kind, 0, append([]byte{0, 0, 0, 0}, append(make([]byte, 16), w.token()...)...))
				return w.arrived(t, w.web1, to, w.web1.route(p)) > 0
			}, func() {
				row := w.row(t, "Logical_Router_Policy", "vpc-policy/shop/link-local")
				w.nbctl(t, "remove", "Logical_Router", "shop", "policies", row)
			})
		}
	}
}

// holeFragments: a deny with ports that says nothing of fragments lets them
// pass to the next rule.
func (w *wire) holeFragments(t *testing.T) {
	for _, c := range []struct{ protocol, kind, weak string }{
		{"udp", "udp", "udp && udp.dst == 22"},
		{"tcp", "tcp", "tcp && tcp.dst == 22"},
		{"icmp", "echo", "icmp4 && icmp4.type == 13"},
	} {
		detail := "ports: [22]"
		if c.protocol == "icmp" {
			detail = "icmp: {type: 13}"
		}
		w.lists(t, open(), list{ingress: "allow", rules: []string{"{number: 10, action: deny, protocol: " + c.protocol + ", " + detail + "}"}}, list{})
		for _, to := range []*guest{w.app1, w.app2} {
			w.without(t, true, func() bool {
				return w.arrived(t, w.web1, to, w.split(w.web1, to, ipv4, c.kind, 22)...) > 0
			}, func() {
				row := w.row(t, "ACL", "acl-rule/shop/app/ingress/10")
				w.nbctl(t, "set", "ACL", row, `match="eth.src == 0e:58:00:00:00:00/ff:fe:00:00:00:00 && `+c.weak+`"`)
			})
		}
	}
}
