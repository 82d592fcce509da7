package trace

import (
	"fmt"
	"net/netip"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// Numbers of the protocols that the router has an answer of its own for (IANA
// Assigned Internet Protocol Numbers).
const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
	protoSCTP   = 132
)

// route is a packet in the router (ovn-northd(8), Logical Router Datapaths).
// tracked is the port where replies will be known, nil for none.
func (w *walk) route(in *gateway, p match.Packet, tracked *port) Outcome {
	w.verdict.Routed = true
	if in.router.disabled || in.disabled {
		return w.drop("the router is disabled")
	}
	// Other multicast frames are routed: that is 23.03's way.
	if p.EthDst != in.mac && !predicate(match.EthMcast, p) {
		return w.drop("not for the router")
	}
	if !predicate(match.IP, p) || predicate(match.ND, p) {
		return w.drop("the router's own business")
	}
	if p.Src.Is4() && in.router.owns(p.Src) {
		return w.drop("the router's address as the source")
	}
	if predicate(match.NDRS, p) || predicate(match.NDRA, p) {
		return w.drop("router discovery isn't routed")
	}
	if in.router.owns(p.Dst) {
		return w.answer(in, p, tracked)
	}
	if predicate(match.EthBcast, p) || predicate(match.IP4Mcast, p) || predicate(match.IP6Mcast, p) {
		return w.drop("broadcast and multicast aren't routed")
	}
	if p.TTL <= 1 {
		return w.expired(in, p, tracked)
	}
	return w.forward(in, p)
}

// forward is the way on to a connected network.
func (w *walk) forward(in *gateway, p match.Packet) Outcome {
	out := in.router.connected(in, p.Dst)
	if out == nil {
		return NoRoute
	}
	p.TTL--
	p.EthSrc = out.mac
	p.Inport, p.Outport = in.name, out.name
	if !w.policies(in.router, in.name, p) {
		return Dropped
	}
	to := out.host(p.Dst)
	if to == nil {
		return NoHost
	}
	p.EthDst = to.macOf(p.Dst)
	return w.fromRouter(out, to, p)
}

// policies tells whether the first policy that matches lets the packet pass.
func (w *walk) policies(r *lrouter, in string, p match.Packet) bool {
	for _, row := range r.policies {
		if !w.matches(row.Match, p, "Logical_Router_Policy", row.UUID) {
			continue
		}
		w.step(Step{r.name, policy, in, row.ExternalIDs[nbdb.KeyPrefix+"key"], row.Priority, row.Match, row.Action, row.UUID})
		if row.Action != "allow" && row.Action != "drop" {
			w.err = fmt.Errorf("the action %q of Logical_Router_Policy %s is unknown", row.Action, row.UUID)
		}
		return row.Action == "allow"
	}
	return true
}

// expired is the ICMP error for a packet whose TTL runs out. Fragments get
// none, and over IPv6 only sources of the port's own networks do.
func (w *walk) expired(in *gateway, p match.Packet, tracked *port) Outcome {
	from, own := in.address(p.Src)
	if p.Frag || p.Src.Is6() && !own {
		return w.drop("its TTL has run out")
	}
	reply := p
	reply.Src, reply.Dst = from, p.Src
	reply.Proto, reply.ICMPType, reply.ICMPCode = protoICMP, 11, 0
	if p.Src.Is6() {
		reply.Proto, reply.ICMPType = protoICMPv6, 3
	}
	return w.reply(in, reply, tracked)
}

// answer is what the router says to a packet for one of its own addresses: to
// ping an answer, to anything else that nobody listens.
func (w *walk) answer(in *gateway, p match.Packet, tracked *port) Outcome {
	if p.Frag {
		return w.drop("a fragment for the router")
	}
	v6 := p.Dst.Is6()
	reply := p
	reply.Src, reply.Dst, reply.SrcPort, reply.DstPort = p.Dst, p.Src, p.DstPort, p.SrcPort
	switch {
	case !v6 && p.Proto == protoICMP && p.ICMPType == 8 && p.ICMPCode == 0:
		reply.ICMPType = 0
	case v6 && p.Proto == protoICMPv6 && p.ICMPType == 128 && p.ICMPCode == 0:
		reply.ICMPType = 129
	case in.router.central:
		return w.drop("a gateway router answers ping alone")
	case p.Proto == protoTCP || p.Proto == protoSCTP:
	case v6:
		reply.Proto, reply.ICMPType, reply.ICMPCode = protoICMPv6, 1, 3
		if p.Proto == protoUDP {
			reply.ICMPCode = 4
		}
	default:
		reply.Proto, reply.ICMPType, reply.ICMPCode = protoICMP, 3, 2
		if p.Proto == protoUDP {
			reply.ICMPCode = 3
		}
	}
	return w.reply(in, reply, tracked)
}

// reply is the router's answer on its way back. A port that has tracked the
// packet lets it pass.
func (w *walk) reply(in *gateway, p match.Packet, tracked *port) Outcome {
	p.TTL = 255
	out := in.router.connected(in, p.Dst)
	if out == nil {
		return w.drop("the router's answer finds no way back")
	}
	p.EthSrc, p.Inport, p.Outport = out.mac, in.name, out.name
	if !w.policies(in.router, in.name, p) {
		return Dropped
	}
	to := out.host(p.Dst)
	if to == nil {
		return w.drop("nobody has the address that the router answers to")
	}
	if tracked == to {
		return Answered
	}
	p.EthDst = to.macOf(p.Dst)
	outcome := w.fromRouter(out, to, p)
	w.verdict.Ports = nil
	if outcome == Delivered {
		return Answered
	}
	return outcome
}

// owns tells whether an address is one of the router's.
func (r *lrouter) owns(a netip.Addr) bool {
	for _, g := range r.gateways {
		if g.linkLocal == a {
			return true
		}
		for _, p := range g.networks {
			if p.Addr() == a {
				return true
			}
		}
	}
	return false
}

// connected is the port whose network holds an address, the longest prefix
// first; link-local addresses are those of the port where the packet came in.
func (r *lrouter) connected(in *gateway, a netip.Addr) (out *gateway) {
	if netip.MustParsePrefix("fe80::/64").Contains(a) {
		return in
	}
	longest := -1
	for _, g := range r.gateways {
		for _, p := range g.networks {
			if !g.disabled && p.Bits() > longest && p.Contains(a) {
				longest, out = p.Bits(), g
			}
		}
	}
	return out
}

// address is the port's address in the network of another, or else its first
// of that family, and whether it is in that network.
func (g *gateway) address(of netip.Addr) (a netip.Addr, same bool) {
	for _, p := range g.networks {
		if p.Contains(of) {
			return p.Addr(), true
		}
		if !a.IsValid() && p.Addr().BitLen() == of.BitLen() {
			a = p.Addr()
		}
	}
	return a, false
}

// host is the guest on the port's switch that has an address, nil if none. For
// a port that is disabled northd tells the router no MAC.
func (g *gateway) host(a netip.Addr) *port {
	if g.peer == nil {
		return nil
	}
	for _, p := range g.peer.sw.ports {
		if isFalse(p.row.Enabled) {
			continue
		}
		for _, id := range p.owned {
			if contains(id.addrs, a) {
				return p
			}
		}
	}
	return nil
}

// macOf is the MAC that goes with one of the port's addresses.
func (p *port) macOf(a netip.Addr) [6]byte {
	for _, id := range p.owned {
		if contains(id.addrs, a) {
			return id.mac
		}
	}
	return [6]byte{}
}
