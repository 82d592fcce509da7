package trace

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// Endpoint is where a packet starts: the name of a guest's port on a switch,
// or that of a router's port, where it then comes in as if from beyond.
type Endpoint struct {
	Port string `json:"port"`
}

// Outcome is what becomes of a packet.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered" // to the guests of Verdict.Ports
	Answered  Outcome = "answered"  // by the router itself, and the answer comes back
	Dropped   Outcome = "dropped"   // without a word
	Rejected  Outcome = "rejected"  // by RST or ICMP unreachable
	NoRoute   Outcome = "no route"  // the router has no network for the destination
	NoHost    Outcome = "no host"   // nobody has the destination
)

// Step is a row that matched, in the order of the packet's way.
type Step struct {
	Datapath  string    `json:"datapath"`      // the switch or router
	Direction string    `json:"direction"`     // from-lport, to-lport or policy
	Port      string    `json:"port"`          // where the packet came in, or was to go out
	Key       string    `json:"key,omitempty"` // what the row realises, for rows of this project
	Priority  int       `json:"priority"`
	Match     string    `json:"match"`
	Action    string    `json:"action"`
	Row       nbdb.UUID `json:"row"`
}

// Verdict is what becomes of a packet and why.
type Verdict struct {
	Outcome Outcome  `json:"outcome"`
	Ports   []string `json:"ports,omitempty"`  // of guests that get it, sorted
	Reason  string   `json:"reason,omitempty"` // where no row decided
	Routed  bool     `json:"routed,omitempty"` // a router has got it
	Steps   []Step   `json:"steps"`
}

// PortSecurity is the Reason where a port's port_security stands against a
// packet.
const PortSecurity = "port security"

// The values of ACL direction, and what stands in a Step of a policy.
const (
	fromLport = "from-lport"
	toLport   = "to-lport"
	policy    = "policy"
)

// Walk sends a packet, the first of its connection, on its way over a state's
// rows. It fails when there is no such port, or when a row on the way can't be
// read: what OVN would make of it isn't known.
func Walk(state *nbdb.State, from Endpoint, p match.Packet) (Verdict, error) {
	n, err := NewNetwork(state)
	if err != nil {
		return Verdict{}, err
	}
	return n.Walk(from, p)
}

// Walk is the function Walk over the network's rows. It sets the packet's
// Inport and Outport.
func (n *Network) Walk(from Endpoint, p match.Packet) (Verdict, error) {
	w := &walk{}
	var outcome Outcome
	if at, ok := n.guests[from.Port]; ok {
		outcome = w.send(at, p)
	} else if g, ok := n.gateways[from.Port]; ok {
		outcome = w.route(g, p, nil)
	} else {
		return Verdict{}, fmt.Errorf("there is no port %q of a guest or router", from.Port)
	}
	if w.err != nil {
		return Verdict{}, w.err
	}
	slices.Sort(w.verdict.Ports)
	w.verdict.Outcome = outcome
	if outcome != Dropped {
		w.verdict.Reason = "" // of a copy
	}
	return w.verdict, nil
}

// walk is one packet's way.
type walk struct {
	verdict Verdict
	err     error
}

func (w *walk) drop(reason string) Outcome {
	w.verdict.Reason = reason
	return Dropped
}

// send is a guest's packet on its way into the switch.
func (w *walk) send(from *port, p match.Packet) Outcome {
	if isFalse(from.row.Enabled) {
		return w.drop("the port is disabled")
	}
	if !from.maySend(p) {
		return w.drop(PortSecurity)
	}
	p.Inport, p.Outport = from.row.Name, ""
	action := w.acls(from.sw, fromLport, from.row.Name, p)
	if outcome, stopped := stops(action); stopped {
		return outcome
	}
	if from.sw.stateful && action != "allow-stateless" {
		return w.lookup(from, p, from)
	}
	return w.lookup(from, p, nil)
}

// lookup finds the ports of the switch that the frame is for. tracked is the
// port where replies will be known, nil for none.
func (w *walk) lookup(from *port, p match.Packet, tracked *port) Outcome {
	flood := predicate(match.EthMcast, p)
	outcomes := map[Outcome]bool{}
	for _, to := range from.sw.ports {
		switch {
		case to == from:
		case to.gateway != nil && (flood || to.gateway.mac == p.EthDst):
			outcomes[w.toRouter(to, p, tracked)] = true
		case to.gateway == nil && (flood || to.hasMAC(p.EthDst)):
			outcomes[w.deliver(to, p)] = true
		}
	}
	// What happened to a copy is of less interest than who got one.
	for _, o := range []Outcome{Delivered, Answered, Rejected, NoHost, NoRoute, Dropped} {
		if outcomes[o] {
			return o
		}
	}
	return NoHost
}

// deliver is the way out of the switch to a guest.
func (w *walk) deliver(to *port, p match.Packet) Outcome {
	if isFalse(to.row.Enabled) {
		return w.drop("the port is disabled")
	}
	p.Outport = to.row.Name
	if outcome, stopped := stops(w.acls(to.sw, toLport, to.row.Name, p)); stopped {
		return outcome
	}
	if !to.mayReceive(p) {
		return w.drop(PortSecurity)
	}
	w.verdict.Ports = append(w.verdict.Ports, to.row.Name)
	return Delivered
}

// toRouter is the way out of the switch to a router.
func (w *walk) toRouter(to *port, p match.Packet, tracked *port) Outcome {
	p.Outport = to.row.Name
	if outcome, stopped := stops(w.acls(to.sw, toLport, to.row.Name, p)); stopped {
		return outcome
	}
	return w.route(to.gateway, p, tracked)
}

// fromRouter is the way into the switch from a router.
func (w *walk) fromRouter(g *gateway, to *port, p match.Packet) Outcome {
	p.Inport, p.Outport = g.peer.row.Name, ""
	if outcome, stopped := stops(w.acls(g.peer.sw, fromLport, g.peer.row.Name, p)); stopped {
		return outcome
	}
	return w.deliver(to, p)
}

// acls is the action of the first row that matches; without one OVN allows.
func (w *walk) acls(sw *lswitch, direction, at string, p match.Packet) (action string) {
	if alwaysAllowed(p) {
		return "allow"
	}
	for _, row := range sw.acls[direction] {
		if w.matches(row.Match, p, "ACL", row.UUID) {
			w.step(Step{sw.name, direction, at, row.ExternalIDs[nbdb.KeyPrefix+"key"], row.Priority, row.Match, row.Action, row.UUID})
			return row.Action
		}
	}
	return "allow"
}

func (w *walk) step(s Step) { w.verdict.Steps = append(w.verdict.Steps, s) }

func (w *walk) matches(text string, p match.Packet, what string, row nbdb.UUID) bool {
	e, err := match.Parse(text)
	if err != nil {
		w.err = fmt.Errorf("the match of %s %s can't be read: %w", what, row, err)
		return false
	}
	return match.Eval(e, p)
}

// stops tells whether an ACL's action ends a packet's way.
func stops(action string) (Outcome, bool) {
	switch action {
	case "drop":
		return Dropped, true
	case "reject":
		return Rejected, true
	}
	return "", false
}

// alwaysAllowed is what ovn-northd lets pass every switch with ACLs: neighbour
// and router discovery, and MLD (ovn-northd(8), from-lport ACLs, 65532).
func alwaysAllowed(p match.Packet) bool {
	for _, nd := range []match.Pred{match.ND, match.NDRA, match.NDRS} {
		if predicate(nd, p) {
			return true
		}
	}
	if !predicate(match.ICMP6, p) || p.Frag {
		return false
	}
	return isLinkLocal(p.Src) && p.ICMPType >= 130 && p.ICMPType <= 132 ||
		p.Dst == netip.MustParseAddr("ff02::16") && p.ICMPType == 143
}

func isLinkLocal(a netip.Addr) bool { return netip.MustParsePrefix("fe80::/10").Contains(a) }

func (p *port) hasMAC(mac [6]byte) bool {
	return slices.ContainsFunc(p.owned, func(id identity) bool { return id.mac == mac })
}

// maySend is port security on the way in (ovn-nb(5), port_security): also
// what a guest without an address sends.
func (p *port) maySend(k match.Packet) bool {
	if len(p.security) == 0 {
		return true
	}
	return slices.ContainsFunc(p.security, func(id identity) bool {
		dhcp := predicate(match.IP4, k) && k.Src.IsUnspecified() && k.Proto == 17 && k.SrcPort == 68 && k.DstPort == 67
		unspecified := predicate(match.IP6, k) && k.Src.IsUnspecified() && k.Proto == 58
		return id.mac == k.EthSrc && id.mayUse(k.Src) || id.mac == k.EthSrc && (dhcp || unspecified)
	})
}

// mayReceive is port security on the way out: multicast frames pass.
func (p *port) mayReceive(k match.Packet) bool {
	if len(p.security) == 0 || predicate(match.EthMcast, k) {
		return true
	}
	return slices.ContainsFunc(p.security, func(id identity) bool {
		return id.mac == k.EthDst && (id.mayUse(k.Dst) || isGroup(k.Dst))
	})
}

// isGroup tells whether an address stands for many: by the manual page these
// pass to a port whatever its addresses.
func isGroup(a netip.Addr) bool {
	return a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func parseMAC(text string) (mac [6]byte, err error) {
	hw, err := net.ParseMAC(text)
	if err != nil {
		return mac, err
	}
	if len(hw) != len(mac) {
		return mac, fmt.Errorf("%q is no Ethernet address", text)
	}
	return [6]byte(hw), nil
}

// linkLocal is the EUI-64 link-local address (RFC 4291, appendix A), which OVN
// gives to router ports.
func linkLocal(mac [6]byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}
