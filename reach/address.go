package reach

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Addresses are those in one list of prefixes and not in the other.
type Addresses struct {
	In     []netip.Prefix `json:"in"`
	Except []netip.Prefix `json:"except,omitempty"`
}

// String is such as "10.1.0.0/24, 10.2.0.0/24 but 10.1.0.7".
func (a Addresses) String() string {
	text := join(a.In)
	if len(a.Except) > 0 {
		text += " but " + join(a.Except)
	}
	return text
}

func join(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.String()
		if p.IsSingleIP() {
			texts[i] = p.Addr().String()
		}
	}
	return strings.Join(texts, ", ")
}

// space is the addresses that an end can have, and the prefixes by which they
// are named: those may hold others too that no packet has.
type space struct {
	all   *netipx.IPSet
	named []netip.Prefix
	idle  *netipx.IPSet // in the prefixes and not in all
}

func newSpace(named []netip.Prefix, never ...netip.Prefix) (space, error) {
	around, err := prefixSet(named)
	if err != nil {
		return space{}, err
	}
	idle, err := prefixSet(never)
	if err != nil {
		return space{}, err
	}
	return space{all: minus(around, idle), named: around.Prefixes(), idle: intersect(idle, around)}, nil
}

// join is the addresses of both.
func (s space) join(t space) space {
	all := union(s.all, t.all)
	named := rangesOf(append(slices.Clone(s.named), t.named...))
	return space{all: all, named: named.Prefixes(), idle: minus(union(s.idle, t.idle), all)}
}

// meet is the addresses in both of two spaces that are named alike.
func (s space) meet(t space) space {
	return space{all: intersect(s.all, t.all), named: s.named, idle: union(s.idle, t.idle)}
}

// describe names some of the addresses in the shorter way, families one by one:
// what there is, or what is left out of the whole.
func (s space) describe(some *netipx.IPSet) Addresses {
	var a Addresses
	for _, f := range traffic.Families() {
		in, out := s.prefixes(some, f), s.prefixes(minus(s.all, some), f)
		whole := slices.DeleteFunc(slices.Clone(s.named), func(p netip.Prefix) bool { return familyOf(p.Addr()) != f })
		if len(in) > 0 && len(whole)+len(out) < len(in) {
			a.In, a.Except = append(a.In, whole...), append(a.Except, out...)
			continue
		}
		a.In = append(a.In, in...)
	}
	return a
}

// prefixes are the fewest of a family that hold the addresses and besides them
// idle ones alone.
func (s space) prefixes(some *netipx.IPSet, f traffic.Family) []netip.Prefix {
	prefixes := union(some, s.idle).Prefixes()
	return slices.DeleteFunc(prefixes, func(p netip.Prefix) bool { return familyOf(p.Addr()) != f || !some.OverlapsPrefix(p) })
}

// neverHosts are the addresses of a tier that no attachment can have: network,
// broadcast and anycast addresses, and the gateways.
func neverHosts(spec *model.TierSpec) []netip.Prefix {
	var never []netip.Prefix
	add := func(a netip.Addr) { never = append(never, netip.PrefixFrom(a, a.BitLen())) }
	for _, p := range spec.CIDRs {
		add(p.Masked().Addr())
		if p.Addr().Is4() {
			add(netipx.PrefixLastIP(p))
		}
	}
	for _, g := range spec.Gateways {
		add(g)
	}
	return never
}

func everywhere() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// NotUnicast are addresses that stand for no host beyond a router (RFC 6890).
func NotUnicast() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "ff00::/8"} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func familyOf(a netip.Addr) traffic.Family {
	if a.Is4() {
		return traffic.IPv4
	}
	return traffic.IPv6
}

func prefixSet(prefixes []netip.Prefix) (*netipx.IPSet, error) {
	var b netipx.IPSetBuilder
	for _, p := range prefixes {
		b.AddPrefix(p)
	}
	s, err := b.IPSet()
	if err != nil {
		return nil, fmt.Errorf("reading prefixes: %w", err)
	}
	return s, nil
}

// rangesOf is the set of prefixes that are valid.
func rangesOf(prefixes []netip.Prefix) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, p := range prefixes {
		b.AddPrefix(p)
	}
	return built(&b)
}

func rangeSet(ranges []netipx.IPRange) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, r := range ranges {
		b.AddRange(r)
	}
	return built(&b)
}

func union(sets ...*netipx.IPSet) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, s := range sets {
		b.AddSet(s)
	}
	return built(&b)
}

func minus(a, b *netipx.IPSet) *netipx.IPSet {
	var out netipx.IPSetBuilder
	out.AddSet(a)
	out.RemoveSet(b)
	return built(&out)
}

func intersect(a, b *netipx.IPSet) *netipx.IPSet {
	var out netipx.IPSetBuilder
	out.AddSet(a)
	out.Intersect(b)
	return built(&out)
}

// built ends the building of a set from ranges that are valid: it can't fail.
func built(b *netipx.IPSetBuilder) *netipx.IPSet {
	s, err := b.IPSet()
	if err != nil {
		panic(err)
	}
	return s
}
