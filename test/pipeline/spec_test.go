package pipeline_test

import (
	"net/netip"
	"slices"
	"sort"
	"strconv"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/trace"
)

// verdict is what becomes of a packet.
type verdict struct {
	outcome trace.Outcome
	to      []string // names of the attachments that get it, sorted
}

var dropped = verdict{outcome: trace.Dropped}

// specs judges packets by the specs alone: what the documentation promises,
// read without a thought of how it is brought about. It must share no code
// with the translation.
type specs struct {
	central bool // one chassis routes
	tiers   map[string]*model.TierSpec
	lists   map[string]*model.ACLSpec
	guests  map[string]*model.AttachmentSpec
}

func newSpecs(set *model.Set) *specs {
	s := &specs{tiers: map[string]*model.TierSpec{}, guests: map[string]*model.AttachmentSpec{},
		lists: map[string]*model.ACLSpec{
			"default-allow": {Defaults: model.ACLDefaults{Ingress: "allow", Egress: "allow"}},
			"default-deny":  {Defaults: model.ACLDefaults{Ingress: "deny", Egress: "deny"}},
		}}
	for _, r := range set.Resources {
		switch spec := r.Spec.(type) {
		case *model.VPCSpec:
			s.central = !spec.DistributedRouting
		case *model.TierSpec:
			s.tiers[r.Metadata.Name] = spec
		case *model.ACLSpec:
			s.lists[r.Metadata.Name] = spec
		case *model.AttachmentSpec:
			s.guests[r.Metadata.Name] = spec
		}
	}
	return s
}

// knows tells whether a packet's ends are there.
func (s *specs) knows(p probe) bool {
	if p.outside() {
		return s.tiers[p.From] != nil
	}
	return s.guests[p.From] != nil && (p.Frame != toNeighbour || s.guests[p.Neighbour] != nil)
}

// judge is a packet's verdict.
func (s *specs) judge(p probe) verdict {
	if p.outside() {
		return s.arrives(p)
	}
	from := s.guests[p.From]
	if !from.Enabled || !s.maySend(from, p) {
		return dropped
	}
	switch p.Frame {
	case toEverybody:
		return s.flooded(p)
	case toGroup:
		// A group's frame around a packet to one host is nothing honest.
		if !p.Dst.IsMulticast() {
			return dropped
		}
		return s.flooded(p)
	case toNeighbour:
		return s.received(p, p.Neighbour)
	}
	return s.leaves(p, from)
}

// flooded is a frame to all in the tier.
func (s *specs) flooded(p probe) verdict {
	v := dropped
	for name, g := range s.guests {
		if name == p.From || g.Tier != s.guests[p.From].Tier {
			continue
		}
		if s.received(p, name).outcome == trace.Delivered {
			v = verdict{trace.Delivered, append(v.to, name)}
		}
	}
	sort.Strings(v.to)
	return v
}

// received is a packet at the door of an attachment.
func (s *specs) received(p probe, name string) verdict {
	g := s.guests[name]
	everybody := p.Frame == toEverybody || p.Frame == toGroup
	if !g.Enabled || g.PortSecurity && !everybody && !s.mayUse(g, name, p.Dst, p) {
		return dropped
	}
	return verdict{trace.Delivered, []string{name}}
}

func (s *specs) maySend(from *model.AttachmentSpec, p probe) bool {
	return !from.PortSecurity || s.mayUse(from, p.From, p.Src, p)
}

func (s *specs) mayUse(g *model.AttachmentSpec, name string, a netip.Addr, p probe) bool {
	return slices.Contains(g.Addresses, a) || a == p.linkLocals[name] || within(g.AllowedAddresses, a)
}

// leaves is a packet that a guest sends to its gateway's MAC.
func (s *specs) leaves(p probe, from *model.AttachmentSpec) verdict {
	tier := s.tiers[from.Tier]
	list := s.lists[tier.ACL]
	own := slices.Contains(tier.Gateways, p.Dst) || p.Dst == p.linkLocals[from.Tier]
	if !(own && toOwnGateway(p, list)) && !unlisted(p) {
		if action := s.decide(list, model.Egress, p, p.Dst); action != model.Allow {
			return refused(action)
		}
	}
	if isDiscovery(p) {
		return dropped
	}
	if v, ok := s.routersOwn(p, tier, list); ok {
		return v
	}
	if isLinkLocal(p.Src) && s.tierOf(p.Dst) != "" {
		return dropped // RFC 4291, 2.5.6
	}
	return s.arrives(p)
}

// toOwnGateway is what reaches one's gateway whatever the lists say, but for
// DHCP.
func toOwnGateway(p probe, list *model.ACLSpec) bool {
	if p.Frag {
		return false
	}
	return p.v4() && p.Proto == 1 && p.Type == 8 || p.v6() && p.Proto == 58 && p.Type == 128 ||
		list.Stateless && p.v6() && p.Proto == 58 && (p.Type == 135 || p.Type == 136)
}

// unlisted is what OVN lets out of a tier by itself: discovery and multicast
// listener reports (RFC 4861, RFC 2710). No router forwards them.
func unlisted(p probe) bool { return isReport(p) || isDiscovery(p) }

func isReport(p probe) bool {
	return p.v6() && p.Proto == 58 && !p.Frag && isLinkLocal(p.Src) && p.Type >= 130 && p.Type <= 132
}

func isDiscovery(p probe) bool {
	return p.v6() && p.Proto == 58 && !p.Frag && p.Type >= 133 && p.Type <= 136 && p.Code == 0 && p.TTL == 255
}

// routersOwn is what the router answers itself: a packet for one of its
// addresses, and one whose TTL runs out.
func (s *specs) routersOwn(p probe, tier *model.TierSpec, list *model.ACLSpec) (verdict, bool) {
	mine := s.isGateway(p.Dst, p)
	expired := !mine && p.TTL <= 1
	if !mine && !expired {
		return verdict{}, false
	}
	// Fragments get no answer, and somebody must be there to get it. A
	// link-local address answers link-local ones alone: its packets are not
	// routed.
	if p.Frag || mine && isLinkLocal(p.Dst) && !isLinkLocal(p.Src) || s.hostOf(p.Src) == "" || expired && p.v6() && !within(tier.CIDRs, p.Src) {
		return dropped, true
	}
	// Bound to one chassis, the router answers nothing but ping.
	ping := p.v4() && p.Proto == 1 && p.Type == 8 || p.v6() && p.Proto == 58 && p.Type == 128
	if mine && s.central && !(ping && p.Code == 0) {
		return dropped, true
	}
	if mine && list.Stateless && (p.Proto == 6 || p.Proto == 132) {
		// A reset is no ICMP error: a stateless list judges it like any packet.
		back := p
		back.Src, back.Dst, back.SrcPort, back.DstPort = p.Dst, p.Src, p.DstPort, p.SrcPort
		if action := s.decide(s.lists[s.tiers[s.guests[s.hostOf(p.Src)].Tier].ACL], model.Ingress, back, back.Src); action != model.Allow {
			return refused(action), true
		}
	}
	return verdict{outcome: trace.Answered}, true
}

// arrives is a packet that the router takes on.
func (s *specs) arrives(p probe) verdict {
	tier := s.tierOf(p.Dst)
	if tier == "" && !isLinkLocal(p.Dst) {
		return verdict{outcome: trace.NoRoute}
	}
	host := s.hostOf(p.Dst)
	if host == "" {
		return verdict{outcome: trace.NoHost}
	}
	if action := s.decide(s.lists[s.tiers[tier].ACL], model.Ingress, p, p.Src); action != model.Allow {
		return refused(action)
	}
	return s.received(p, host)
}

// tierOf is the tier that an address lies in.
func (s *specs) tierOf(a netip.Addr) string {
	for name, t := range s.tiers {
		if within(t.CIDRs, a) {
			return name
		}
	}
	return ""
}

// hostOf is the attachment that has an address and is enabled.
func (s *specs) hostOf(a netip.Addr) string {
	for name, g := range s.guests {
		if g.Enabled && slices.Contains(g.Addresses, a) {
			return name
		}
	}
	return ""
}

func (s *specs) isGateway(a netip.Addr, p probe) bool {
	for name, t := range s.tiers {
		if slices.Contains(t.Gateways, a) || a == p.linkLocals[name] {
			return true
		}
	}
	return false
}

func refused(a model.Action) verdict {
	if a == model.Reject {
		return verdict{outcome: trace.Rejected}
	}
	return dropped
}

// decide is a list's word: the rule with the lowest number that matches, or
// else the default.
func (s *specs) decide(list *model.ACLSpec, d model.Direction, p probe, far netip.Addr) model.Action {
	number, action := 0, list.Defaults.Ingress
	if d == model.Egress {
		action = list.Defaults.Egress
	}
	for _, r := range list.Rules {
		if r.Direction == d && s.covers(r, p, far) && (number == 0 || r.Number < number) {
			number, action = r.Number, r.Action
		}
	}
	return action
}

func (s *specs) covers(r model.Rule, p probe, far netip.Addr) bool {
	if !hasProtocol(r.Protocol, p) || !s.isFar(r, far) {
		return false
	}
	if len(r.Ports) > 0 {
		if p.Frag {
			return r.Action != model.Allow
		}
		return slices.ContainsFunc(r.Ports, func(x model.PortRange) bool { return x.First <= p.DstPort && p.DstPort <= x.Last })
	}
	if r.ICMP != nil && r.ICMP.Type >= 0 {
		if p.Frag {
			return r.Action != model.Allow
		}
		return r.ICMP.Type == int(p.Type) && (r.ICMP.Code < 0 || r.ICMP.Code == int(p.Code))
	}
	return true
}

func hasProtocol(rule model.Protocol, p probe) bool {
	switch rule {
	case "all":
		return true
	case "tcp":
		return p.Proto == 6
	case "udp":
		return p.Proto == 17
	case "sctp":
		return p.Proto == 132
	case "icmp":
		return p.v4() && p.Proto == 1
	case "icmpv6":
		return p.v6() && p.Proto == 58
	}
	return string(rule) == strconv.Itoa(int(p.Proto))
}

func (s *specs) isFar(r model.Rule, far netip.Addr) bool {
	if len(r.CIDRs) == 0 && len(r.Tiers) == 0 || within(r.CIDRs, far) {
		return true
	}
	return slices.ContainsFunc(r.Tiers, func(t string) bool { return within(s.tiers[t].CIDRs, far) })
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

func isLinkLocal(a netip.Addr) bool { return netip.MustParsePrefix("fe80::/10").Contains(a) }
