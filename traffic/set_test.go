package traffic_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// universe is a small one: every header of few protocols, ports and types.
func universe() []traffic.Packet {
	var all []traffic.Packet
	for _, f := range traffic.Families() {
		for _, p := range []uint8{0, traffic.ICMP, 5, traffic.TCP, 7, traffic.UDP, 44, traffic.ICMPv6, traffic.SCTP, 255} {
			all = append(all, traffic.Packet{Family: f, Protocol: p, Fragment: true})
			switch {
			case traffic.HasPorts(p):
				for _, port := range []uint16{0, 1, 2, 3, 4, 5, 6, 7, 8, 65534, 65535} {
					all = append(all, traffic.Packet{Family: f, Protocol: p, Port: port})
				}
			case p == traffic.ICMP && f == traffic.IPv4, p == traffic.ICMPv6 && f == traffic.IPv6:
				for _, t := range []uint8{0, 1, 2, 3, 8, 128, 129, 255} {
					for _, c := range []uint8{0, 1, 2, 255} {
						all = append(all, traffic.Packet{Family: f, Protocol: p, Type: t, Code: c})
					}
				}
			default:
				all = append(all, traffic.Packet{Family: f, Protocol: p})
			}
		}
	}
	return all
}

// drawn is a set, and what it should have of the universe.
type drawn struct {
	set traffic.Set
	has []bool
}

func genSimple(t *rapid.T, all []traffic.Packet) drawn {
	f := rapid.SampledFrom(traffic.Families()).Draw(t, "family")
	proto := rapid.SampledFrom([]uint8{0, 1, 5, 6, 7, 17, 44, 58, 132, 255}).Draw(t, "protocol")
	first := rapid.SampledFrom([]uint16{0, 1, 2, 3, 5, 7, 128, 255}).Draw(t, "first")
	last := max(first, rapid.SampledFrom([]uint16{0, 1, 3, 4, 7, 129, 255}).Draw(t, "last"))
	var set traffic.Set
	var holds func(traffic.Packet) bool
	icmp := uint8(traffic.ICMP)
	if f == traffic.IPv6 {
		icmp = traffic.ICMPv6
	}
	isICMP := func(p traffic.Packet) bool { return p.Family == f && p.Protocol == icmp && !p.Fragment }
	switch rapid.IntRange(0, 6).Draw(t, "form") {
	case 0:
		set, holds = traffic.Protocol(proto), func(p traffic.Packet) bool { return p.Protocol == proto }
	case 1:
		set, holds = traffic.Fragments(proto), func(p traffic.Packet) bool { return p.Protocol == proto && p.Fragment }
	case 2:
		proto = rapid.SampledFrom([]uint8{6, 17, 132}).Draw(t, "with ports")
		set = traffic.Ports(proto, first, last)
		holds = func(p traffic.Packet) bool {
			return p.Protocol == proto && !p.Fragment && first <= p.Port && p.Port <= last
		}
	case 3:
		set = traffic.ICMPTypes(f, uint8(first), uint8(last))
		holds = func(p traffic.Packet) bool {
			return isICMP(p) && uint8(first) <= p.Type && p.Type <= uint8(last)
		}
	case 4:
		kind := rapid.SampledFrom([]uint8{0, 3, 8, 128, 255}).Draw(t, "type")
		set = traffic.ICMPCodes(f, kind, uint8(first), uint8(last))
		holds = func(p traffic.Packet) bool {
			return isICMP(p) && p.Type == kind && uint8(first) <= p.Code && p.Code <= uint8(last)
		}
	case 5:
		set, holds = traffic.All().Only(f), func(p traffic.Packet) bool { return p.Family == f }
	case 6:
		set, holds = traffic.All(), func(traffic.Packet) bool { return true }
	}
	d := drawn{set: set}
	for _, p := range all {
		d.has = append(d.has, holds(p))
	}
	return d
}

// genSet is a set by a few operations.
func genSet(t *rapid.T, all []traffic.Packet) drawn {
	d := genSimple(t, all)
	for range rapid.IntRange(0, 5).Draw(t, "operations") {
		e := genSimple(t, all)
		var keep func(a, b bool) bool
		switch rapid.IntRange(0, 2).Draw(t, "operation") {
		case 0:
			d.set, keep = d.set.Union(e.set), func(a, b bool) bool { return a || b }
		case 1:
			d.set, keep = d.set.Minus(e.set), func(a, b bool) bool { return a && !b }
		case 2:
			d.set, keep = d.set.Intersect(e.set), func(a, b bool) bool { return a && b }
		}
		for i := range d.has {
			d.has[i] = keep(d.has[i], e.has[i])
		}
	}
	return d
}

func TestSetsAgainstBruteForce(t *testing.T) {
	all := universe()
	rapid.Check(t, func(t *rapid.T) {
		d, e := genSet(t, all), genSet(t, all)
		for i, p := range all {
			require.Equal(t, d.has[i], d.set.Contains(p), "%+v in %s", p, d.set)
		}
		if d.set.Empty() {
			require.NotContains(t, d.has, true)
		}
		if d.set.Equal(e.set) {
			require.Equal(t, d.has, e.has)
		}
	})
}

// Equal sets have equal forms, however they came about.
func TestCanonicalForm(t *testing.T) {
	all := universe()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genSet(t, all).set, genSet(t, all).set
		union := a.Minus(b).Union(b.Minus(a)).Union(a.Intersect(b))
		require.True(t, union.Equal(b.Union(a)))
		require.Equal(t, union, b.Union(a))
		require.True(t, a.Minus(b).Equal(a.Intersect(traffic.All().Minus(b))))
		require.Equal(t, a.Equal(b), a.Minus(b).Empty() && b.Minus(a).Empty())
		require.Equal(t, a.Equal(b), a.String() == b.String())
	})
}

func TestTextReadsBack(t *testing.T) {
	all := universe()
	rapid.Check(t, func(t *rapid.T) {
		s := genSet(t, all).set
		read, err := traffic.Parse(s.String())
		require.NoError(t, err)
		require.True(t, read.Equal(s), "%s reads back as %s", s, read)
		for _, f := range traffic.Families() {
			possible := traffic.All().Only(f)
			read, err := traffic.Parse(s.Text(possible))
			require.NoError(t, err)
			require.True(t, read.Only(f).Equal(s.Only(f)), "%s reads back as %s", s.Text(possible), read.Only(f))
		}
	})
}

func TestText(t *testing.T) {
	for _, text := range []string{
		"none", "all", "ipv4", "ipv6", "tcp", "tcp 22", "tcp 8080, 8443; icmp echo; icmpv6 echo", "udp 53", "all but tcp 22, fragments", "tcp unfragmented",
		"tcp 80; ipv4 udp 53", "ipv4 tcp 22; ipv6 tcp 23", "icmp 3-4, echo/0, 8/2-255", "icmp unreachable/4", "icmpv6 unreachable, packet-too-big",
		"protocol 47, 89-91", "protocol 44 fragments", "ipv4 protocol 58", "ipv4; ipv6 tcp 22", "all but ipv4 tcp 22, fragments",
		"all but icmp", "udp 1-1023, fragments", "all but protocol 47",
	} {
		s, err := traffic.Parse(text)
		require.NoError(t, err, text)
		again, err := traffic.Parse(s.String())
		require.NoError(t, err, text)
		require.True(t, s.Equal(again), "%s: %s", text, s)
		if text != "icmp 3-4, echo/0, 8/2-255" {
			require.Equal(t, text, s.String())
		}
	}
	s, err := traffic.Parse("tcp/22; icmp/echo; tcp 23,  24")
	require.NoError(t, err)
	require.Equal(t, "tcp 22-24; icmp echo", s.String())
	require.Equal(t, "tcp 22-24", s.Text(traffic.All().Only(traffic.IPv6)))
	require.Equal(t, "all", traffic.All().Text(traffic.All().Only(traffic.IPv4)))
	data, err := s.MarshalText()
	require.NoError(t, err)
	var read traffic.Set
	require.NoError(t, read.UnmarshalText(data))
	require.True(t, read.Equal(s))
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "all but", "allow", "all tcp", "but tcp", "tcp/", "tcp 70000", "tcp 9-8", "icmp 256", "icmp 3-4/1", "icmp echo/x",
		"http", "protocol", "protocol 300", "tcp 22;", "ipv4 x", "tcp 1,,2", "all but none"} {
		_, err := traffic.Parse(text)
		require.Error(t, err, text)
	}
}

func TestMaps(t *testing.T) {
	all := universe()
	rapid.Check(t, func(t *rapid.T) {
		var layers []traffic.Layer[int]
		var sets []traffic.Set
		f := rapid.SampledFrom(traffic.Families()).Draw(t, "line")
		for i := range rapid.IntRange(0, 6).Draw(t, "layers") {
			s := genSet(t, all).set
			sets = append(sets, s)
			layers = append(layers, traffic.Layer[int]{Spans: s.Spans(f), Value: i % 3})
		}
		m := traffic.Paint(layers, -1)
		require.Equal(t, traffic.End, m[len(m)-1].Last)
		other := traffic.Paint(layers[:len(layers)/2], 7)
		joined := traffic.Join(m, other, func(a, b int) [2]int { return [2]int{a, b} })
		seen := 0
		traffic.Together([]traffic.Map[int]{m, other}, func(s traffic.Span, v []int) {
			require.Equal(t, [2]int(v), joined.At(s.First))
			require.Equal(t, [2]int(v), joined.At(s.Last))
			seen += int(s.Last - s.First + 1)
		})
		require.Equal(t, int(traffic.End)+1, seen)
		for _, p := range all {
			if p.Family != f {
				continue
			}
			want := slices.IndexFunc(sets, func(s traffic.Set) bool { return s.Contains(p) })
			if want >= 0 {
				want %= 3
			}
			require.Equal(t, want, m.At(p.Point()))
			require.Equal(t, want, joined.At(p.Point())[0])
			spans := m.Spans(func(v int) bool { return v == want })
			require.True(t, slices.ContainsFunc(spans, func(s traffic.Span) bool { return s.First <= p.Point() && p.Point() <= s.Last }))
		}
		require.Equal(t, m, traffic.Join(m, m, func(a, _ int) int { return a }))
	})
}

func TestHeaders(t *testing.T) {
	for text, want := range map[string]int{"tcp 80, 443": 4, "tcp fragments": 2, "icmp echo": 256, "icmp 3/1": 1, "icmpv6 128/0": 1,
		"protocol 47": 4, "protocol 47 fragments": 2, "ipv4 protocol 58 unfragmented": 1, "ipv6 udp 53; icmp 8/0": 2, "none": 0} {
		s, err := traffic.Parse(text)
		require.NoError(t, err)
		headers, whole := s.Headers(256)
		require.True(t, whole, text)
		require.Len(t, headers, want, text)
		for _, h := range headers {
			require.True(t, s.Contains(h), "%s: %+v", text, h)
		}
	}
	headers, whole := traffic.Protocol(traffic.TCP).Headers(10)
	require.False(t, whole)
	require.Len(t, headers, 10)
}
