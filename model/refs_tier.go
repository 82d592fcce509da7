package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

func (c *crossChecker) tier(r *Resource, spec *TierSpec) {
	if vpc := c.state.byID[ID{Kind: KindVPC, Name: r.Metadata.VPC}]; sound(vpc, "spec.cidrs") && fromInput(r) {
		around := vpc.Spec.(*VPCSpec).CIDRs
		for i, p := range spec.CIDRs {
			if at := (spot{r, index("spec.cidrs", i)}); sound(r, at.field) && !coveredBy(p, around) {
				c.fault(at, "", fmt.Sprintf("%s lies in none of the prefixes of %s", p, vpc.ID()),
					"stay inside "+join(around)+", or add a prefix to the VPC")
			}
		}
	}
	if sound(r, "spec.acl") && !BuiltinName(spec.ACL) {
		c.refer(spot{r, "spec.acl"}, ID{KindACL, r.Metadata.VPC, spec.ACL})
	}
	for _, p := range c.removed(r) {
		var users []string
		for _, attachment := range c.state.vpcs[r.Metadata.VPC].byTier[r.Metadata.Name] {
			if slices.ContainsFunc(c.addressesOf(attachment), p.Contains) {
				users = append(users, attachment.Metadata.Name)
			}
		}
		if len(users) > 0 {
			c.fault(spot{r, "spec.cidrs"}, CodeInUse, fmt.Sprintf("%s can't be changed or removed: %s in it: %s", p, holders(len(users)), few(users)),
				"keep the prefix, or delete the attachments first")
		}
	}
}

func holders(n int) string {
	if n == 1 {
		return "1 attachment has addresses"
	}
	return fmt.Sprintf("%d attachments have addresses", n)
}

// removed are the prefixes that a tier of the input had and no longer has.
func (c *crossChecker) removed(r *Resource) []netip.Prefix {
	old := c.before(r.ID())
	if old == nil || !fromInput(r) || !sound(r, "spec.cidrs") {
		return nil
	}
	now := r.Spec.(*TierSpec).CIDRs
	return slices.DeleteFunc(slices.Clone(old.Spec.(*TierSpec).CIDRs), func(p netip.Prefix) bool { return slices.Contains(now, p) })
}

// addressesOf are an attachment's fixed addresses, or else those it has now.
func (c *crossChecker) addressesOf(r *Resource) []netip.Addr {
	if addresses := r.Spec.(*AttachmentSpec).Addresses; len(addresses) > 0 {
		return addresses
	}
	if old := c.before(r.ID()); old != nil {
		return old.Spec.(*AttachmentSpec).Addresses
	}
	return nil
}

// overlaps reports tiers of one VPC that share addresses. Sorted by address,
// a prefix can overlap only those before it that contain it.
func (c *crossChecker) overlaps(m *members) {
	type owned struct {
		prefix netip.Prefix
		at     spot
		order  int
	}
	var list []owned
	for order, r := range m.tiers {
		for i, p := range r.Spec.(*TierSpec).CIDRs {
			if at := (spot{r, index("spec.cidrs", i)}); sound(r, at.field) {
				list = append(list, owned{p, at, order})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b owned) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.prefix.Bits(), b.prefix.Bits()))
	})
	var around []owned // each contains the next
	for _, inner := range list {
		for len(around) > 0 && !around[len(around)-1].prefix.Overlaps(inner.prefix) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 && around[len(around)-1].at.r != inner.at.r {
			first, later := around[len(around)-1], inner
			if first.order > later.order {
				first, later = later, first
			}
			c.overlap(later.at, first.at, later.prefix, first.prefix)
		}
		around = append(around, inner)
	}
}

func (c *crossChecker) overlap(later, first spot, laterPrefix, firstPrefix netip.Prefix) {
	if !fromInput(later.r) {
		laterPrefix, firstPrefix = firstPrefix, laterPrefix
	}
	c.collision(later, first, fmt.Sprintf("%s overlaps %s of", laterPrefix, firstPrefix), "give one of them another prefix")
}

func (c *crossChecker) attachment(r *Resource, spec *AttachmentSpec) {
	if spec.InterfaceID != "" {
		claim(c, c.interfaces, spec.InterfaceID, spot{r, "spec.interfaceID"},
			func() string { return quote(spec.InterfaceID) + " is the interface ID of" }, "an interface ID belongs to one attachment")
	}
	if !sound(r, "spec.tier") {
		return
	}
	old := c.before(r.ID())
	if old != nil && fromInput(r) && old.Spec.(*AttachmentSpec).Tier != spec.Tier {
		c.fault(spot{r, "spec.tier"}, CodeImmutable, fmt.Sprintf("can't be changed: the attachment is in tier %s", old.Spec.(*AttachmentSpec).Tier),
			"to move it, delete it and create it anew")
		return
	}
	tierID := ID{KindTier, r.Metadata.VPC, spec.Tier}
	tier := c.refer(spot{r, "spec.tier"}, tierID)
	if sound(tier, "spec.dhcp") {
		c.asksDHCP(r, spec, tier)
	}
	if spec.MAC != "" && sound(r, "spec.mac") {
		claim(c, c.macs, macKey{tierID, spec.MAC}, spot{r, "spec.mac"}, func() string { return string(spec.MAC) + " is the MAC of" }, "give one of them another")
	}
	for i, addr := range spec.Addresses {
		at := spot{r, index("spec.addresses", i)}
		if !sound(r, at.field) {
			continue
		}
		claim(c, c.addresses, addressKey{tierID, addr}, at, func() string { return addr.String() + " is taken by" }, "give one of them another address")
		if sound(tier, "spec.cidrs") {
			c.address(at, addr, tier)
		}
	}
}

// asksDHCP reports an attachment that is configured by DHCP in a tier without.
func (c *crossChecker) asksDHCP(r *Resource, spec *AttachmentSpec, tier *Resource) {
	if spec.Plug == nil || spec.Plug.Configure != PlugDHCP || tier.Spec.(*TierSpec).DHCP.Enabled {
		return
	}
	c.blame(
		spot{r, "spec.plug.configure"}, "", fmt.Sprintf("%s serves no DHCP", tier.ID()),
		spot{tier, "spec.dhcp.enabled"}, CodeInUse, fmt.Sprintf("%s is configured by DHCP", r.ID()),
		"set spec.dhcp.enabled of the tier to true, or spec.plug.configure of the attachment to static")
}

// claim notes who has a thing, and reports a second one that wants it.
func claim[K comparable](c *crossChecker, taken map[K]spot, key K, at spot, problem func() string, fix string) {
	first, ok := taken[key]
	switch {
	case !ok:
		taken[key] = at
	case first.r != at.r:
		c.collision(at, first, problem(), fix)
	}
}

// address holds one fixed address against its tier. Reserved addresses are
// kept from allocation only: a fixed one may be among them.
func (c *crossChecker) address(at spot, addr netip.Addr, tier *Resource) {
	spec := tier.Spec.(*TierSpec)
	in := prefixOf(spec.CIDRs, addr)
	if in < 0 {
		removed := slices.ContainsFunc(c.removed(tier), func(p netip.Prefix) bool { return p.Contains(addr) })
		if fromInput(at.r) && !removed {
			c.fault(at, "", fmt.Sprintf("%s lies in none of the prefixes of %s", addr, tier.ID()), "one of "+join(spec.CIDRs))
		}
		return
	}
	if what := unusable(spec.CIDRs[in], addr); what != "" && fromInput(at.r) {
		c.fault(at, "", fmt.Sprintf("%s is %s of %s", addr, what, spec.CIDRs[in]), "give a host's address")
	}
	if i := slices.Index(spec.Gateways, addr); i >= 0 {
		c.blame(
			at, CodeTaken, fmt.Sprintf("%s is the gateway of %s", addr, tier.ID()),
			spot{tier, index("spec.gateways", i)}, CodeTaken, fmt.Sprintf("%s is the address of %s", addr, at.r.ID()),
			"give one of them another address")
	}
}
