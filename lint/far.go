package lint

import (
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// farSides reports the prefixes and tiers of rules that nobody on the far side
// can have an address in, of those that decide about anything.
func (l *linter) farSides(rs *rules, users []string, reached map[int]extent) error {
	if len(users) == 0 {
		return nil
	}
	ends := &farEnds{linter: l, users: users}
	var err error
	if ends.possible, err = ends.reckon(); err != nil {
		return err
	}
	for i, rule := range rs.spec.Rules {
		if reached[i] != byMore {
			continue // which says more
		}
		for k, p := range rule.CIDRs {
			if why := ends.why(rule, []netip.Prefix{p}); why != "" {
				l.warn(rs.resource, fmt.Sprintf("%s.cidrs[%d]", field(i), k), fmt.Sprintf("%s %s", p, why), "correct or remove it")
			}
		}
		for k, tier := range rule.Tiers {
			if why := ends.why(rule, l.prefixes(tier)); why != "" {
				l.warn(rs.resource, fmt.Sprintf("%s.tiers[%d]", field(i), k), fmt.Sprintf("tier %s %s", tier, why), "correct or remove it")
			}
		}
	}
	return nil
}

// farEnds knows who can be on the far side of the tiers that use a list.
type farEnds struct {
	*linter
	users    []string
	possible *netipx.IPSet
}

// reckon is the far side of all users together: of each the addresses of its
// families but its own, those that no router forwards, and those of the VPC
// that are in no tier and allowed to nobody.
func (e *farEnds) reckon() (*netipx.IPSet, error) {
	var all netipx.IPSetBuilder
	for _, user := range e.users {
		var far netipx.IPSetBuilder
		for _, p := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
			if slices.ContainsFunc(e.prefixes(user), func(own netip.Prefix) bool { return familyOf(own) == familyOf(p) }) {
				far.AddPrefix(p)
			}
		}
		mine, err := far.IPSet()
		if err != nil {
			return nil, err
		}
		for _, p := range e.vpc {
			far.RemovePrefix(p)
		}
		for _, spec := range e.tiers {
			for _, p := range spec.CIDRs {
				far.AddPrefix(p)
			}
		}
		for _, p := range slices.Concat(e.prefixes(user), model.Unrouted()) {
			far.RemovePrefix(p)
		}
		for _, p := range e.allowed {
			far.AddPrefix(p)
		}
		far.Intersect(mine)
		one, err := far.IPSet()
		if err != nil {
			return nil, err
		}
		all.AddSet(one)
	}
	return all.IPSet()
}

// why says why prefixes of a rule can't be a far side, empty if they can. They
// are one prefix, or those of a tier.
func (e *farEnds) why(rule model.Rule, prefixes []netip.Prefix) string {
	fits := slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool {
		return rule.Protocol == model.ProtoICMP && isIPv6(p) || rule.Protocol == model.ProtoICMPv6 && isIPv4(p)
	})
	if len(fits) == 0 && len(prefixes) > 0 {
		return fmt.Sprintf("is never matched: %s is not of its family", rule.Protocol)
	}
	if slices.ContainsFunc(fits, e.possible.OverlapsPrefix) {
		return ""
	}
	in := func(others []netip.Prefix) bool {
		return !slices.ContainsFunc(fits, func(p netip.Prefix) bool {
			return !slices.ContainsFunc(others, func(o netip.Prefix) bool { return o.Contains(p.Addr()) && o.Bits() <= p.Bits() })
		})
	}
	var own, inside []netip.Prefix
	for _, user := range e.users {
		own = append(own, e.prefixes(user)...)
	}
	for _, spec := range e.tiers {
		inside = append(inside, spec.CIDRs...)
	}
	shares := func(p netip.Prefix) bool {
		return slices.ContainsFunc(own, func(o netip.Prefix) bool { return familyOf(o) == familyOf(p) })
	}
	overlaps := func(p netip.Prefix) bool { return slices.ContainsFunc(inside, p.Overlaps) }
	switch {
	case !slices.ContainsFunc(fits, shares):
		return fmt.Sprintf("is never matched: no tier that uses the list has %s", title(familyOf(fits[0])))
	case in(own):
		return fmt.Sprintf("is the inside of %s, which uses the list: inside a tier no list applies", e.users[0])
	case in(model.Unrouted()):
		return "is never matched: no router forwards it"
	case in(e.vpc) && !slices.ContainsFunc(fits, overlaps):
		return "is never matched: it lies in the VPC and in no tier"
	}
	return "is never matched: nobody on the far side has an address in it"
}
