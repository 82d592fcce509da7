package match

import (
	"net/netip"
	"slices"

	"pgregory.net/rapid"
)

// The generators draw from small pools, so that packets meet expressions
// often. They build through the public constructors only.

func pick[T any](of ...T) *rapid.Generator[T] { return rapid.SampledFrom(of) }

func prefixes(texts ...string) *rapid.Generator[netip.Prefix] {
	var ps []netip.Prefix
	for _, t := range texts {
		ps = append(ps, netip.MustParsePrefix(t))
	}
	return rapid.SampledFrom(ps)
}

func anyPrefix() *rapid.Generator[netip.Prefix] {
	return prefixes("0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "10.1.2.4/31", "192.168.0.0/17",
		"224.0.0.0/4", "255.255.255.255/32", "::/0", "fd00::/8", "fd00:1::/32", "fd00:1::1/128", "fe80::/10", "ff00::/8", "fd00:1::2/127",
		"::ffff:10.1.2.0/120")
}

func ordinals() *rapid.Generator[Field] {
	return pick(TCPSrc, TCPDst, UDPSrc, UDPDst, SCTPSrc, SCTPDst)
}

func nominals() *rapid.Generator[Field] {
	return pick(EthType, IPProto, IPTTL, ICMP4Type, ICMP4Code, ICMP6Type, ICMP6Code)
}

func negatable() *rapid.Generator[Pred] {
	return pick(EthBcast, EthMcast, IP4Mcast, IP6Mcast, IsFrag, FirstFrag, LaterFrag)
}

func positive() *rapid.Generator[Pred] {
	return pick(IP, IP4, IP6, ARP, TCP, UDP, SCTP, ICMP, ICMP4, ICMP6, ND, NDNS, NDNA, NDRS, NDRA)
}

func portNumber() *rapid.Generator[uint32] {
	return rapid.OneOf(pick[uint32](0, 1, 22, 53, 79, 80, 81, 443, 1023, 1024, 65534, 65535, 65536, 1<<32-1), rapid.Uint32Range(0, 70000))
}

func small() *rapid.Generator[uint32] {
	return pick[uint32](0, 1, 2, 3, 6, 8, 17, 58, 64, 128, 129, 132, 133, 134, 135, 136, 137, 255, 256, 0x800, 0x806, 0x86dd)
}

func mac() *rapid.Generator[string] {
	return pick("0e:58:0a:01:02:01", "0a:58:0a:01:02:03", "0a:58:0a:01:02:04", "01:00:5e:00:00:01", "33:33:00:00:00:01", "ff:ff:ff:ff:ff:ff")
}

func macMask() *rapid.Generator[string] {
	return pick("ff:ff:ff:ff:ff:ff", "ff:fe:00:00:00:00", "01:00:00:00:00:00", "00:00:00:00:00:00", "ff:ff:00:00:00:ff")
}

// leaves builds comparisons and predicates; ports are the names that inport
// is compared with.
func leaves(ports ...string) *rapid.Generator[Expr] {
	return rapid.Custom(func(t *rapid.T) Expr {
		switch rapid.IntRange(0, 7).Draw(t, "leaf") {
		case 0:
			return Is(positive().Draw(t, "pred"))
		case 1:
			return Is(negatable().Draw(t, "pred"))
		case 2, 3:
			f := pick(IP4Src, IP4Dst, IP6Src, IP6Dst).Draw(t, "field")
			return Addrs(f, rapid.SliceOfN(anyPrefix(), 1, 5).Draw(t, "prefixes")...)
		case 4:
			var rs []Range
			for range rapid.IntRange(1, 4).Draw(t, "ranges") {
				lo := portNumber().Draw(t, "lo")
				rs = append(rs, Range{lo, lo + pick[uint32](0, 0, 1, 7, 1000).Draw(t, "width")})
			}
			return Num(ordinals().Draw(t, "field"), rs...)
		case 5:
			lo := small().Draw(t, "lo")
			return Num(nominals().Draw(t, "field"), Range{lo, lo + pick[uint32](0, 0, 0, 3).Draw(t, "width")})
		case 6:
			f := pick(EthSrc, EthDst).Draw(t, "field")
			return EthMasked(f, mac().Draw(t, "mac"), macMask().Draw(t, "mask"), rapid.Bool().Draw(t, "equal"))
		default:
			return Port(Inport, rapid.SampledFrom(ports).Draw(t, "port"))
		}
	})
}

// exprs builds trees up to a depth, negations where there are any.
func exprs(depth int, ports ...string) *rapid.Generator[Expr] {
	return rapid.Custom(func(t *rapid.T) Expr {
		e := leaves(ports...).Draw(t, "leaf")
		if depth > 0 && rapid.Bool().Draw(t, "junction") {
			of := rapid.SliceOfN(exprs(depth-1, ports...), 0, 3).Draw(t, "operands")
			e = pick(And, Or).Draw(t, "sort")(of...)
		}
		if n, err := e.not(); err == nil && rapid.IntRange(0, 3).Draw(t, "negate") == 0 {
			return n
		}
		return e
	})
}

func addrOf(four bool) *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		p := anyPrefix().Filter(func(p netip.Prefix) bool { return p.Addr().Is4() == four }).Draw(t, "near")
		a := p.Addr()
		for range rapid.IntRange(0, 2).Draw(t, "next") {
			if a.Next().IsValid() {
				a = a.Next()
			}
		}
		return a
	})
}

// packets draws packets such as can be on a wire.
func packets(ports ...string) *rapid.Generator[Packet] {
	return rapid.Custom(func(t *rapid.T) Packet {
		p := Packet{Inport: rapid.SampledFrom(ports).Draw(t, "inport")}
		p.EthSrc = macBytes(mac().Filter(func(s string) bool { return s[1] == 'e' || s[1] == 'a' }).Draw(t, "src mac"))
		p.EthDst = macBytes(mac().Draw(t, "dst mac"))
		p.EthType = pick[uint16](0x800, 0x800, 0x86dd, 0x86dd, 0x806).Draw(t, "type")
		if p.EthType == 0x806 {
			return p
		}
		four := p.EthType == 0x800
		p.Src, p.Dst = addrOf(four).Draw(t, "src"), addrOf(four).Draw(t, "dst")
		if rapid.IntRange(0, 3).Draw(t, "group") == 0 {
			p.Dst = map[bool]netip.Addr{true: netip.MustParseAddr("224.0.0.1"), false: netip.MustParseAddr("ff02::1")}[four]
		}
		p.TTL = pick[uint8](255, 64).Draw(t, "ttl")
		icmp := uint8(58)
		if four {
			icmp = 1
		}
		p.Proto = pick[uint8](6, 17, 132, icmp, icmp, 47).Draw(t, "proto")
		p.Frag = rapid.IntRange(0, 4).Draw(t, "frag") == 0
		p.draw(t)
		return p
	})
}

// draw fills in the transport header.
func (p *Packet) draw(t *rapid.T) {
	switch p.Proto {
	case 6, 17, 132:
		number := portNumber().Filter(func(n uint32) bool { return n <= 65535 })
		p.SrcPort, p.DstPort = uint16(number.Draw(t, "sport")), uint16(number.Draw(t, "dport"))
	case 1, 58:
		number := small().Filter(func(n uint32) bool { return n <= 255 })
		p.ICMPType = uint8(number.Draw(t, "icmp type"))
		p.ICMPCode = uint8(pick[uint32](0, 0, 1, 3).Draw(t, "icmp code"))
	}
}

func macBytes(s string) [6]byte {
	b := mustMAC(s).bytes()
	return [6]byte(slices.Clone(b[10:]))
}
