package match

import (
	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"
)

func ps(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func TestParseRender(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := exprs(4, "a", "b/c", `"\<é`).Draw(t, "expr")
		text := Render(e)
		parsed, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, e, parsed, text)
		p := packets("a", "b/c").Draw(t, "packet")
		require.Equal(t, Eval(e, p), Eval(parsed, p), text)
	})
}

// A negation holds exactly when its operand doesn't, for packets that have
// every field.
func TestNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Addrs(IP4Src, rapid.SliceOfN(anyPrefix(), 0, 3).Draw(t, "prefixes")...)
		lo := portNumber().Draw(t, "lo")
		e = Or(And(e, Num(TCPDst, Range{lo, lo + 5}, Range{80, 80})), EthMasked(EthDst, mac().Draw(t, "mac"), macMask().Draw(t, "mask"), true))
		n, err := e.not()
		if err != nil {
			return // the whole range of ports is `tcp`
		}
		p := packets("a").Filter(func(p Packet) bool { return TCP.holds(&p) && IP4.holds(&p) }).Draw(t, "packet")
		require.Equal(t, !Eval(e, p), Eval(n, p), Render(n))
	})
}

func TestAddrsMeansItsPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(anyPrefix()).Draw(t, "prefixes")
		p := packets("a").Filter(IPPacket).Draw(t, "packet")
		want := false
		for _, x := range list {
			want = want || x.Contains(p.Src) || x.Addr().Is4In6() && x.Masked().Addr().Is6() && in6(x, p.Src)
		}
		require.Equal(t, want, Eval(Or(Addrs(IP4Src, list...), Addrs(IP6Src, list...)), p))
	})
}

// IPPacket tells whether the packet has addresses.
func IPPacket(p Packet) bool { return IP.holds(&p) }

// in6 is Contains without netip's distinction of IPv4-mapped addresses.
func in6(x netip.Prefix, a netip.Addr) bool {
	m := prefixMask(x.Bits(), 128)
	return a.Is6() && fromAddr(a).and(m) == fromAddr(x.Addr()).and(m)
}

func TestNumMeansItsRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs []Range
		for range rapid.IntRange(0, 5).Draw(t, "ranges") {
			rs = append(rs, Range{portNumber().Draw(t, "lo"), portNumber().Draw(t, "hi")})
		}
		port := portNumber().Filter(func(n uint32) bool { return n <= 65535 }).Draw(t, "port")
		want := false
		for _, r := range rs {
			want = want || r.Lo <= port && port <= r.Hi
		}
		p := Packet{EthType: 0x800, Proto: 6, DstPort: uint16(port)}
		require.Equal(t, want, Eval(Num(TCPDst, rs...), p), Render(Num(TCPDst, rs...)))
		small := uint8(port)
		want = false
		for _, r := range rs {
			want = want || r.Lo <= uint32(small) && uint32(small) <= r.Hi
		}
		p = Packet{EthType: 0x800, Proto: 1, ICMPType: small}
		require.Equal(t, want, Eval(Num(ICMP4Type, rs...), p), Render(Num(ICMP4Type, rs...)))
	})
}

func TestRenderGolden(t *testing.T) {
	router := EthMasked(EthDst, "0e:58:00:00:00:00", "ff:fe:00:00:00:00", true)
	tcp22 := Num(TCPDst, Range{22, 22})
	golden := []struct {
		name string
		e    Expr
	}{
		{"true", And()},
		{"false", Or()},
		{"single operand collapses", And(Or(Is(IP)))},
		{"constants fold", Or(And(Is(IP), Or()), And(And(), Is(TCP)))},
		{"nested junctions flatten", And(And(Is(IP), Is(TCP)), And(tcp22))},
		{"parentheses where the sorts mix", And(Is(IP4), Or(Is(TCP), Is(UDP)))},
		{"parentheses inside out", Or(And(Is(IP4), Or(Is(TCP), And(Is(UDP), router))), Is(ARP))},
		{"one prefix", Addrs(IP4Src, ps("10.0.0.0/8")...)},
		{"one address", Addrs(IP6Dst, ps("fd00::1/128")...)},
		{"prefixes sort, host bits and covered ones go", Addrs(IP4Dst, ps("192.168.0.0/16", "10.9.8.7/8", "10.1.0.0/16", "192.168.0.0/16", "10.0.0.0/8")...)},
		{"any address", Addrs(IP4Dst, ps("0.0.0.0/0", "10.0.0.0/8")...)},
		{"prefixes of the family only", Addrs(IP6Src, ps("10.0.0.0/8", "fe80::/10")...)},
		{"no prefix of the family", And(Is(IP), Addrs(IP4Src, ps("fe80::/10")...))},
		{"one port", tcp22},
		{"ports", Num(UDPDst, Range{443, 443}, Range{80, 80})},
		{"range", Num(TCPDst, Range{8000, 9000})},
		{"ranges merge, sort and mix", And(Is(IP4), Num(TCPDst, Range{8500, 9000}, Range{443, 443}, Range{8000, 8499}, Range{22, 22}, Range{8100, 8200}))},
		{"neighbours merge", Num(SCTPDst, Range{80, 80}, Range{81, 81})},
		{"a gap of one stays", Num(TCPDst, Range{80, 80}, Range{82, 90}, Range{92, 92})},
		{"all ports", Num(TCPDst, Range{0, 65535})},
		{"ports up to the last", Num(TCPDst, Range{1, 1 << 31})},
		{"no port", Num(TCPDst, Range{65536, 70000}, Range{9, 8})},
		{"ICMP types are written out", Num(ICMP4Type, Range{0, 3}, Range{8, 8})},
		{"all ICMP types", Num(ICMP6Type, Range{0, 255})},
		{"protocol", Num(IPProto, Range{47, 47})},
		{"Ethernet type", Num(EthType, Range{0x88cc, 0x88cc})},
		{"router MAC", router},
		{"not the router MAC", EthMasked(EthSrc, "0E:58:11:22:33:44", "ff:fe:00:00:00:00", false)},
		{"whole MAC", EthMasked(EthSrc, "0a:58:0a:01:02:03", "ff:ff:ff:ff:ff:ff", true)},
		{"port name", Port(Inport, `shop/web "1"\<é`)},
		{"a name no port has", Port(Outport, "\xff")},
		{"fragments", And(Is(TCP), Or(tcp22, Is(IsFrag)))},
		{"negation moves inwards", Not(And(EthMasked(EthDst, "0e:58:00:00:00:00", "ff:fe:00:00:00:00", true), Or(tcp22, Num(TCPDst, Range{80, 90})), Not(Is(EthMcast))))},
		{"negated predicates keep their protocol", Or(Not(Is(IsFrag)), Not(Is(IP4Mcast)), Not(Is(IP6Mcast)), Not(Is(EthMcast)))},
		{"multicast", Or(Is(IP4Mcast), Is(IP6Mcast))},
	}
	var ar txtar.Archive
	for _, g := range golden {
		ar.Files = append(ar.Files, txtar.File{Name: g.name, Data: []byte(Render(g.e) + "\n")})
	}
	const path = "testdata/render.txtar"
	if testflag.Update() {
		require.NoError(t, os.WriteFile(path, txtar.Format(&ar), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(txtar.Format(&ar)))
}

func TestEval(t *testing.T) {
	v4 := Packet{EthType: 0x800, Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Proto: 6, DstPort: 80, Inport: "a"}
	v6, icmp, frag := v4, v4, v4
	v6.EthType, v6.Src, v6.Dst = 0x86dd, netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	icmp.Proto, icmp.ICMPType, icmp.ICMPCode = 1, 8, 0
	frag.Frag = true
	fragICMP := icmp
	fragICMP.Frag = true
	group, solicit := v4, v6
	group.Dst = netip.MustParseAddr("224.0.0.1")
	solicit.Proto, solicit.ICMPType, solicit.TTL = 58, 135, 255
	routed := solicit
	routed.TTL = 254
	for _, c := range []struct {
		text string
		p    Packet
		want bool
	}{
		{"ip4.mcast", group, false}, // the MAC isn't multicast
		{"nd && nd_ns", solicit, true},
		{"nd || nd_ns", routed, false},
		{"!(70 <= tcp.dst <= 90)", v4, false},
		{"!(81 <= tcp.dst <= 90)", v4, true},
		{"!(81 < tcp.dst <= 90)", icmp, false},
		{"tcp.dst == 80", v4, true},
		{"tcp.dst == 80", v6, true},
		{"tcp.dst != 80", v4, false},
		{"tcp.dst != 81", icmp, false},
		{"udp.dst != 81", v4, false},
		{"!(udp.dst == 81)", v4, false},
		{"ip4.src == 10.0.0.0/8", v6, false},
		{"ip4.src != 10.0.0.0/8", v6, false},
		{"ip6.src != fe80::/10", v4, false},
		{"!ip.is_frag", Packet{EthType: 0x806}, true},
		{"tcp && ip.later_frag && !ip.first_frag", frag, true},
		{"tcp.dst == 80", frag, false},
		{"tcp.dst == 0", frag, true},
		{"icmp4.type == 8", fragICMP, false},
		{"icmp4.type == 0 && icmp4.code == 0", fragICMP, true},
		{"icmp6.type == 8", icmp, false},
		{`inport == "a"`, v4, true},
		{`inport == {"b", "c"}`, v4, false},
		{"tcp", Packet{EthType: 0x806, Proto: 6}, false},
	} {
		e, err := Parse(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, Eval(e, c.p), "%s on %+v", c.text, c.p)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"tcp && ip4 || udp":              "column 12: && and || need parentheses when used together",
		"ip4 && !tcp":                    "column 9: tcp can't be negated: it is nominal",
		"ip.proto != 6":                  "column 13: ip.proto can only be compared by ==: it is nominal",
		"tcp.dst == 65536":               "column 12: 65536 has 17 bits, more than the 16 of tcp.dst",
		"ip4.src == $set":                "column 12: references to address sets ($) and port groups (@) are not supported",
		"inport == @pg":                  "column 11: references to address sets ($) and port groups (@) are not supported",
		"ct.est && tcp":                  `column 1: unknown or unsupported field "ct.est"`,
		"ip4.src[0..7] == 1":             "column 8: subfields are not supported",
		"eth.dst[40]":                    "column 8: subfields are not supported",
		"tcp == 1":                       "column 5: predicate tcp is tested by its name alone",
		`is_chassis_resident("a")`:       "column 1: function is_chassis_resident is not supported",
		"ip.proto == 6/0xff":             "column 15: mask 0xff doesn't fit 6",
		"ip.proto == 6/255":              "column 13: ip.proto takes no mask: it is nominal",
		"tcp.dst == {}":                  `column 13: constant expected, found "}"`,
		"/* tcp\n*/ udp":                 "column 1: `/*' without `*/' in its line",
		"inport == \"a\tb\"":             `column 11: string: invalid character '\t' in string literal`,
		"":                               "column 1: constant expected, found the end",
		"tcp.dst == {80, \"a\"}":         "column 17: numbers and strings in one set",
		strings.Repeat("(", 101) + "tcp": "column 101: more than 100 parentheses nested",
	} {
		_, err := Parse(text)
		require.EqualError(t, err, "parse match: "+want, text)
	}
	deep := strings.Repeat("(", 100) + "tcp" + strings.Repeat(")", 100)
	e, err := Parse(deep)
	require.NoError(t, err)
	require.Equal(t, Is(TCP), e)
}

func TestConstant(t *testing.T) {
	v, ok := Constant(Num(TCPDst))
	require.True(t, ok)
	require.False(t, v)
	v, ok = Constant(And())
	require.True(t, ok)
	require.True(t, v)
	_, ok = Constant(Is(IP))
	require.False(t, ok)
}

func TestPanics(t *testing.T) {
	require.Panics(t, func() { Is("tpc") })
	require.Panics(t, func() { Not(Is(TCP)) })
	require.Panics(t, func() { Not(And(Num(TCPDst, Range{80, 80}), Port(Inport, "a"))) })
	require.Panics(t, func() { Num(IP4Src, Range{1, 1}) })
	require.Panics(t, func() { Addrs(TCPDst) })
	require.Panics(t, func() { Port(TCPDst, "a") })
	require.Panics(t, func() { EthMasked(EthDst, "0e:58", "ff:fe:00:00:00:00", true) })
	require.Panics(t, func() { EthMasked(IP4Dst, "0e:58:00:00:00:00", "ff:fe:00:00:00:00", true) })
}

func FuzzParse(f *testing.F) {
	for _, s := range append(acceptedTexts(), refusedTexts()...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		text := Render(e)
		again, err := Parse(text)
		require.NoError(t, err, "%q rendered as %q", s, text)
		require.Equal(t, e, again, "%q rendered as %q", s, text)
		Eval(e, Packet{EthType: 0x800, Proto: 6})
	})
}

func BenchmarkRender(b *testing.B) {
	e := And(EthMasked(EthSrc, "0e:58:00:00:00:00", "ff:fe:00:00:00:00", true),
		Addrs(IP4Src, ps("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")...), Is(TCP),
		Or(Num(TCPDst, Range{22, 22}, Range{80, 80}, Range{8000, 9000}), Is(IsFrag)))
	b.ReportAllocs()
	for b.Loop() {
		Render(e)
	}
}

func BenchmarkEval(b *testing.B) {
	e, err := Parse("eth.dst == 0e:58:00:00:00:00/ff:fe:00:00:00:00 && ip4.src == {10.0.0.0/8, 172.16.0.0/12} && tcp.dst == {80, 443}")
	require.NoError(b, err)
	p := Packet{EthDst: [6]byte{0x0e, 0x58}, EthType: 0x800, Src: netip.MustParseAddr("172.16.1.1"), Dst: netip.MustParseAddr("10.0.0.1"), Proto: 6, DstPort: 443}
	b.ReportAllocs()
	for b.Loop() {
		Eval(e, p)
	}
}
