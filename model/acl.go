package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
)

// The built-in lists: every VPC has them, nobody can change them.
const (
	ACLDefaultAllow = "default-allow" // allows both directions
	ACLDefaultDeny  = "default-deny"  // denies both directions
)

// MaxRules bounds the rules of one direction in a list, so that their ranks
// fit between the priorities of the defaults and of the system's own rules.
const MaxRules = 29000

// unnumbered marks a rule without a number until complete gives it one.
const unnumbered = math.MinInt

// ACLSpec is the spec of an ACL: a numbered list.
type ACLSpec struct {
	Rules     []Rule      `json:"rules" doc:"the lowest number that matches decides"` // ascending by number
	Defaults  ACLDefaults `json:"defaults" doc:"the verdicts when no rule of a direction matches"`
	Stateless bool        `json:"stateless" doc:"false (default): replies to allowed traffic pass; true: each packet is judged alone"`
}

// ACLDefaults are the verdicts when no rule of a direction matches.
type ACLDefaults struct {
	Ingress Action `json:"ingress" doc:"allow, deny or reject; default deny"` // allow or deny or reject
	Egress  Action `json:"egress" doc:"allow, deny or reject; default allow"`
}

// Rule is one rule of a list. The far side is the union of CIDRs and Tiers;
// both empty: any. Ports are ascending and disjoint.
type Rule struct {
	Number      int            `json:"number" doc:"1 or more, unique in the list; default the previous rule's + 1, the first 1"`
	Action      Action         `json:"action" doc:"allow (default), deny or reject"`
	Direction   Direction      `json:"direction" doc:"ingress (default) or egress, seen from the tier"`
	Protocol    Protocol       `json:"protocol" doc:"all (default), tcp, udp, sctp, icmp, icmpv6 or 0 to 255"`
	Ports       []PortRange    `json:"ports,omitempty" doc:"destination ports 80 or 8000-9000, tcp, udp and sctp only; default all"`
	ICMP        *ICMP          `json:"icmp,omitempty" doc:"narrows a rule for icmp or icmpv6 to a type and code"`
	CIDRs       []netip.Prefix `json:"cidrs,omitempty" doc:"the far side: source of ingress, destination of egress; default any"`
	Tiers       []string       `json:"tiers,omitempty" doc:"tiers of this VPC on the far side; with cidrs: the union"`
	Log         Severity       `json:"log,omitempty" doc:"true (info), false (default), or alert, warning, notice, info, debug"` // "" no log
	Description string         `json:"description,omitempty" doc:"one line of at most 255 characters"`
}

// ICMP narrows a rule to a type and code; -1 is any.
type ICMP struct {
	Type int `json:"type" doc:"0 to 255; default -1, any"`
	Code int `json:"code" doc:"0 to 255, with a type only; default -1, any"`
}

// Equal tells whether two rules are the same.
func (r Rule) Equal(other Rule) bool {
	return r.Number == other.Number && r.Action == other.Action && r.Direction == other.Direction && r.Protocol == other.Protocol &&
		slices.Equal(r.Ports, other.Ports) && (r.ICMP == other.ICMP || r.ICMP != nil && other.ICMP != nil && *r.ICMP == *other.ICMP) &&
		slices.Equal(r.CIDRs, other.CIDRs) && slices.Equal(r.Tiers, other.Tiers) && r.Log == other.Log && r.Description == other.Description
}

func (s *ACLSpec) setDefaults() {
	s.Rules = []Rule{}
	s.Defaults = ACLDefaults{Ingress: Deny, Egress: Allow}
}

func (r *Rule) setDefaults() {
	*r = Rule{Number: unnumbered, Action: Allow, Direction: Ingress, Protocol: ProtoAll}
}

func (i *ICMP) setDefaults() { *i = ICMP{Type: -1, Code: -1} }

// complete numbers the rules in the order in which they were written, then
// sorts them. Ports that overlap or touch become one range, and a match on any
// ICMP type and code none: neither changes what the rule matches.
func (s *ACLSpec) complete(r *Resource) {
	if s.Rules == nil {
		s.Rules = []Rule{}
	}
	s.number()
	for i := range s.Rules {
		s.Rules[i].complete()
	}
	if slices.IsSortedFunc(s.Rules, func(a, b Rule) int { return cmp.Compare(a.Number, b.Number) }) {
		return
	}
	order := make([]int, len(s.Rules))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Rules[a].Number, s.Rules[b].Number) })
	sorted := make([]Rule, len(s.Rules))
	for i, from := range order {
		sorted[i] = s.Rules[from]
	}
	s.Rules = sorted
	r.reorder("spec.rules", order)
}

func (r *Rule) complete() {
	r.Ports = mergePorts(r.Ports)
	if r.ICMP != nil && *r.ICMP == (ICMP{Type: -1, Code: -1}) && r.Protocol.IsICMP() {
		r.ICMP = nil
	}
}

// number gives rules without a number the next one. What follows a number out
// of range stays without: that number's own fault is enough.
func (s *ACLSpec) number() {
	next := 1
	for i := range s.Rules {
		number := &s.Rules[i].Number
		if *number == unnumbered {
			*number = next
		}
		switch {
		case *number >= 1 && *number <= math.MaxInt32:
			next = *number + 1
		default:
			next = unnumbered
		}
	}
}

func (s *ACLSpec) check(c *checker) {
	if name := c.resource.Metadata.Name; BuiltinName(name) {
		c.add(c.resource.Fault("metadata.name", quote(name)+" is built in and can't be changed", "choose another name").Coded(CodeImmutable))
	}
	count := map[Direction]int{}
	for i := range s.Rules {
		rule, field := &s.Rules[i], index("spec.rules", i)
		count[rule.Direction]++
		if i > 0 && s.Rules[i-1].Number == rule.Number && rule.Number != unnumbered {
			c.fault(field+".number", fmt.Sprintf("number %d is given twice, first in %s", rule.Number, c.written(index("spec.rules", i-1))),
				"give each rule a number of its own")
		}
		rule.check(c, field)
	}
	for _, direction := range []Direction{Ingress, Egress} {
		if count[direction] > MaxRules {
			c.fault("spec.rules", fmt.Sprintf("%d %s rules", count[direction], direction), fmt.Sprintf("at most %d of a direction", MaxRules))
		}
	}
}

// written is a field's path as the user wrote it.
func (c *checker) written(field string) string {
	if c.resource.Source == nil {
		return field
	}
	return c.resource.Source.written(field)
}

func (r *Rule) check(c *checker, field string) {
	if r.Number != unnumbered && (r.Number < 1 || r.Number > math.MaxInt32) {
		c.fault(member(field, "number"), fmt.Sprintf("%d is out of range", r.Number), fmt.Sprintf("between 1 and %d", math.MaxInt32))
	}
	if len(r.Ports) > 0 && !r.Protocol.HasPorts() {
		c.fault(member(field, "ports"), fmt.Sprintf("are refused with protocol %s", r.Protocol), "set protocol to tcp, udp or sctp, or remove the ports")
	}
	r.checkICMP(c, field)
	r.checkFamily(c, field)
	twice(c, member(field, "cidrs"), r.CIDRs)
	twice(c, member(field, "tiers"), r.Tiers)
	for i, tier := range r.Tiers {
		c.optional(index(member(field, "tiers"), i), tier, dnsLabel)
	}
	c.optional(member(field, "description"), r.Description, sentence)
}

func (r *Rule) checkICMP(c *checker, field string) {
	if r.ICMP == nil {
		return
	}
	field = member(field, "icmp")
	if !r.Protocol.IsICMP() {
		c.fault(field, fmt.Sprintf("is refused with protocol %s", r.Protocol), "set protocol to icmp or icmpv6, or remove it")
		return
	}
	if r.ICMP.Type < -1 || r.ICMP.Type > 255 {
		c.fault(field+".type", fmt.Sprintf("%d is out of range", r.ICMP.Type), "0 to 255, or -1 for any")
	}
	if r.ICMP.Code < -1 || r.ICMP.Code > 255 {
		c.fault(field+".code", fmt.Sprintf("%d is out of range", r.ICMP.Code), "0 to 255, or -1 for any")
	}
	if r.ICMP.Code >= 0 && r.ICMP.Type == -1 {
		c.fault(field+".code", "means nothing without a type", "give the type as well")
	}
}

// checkFamily refuses an ICMP rule whose prefixes are all of the other
// family: it would never match.
func (r *Rule) checkFamily(c *checker, field string) {
	if !r.Protocol.IsICMP() || len(r.CIDRs) == 0 || len(r.Tiers) > 0 {
		return
	}
	for _, p := range r.CIDRs {
		if !p.IsValid() || p.Addr().Is4() == (r.Protocol == ProtoICMP) {
			return
		}
	}
	other := map[Protocol]Protocol{ProtoICMP: ProtoICMPv6, ProtoICMPv6: ProtoICMP}[r.Protocol]
	family := map[Protocol]string{ProtoICMP: "IPv6", ProtoICMPv6: "IPv4"}[r.Protocol]
	c.fault(member(field, "protocol"), fmt.Sprintf("%s never matches: all prefixes of the rule are %s", r.Protocol, family),
		fmt.Sprintf("set it to %s, or change the cidrs", other))
}

// SameButRules tells whether two resources are lists of the same metadata that differ in
// nothing but their rules, if at all.
func SameButRules(a, b *Resource) bool {
	x, ok := a.Spec.(*ACLSpec)
	y, list := b.Spec.(*ACLSpec)
	return ok && list && x.Defaults == y.Defaults && x.Stateless == y.Stateless &&
		a.Metadata.Name == b.Metadata.Name && a.Metadata.VPC == b.Metadata.VPC && maps.Equal(a.Metadata.Labels, b.Metadata.Labels)
}

// RuleAt is where the rule of a number stands among a list's rules, or would stand.
func RuleAt(rules []Rule, number int) (at int, there bool) {
	return slices.BinarySearchFunc(rules, number, func(r Rule, n int) int { return cmp.Compare(r.Number, n) })
}

// BuiltinName tells whether a list is one of those that every VPC has.
func BuiltinName(acl string) bool { return acl == ACLDefaultAllow || acl == ACLDefaultDeny }

// BuiltinACL is the spec of a built-in list, nil for any other name. As in
// CloudStack, default-allow allows both directions and default-deny denies
// both.
func BuiltinACL(name string) *ACLSpec {
	switch name {
	case ACLDefaultAllow:
		return &ACLSpec{Rules: []Rule{}, Defaults: ACLDefaults{Ingress: Allow, Egress: Allow}}
	case ACLDefaultDeny:
		return &ACLSpec{Rules: []Rule{}, Defaults: ACLDefaults{Ingress: Deny, Egress: Deny}}
	}
	return nil
}
