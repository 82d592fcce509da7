// Package traffic has sets of traffic: what the first packet of a connection
// can look like, its addresses left out. They are exact, and equal sets are
// equal in their form and their text.
//
// A fragment is what Open vSwitch shows of one: a protocol, without ports and
// ICMP type. The later fragments of an IPv6 packet are of protocol 44
// (IPv6-Frag), whatever the packet's own.
package traffic

import "slices"

// Family is the version of IP.
type Family int

// The families.
const (
	IPv4 Family = iota
	IPv6
)

// Families lists both.
func Families() []Family { return []Family{IPv4, IPv6} }

// Protocols with a destination port, or with an ICMP type and code in one
// family (IANA Assigned Internet Protocol Numbers).
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
	SCTP   = 132
)

// Point is a header on the line of a family's headers: those of protocol 0
// come first, of each protocol its 65536 values, then its fragments. A value
// is a port, or ICMP type * 256 + code; of other protocols all values are one
// thing, and sets hold all or none of them.
type Point uint32

const (
	values = 1 << 16
	width  = values + 1
	// End is the last point.
	End Point = 256*width - 1
)

// Span is the points from First to Last.
type Span struct{ First, Last Point }

// OfFragments tells whether the span has fragments alone, which are a point of
// each protocol.
func (s Span) OfFragments() bool { return s.First == s.Last && s.First%width == values }

// Packet is a header.
type Packet struct {
	Family     Family
	Protocol   uint8
	Fragment   bool
	Port       uint16 // destination, of TCP, UDP and SCTP
	Type, Code uint8  // of ICMP in IPv4 and ICMPv6 in IPv6
}

// Point is the packet's place on its family's line.
func (p Packet) Point() Point {
	value := uint32(0)
	switch {
	case p.Fragment:
		value = values
	case HasPorts(p.Protocol):
		value = uint32(p.Port)
	case p.Protocol == icmpOf(p.Family):
		value = uint32(p.Type)<<8 | uint32(p.Code)
	}
	return point(p.Protocol, value)
}

// HasPorts tells whether the protocol's packets carry ports.
func HasPorts(protocol uint8) bool { return protocol == TCP || protocol == UDP || protocol == SCTP }

// icmpOf is the protocol that carries types and codes in a family.
func icmpOf(f Family) uint8 {
	if f == IPv4 {
		return ICMP
	}
	return ICMPv6
}

func point(protocol uint8, value uint32) Point { return Point(uint32(protocol)*width + value) }

// Set is a set of headers. The zero value is empty.
type Set struct {
	// of holds for each family the spans in ascending order; they neither
	// overlap nor touch.
	of [2][]Span
}

// All is every header.
func All() Set { return both(Span{0, End}) }

// OnLine is the set of spans of one family, ascending and disjoint. The caller
// doesn't change them any more.
func OnLine(f Family, spans []Span) Set {
	var s Set
	s.of[f] = spans
	for i := 1; i < len(spans); i++ {
		if spans[i-1].Last+1 == spans[i].First {
			s.of[f] = combine(spans, nil, either)
			break
		}
	}
	return s
}

// Protocol is all that is of a protocol.
func Protocol(p uint8) Set { return both(Span{point(p, 0), point(p, values)}) }

// Fragments are the fragments of a protocol.
func Fragments(p uint8) Set { return both(Span{point(p, values), point(p, values)}) }

// Ports are destination ports of TCP, UDP or SCTP.
func Ports(p uint8, first, last uint16) Set {
	return both(Span{point(p, uint32(first)), point(p, uint32(last))})
}

// ICMPTypes are types of a family's ICMP with all their codes.
func ICMPTypes(f Family, first, last uint8) Set {
	return icmpValues(f, uint32(first)<<8, uint32(last)<<8|0xff)
}

// ICMPCodes are codes of one type of a family's ICMP.
func ICMPCodes(f Family, icmpType, first, last uint8) Set {
	return icmpValues(f, uint32(icmpType)<<8|uint32(first), uint32(icmpType)<<8|uint32(last))
}

func icmpValues(f Family, first, last uint32) Set {
	var s Set
	s.of[f] = []Span{{point(icmpOf(f), first), point(icmpOf(f), last)}}
	return s
}

func both(s Span) Set { return Set{[2][]Span{{s}, {s}}} }

// Only is what the set has of a family.
func (s Set) Only(f Family) Set {
	var out Set
	out.of[f] = s.of[f]
	return out
}

// Swapped has the headers of each family in the other one.
func (s Set) Swapped() Set { return Set{[2][]Span{s.of[IPv6], s.of[IPv4]}} }

// Spans are the set's points on a family's line, ascending; they neither
// overlap nor touch. The caller doesn't change them.
func (s Set) Spans(f Family) []Span { return s.of[f] }

// Contains tells whether a header is in the set.
func (s Set) Contains(p Packet) bool {
	at := p.Point()
	spans := s.of[p.Family]
	i, _ := slices.BinarySearchFunc(spans, at, func(s Span, at Point) int {
		if s.Last < at {
			return -1
		}
		return 1
	})
	return i < len(spans) && spans[i].First <= at
}

// Empty tells whether nothing is in the set.
func (s Set) Empty() bool { return len(s.of[IPv4]) == 0 && len(s.of[IPv6]) == 0 }

// Equal tells whether two sets are one.
func (s Set) Equal(t Set) bool {
	return slices.Equal(s.of[IPv4], t.of[IPv4]) && slices.Equal(s.of[IPv6], t.of[IPv6])
}

// Union is what is in either set.
func (s Set) Union(t Set) (out Set) {
	for _, f := range Families() {
		switch {
		case len(t.of[f]) == 0:
			out.of[f] = s.of[f]
		case len(s.of[f]) == 0:
			out.of[f] = t.of[f]
		default:
			out.of[f] = combine(s.of[f], t.of[f], either)
		}
	}
	return out
}

// Intersect is what is in both sets.
func (s Set) Intersect(t Set) Set { return s.with(t, func(a, b bool) bool { return a && b }) }

// Minus is what is in the set and not in the other one.
func (s Set) Minus(t Set) Set { return s.with(t, func(a, b bool) bool { return a && !b }) }

// with is for what has no point outside the set.
func (s Set) with(t Set, keep func(a, b bool) bool) (out Set) {
	for _, f := range Families() {
		switch whole := (Span{0, End}); {
		case len(t.of[f]) == 0 || t.of[f][0] == whole:
			if keep(true, len(t.of[f]) > 0) {
				out.of[f] = s.of[f]
			}
		default:
			out.of[f] = combine(s.of[f], t.of[f], keep)
		}
	}
	return out
}

func either(a, b bool) bool { return a || b }

// combine keeps the points that keep holds for, by whether they are in a and in
// b.
func combine(a, b []Span, keep func(a, b bool) bool) []Span {
	var out []Span
	for at := Point(0); at <= End; {
		inA, nextA := border(a, at)
		inB, nextB := border(b, at)
		next := min(nextA, nextB)
		if keep(inA, inB) {
			if n := len(out); n > 0 && out[n-1].Last+1 == at {
				out[n-1].Last = next - 1
			} else {
				out = append(out, Span{at, next - 1})
			}
		}
		at = next
		a, b = after(a, at), after(b, at)
	}
	return out
}

// border tells whether a point lies in the first of the spans, which don't end
// before it, and where that changes.
func border(spans []Span, at Point) (in bool, next Point) {
	switch {
	case len(spans) == 0:
		return false, End + 1
	case spans[0].First <= at:
		return true, spans[0].Last + 1
	}
	return false, spans[0].First
}

// after is the spans without a first one that ends before a point.
func after(spans []Span, at Point) []Span {
	if len(spans) > 0 && spans[0].Last < at {
		return spans[1:]
	}
	return spans
}

// Headers are the headers of the set, of one family after the other; whole is
// false where there are more than limit. Where the values of a protocol are one
// thing, they are one header.
func (s Set) Headers(limit int) (headers []Packet, whole bool) {
	for _, f := range Families() {
		for _, span := range s.of[f] {
			for at := span.First; at <= span.Last; {
				if len(headers) == limit {
					return headers, false
				}
				p := at.Packet(f)
				headers = append(headers, p)
				if at++; !p.Fragment && !HasPorts(p.Protocol) && p.Protocol != icmpOf(f) {
					at = point(p.Protocol, values)
				}
			}
		}
	}
	return headers, true
}

// Packet is the header at a point of a family's line.
func (at Point) Packet(f Family) Packet {
	p, value := Packet{Family: f, Protocol: uint8(at / width)}, at%width
	switch {
	case value == values:
		p.Fragment = true
	case HasPorts(p.Protocol):
		p.Port = uint16(value)
	case p.Protocol == icmpOf(f):
		p.Type, p.Code = uint8(value>>8), uint8(value)
	}
	return p
}
