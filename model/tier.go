package model

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
)

// TierSpec is the spec of a Tier.
type TierSpec struct {
	CIDRs    []netip.Prefix `json:"cidrs" doc:"the tier's subnets, IPv4 or IPv6: one L2 segment with one or more prefixes; at least one"`
	Gateways []netip.Addr   `json:"gateways" doc:"the router's address in each prefix; default the first usable address"` // one per prefix, in the order of CIDRs
	Reserved []AddrRange    `json:"reserved,omitempty" doc:"addresses or ranges a-b that are never allocated automatically"`
	ACL      string         `json:"acl" doc:"the list in force at this tier's boundary; default default-deny"`
	DHCP     DHCPSpec       `json:"dhcp" doc:"what DHCP and router advertisements say"`
}

// DHCPSpec is what OVN's DHCP servers and router advertisements say.
type DHCPSpec struct {
	Enabled    bool              `json:"enabled" doc:"serve DHCPv4, DHCPv6 and router advertisements; default true"`
	LeaseTime  int               `json:"leaseTime" doc:"seconds; default 3600"`
	DNSServers []netip.Addr      `json:"dnsServers,omitempty" doc:"name servers that guests are told"`
	Domain     string            `json:"domain,omitempty" doc:"domain name that guests are told"`
	Options    map[string]string `json:"options,omitempty" doc:"further DHCPv4 options by the names of ovn-nb(5), from a closed table"` // checked against DHCPOptionTypes; canonical text
}

// Bounds of a lease in seconds: below the first, guests do little but renew;
// the last means forever (RFC 2131, 3.3).
const (
	DefaultLeaseTime = 3600
	minLeaseTime     = 10
	maxLeaseTime     = math.MaxUint32
)

func (s *TierSpec) setDefaults() {
	s.ACL = ACLDefaultDeny
	s.DHCP = DHCPSpec{Enabled: true, LeaseTime: DefaultLeaseTime}
}

// complete brings the gateways into the order of the prefixes, the missing
// ones filled in. Those that belong to no prefix, or are too many, follow:
// check refuses them.
func (s *TierSpec) complete(r *Resource) {
	s.DHCP.Domain = strings.ToLower(s.DHCP.Domain)
	for name, text := range s.DHCP.Options {
		if canonical, err := canonicalOption(name, text); err == nil {
			s.DHCP.Options[name] = canonical
		}
	}
	given := s.Gateways
	gateways := make([]netip.Addr, len(s.CIDRs))
	order := make([]int, len(s.CIDRs))
	for i := range order {
		order[i] = -1
	}
	for i, gateway := range given {
		at := prefixOf(s.CIDRs, gateway)
		if at >= 0 && !gateways[at].IsValid() {
			gateways[at], order[at] = gateway, i
			continue
		}
		gateways, order = append(gateways, gateway), append(order, i)
	}
	for i, p := range s.CIDRs {
		if p.IsValid() && !gateways[i].IsValid() {
			gateways[i] = FirstUsable(p)
		}
	}
	s.Gateways = gateways
	r.reorder("spec.gateways", order)
}

func (s *TierSpec) check(c *checker) {
	if len(s.CIDRs) == 0 {
		c.fault("spec.cidrs", "is missing", "give at least one prefix, such as 10.0.1.0/24")
	}
	c.networks(s.CIDRs, minTierV4, minTierV6)
	s.checkGateways(c)
	for i, reserved := range s.Reserved {
		s.checkReserved(c, index("spec.reserved", i), reserved)
	}
	c.required("spec.acl", s.ACL, dnsLabel)
	s.checkDHCP(c)
}

func (s *TierSpec) checkGateways(c *checker) {
	for i, gateway := range s.Gateways {
		field := index("spec.gateways", i)
		// A default is right if its prefix is.
		if !gateway.IsValid() || i < len(s.CIDRs) && gateway == FirstUsable(s.CIDRs[i]) {
			continue
		}
		at := prefixOf(s.CIDRs, gateway)
		switch {
		case at < 0:
			if s.readable() {
				c.fault(field, fmt.Sprintf("%s lies in none of the tier's prefixes", gateway), "one of "+join(s.CIDRs))
			}
		case at != i:
			c.fault(field, fmt.Sprintf("%s is a second gateway in %s", gateway, s.CIDRs[at]), "one gateway for each prefix")
		case unusable(s.CIDRs[at], gateway) != "":
			c.fault(field, fmt.Sprintf("%s is %s of %s", gateway, unusable(s.CIDRs[at], gateway), s.CIDRs[at]),
				"such as "+FirstUsable(s.CIDRs[at]).String())
		}
	}
}

// readable tells whether there are prefixes and all could be read.
func (s *TierSpec) readable() bool {
	for _, p := range s.CIDRs {
		if !p.IsValid() {
			return false
		}
	}
	return len(s.CIDRs) > 0
}

func (s *TierSpec) checkReserved(c *checker, field string, r AddrRange) {
	if !r.First.IsValid() || !s.readable() {
		return
	}
	at := prefixOf(s.CIDRs, r.First)
	switch {
	case at < 0:
		c.fault(field, fmt.Sprintf("%s lies in none of the tier's prefixes", r.First), "one of "+join(s.CIDRs))
	case !s.CIDRs[at].Contains(r.Last):
		c.fault(field, fmt.Sprintf("%s reaches beyond %s", r, s.CIDRs[at]), "end it inside the prefix")
	}
}

func (s *TierSpec) checkDHCP(c *checker) {
	d := s.DHCP
	if d.LeaseTime < minLeaseTime || d.LeaseTime > maxLeaseTime {
		c.fault("spec.dhcp.leaseTime", fmt.Sprintf("%d is out of range", d.LeaseTime),
			fmt.Sprintf("between %d and %d seconds", minLeaseTime, maxLeaseTime))
	}
	for i, server := range d.DNSServers {
		if server.IsValid() && (server.IsUnspecified() || server.IsMulticast()) {
			c.fault(index("spec.dhcp.dnsServers", i), fmt.Sprintf("%s can't be a server's address", server), "give a unicast address")
		}
	}
	twice(c, "spec.dhcp.dnsServers", d.DNSServers)
	c.optional("spec.dhcp.domain", d.Domain, dnsName)
	for _, name := range sortedKeys(d.Options) {
		if _, err := canonicalOption(name, d.Options[name]); err != nil {
			c.fault(member("spec.dhcp.options", name), err.problem, err.fix)
		}
	}
	if len(d.Options) > 0 && s.readable() && !s.hasIPv4() {
		c.warn("spec.dhcp.options", "has no effect: the options are of DHCPv4 and the tier has no IPv4 prefix", "remove it")
	}
}

func (s *TierSpec) hasIPv4() bool {
	for _, p := range s.CIDRs {
		if p.Addr().Is4() {
			return true
		}
	}
	return false
}

func join[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i, value := range list {
		texts[i] = value.String()
	}
	return strings.Join(texts, ", ")
}
