package match

import "net/netip"

// Packet is what the evaluator sees of a packet.
type Packet struct {
	EthSrc, EthDst     [6]byte
	EthType            uint16     // 0x800 IPv4, 0x86dd IPv6, 0x806 ARP
	Src, Dst           netip.Addr // of the family that EthType says
	Proto              uint8
	TTL                uint8 // or hop limit
	SrcPort, DstPort   uint16
	ICMPType, ICMPCode uint8
	// Frag marks a later fragment. OVS sees its protocol as it is, and its
	// ports, ICMP type and code as 0 whatever the fields above say (so it does
	// with first fragments: ovs-ofctl(8), set-frags, normal).
	Frag            bool
	Inport, Outport string
}

// Eval is OVN's verdict, that of ovn-trace(8): whether the expression holds
// for the packet. A comparison is false for a packet that lacks the field, by
// != too.
func Eval(e Expr, p Packet) bool { return e.eval(&p) }

func (e boolean) eval(*Packet) bool { return bool(e) }

func (e test) eval(p *Packet) bool { return e.pred.holds(p) != e.neg }

func (e junction) eval(p *Packet) bool {
	for _, sub := range e.of {
		if sub.eval(p) != e.and {
			return !e.and
		}
	}
	return e.and
}

func (e between) eval(p *Packet) bool {
	v := p.value(e.field)
	return e.field.symbol().present(p) && e.lo.compare(v) <= 0 && v.compare(e.hi) <= 0
}

func (e comparison) eval(p *Packet) bool {
	s := e.field.symbol()
	if !s.present(p) {
		return false
	}
	if s.kind == port {
		return e.hasName(p)
	}
	v := p.value(e.field)
	switch e.op {
	case eq, ne:
		for _, c := range e.values {
			if v.and(c.mask) == c.value {
				return e.op == eq
			}
		}
		return e.op == ne
	case lt:
		return v.compare(e.values[0].value) < 0
	case le:
		return v.compare(e.values[0].value) <= 0
	case gt:
		return v.compare(e.values[0].value) > 0
	default:
		return v.compare(e.values[0].value) >= 0
	}
}

func (e comparison) hasName(p *Packet) bool {
	name := p.Inport
	if e.field == Outport {
		name = p.Outport
	}
	for _, c := range e.values {
		if c.name == name {
			return true
		}
	}
	return false
}

// present tells whether the packet fulfils the field's prerequisite.
func (s symbol) present(p *Packet) bool { return s.prereq == "" || s.prereq.holds(p) }

func (p Pred) holds(k *Packet) bool {
	ip4, ip6 := k.EthType == 0x800, k.EthType == 0x86dd
	ip := ip4 || ip6
	switch p {
	case IP:
		return ip
	case IP4:
		return ip4
	case IP6:
		return ip6
	case ARP:
		return k.EthType == 0x806
	case TCP:
		return ip && k.Proto == 6
	case UDP:
		return ip && k.Proto == 17
	case SCTP:
		return ip && k.Proto == 132
	case ICMP:
		return ICMP4.holds(k) || ICMP6.holds(k)
	case ICMP4:
		return ip4 && k.Proto == 1
	case ICMP6:
		return ip6 && k.Proto == 58
	case ND:
		return NDNS.holds(k) || NDNA.holds(k)
	case NDNS:
		return k.isND(135)
	case NDNA:
		return k.isND(136)
	case NDRS:
		return k.isND(133)
	case NDRA:
		return k.isND(134)
	case EthBcast:
		return k.EthDst == [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	case EthMcast:
		return k.EthDst[0]&1 == 1
	case IP4Mcast:
		return ip4 && EthMcast.holds(k) && k.value(IP4Dst).lo>>28 == 0xe
	case IP6Mcast:
		return ip6 && k.EthDst[0] == 0x33 && k.EthDst[1] == 0x33 && k.value(IP6Dst).hi>>56 == 0xff
	case IsFrag, LaterFrag:
		return ip && k.Frag
	default: // FirstFrag: Packet has none
		return false
	}
}

func (p *Packet) isND(icmpType uint8) bool {
	return ICMP6.holds(p) && !p.Frag && p.ICMPType == icmpType && p.ICMPCode == 0 && p.TTL == 255
}

// value is the number in a field whose prerequisite holds.
func (p *Packet) value(f Field) u128 {
	switch f {
	case EthSrc:
		return fromBytes(p.EthSrc[:])
	case EthDst:
		return fromBytes(p.EthDst[:])
	case IP4Src, IP6Src:
		return fromAddr(p.Src)
	case IP4Dst, IP6Dst:
		return fromAddr(p.Dst)
	default:
		return u128{lo: p.number(f)}
	}
}

func (p *Packet) number(f Field) uint64 {
	switch f {
	case EthType:
		return uint64(p.EthType)
	case IPProto:
		return uint64(p.Proto)
	case IPTTL:
		return uint64(p.TTL)
	}
	if p.Frag {
		return 0
	}
	switch f {
	case TCPSrc, UDPSrc, SCTPSrc:
		return uint64(p.SrcPort)
	case TCPDst, UDPDst, SCTPDst:
		return uint64(p.DstPort)
	case ICMP4Type, ICMP6Type:
		return uint64(p.ICMPType)
	default:
		return uint64(p.ICMPCode)
	}
}
