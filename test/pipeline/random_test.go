package pipeline_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"

	"go4.org/netipx"
	"gopkg.in/yaml.v3"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// document is a resource as a tree of YAML: generated, shrunk and printed in
// this form, so that what fails can be replayed by hand.
type document = map[string]any

func resource(kind, vpc, name string, spec document) document {
	metadata := document{"name": name}
	if vpc != "" {
		metadata["vpc"] = vpc
	}
	return document{"apiVersion": "ovn-vpc/v1", "kind": kind, "metadata": metadata, "spec": spec}
}

func text(docs []document) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	for _, d := range docs {
		if err := e.Encode(d); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), e.Close()
}

// random makes up VPCs and packets.
type random struct {
	*rand.Rand
	vpc    string
	v4, v6 bool
	tiers  []string
	lists  []string
	cidrs  map[string][]netip.Prefix // of tiers
	pool   []netip.Prefix            // far sides
	hosts  []netip.Addr
}

func newRandom(seed uint64) *random {
	return &random{Rand: rand.New(rand.NewPCG(seed, 0)), cidrs: map[string][]netip.Prefix{}}
}

func pick[T any](r *random, list ...T) T { return list[r.IntN(len(list))] }

// chance holds in so many of a hundred cases.
func (r *random) chance(percent int) bool { return r.IntN(100) < percent }

// design is a VPC with 1 to 6 tiers, lists that they share, and attachments.
func (r *random) design(vpc string) []document {
	r.vpc = vpc
	family := r.IntN(3)
	r.v4, r.v6 = family != 1, family != 0
	spec := document{"cidrs": r.families("10.0.0.0/8", "fd00::/16")}
	if r.chance(10) {
		spec["distributedRouting"], spec["chassis"] = false, "hv1"
	}
	docs := []document{resource("VPC", "", vpc, spec)}
	for i := range 1 + r.IntN(6) {
		r.tiers = append(r.tiers, fmt.Sprintf("t%d", i))
	}
	for i := range 1 + r.IntN(4) {
		r.lists = append(r.lists, fmt.Sprintf("l%d", i))
	}
	for i, name := range r.tiers {
		docs = append(docs, r.tier(i, name)...)
	}
	r.fillPool()
	for _, name := range r.lists {
		docs = append(docs, r.list(name))
	}
	ends := append(slices.Clone(r.tiers), "outside")
	for i := range 2 {
		from, to := pick(r, ends...), pick(r, r.tiers...)
		if r.chance(50) {
			from, to = to, from
		}
		docs = append(docs, resource("Expectation", vpc, fmt.Sprintf("e%d", i), document{"from": from, "to": to, "expect": "allow"}))
	}
	return docs
}

func (r *random) families(v4, v6 string) (out []any) {
	if r.v4 {
		out = append(out, v4)
	}
	if r.v6 {
		out = append(out, v6)
	}
	return out
}

func (r *random) tier(i int, name string) []document {
	v4, v6 := r.v4, r.v6
	if v4 && v6 {
		v4 = r.chance(80)
		v6 = !v4 || r.chance(80)
	}
	for j := range 1 + r.IntN(2) {
		if v4 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), byte(r.IntN(256))}), pick(r, 24, 25, 27, 28, 29))
			r.cidrs[name] = append(r.cidrs[name], p.Masked())
		}
		if v6 {
			p := netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 5: byte(i), 7: byte(j)}), pick(r, 64, 112, 120))
			r.cidrs[name] = append(r.cidrs[name], p)
		}
	}
	spec := document{"cidrs": texts(r.cidrs[name]), "acl": pick(r, append(slices.Clone(r.lists), "l0", "l0", model.ACLDefaultAllow, model.ACLDefaultDeny)...)}
	if len(r.lists) == 0 {
		spec["acl"] = model.ACLDefaultDeny
	}
	taken := map[netip.Addr]bool{}
	var gateways []any
	for _, p := range r.cidrs[name] {
		gateway := p.Addr().Next()
		if r.chance(20) {
			gateway = r.usable(p, taken)
		}
		taken[gateway] = true
		gateways = append(gateways, gateway.String())
	}
	spec["gateways"] = gateways
	if r.chance(15) {
		spec["dhcp"] = document{"enabled": false}
	}
	docs := []document{resource("Tier", r.vpc, name, spec)}
	for k := range 1 + r.IntN(3) {
		docs = append(docs, r.guest(fmt.Sprintf("%s-%d", name, k), name, taken))
	}
	return docs
}

// usable is an address of a prefix that a host may have.
func (r *random) usable(p netip.Prefix, taken map[netip.Addr]bool) netip.Addr {
	for {
		b := p.Addr().AsSlice()
		b[len(b)-1] |= byte(r.IntN(1 << min(8, p.Addr().BitLen()-p.Bits())))
		a, _ := netip.AddrFromSlice(b)
		if a != p.Addr() && !taken[a] && (a.Is6() || a != netipx.PrefixLastIP(p)) {
			return a
		}
	}
}

func (r *random) guest(name, tier string, taken map[netip.Addr]bool) document {
	var addresses []any
	prefixes := slices.Clone(r.cidrs[tier])
	r.Shuffle(len(prefixes), func(i, j int) { prefixes[i], prefixes[j] = prefixes[j], prefixes[i] })
	for _, p := range prefixes[:1+r.IntN(len(prefixes))] {
		a := r.usable(p, taken)
		taken[a] = true
		r.hosts = append(r.hosts, a)
		addresses = append(addresses, a.String())
	}
	spec := document{"tier": tier, "addresses": addresses}
	if r.chance(20) {
		spec["portSecurity"] = false
	} else if r.chance(10) {
		spec["allowedAddresses"] = r.families("172.16.0.0/24", "fd99::7")
	}
	if r.chance(7) {
		spec["enabled"] = false
	}
	if r.chance(10) {
		spec["mac"] = fmt.Sprintf("02:00:00:%02x:%02x:%02x", r.IntN(256), r.IntN(256), r.IntN(256))
	}
	return resource("Attachment", r.vpc, name, spec)
}

// fillPool makes far sides that overlap the tiers' prefixes and each other.
func (r *random) fillPool() {
	add := func(p netip.Prefix) { r.pool = append(r.pool, p.Masked()) }
	for _, tier := range r.tiers {
		for _, p := range r.cidrs[tier] {
			add(p)
			add(netip.PrefixFrom(p.Addr(), p.Bits()+1))
			add(netip.PrefixFrom(p.Addr(), p.Bits()-r.IntN(p.Bits()/2)))
		}
	}
	for _, a := range r.hosts {
		add(netip.PrefixFrom(a, a.BitLen()))
		add(netip.PrefixFrom(a, a.BitLen()-1-r.IntN(4)))
		add(netip.PrefixFrom(a, a.BitLen()-atEnd(a)))
	}
	for _, p := range []string{"0.0.0.0/0", "::/0", "192.0.2.0/24", "2001:db8::/32", "fe80::/10", "10.0.0.0/8", "fd00::/16", "224.0.0.0/4"} {
		add(netip.MustParsePrefix(p))
	}
}

// atEnd is how many bits at the end of an address are alike: it is the first or
// the last of the prefix without them.
func atEnd(a netip.Addr) int {
	b := a.AsSlice()
	last := b[len(b)-1]
	return max(bits.TrailingZeros8(last), bits.TrailingZeros8(^last))
}

func (r *random) list(name string) document {
	rules := []any{}
	number := 0
	for range pick(r, 0, 1, 2, 4, 6, 8, 12, 30) {
		// Gaps of any size; a rule without a number follows the one before.
		step := pick(r, 1, 1, 10, 1000, 60_000_000)
		rule := r.rule()
		if number += step; step > 1 || r.chance(50) {
			rule["number"] = number
		}
		rules = append(rules, rule)
	}
	action := func() string { return pick(r, "allow", "deny", "deny", "reject") }
	spec := document{"rules": rules, "defaults": document{"ingress": action(), "egress": pick(r, "allow", action())}}
	if r.chance(30) {
		spec["stateless"] = true
	}
	return resource("ACL", r.vpc, name, spec)
}

func (r *random) rule() document {
	rule := document{"direction": pick(r, "ingress", "ingress", "egress"), "action": pick(r, "allow", "allow", "deny", "reject")}
	proto := pick(r, "all", "tcp", "tcp", "udp", "udp", "sctp", "icmp", "icmp", "icmpv6", "icmpv6", "47", "89", "255", "6", "58")
	rule["protocol"] = proto
	icmp := proto == "icmp" || proto == "icmpv6" || proto == "58"
	switch {
	case proto == "tcp" || proto == "udp" || proto == "sctp" || proto == "6":
		if r.chance(75) {
			var ports []any
			for range 1 + r.IntN(4) {
				ports = append(ports, r.ports())
			}
			rule["ports"] = ports
		}
	case icmp && r.chance(70):
		rule["icmp"] = document{"type": int(r.icmpType(proto == "icmp"))}
		if r.chance(40) {
			rule["icmp"].(document)["code"] = int(r.icmpCode())
		}
	}
	if r.chance(60) {
		var cidrs []any
		seen := map[netip.Prefix]bool{}
		for range 1 + r.IntN(4) {
			p := pick(r, r.pool...)
			// An ICMP rule for prefixes of the other family alone is refused.
			if seen[p] || icmp && p.Addr().Is4() != (proto == "icmp") {
				continue
			}
			seen[p] = true
			cidrs = append(cidrs, p.String())
		}
		if len(cidrs) > 0 {
			rule["cidrs"] = cidrs
		}
	}
	if r.chance(35) {
		tiers := slices.Clone(r.tiers)
		r.Shuffle(len(tiers), func(i, j int) { tiers[i], tiers[j] = tiers[j], tiers[i] })
		rule["tiers"] = tiers[:1+r.IntN(min(2, len(tiers)))]
	}
	if r.chance(5) {
		rule["log"] = true
	}
	return rule
}

func (r *random) ports() any {
	first := int(r.port())
	if r.chance(50) {
		return first
	}
	return fmt.Sprintf("%d-%d", first, min(65535, first+pick(r, 0, 1, 20, 1000, 60000)))
}

func (r *random) port() uint16 {
	return pick[uint16](r, 1, 22, 53, 67, 80, 443, 8000, 8001, 8020, 9000, 65534, 65535)
}

func (r *random) icmpType(v4 bool) uint8 {
	if v4 {
		return pick[uint8](r, 0, 0, 3, 8, 8, 11, 13, 255)
	}
	return pick[uint8](r, 0, 0, 1, 3, 128, 128, 129, 130, 133, 134, 135, 143, 255)
}

func (r *random) icmpCode() uint8 { return pick[uint8](r, 0, 0, 1, 3, 255) }

func texts(prefixes []netip.Prefix) (out []any) {
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return out
}

// probes are packets for a VPC: between random ends, by all ways.
func (r *random) probes(n int, s *specs, linkLocals map[string]netip.Addr) []probe {
	guests := slices.Sorted(maps.Keys(s.guests))
	var out []probe
	for len(out) < n {
		p := probe{From: pick(r, guests...), TTL: 64, linkLocals: linkLocals}
		from := s.guests[p.From]
		p.Src = pick(r, from.Addresses...)
		to := pick(r, guests...)
		p.Dst = pick(r, s.guests[to].Addresses...)
		p.Frame = pick(r, toRouter, toRouter, toRouter, toRouter, toRouter, toRouter, toNeighbour, toNeighbour, toGroup, toEverybody, fromOutside, fromOutside)
		if !r.aim(&p, to, s) {
			continue
		}
		r.load(&p)
		if s.isGateway(p.Dst, p) && (p.Proto == 6 || p.Proto == 132) {
			// ovn-trace leaves a reset's ports as they were, and makes a reset of
			// SCTP's abort.
			p.Proto, p.SrcPort = 6, p.DstPort
		}
		// Both ends are of one family, and nobody sends to himself.
		if p.v4() == p.Dst.Is4() && p.Src != p.Dst && !slices.Contains(from.Addresses, p.Dst) {
			out = append(out, p)
		}
	}
	return out
}

// aim turns a probe to its destination; false where there is none.
func (r *random) aim(p *probe, to string, s *specs) bool {
	from := s.guests[p.From]
	tier := s.tiers[from.Tier]
	switch p.Frame {
	case toNeighbour:
		if to == p.From || s.guests[to].Tier != from.Tier {
			return false
		}
		p.Neighbour = to
		switch r.IntN(8) {
		case 0, 1:
			p.Dst = pick(r, r.hosts...) // another's, by the neighbour's MAC
		case 2:
			p.Dst = p.linkLocals[to]
		}
	case toGroup, toEverybody:
		p.Dst = pick(r, append(r.hosts, parse("224.0.0.251", "239.1.2.3", "ff02::1", "ff05::2", "255.255.255.255")...)...)
	case fromOutside:
		p.From = pick(r, r.tiers...)
		p.Src = pick(r, parse("192.0.2.7", "198.51.100.1", "2001:db8::7", "2001:db8:1::1")...)
	case toRouter:
		switch r.IntN(9) {
		case 0:
			p.Dst = pick(r, tier.Gateways...)
		case 1:
			p.Dst = pick(r, s.tiers[pick(r, r.tiers...)].Gateways...)
		case 2:
			p.Dst = pick(r, parse("192.0.2.7", "2001:db8::7", "10.200.0.1", "fd00:ff::1")...)
		case 3:
			p.Dst = r.usable(pick(r, s.tiers[pick(r, r.tiers...)].CIDRs...), nil)
		case 4:
			p.Dst = p.linkLocals[pick(r, from.Tier, pick(r, r.tiers...), to)]
		}
		p.TTL = pick[uint8](r, 64, 64, 64, 64, 64, 64, 1, 2, 255)
	}
	switch {
	case p.Frame == fromOutside:
	case p.TTL == 1 || s.isGateway(p.Dst, *p): // answered to the source: it has to be the sender
	case !from.PortSecurity && r.chance(30):
		p.Src = pick(r, append(r.hosts, parse("192.0.2.7", "2001:db8::7")...)...)
	case p.Dst.Is6() && (p.Frame != toGroup || p.Dst.IsMulticast()) && r.chance(20):
		p.Src = p.linkLocals[p.From]
	case r.chance(8):
		p.Src = pick(r, r.hosts...) // forged: port security stands against it
	case len(from.AllowedAddresses) > 0 && r.chance(50):
		p.Src = pick(r, from.AllowedAddresses...).Addr()
	}
	return true
}

// load gives a probe its protocol and what goes with it.
func (r *random) load(p *probe) {
	p.Proto = pick[uint8](r, 6, 6, 6, 17, 17, 132, 1, 1, 47, 89, 255)
	if p.Proto == 1 && p.v6() {
		p.Proto = 58
	}
	p.Frag = r.chance(15)
	switch p.Proto {
	case 6, 17, 132:
		p.SrcPort, p.DstPort = pick[uint16](r, 1024, 68, 443), r.port()
		if r.chance(20) {
			p.DstPort += pick[uint16](r, 65535, 1)
		}
		if p.SrcPort == 68 && p.DstPort == 67 {
			p.SrcPort++ // OVN's DHCP is no part of this
		}
	case 1, 58:
		p.Type, p.Code = r.icmpType(p.v4()), r.icmpCode()
		p.Frag = p.Frag || r.chance(15)
	}
}

func parse(addrs ...string) (out []netip.Addr) {
	for _, a := range addrs {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}
