package wire_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// alwaysWorks: ARP, neighbour discovery, router advertisements, DHCP, DHCPv6
// and ping to one's own gateway, whatever the list says.
func (w *wire) alwaysWorks(t *testing.T) {
	for name, web := range map[string]list{"closed": {}, "closed, stateless": {stateless: true}, "open": open(), "reject": {ingress: "reject", egress: "reject"}} {
		t.Run(name, func(t *testing.T) {
			w.lists(t, web, list{}, list{})
			w.discovery(t)
			w.gatewayPing(t)
			w.dhcpv4(t)
			w.dhcpv6(t)
		})
	}
	w.replace(t, "web", "default-deny")
	w.gatewayPing(t)
	w.dhcpv4(t)
	w.replace(t, "web", "web")
	w.lists(t, list{}, list{}, list{})
	w.withoutSystemRows(t)
}

// withoutSystemRows shows that the rows for the gateway are what lets ping and
// the renewal pass.
func (w *wire) withoutSystemRows(t *testing.T) {
	ping := w.web1.route(w.ping(w.web1.v4, w.web1.gw4))
	pong := func(p lab.Packet) bool { return p.Src == w.web1.gw4 && p.ICMPType() == 0 }
	renew := w.renewal()
	ack := func(p lab.Packet) bool { _, _, ok := dhcpMessage(p, renew.xid); return ok }
	require.True(t, w.answered(t, true, w.web1, pong, ping.Frame()))
	require.True(t, w.answered(t, true, w.web1, ack, renew.frame))
	for _, priority := range []string{"32000", "31999"} {
		row := w.row(t, "ACL", "tier-acl/shop/web/from-lport/"+priority)
		w.nbctl(t, "remove", "Logical_Switch", "shop/web", "acls", row)
	}
	// Else the request would count as the reply to the server's last answer.
	w.appctl(t, w.web1.Hypervisor(), "dpctl/flush-conntrack")
	require.False(t, w.answered(t, false, w.web1, pong, ping.Frame()), "ping without its row")
	require.False(t, w.answered(t, false, w.web1, ack, renew.frame), "renewal without its row")
	w.repair(t)
	require.True(t, w.answered(t, true, w.web1, pong, ping.Frame()))
	require.True(t, w.answered(t, true, w.web1, ack, renew.frame))
}

// gatewayLinkLocal is the link-local address of a guest's gateway.
func (g *guest) gatewayLinkLocal() netip.Addr {
	return translate.LinkLocal(model.MAC(g.gwMAC.String()))
}

func (w *wire) discovery(t *testing.T) {
	g := w.web1
	everybody := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	ask := arp(1, g.mac, everybody, g.mac, g.v4, make([]byte, 6), g.gw4)
	answer := arp(2, g.gwMAC, g.mac, g.gwMAC, g.gw4, g.mac, g.v4)
	_, ok := w.answerFrame(t, true, g, equal(answer), ask)
	require.True(t, ok, "ARP of the gateway")
	for _, target := range []netip.Addr{g.gw6, g.gatewayLinkLocal()} {
		for name, solicit := range map[string]lab.Packet{
			"multicast": g.group(solicitation(g.ll, solicited(target), target, g)),
			"unicast":   g.route(solicitation(g.ll, target, target, g)), // RFC 4861, 7.3
		} {
			advertised := func(p lab.Packet) bool {
				return p.ICMPType() == 136 && bytes.Equal(p.Payload[8:24], target.AsSlice()) && bytes.Contains(p.Payload[24:], g.gwMAC)
			}
			require.True(t, w.answered(t, true, g, advertised, solicit.Frame()), "%s solicitation of %v", name, target)
		}
	}
	solicit := lab.ICMP(g.ll, netip.MustParseAddr("ff02::2"), 133, 0, append([]byte{0, 0, 0, 0, 1, 1}, g.mac...))
	solicit.TTL = 255
	prefix := netip.PrefixFrom(g.v6, 64).Masked().Addr().AsSlice()
	advertised := func(p lab.Packet) bool { return p.ICMPType() == 134 && bytes.Contains(p.Payload, prefix) }
	require.True(t, w.answered(t, true, g, advertised, g.group(solicit).Frame()), "router advertisement")
}

// solicitation asks for a neighbour (RFC 4861, 4.3), from its own address.
func solicitation(src, dst, target netip.Addr, g *guest) lab.Packet {
	body := append([]byte{0, 0, 0, 0}, target.AsSlice()...)
	p := lab.ICMP(src, dst, 135, 0, append(append(body, 1, 1), g.mac...))
	p.TTL = 255
	return p
}

// solicited is the solicited-node group of an address (RFC 4291, 2.7.1).
func solicited(a netip.Addr) netip.Addr {
	b := netip.MustParseAddr("ff02::1:ff00:0").As16()
	full := a.As16()
	copy(b[13:], full[13:])
	return netip.AddrFrom16(b)
}

func (w *wire) gatewayPing(t *testing.T) {
	t.Helper()
	g := w.web1
	for src, gateways := range map[netip.Addr][]netip.Addr{g.v4: {g.gw4}, g.v6: {g.gw6}, g.ll: {g.gatewayLinkLocal()}} {
		for _, gateway := range gateways {
			ping := w.ping(src, gateway)
			pong := func(p lab.Packet) bool {
				return p.Src == gateway && (p.ICMPType() == 0 || p.ICMPType() == 129) && bytes.Equal(p.Payload[4:], ping.Payload[4:])
			}
			require.True(t, w.answered(t, true, g, pong, g.route(ping).Frame()), "ping %v", gateway)
		}
	}
}

// message is a frame with the number of its exchange.
type message struct {
	xid   uint32
	frame []byte
}

// renewal is the unicast request of a client that has its address (RFC 2131,
// 4.3.2).
func (w *wire) renewal() message {
	g, xid := w.web1, w.id()
	p := lab.UDP(netip.AddrPortFrom(g.v4, 68), netip.AddrPortFrom(g.gw4, 67), dhcp(g.mac, xid, dhcpRequest, g.v4))
	return message{xid, g.route(p).Frame()}
}

// dhcpv4 gets a lease and renews it.
func (w *wire) dhcpv4(t *testing.T) {
	t.Helper()
	g := w.web1
	ask := func(m message, kind byte) map[byte][]byte {
		p, ok := w.answer(t, true, g, func(p lab.Packet) bool { _, _, ok := dhcpMessage(p, m.xid); return ok }, m.frame)
		require.True(t, ok, "no answer to DHCP; %d was due", kind)
		given, options, _ := dhcpMessage(p, m.xid)
		require.Equal(t, []byte{kind}, options[53])
		require.Equal(t, g.v4, given)
		return options
	}
	everybody := netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 67)
	broadcast := func(kind byte, options ...[]byte) message {
		xid := w.id()
		p := lab.UDP(netip.AddrPortFrom(netip.IPv4Unspecified(), 68), everybody, dhcp(g.mac, xid, kind, netip.IPv4Unspecified(), options...))
		return message{xid, g.group(p).Frame()}
	}
	offered := ask(broadcast(dhcpDiscover), dhcpOffer)
	require.Equal(t, g.gw4.AsSlice(), offered[54], "server")
	leased := ask(broadcast(dhcpRequest, dhcpOption(50, g.v4.AsSlice()), dhcpOption(54, offered[54])), dhcpAck)
	require.Equal(t, []byte{255, 255, 255, 0}, leased[1], "netmask")
	require.Equal(t, g.gw4.AsSlice(), leased[3], "router")
	require.Equal(t, []byte{192, 0, 2, 53}, leased[6], "name server")
	require.Equal(t, []byte{0x05, 0xa2}, leased[26], "MTU 1442")
	require.Equal(t, []byte{0, 0, 14, 16}, leased[51], "lease of an hour")
	// The other prefix on-link, and the default route again (RFC 3442).
	require.Equal(t, append([]byte{24, 10, 10, 11, 0, 0, 0, 0, 0}, g.gw4.AsSlice()...), leased[121], "routes")
	ask(w.renewal(), dhcpAck)
}

// dhcpv6 gets an address.
func (w *wire) dhcpv6(t *testing.T) {
	t.Helper()
	g := w.web1
	servers := netip.AddrPortFrom(netip.MustParseAddr("ff02::1:2"), 547)
	ask := func(kind, due byte, more ...[]byte) map[uint16][]byte {
		xid := w.id()
		p := lab.UDP(netip.AddrPortFrom(g.ll, 546), servers, dhcp6(g.mac, xid, kind, more...))
		p, ok := w.answer(t, true, g, func(p lab.Packet) bool { _, _, ok := dhcp6Message(p, xid); return ok }, g.group(p).Frame())
		require.True(t, ok, "no answer to DHCPv6 message %d", kind)
		got, options, _ := dhcp6Message(p, xid)
		require.Equal(t, due, got)
		require.Contains(t, string(options[3]), string(g.v6.AsSlice()), "the address in the IA_NA")
		return options
	}
	advertised := ask(dhcp6Solicit, dhcp6Advertise)
	leased := ask(dhcp6Request, dhcp6Reply, dhcp6Option(2, advertised[2]))
	require.Equal(t, netip.MustParseAddr("2001:db8::53").AsSlice(), leased[23], "name server")
}

// routerErrors: the router's own errors reach who caused them, from any of
// the gateway's addresses.
func (w *wire) routerErrors(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		w.lists(t, list{stateless: stateless, egress: "allow"}, open(), list{})
		for _, f := range []family{ipv4, ipv6} {
			exceeded := 11
			if f == ipv6 {
				exceeded = 3
			}
			p := w.udp(w.web1, w.app1, f, 80)
			p.TTL = 1
			told := func(a lab.Packet) bool {
				return a.ICMPType() == exceeded && slices.Contains(w.web1.gateways, a.Src) && a.Dst == p.Src && bytes.Contains(a.Payload, p.Payload[:8])
			}
			require.True(t, w.answered(t, true, w.web1, told, p.Frame()), "stateless %t, IPv%d: time exceeded", stateless, f)
		}
	}
}
