package model

import (
	"fmt"
	"net/netip"
	"strings"

	"go4.org/netipx"
)

// ParsePrefix reads an IPv4 or IPv6 prefix without host bits. IPv4-mapped
// IPv6 (RFC 4291, 2.5.5.2) is refused: on the wire it is IPv4.
func ParsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			return netip.Prefix{}, &fault{quote(text) + " lacks a prefix length", fmt.Sprintf("write %s/%d for the one address", addr, addr.BitLen())}
		}
		return netip.Prefix{}, &fault{quote(text) + " is not a prefix", "write a prefix such as 10.0.0.0/16 or fd00:1::/48"}
	}
	if prefix.Addr().Is4In6() {
		fix := "write the IPv4 prefix"
		if prefix.Bits() >= 96 {
			fix = "write " + netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96).Masked().String()
		}
		return netip.Prefix{}, &fault{quote(text) + " is IPv4-mapped IPv6", fix}
	}
	if masked := prefix.Masked(); masked != prefix {
		return netip.Prefix{}, &fault{quote(text) + " has host bits set", "write " + masked.String()}
	}
	return prefix, nil
}

// ParseAddr reads an address without a zone; IPv4-mapped IPv6 is refused.
func ParseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, &fault{quote(text) + " is not an address", "write an address such as 10.0.0.5 or fd00:1::5"}
	}
	if addr.Zone() != "" {
		return netip.Addr{}, &fault{quote(text) + " has a zone", "write " + addr.WithZone("").String()}
	}
	if addr.Is4In6() {
		return netip.Addr{}, &fault{quote(text) + " is IPv4-mapped IPv6", "write " + addr.Unmap().String()}
	}
	return addr, nil
}

// parseHostPrefix reads a prefix, or an address for the prefix of that one
// address.
func parseHostPrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return ParsePrefix(text)
	}
	addr, err := ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// ParseAddrRange reads `a` or `a-b`.
func ParseAddrRange(text string) (AddrRange, error) {
	low, high, isRange := strings.Cut(text, "-")
	first, err := ParseAddr(low)
	if err != nil {
		return AddrRange{}, err
	}
	if !isRange {
		return AddrRange{first, first}, nil
	}
	last, err := ParseAddr(high)
	if err != nil {
		return AddrRange{}, err
	}
	if first.BitLen() != last.BitLen() {
		return AddrRange{}, &fault{"range " + quote(text) + " mixes IPv4 and IPv6", "give both ends in one family"}
	}
	if last.Less(first) {
		return AddrRange{}, &fault{"range " + quote(text) + " runs backwards", fmt.Sprintf("write %s-%s", last, first)}
	}
	return AddrRange{first, last}, nil
}

// Contains tells whether an address lies in the range.
func (r AddrRange) Contains(addr netip.Addr) bool {
	return r.First.BitLen() == addr.BitLen() && !addr.Less(r.First) && !r.Last.Less(addr)
}

// String is `a` or `a-b`.
func (r AddrRange) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}

// MarshalText writes the range; as String.
func (r AddrRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a range; as ParseAddrRange.
func (r *AddrRange) UnmarshalText(text []byte) (err error) {
	*r, err = ParseAddrRange(string(text))
	return err
}

// FirstUsable is the first address of a prefix that a host or router may
// have: the default gateway.
func FirstUsable(p netip.Prefix) netip.Addr { return p.Masked().Addr().Next() }

// Usable tells whether a host or router may have the address in a prefix that
// contains it: not the network or broadcast address in IPv4 (RFC 1122,
// 3.2.1.3), not the subnet-router anycast address in IPv6 (RFC 4291, 2.6.1).
func Usable(p netip.Prefix, addr netip.Addr) bool {
	return unusable(p, addr) == ""
}

// unusable says what an address of a prefix is, if hosts can't have it.
func unusable(p netip.Prefix, addr netip.Addr) string {
	switch {
	case addr == p.Masked().Addr() && addr.Is4():
		return "the network address"
	case addr == p.Masked().Addr():
		return "the subnet-router anycast address (RFC 4291, 2.6.1)"
	case addr.Is4() && addr == netipx.PrefixLastIP(p):
		return "the broadcast address"
	}
	return ""
}

// prefixOf finds the prefix that an address lies in, -1 if none.
func prefixOf(prefixes []netip.Prefix, addr netip.Addr) int {
	for i, p := range prefixes {
		if p.Contains(addr) {
			return i
		}
	}
	return -1
}

// coveredBy tells whether a prefix lies inside one of others.
func coveredBy(p netip.Prefix, others []netip.Prefix) bool {
	i := prefixOf(others, p.Addr())
	return i >= 0 && others[i].Bits() <= p.Bits()
}

// Unrouted are addresses that don't leave a link or host (RFC 1122, RFC 4291): no
// router forwards what comes from or goes to them.
func Unrouted() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/127", "fe80::/10", "ff00::/8"} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// special is address space that no host of a VPC can have.
type special struct {
	prefix netip.Prefix
	what   string
}

func specials() []special {
	return []special{
		{netip.MustParsePrefix("0.0.0.0/8"), "unspecified (RFC 1122)"},
		{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122)"},
		{netip.MustParsePrefix("169.254.0.0/16"), "link-local (RFC 3927)"},
		{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 5771)"},
		{netip.MustParsePrefix("240.0.0.0/4"), "reserved (RFC 1112)"},
		{netip.MustParsePrefix("::/127"), "unspecified and loopback (RFC 4291)"},
		{netip.MustParsePrefix("::ffff:0.0.0.0/96"), "IPv4-mapped (RFC 4291)"},
		{netip.MustParsePrefix("fe80::/10"), "link-local (RFC 4291)"},
		{netip.MustParsePrefix("ff00::/8"), "multicast (RFC 4291)"},
	}
}

// specialUse says which special space a prefix touches, empty if none.
func specialUse(p netip.Prefix) string {
	for _, s := range specials() {
		if s.prefix.Overlaps(p) {
			return fmt.Sprintf("%s, which is %s", s.prefix, s.what)
		}
	}
	return ""
}

// networks checks the prefixes of a VPC or tier. The prefix lengths are those
// that leave room for a gateway and a host, and at least minV4 and minV6.
func (c *checker) networks(prefixes []netip.Prefix, minV4, minV6 int) {
	sane := make([]bool, len(prefixes))
	for i, p := range prefixes {
		if !p.IsValid() {
			continue
		}
		field := index("spec.cidrs", i)
		least, most := minV4, maxBitsV4
		if p.Addr().Is6() {
			least, most = minV6, maxBitsV6
		}
		if use := specialUse(p); use != "" {
			c.fault(field, fmt.Sprintf("%s touches %s", p, use), "use private space such as 10.0.0.0/8 or fd00::/8")
			continue
		}
		if p.Bits() < least || p.Bits() > most {
			c.fault(field, fmt.Sprintf("%s has a prefix length out of range", p),
				fmt.Sprintf("use /%d to /%d: a gateway and at least one host must fit", least, most))
			continue
		}
		sane[i] = true
		for j, other := range prefixes[:i] {
			if sane[j] && p.Overlaps(other) {
				c.fault(field, fmt.Sprintf("%s overlaps %s of spec.cidrs[%d]", p, other, j), "remove one of them")
				break
			}
		}
	}
}
