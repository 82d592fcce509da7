// Package lint finds what is legal in the lists and tiers of a VPC and most
// likely not meant. It is exact where it speaks of rules: it reckons with sets
// of traffic, not with the look of a rule.
package lint

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/ipam"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Used tells how many of the addresses that are handed out in a tier are in
// use.
type Used func(tier string, f traffic.Family) uint64

// Attached counts the addresses that attachments among the resources of a VPC
// have, and of those without one yet one of each family of their tier.
func Attached(vpc string, resources []*model.Resource) Used {
	type key struct {
		tier   string
		family traffic.Family
	}
	count := map[key]uint64{}
	for _, r := range resources {
		spec, ok := r.Spec.(*model.AttachmentSpec)
		if !ok || r.Metadata.VPC != vpc {
			continue
		}
		for _, a := range spec.Addresses {
			count[key{spec.Tier, familyOf(netip.PrefixFrom(a, a.BitLen()))}]++
		}
		if len(spec.Addresses) == 0 {
			for _, f := range traffic.Families() {
				count[key{spec.Tier, f}]++
			}
		}
	}
	return func(tier string, f traffic.Family) uint64 { return count[key{tier, f}] }
}

// Check reports warnings on the resources of a VPC, in the order of the text.
// The resources are all that there are, free of errors (model.Check). Where used
// is nil, nothing is said of addresses.
func Check(vpc string, resources []*model.Resource, used Used) (model.Diagnostics, error) {
	p, err := reach.New(vpc, resources)
	if err != nil {
		return nil, err
	}
	l := &linter{policy: p, tiers: map[string]*model.TierSpec{}, users: map[string][]string{}}
	var lists []*model.Resource
	for _, r := range resources {
		if spec, ok := r.Spec.(*model.VPCSpec); ok && r.Metadata.Name == vpc {
			l.vpc = spec.CIDRs
		}
		if r.Metadata.VPC != vpc {
			continue
		}
		switch spec := r.Spec.(type) {
		case *model.TierSpec:
			l.tiers[r.Metadata.Name] = spec
			l.users[spec.ACL] = append(l.users[spec.ACL], r.Metadata.Name)
			if used != nil {
				if err := l.room(r, spec, used); err != nil {
					return nil, err
				}
			}
		case *model.ACLSpec:
			lists = append(lists, r)
		case *model.AttachmentSpec:
			l.allowed = append(l.allowed, spec.AllowedAddresses...)
		}
	}
	for _, r := range lists {
		if err := l.list(r, r.Spec.(*model.ACLSpec)); err != nil {
			return nil, fmt.Errorf("checking %s: %w", r.ID(), err)
		}
	}
	l.found.Sort()
	return l.found, nil
}

type linter struct {
	policy  *reach.Policy
	vpc     []netip.Prefix
	tiers   map[string]*model.TierSpec
	users   map[string][]string // tiers by their list
	allowed []netip.Prefix      // of all attachments
	found   model.Diagnostics
}

func (l *linter) warn(r *model.Resource, field, problem, fix string) {
	l.found = append(l.found, r.Warning(field, problem, fix))
}

// room warns of a tier of whose addresses a tenth or less is left.
func (l *linter) room(r *model.Resource, spec *model.TierSpec, used Used) error {
	for _, f := range traffic.Families() {
		var size uint64
		for _, p := range spec.CIDRs {
			if familyOf(p) != f {
				continue
			}
			pool, err := ipam.NewPool(p, spec.Gateways, spec.Reserved)
			if err != nil {
				return fmt.Errorf("checking %s: %w", r.ID(), err)
			}
			size += pool.Size()
		}
		taken := used(r.Metadata.Name, f)
		left := size - min(taken, size)
		if size > 0 && left*10 <= size {
			l.warn(r, "spec.cidrs", fmt.Sprintf("%d of the %d %s addresses that can be handed out are left", left, size, title(f)), "add a prefix")
		}
	}
	return nil
}

// rules is a list with what its rules match.
type rules struct {
	resource *model.Resource
	spec     *model.ACLSpec
	traffic  []traffic.Set
	far      []*netipx.IPSet // nil: anywhere
	judged   map[model.Direction][]reach.Judgement
}

func (l *linter) list(r *model.Resource, spec *model.ACLSpec) error {
	users := l.users[r.Metadata.Name]
	if len(users) == 0 {
		l.warn(r, "metadata.name", "no tier uses the list", "name it in the acl of a tier, or delete it")
	}
	rs := &rules{resource: r, spec: spec, judged: map[model.Direction][]reach.Judgement{}}
	for _, rule := range spec.Rules {
		far, err := reach.FarSide(rule, l.prefixes)
		if err != nil {
			return err
		}
		rs.traffic, rs.far = append(rs.traffic, reach.Traffic(rule)), append(rs.far, far)
	}
	for _, d := range []model.Direction{model.Ingress, model.Egress} {
		rs.judged[d] = l.policy.Judge(r.Metadata.Name, d)
	}
	reached := rs.reached()
	for i := range spec.Rules {
		switch reached[i] {
		case never:
			l.neverReached(rs, i)
		case byFragments:
			l.fragmentsAlone(rs, i)
		default:
			l.oneFamily(rs, i, users)
		}
	}
	if err := l.farSides(rs, users, reached); err != nil {
		return err
	}
	if len(users) > 0 {
		l.unanswered(rs, users)
	}
	return nil
}

func (l *linter) prefixes(tier string) []netip.Prefix {
	if spec := l.tiers[tier]; spec != nil {
		return spec.CIDRs
	}
	return nil
}

// extent is what a rule decides about.
type extent int

const (
	never extent = iota
	byFragments
	byMore
)

// reached tells of the rules what they decide about.
func (rs *rules) reached() map[int]extent {
	out := map[int]extent{}
	for _, judged := range rs.judged {
		for _, j := range judged {
			first := traffic.Point(0)
			for _, step := range j.Rules {
				reach := byMore
				if (traffic.Span{First: first, Last: step.Last}).OfFragments() {
					reach = byFragments
				}
				out[step.Value] = max(out[step.Value], reach)
				first = step.Last + 1
			}
		}
	}
	return out
}

// fragmentsAlone reports a deny of ports or types that others decide about
// before: what is left to it are the fragments of its protocol, which it stops
// besides.
func (l *linter) fragmentsAlone(rs *rules, i int) {
	rule := rs.spec.Rules[i]
	by := slices.DeleteFunc(rs.deciders(i), func(k int) bool { return k == i })
	if rule.Action == model.Allow || len(rule.Ports) == 0 && rule.ICMP == nil || len(by) == 0 {
		return
	}
	l.warn(rs.resource, field(i), "is reached by fragments alone: "+rs.decide(by)+" about all else that it matches", "move it up, or remove it")
}

func field(rule int) string { return fmt.Sprintf("spec.rules[%d]", rule) }

// neverReached reports a rule that decides about nothing.
func (l *linter) neverReached(rs *rules, i int) {
	for k := range i {
		if rs.same(k, i) {
			l.warn(rs.resource, field(i), fmt.Sprintf("says the same as rule %d", rs.spec.Rules[k].Number), "remove one of them")
			return
		}
	}
	by := rs.deciders(i)
	if len(by) == 0 {
		l.warn(rs.resource, field(i), "matches nothing: its far side has no address of the protocol's family", "change the far side or the protocol, or remove the rule")
		return
	}
	l.warn(rs.resource, field(i), "is never reached: "+rs.decide(by)+" about all that it matches", "move it up, or remove it")
}

// decide is such as "rule 10 decides" and "rules 10 and 20 decide".
func (rs *rules) decide(by []int) string {
	var numbers []string
	for _, k := range by {
		numbers = append(numbers, strconv.Itoa(rs.spec.Rules[k].Number))
	}
	if len(numbers) == 1 {
		return "rule " + numbers[0] + " decides"
	}
	return "rules " + enumerate(numbers) + " decide"
}

// same tells whether two rules match the same and do the same.
func (rs *rules) same(i, k int) bool {
	a, b := rs.spec.Rules[i], rs.spec.Rules[k]
	if a.Direction != b.Direction || a.Action != b.Action || !rs.traffic[i].Equal(rs.traffic[k]) {
		return false
	}
	if rs.far[i] == nil || rs.far[k] == nil {
		return rs.far[i] == rs.far[k]
	}
	return rs.far[i].Equal(rs.far[k])
}

// deciders are the rules that decide about what a rule matches, ascending.
func (rs *rules) deciders(i int) []int {
	var out []int
	for _, j := range rs.judged[rs.spec.Rules[i].Direction] {
		if rs.far[i] != nil && !rs.far[i].Overlaps(j.Far) {
			continue
		}
		matched := traffic.Paint([]traffic.Layer[bool]{{Spans: rs.traffic[i].Spans(j.Family), Value: true}}, false)
		for _, step := range traffic.Join(j.Rules, matched, func(rule int, matched bool) int {
			if matched {
				return rule
			}
			return reach.Default
		}) {
			if step.Value != reach.Default && !slices.Contains(out, step.Value) {
				out = append(out, step.Value)
			}
		}
	}
	slices.Sort(out)
	return out
}

// oneFamily reports a deny for IPv4 prefixes alone where a tier of the list has
// IPv6, and the same traffic passes there.
func (l *linter) oneFamily(rs *rules, i int, users []string) {
	rule := rs.spec.Rules[i]
	if rule.Action == model.Allow || rs.far[i] == nil || len(rule.CIDRs) == 0 || slices.ContainsFunc(rs.far[i].Prefixes(), isIPv6) {
		return
	}
	at := slices.IndexFunc(users, func(tier string) bool {
		return slices.ContainsFunc(l.prefixes(tier), isIPv6) && slices.ContainsFunc(l.prefixes(tier), isIPv4)
	})
	meant := rs.traffic[i].Only(traffic.IPv6)
	if at < 0 || meant.Empty() || rs.deniedApart(i, meant) {
		return
	}
	var open traffic.Set
	for _, j := range rs.judged[rule.Direction] {
		if j.Family == traffic.IPv6 {
			allowed := j.Rules.Spans(func(k int) bool { return rs.action(k, rule.Direction) == model.Allow })
			open = open.Union(traffic.OnLine(traffic.IPv6, allowed).Intersect(meant))
		}
	}
	if !open.Empty() {
		l.warn(rs.resource, field(i)+".cidrs", fmt.Sprintf("holds for IPv4 alone: tier %s has IPv6 too, where %s passes", users[at], open.Text(traffic.All().Only(traffic.IPv6))),
			"add the IPv6 prefixes, such as ::/0")
	}
}

// deniedApart tells whether another rule denies the traffic to IPv6 prefixes.
func (rs *rules) deniedApart(i int, meant traffic.Set) bool {
	for k, other := range rs.spec.Rules {
		if k != i && other.Direction == rs.spec.Rules[i].Direction && other.Action != model.Allow &&
			rs.far[k] != nil && slices.ContainsFunc(rs.far[k].Prefixes(), isIPv6) && meant.Minus(rs.traffic[k]).Empty() {
			return true
		}
	}
	return false
}

func (rs *rules) action(rule int, d model.Direction) model.Action {
	switch {
	case rule != reach.Default:
		return rs.spec.Rules[rule].Action
	case d == model.Egress:
		return rs.spec.Defaults.Egress
	}
	return rs.spec.Defaults.Ingress
}

// unanswered reports what a stateless list lets pass one way alone.
func (l *linter) unanswered(rs *rules, users []string) {
	var possible traffic.Set
	for _, tier := range users {
		for _, p := range l.prefixes(tier) {
			possible = possible.Union(traffic.All().Only(familyOf(p)))
		}
	}
	for _, d := range []model.Direction{model.Ingress, model.Egress} {
		answers := l.policy.Answers(rs.resource.Metadata.Name, d)
		for i := reach.Default; i < len(rs.spec.Rules); i++ {
			lost := answers[i].Dropped.Intersect(possible)
			if lost.Empty() {
				continue
			}
			some := ""
			if !lost.Intersect(answers[i].Come).Empty() {
				some = ", for some addresses"
			}
			at, back := "spec.defaults."+string(d), map[model.Direction]string{model.Ingress: "out", model.Egress: "in"}[d]
			if i != reach.Default {
				at = field(i)
			}
			l.warn(rs.resource, at, fmt.Sprintf("lets %s pass, and the list, which is stateless, lets no reply %s%s", lost.Text(possible.Intersect(reach.Answered())), back, some),
				"add a rule for the replies, or make the list stateful")
		}
	}
}

func isIPv4(p netip.Prefix) bool { return p.Addr().Is4() }
func isIPv6(p netip.Prefix) bool { return p.Addr().Is6() }

func familyOf(p netip.Prefix) traffic.Family {
	if isIPv4(p) {
		return traffic.IPv4
	}
	return traffic.IPv6
}

func title(f traffic.Family) string {
	if f == traffic.IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

// enumerate is "a, b and c" for two words or more; beyond five it is cut short.
func enumerate(words []string) string {
	const most = 5
	if len(words) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
