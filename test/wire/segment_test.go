package wire_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
)

// portSecurity: a guest sends only from its own MAC and addresses, in ARP and
// neighbour discovery too. The same frames of a guest without port security
// arrive.
func (w *wire) portSecurity(t *testing.T) {
	w.lists(t, open(), list{}, list{})
	stranger4, stranger6 := netip.MustParseAddr("10.10.1.99"), netip.MustParseAddr("fd00:10:1::99")
	strangerMAC := net.HardwareAddr{0x0a, 0x58, 10, 10, 1, 99}
	to := w.web2
	datagram := func(g *guest, mac net.HardwareAddr, src, dst netip.Addr) []byte {
		p := lab.UDP(netip.AddrPortFrom(src, w.port()), netip.AddrPortFrom(dst, 81), w.token())
		return p.Via(mac, to.mac).Frame()
	}
	for _, c := range []struct {
		name  string
		own   bool
		frame func(g *guest) []byte
	}{
		{"own IPv4", true, func(g *guest) []byte { return datagram(g, g.mac, g.v4, to.v4) }},
		{"own IPv6", true, func(g *guest) []byte { return datagram(g, g.mac, g.v6, to.v6) }},
		{"own link-local", true, func(g *guest) []byte { return datagram(g, g.mac, g.ll, to.ll) }},
		{"own ARP", true, func(g *guest) []byte { return arp(2, g.mac, to.mac, g.mac, g.v4, to.mac, to.v4) }},
		{"own advertisement", true, func(g *guest) []byte { return advertisement(g.v6, to.v6, g.v6, g.mac).Via(g.mac, to.mac).Frame() }},
		{"own advertisement, link-local", true, func(g *guest) []byte { return advertisement(g.ll, to.ll, g.ll, g.mac).Via(g.mac, to.mac).Frame() }},
		{"foreign IPv4", false, func(g *guest) []byte { return datagram(g, g.mac, stranger4, to.v4) }},
		{"foreign IPv6", false, func(g *guest) []byte { return datagram(g, g.mac, stranger6, to.v6) }},
		{"foreign MAC", false, func(g *guest) []byte { return datagram(g, strangerMAC, g.v4, to.v4) }},
		{"foreign address in ARP", false, func(g *guest) []byte { return arp(2, g.mac, to.mac, g.mac, stranger4, to.mac, to.v4) }},
		{"gateway's address in ARP", false, func(g *guest) []byte { return arp(2, g.mac, to.mac, g.mac, g.gw4, to.mac, to.v4) }},
		{"foreign MAC in ARP", false, func(g *guest) []byte { return arp(2, g.mac, to.mac, strangerMAC, g.v4, to.mac, to.v4) }},
		{"foreign address in an advertisement", false, func(g *guest) []byte { return advertisement(g.v6, to.v6, stranger6, g.mac).Via(g.mac, to.mac).Frame() }},
	} {
		for _, from := range []*guest{w.web1, w.rogue} {
			frame := c.frame(from)
			got := w.seen(t, from, to, to, equal(frame), frame)
			require.Equal(t, c.own || from == w.rogue, got > 0, "%s of %s", c.name, from.Spec.Name)
		}
	}
	// A source that looks like a neighbour of the destination's is no way round
	// that tier's list: what comes from the router is judged.
	forged := lab.UDP(netip.AddrPortFrom(w.app2.v4, 99), netip.AddrPortFrom(w.app1.v4, 81), w.token())
	w.requireArrived(t, false, w.rogue, w.app1, w.rogue.route(forged), "forged neighbour, closed list")
	w.lists(t, open(), open(), list{})
	w.requireArrived(t, true, w.rogue, w.app1, w.rogue.route(forged), "forged neighbour, open list")
}

// equal selects received frames that begin with the same bytes.
func equal(frame []byte) func(lab.Frame) bool {
	return func(f lab.Frame) bool { return !f.Outgoing && bytes.HasPrefix(f.Data, frame) }
}

// arp is an ARP packet (RFC 826): operation 1 asks, 2 answers.
func arp(op uint16, src, dst, sha net.HardwareAddr, spa netip.Addr, tha net.HardwareAddr, tpa netip.Addr) []byte {
	b := append(append([]byte{}, dst...), src...)
	b = append(b, 0x08, 0x06, 0, 1, 8, 0, 6, 4)
	b = binary.BigEndian.AppendUint16(b, op)
	b = append(append(b, sha...), spa.AsSlice()...)
	return append(append(b, tha...), tpa.AsSlice()...)
}

// advertisement is a neighbour advertisement with the target's link-layer
// address (RFC 4861, 4.4), solicited and override.
func advertisement(src, dst, target netip.Addr, mac net.HardwareAddr) lab.Packet {
	body := append([]byte{0x60, 0, 0, 0}, target.AsSlice()...)
	p := lab.ICMP(src, dst, 136, 0, append(append(body, 2, 1), mac...))
	p.TTL = 255
	return p
}

// group puts a packet into a frame to its group, or to everybody (RFC 1112,
// 6.4; RFC 2464, 7).
func (g *guest) group(p lab.Packet) lab.Packet {
	a := p.Dst.As16()
	switch {
	case p.Dst.Is4() && p.Dst.IsMulticast():
		return p.Via(g.mac, net.HardwareAddr{0x01, 0x00, 0x5e, a[13] & 0x7f, a[14], a[15]})
	case p.Dst.Is4():
		return p.Via(g.mac, net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	}
	return p.Via(g.mac, net.HardwareAddr{0x33, 0x33, a[12], a[13], a[14], a[15]})
}

// groupPackets are packets to everybody in g's tier: broadcast, and multicast
// of both families and several scopes.
func (w *wire) groupPackets(g *guest) map[string]lab.Packet {
	packets := map[string]lab.Packet{}
	for _, dst := range []string{"255.255.255.255", "10.10.1.255", "224.0.0.251", "239.1.2.3", "ff02::fb", "ff15::42"} {
		to := netip.MustParseAddr(dst)
		src := g.v4
		if to.Is6() {
			src = g.v6
		}
		packets[dst] = g.group(lab.UDP(netip.AddrPortFrom(src, w.port()), netip.AddrPortFrom(to, 5353), w.token()))
	}
	return packets
}

// tierInside: what stays in a tier no list judges, not even the one that
// denies everything.
func (w *wire) tierInside(t *testing.T) {
	w.replace(t, "web", "default-deny")
	defer w.replace(t, "web", "web")
	for _, other := range []*guest{w.web2, w.rogue} {
		for _, f := range []family{ipv4, ipv6} {
			require.Equal(t, lab.Answered, w.probe(t, w.web1, "tcp", other.addr(f), servedPort))
			require.Equal(t, lab.Answered, w.probe(t, w.web1, "udp", other.addr(f), servedPort))
			require.NoError(t, w.web1.WaitPing(t.Context(), other.addr(f)))
			large := w.echo(w.web1, other, f)
			large.FragmentID = w.id()
			require.Equal(t, 2, w.arrived(t, w.web1, other, large.Fragments(16)...), "fragments")
		}
		w.requireArrived(t, true, w.web1, other, w.web1.to(other, w.ping(w.web1.ll, other.ll)), "link-local")
		for name, p := range w.groupPackets(w.web1) {
			w.requireArrived(t, true, w.web1, other, p, name)
		}
	}
}

// replace is the engine's exchange of a tier's list.
func (w *wire) replace(t *testing.T, tier, acl string) {
	t.Helper()
	_, err := w.engine.ReplaceACL(t.Context(), "shop", tier, acl, engine.WaitHV)
	require.NoError(t, err)
	w.revalidate(t)
}

// prefixes: those of one tier reach each other on the link. What is sent
// through the router all the same is judged, both ends by the one list.
func (w *wire) prefixes(t *testing.T) {
	w.lists(t, list{}, list{}, list{})
	require.Equal(t, lab.Answered, w.probe(t, w.web1, "tcp", w.web3.v4, servedPort))
	require.Equal(t, lab.Answered, w.probe(t, w.web3, "udp", w.web1.v4, servedPort))
	const out, in = "{number: 10, direction: egress, protocol: tcp, ports: [80]}", "{number: 11, protocol: tcp, ports: [80], cidrs: [10.10.1.0/24]}"
	for _, c := range []struct {
		name  string
		rules []string
		want  bool
	}{{"no rule", nil, false}, {"egress alone", []string{out}, false}, {"ingress alone", []string{in}, false}, {"both", []string{out, in}, true}} {
		w.lists(t, list{rules: c.rules}, list{}, list{})
		p := w.web1.route(w.syn(w.web1, w.web3, ipv4, servedPort))
		w.requireArrived(t, c.want, w.web1, w.web3, p, c.name)
	}
}

// isolation: nothing goes from one VPC to another, though the addresses, and
// so the MACs, are the same.
func (w *wire) isolation(t *testing.T) {
	w.lists(t, open(), open(), open())
	w.apply(t, listsYAML("mirror", open(), open(), open()))
	require.Equal(t, w.app1.v4, w.mirrorApp.v4)
	require.Equal(t, w.app1.mac, w.mirrorApp.mac)
	for _, f := range []family{ipv4, ipv6} {
		for _, build := range []func() lab.Packet{
			func() lab.Packet { return w.echo(w.web1, w.app1, f) },
			func() lab.Packet { return w.udp(w.web1, w.app1, f, servedPort) },
			func() lab.Packet { return w.syn(w.web1, w.app1, f, servedPort) },
		} {
			w.requireArrived(t, true, w.web1, w.app1, build(), "in its VPC")
			for _, other := range []*guest{w.mirrorApp, w.mirrorWeb} {
				p := build()
				require.Zero(t, w.seen(t, w.web1, w.app1, other, incoming(same(p)), p.Frame()), "in the other VPC")
			}
		}
	}
	for name, p := range w.groupPackets(w.web1) {
		require.Zero(t, w.seen(t, w.web1, w.web2, w.mirrorWeb, incoming(same(p)), p.Frame()), name)
	}
	// The same way with an address that only the other VPC has.
	w.apply(t, `{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: alone, vpc: mirror}, spec: {tier: app, addresses: [10.10.2.77]}}`)
	alone := w.start(t, 0, "mirror", "alone", "mirror-alone")
	require.NoError(t, alone.WaitInstalled(t.Context()))
	require.NoError(t, w.lab.WaitHV(t.Context()))
	require.Equal(t, lab.Answered, w.probe(t, w.mirrorWeb, "tcp", alone.v4, servedPort))
	p := w.web1.route(w.ping(w.web1.v4, alone.v4))
	capture, err := alone.Capture(incoming(same(p)))
	require.NoError(t, err)
	require.NoError(t, w.web1.Send(p.Frame()))
	w.marker(t, w.web1, w.app1)
	w.marker(t, w.mirrorWeb, alone)
	got, err := capture.Stop()
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, alone.Unplug(t.Context()))
}

// broadcast and multicast stay in their tier, whatever the lists allow.
func (w *wire) broadcast(t *testing.T) {
	w.lists(t, open(), open(), open())
	for name, p := range w.groupPackets(w.web1) {
		w.requireArrived(t, true, w.web1, w.web2, p, name)
		for _, other := range []*guest{w.app1, w.app2, w.db1} {
			w.requireArrived(t, false, w.web1, other, p, name)
			w.requireArrived(t, false, w.web1, other, w.web1.route(p), name+" to the router's MAC")
		}
	}
	// The broadcast address of another tier, through the router.
	directed := lab.UDP(netip.AddrPortFrom(w.web1.v4, 99), netip.MustParseAddrPort("10.10.2.255:81"), w.token())
	for _, other := range []*guest{w.app1, w.app2} {
		w.requireArrived(t, false, w.web1, other, w.web1.route(directed), "directed broadcast")
	}
}
