package model

import (
	"fmt"
	"net/netip"
)

// VPCSpec is the spec of a VPC.
type VPCSpec struct {
	CIDRs              []netip.Prefix `json:"cidrs" doc:"the super-CIDR: every tier's prefix lies inside one of these IPv4 or IPv6 prefixes; at least one"`
	DistributedRouting bool           `json:"distributedRouting" doc:"true (default): every hypervisor routes between tiers itself; false: one chassis routes everything"`
	Chassis            string         `json:"chassis,omitempty" doc:"the chassis that routes; required when distributedRouting is false, refused otherwise"`
	Offering           string         `json:"offering,omitempty" doc:"the VPCOffering whose capabilities and limits apply"`
	MTU                int            `json:"mtu" doc:"bytes, announced by DHCP and router advertisements; default 1442, which fits Geneve and VXLAN over an IPv4 underlay of 1500"`
}

// Bounds of a VPC's MTU in bytes. IPv4 hosts take at least 576 (RFC 1122,
// 3.3.2); IPv6 needs links of at least 1280 (RFC 8200, 5) and hosts ignore a
// smaller value in an advertisement. 9000 is the common jumbo frame.
const (
	DefaultMTU  = 1442
	minMTU      = 576
	minMTUv6    = 1280
	maxMTU      = 9000
	maxBitsV4   = 30  // gateway and one host beside network and broadcast
	maxBitsV6   = 126 // gateway and two hosts beside the subnet-router anycast address
	minTierV4   = 8
	minTierV6   = 16
	maxNameLen  = 255 // of a chassis or interface
	maxSentence = 255 // of a description, in characters
)

func (s *VPCSpec) setDefaults() {
	s.DistributedRouting = true
	s.MTU = DefaultMTU
}

func (s *VPCSpec) complete(*Resource) {}

func (s *VPCSpec) check(c *checker) {
	if len(s.CIDRs) == 0 {
		c.fault("spec.cidrs", "is missing", "give at least one prefix, such as 10.0.0.0/16")
	}
	c.networks(s.CIDRs, 1, 1)
	if s.DistributedRouting && s.Chassis != "" {
		c.fault("spec.chassis", "is refused when distributedRouting is true", "remove it, or set distributedRouting to false")
	}
	if !s.DistributedRouting && s.Chassis == "" {
		c.fault("spec.chassis", "is missing: with distributedRouting false one chassis routes", "name the chassis")
	}
	c.optional("spec.chassis", s.Chassis, chassisName)
	c.optional("spec.offering", s.Offering, dnsLabel)
	s.checkMTU(c)
}

func (s *VPCSpec) checkMTU(c *checker) {
	least, why := minMTU, "the least an IPv4 host takes, RFC 1122"
	for _, p := range s.CIDRs {
		if p.IsValid() && p.Addr().Is6() {
			least, why = minMTUv6, "the least of an IPv6 link, RFC 8200"
		}
	}
	if s.MTU < least || s.MTU > maxMTU {
		c.fault("spec.mtu", fmt.Sprintf("%d is out of range", s.MTU),
			fmt.Sprintf("between %d (%s) and %d", least, why, maxMTU))
	}
}
