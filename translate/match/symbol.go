package match

import (
	"fmt"
	"slices"
)

// Pred is a predicate: a name for an expression over the packet.
type Pred string

// The predicates and what they stand for (ovn-sb(5), «The following predicates
// are supported»; the multicast ones look at the Ethernet address too, which
// the manual page doesn't say).
const (
	IP        Pred = "ip"
	IP4       Pred = "ip4"
	IP6       Pred = "ip6"
	ARP       Pred = "arp"
	TCP       Pred = "tcp"  // over either family, fragments included
	UDP       Pred = "udp"  // likewise
	SCTP      Pred = "sctp" // likewise
	ICMP      Pred = "icmp" // icmp4 || icmp6
	ICMP4     Pred = "icmp4"
	ICMP6     Pred = "icmp6"
	ND        Pred = "nd"    // neighbour solicitation or advertisement with hop limit 255
	NDNS      Pred = "nd_ns" // neighbour solicitation
	NDNA      Pred = "nd_na" // neighbour advertisement
	NDRS      Pred = "nd_rs" // router solicitation
	NDRA      Pred = "nd_ra" // router advertisement
	EthBcast  Pred = "eth.bcast"
	EthMcast  Pred = "eth.mcast" // the group bit of eth.dst: broadcast too
	IP4Mcast  Pred = "ip4.mcast" // eth.mcast && ip4.dst == 224.0.0.0/4
	IP6Mcast  Pred = "ip6.mcast" // eth.dst 33:33:.. and ip6.dst == ff00::/8
	IsFrag    Pred = "ip.is_frag"
	FirstFrag Pred = "ip.first_frag"
	LaterFrag Pred = "ip.later_frag"
)

func (p Pred) known() bool {
	switch p {
	case EthBcast, EthMcast, IP4Mcast, IP6Mcast, IsFrag, FirstFrag, LaterFrag:
		return true
	}
	return p.nominal()
}

// nominal tells whether OVN takes the predicate positively only, because its
// expansion names a nominal field.
func (p Pred) nominal() bool {
	switch p {
	case IP, IP4, IP6, ARP, TCP, UDP, SCTP, ICMP, ICMP4, ICMP6, ND, NDNS, NDNA, NDRS, NDRA:
		return true
	}
	return false
}

// guard is the predicate that must stand beside the negation of p. Alone,
// `!ip.is_frag` covers packets that aren't IP, which OpenFlow can't express:
// ovn-controller 23.03 then makes a flow that matches every packet.
func (p Pred) guard() Pred {
	switch p {
	case IsFrag, FirstFrag, LaterFrag:
		return IP
	case IP4Mcast:
		return IP4
	case IP6Mcast:
		return IP6
	}
	return ""
}

// Field is a header field or a logical port.
type Field string

// The fields. A comparison of one implies its prerequisite: `tcp.dst != 80`
// holds for TCP packets only.
const (
	EthSrc    Field = "eth.src"
	EthDst    Field = "eth.dst"
	EthType   Field = "eth.type"
	IP4Src    Field = "ip4.src"
	IP4Dst    Field = "ip4.dst"
	IP6Src    Field = "ip6.src"
	IP6Dst    Field = "ip6.dst"
	IPProto   Field = "ip.proto" // either family
	IPTTL     Field = "ip.ttl"   // or hop limit
	TCPSrc    Field = "tcp.src"
	TCPDst    Field = "tcp.dst"
	UDPSrc    Field = "udp.src"
	UDPDst    Field = "udp.dst"
	SCTPSrc   Field = "sctp.src"
	SCTPDst   Field = "sctp.dst"
	ICMP4Type Field = "icmp4.type"
	ICMP4Code Field = "icmp4.code"
	ICMP6Type Field = "icmp6.type"
	ICMP6Code Field = "icmp6.code"
	Inport    Field = "inport"
	Outport   Field = "outport"
)

// kind is how a field's constants are written.
type kind int

const (
	unknown kind = iota
	number
	hexNumber
	ether
	ipv4
	ipv6
	port
)

// symbol is what OVN's symbol table says of a field. Nominal fields know
// equality only; the others are ordinal.
type symbol struct {
	kind    kind
	bits    int // 0 for ports
	nominal bool
	prereq  Pred
}

// symbol describes the field; its kind is unknown for one that isn't listed.
func (f Field) symbol() symbol {
	switch f {
	case EthSrc, EthDst:
		return symbol{ether, 48, false, ""}
	case EthType:
		return symbol{hexNumber, 16, true, ""}
	case IP4Src, IP4Dst:
		return symbol{ipv4, 32, false, IP4}
	case IP6Src, IP6Dst:
		return symbol{ipv6, 128, false, IP6}
	case IPProto, IPTTL:
		return symbol{number, 8, true, IP}
	case TCPSrc, TCPDst:
		return symbol{number, 16, false, TCP}
	case UDPSrc, UDPDst:
		return symbol{number, 16, false, UDP}
	case SCTPSrc, SCTPDst:
		return symbol{number, 16, false, SCTP}
	case ICMP4Type, ICMP4Code:
		return symbol{number, 8, true, ICMP4}
	case ICMP6Type, ICMP6Code:
		return symbol{number, 8, true, ICMP6}
	case Inport, Outport:
		return symbol{port, 0, true, ""}
	}
	return symbol{}
}

// always is what remains of a comparison that every value fulfils.
func (s symbol) always() Expr {
	if s.prereq == "" {
		return And()
	}
	return Is(s.prereq)
}

func (f Field) mustBe(caller string, kinds ...kind) symbol {
	s := f.symbol()
	if !slices.Contains(kinds, s.kind) {
		panic(fmt.Sprintf("match.%s: not for field %q", caller, f))
	}
	return s
}
