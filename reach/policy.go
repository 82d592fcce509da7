// Package reach tells who can reach whom in a VPC: exactly, as sets of traffic,
// with the rules that decide at both ends, from the specs alone.
//
// It speaks of the first packet of a connection between attachments, through
// the VPC's router, and of what would come from outside or go there at the
// router: a VPC has no way out of its own, so that is what a list would let
// pass if there were one. It does not speak of what works whatever the lists
// say: neighbour discovery, DHCP, ping of one's own gateway and the router's
// own answers. Inside a tier no list applies.
package reach

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// MissingError is a resource that others name and that isn't there.
type MissingError struct {
	User model.ID // that names it
	ID   model.ID
}

func (e *MissingError) Error() string {
	if e.ID.Kind == model.KindACL {
		return fmt.Sprintf("tier %s: there is no list %s", e.User.Name, e.ID.Name)
	}
	return fmt.Sprintf("attachment %s: there is no tier %s", e.User.Name, e.ID.Name)
}

// Kind says what an end is.
type Kind string

// The kinds of ends.
const (
	Tier       Kind = "tier"
	Attachment Kind = "attachment"
	Outside    Kind = "outside" // all addresses that are in no tier
)

// End is where traffic comes from or goes to.
type End struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"` // empty for outside
}

// String is the end's name, "outside" for outside and "tier/outside" for a tier
// of that name.
func (e End) String() string {
	switch {
	case e.Kind == Outside:
		return string(Outside)
	case e.Name == string(Outside):
		return string(e.Kind) + "/" + e.Name
	}
	return e.Name
}

// Policy is the lists of a VPC and where they are in force.
type Policy struct {
	vpc         string
	tiers       []*place // by name
	attachments []*place // by name
	disabled    []string // attachments
	outside     *place
	everywhere  *netipx.IPSet
	lists       map[string]*list
	notes       []string
}

// ParseEnd reads outside, tier/NAME, attachment/NAME, or NAME alone, which leaves
// the kind open.
func ParseEnd(text string) (End, error) {
	if _, err := netip.ParseAddr(text); err == nil {
		return End{}, fmt.Errorf("%s is an address, not outside, NAME, tier/NAME or attachment/NAME (trace tells of one)", text)
	}
	kind, name, ok := model.SplitEnd(text)
	if !ok {
		return End{}, fmt.Errorf("%q is none of outside, NAME, tier/NAME and attachment/NAME", text)
	}
	return End{Kind(kind), name}, nil
}

// Reference is what ParseEnd reads.
func (e End) Reference() string {
	switch {
	case e.Kind == Outside:
		return string(Outside)
	case e.Kind == "":
		return e.Name
	}
	return string(e.Kind) + "/" + e.Name
}

// place is an end with the list in force there.
type place struct {
	End
	tier     string        // empty for outside
	list     *list         // nil for outside
	sends    space         // the addresses that it sends from
	receives space         // and that it gets packets for
	hosts    *netipx.IPSet // those of receives that somebody has; outside: may have
	free     *netipx.IPSet // and those that somebody could have
}

// New reads the resources of a VPC; those of others are left out. It fails with
// a *MissingError where a tier's list, or an attachment's tier, is not among them.
func New(vpc string, resources []*model.Resource) (*Policy, error) {
	p := &Policy{vpc: vpc, lists: map[string]*list{}}
	b := &reader{policy: p, tiers: map[string]*model.TierSpec{}, specs: map[string]*model.Resource{}, allowed: map[string][]netip.Prefix{},
		hosts: map[string][]netip.Prefix{}, disabled: map[string][]netip.Prefix{}}
	var attachments []*model.Resource
	for _, r := range resources {
		if r.Metadata.VPC != vpc {
			continue
		}
		switch spec := r.Spec.(type) {
		case *model.TierSpec:
			b.tiers[r.Metadata.Name] = spec
		case *model.ACLSpec:
			b.specs[r.Metadata.Name] = r
		case *model.AttachmentSpec:
			attachments = append(attachments, r)
			if spec.Enabled {
				b.allowed[spec.Tier] = append(b.allowed[spec.Tier], spec.AllowedAddresses...)
			}
		}
	}
	if err := b.everything(attachments); err != nil {
		return nil, fmt.Errorf("reading the lists of VPC %s: %w", vpc, err)
	}
	slices.SortFunc(p.tiers, func(a, b *place) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.attachments, func(a, b *place) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(p.notes)
	return p, nil
}

// reader makes a policy out of resources.
type reader struct {
	policy          *Policy
	tiers           map[string]*model.TierSpec
	specs           map[string]*model.Resource // of lists
	allowed         map[string][]netip.Prefix  // allowedAddresses by tier
	hosts, disabled map[string][]netip.Prefix  // addresses of attachments, by tier
}

func (b *reader) everything(attachments []*model.Resource) error {
	p := b.policy
	var inside []netip.Prefix
	for _, name := range slices.Sorted(maps.Keys(b.tiers)) {
		inside = append(inside, b.tiers[name].CIDRs...)
		if err := b.tier(name, b.tiers[name]); err != nil {
			return err
		}
	}
	for name := range b.specs {
		if _, err := b.list(name); err != nil {
			return err
		}
	}
	var err error
	if p.everywhere, err = prefixSet(everywhere()); err != nil {
		return err
	}
	beyond, err := newSpace(everywhere(), inside...)
	if err != nil {
		return err
	}
	unicast := minus(beyond.all, rangesOf(NotUnicast()))
	p.outside = &place{End: End{Kind: Outside}, sends: beyond, receives: beyond, hosts: unicast, free: unicast}
	for _, r := range attachments {
		if err := b.attachment(r); err != nil {
			return err
		}
	}
	for _, tier := range p.tiers {
		tier.hosts, tier.free = rangesOf(b.hosts[tier.Name]), minus(tier.free, rangesOf(b.disabled[tier.Name]))
	}
	return nil
}

func (b *reader) prefixes(tier string) []netip.Prefix {
	if spec := b.tiers[tier]; spec != nil {
		return spec.CIDRs
	}
	return nil
}

// list finds or reads a list.
func (b *reader) list(name string) (*list, error) {
	if l := b.policy.lists[name]; l != nil {
		return l, nil
	}
	r := b.specs[name]
	spec := model.BuiltinACL(name)
	if spec == nil {
		spec = r.Spec.(*model.ACLSpec)
	}
	l, err := newList(name, spec, r, b.prefixes)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	b.policy.lists[name] = l
	return l, nil
}

func (b *reader) missing(user model.Kind, name string, kind model.Kind, missing string) error {
	vpc := b.policy.vpc
	return &MissingError{model.ID{Kind: user, VPC: vpc, Name: name}, model.ID{Kind: kind, VPC: vpc, Name: missing}}
}

func (b *reader) tier(name string, spec *model.TierSpec) error {
	if b.specs[spec.ACL] == nil && model.BuiltinACL(spec.ACL) == nil {
		return b.missing(model.KindTier, name, model.KindACL, spec.ACL)
	}
	l, err := b.list(spec.ACL)
	if err != nil {
		return fmt.Errorf("tier %s: %w", name, err)
	}
	never := neverHosts(spec)
	place := &place{End: End{Tier, name}, tier: name, list: l, hosts: &netipx.IPSet{}}
	if place.receives, err = newSpace(spec.CIDRs, never...); err != nil {
		return fmt.Errorf("tier %s: %w", name, err)
	}
	place.sends, place.free = place.receives, place.receives.all
	if more := b.allowed[name]; len(more) > 0 {
		if place.sends, err = newSpace(append(slices.Clone(spec.CIDRs), more...), never...); err != nil {
			return fmt.Errorf("tier %s: %w", name, err)
		}
	}
	b.policy.tiers = append(b.policy.tiers, place)
	return nil
}

// attachment reads an attachment. One without an address yet may get any of its
// tier's.
func (b *reader) attachment(r *model.Resource) error {
	name, spec := r.Metadata.Name, r.Spec.(*model.AttachmentSpec)
	tier := b.policy.find(b.policy.tiers, spec.Tier)
	if tier == nil {
		return b.missing(model.KindAttachment, name, model.KindTier, spec.Tier)
	}
	var own []netip.Prefix
	for _, a := range spec.Addresses {
		own = append(own, netip.PrefixFrom(a, a.BitLen()))
	}
	if !spec.Enabled {
		b.disabled[spec.Tier] = append(b.disabled[spec.Tier], own...)
		b.policy.disabled = append(b.policy.disabled, name)
		b.policy.note("attachment %s is disabled: nothing reaches it, and it reaches nothing", name)
		return nil
	}
	if !spec.PortSecurity {
		b.policy.note("attachment %s has portSecurity false: it can send from any address, and past the egress rules of list %s", name, tier.list.name)
	}
	p := &place{End: End{Attachment, name}, tier: spec.Tier, list: tier.list, sends: tier.receives, receives: tier.receives, hosts: &netipx.IPSet{}, free: &netipx.IPSet{}}
	if len(spec.Addresses) == 0 {
		b.policy.attachments = append(b.policy.attachments, p)
		return nil
	}
	p.hosts = rangesOf(own)
	p.free, b.hosts[spec.Tier] = p.hosts, append(b.hosts[spec.Tier], own...)
	var err error
	if p.sends, err = newSpace(append(own, spec.AllowedAddresses...)); err != nil {
		return fmt.Errorf("attachment %s: %w", name, err)
	}
	if p.receives, err = newSpace(intersect(p.sends.all, tier.receives.all).Prefixes()); err != nil {
		return fmt.Errorf("attachment %s: %w", name, err)
	}
	b.policy.attachments = append(b.policy.attachments, p)
	return nil
}

func (p *Policy) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *Policy) find(places []*place, name string) *place {
	i := slices.IndexFunc(places, func(at *place) bool { return at.Name == name })
	if i < 0 {
		return nil
	}
	return places[i]
}

// Judge parts all far addresses by what a list says of traffic from them
// (ingress) or to them (egress). There are none for an unknown list.
func (p *Policy) Judge(list string, d model.Direction) []Judgement {
	l := p.lists[list]
	if l == nil {
		return nil
	}
	return l.judge(p.everywhere, d)
}

// Answers is traffic that a rule of a stateless list lets pass, by what the list
// makes of the replies. Where that depends on the address, both sets have it.
type Answers struct{ Come, Dropped traffic.Set }

// Answers says of the rules, and the Default, that let traffic pass in a
// direction what becomes of the replies. There is nothing to say for a stateful list.
func (p *Policy) Answers(list string, d model.Direction) map[int]Answers {
	out := map[int]Answers{}
	for _, judged := range p.Judge(list, d) {
		if judged.Back == nil {
			return nil
		}
		l := p.lists[list]
		allows := func(rule int, d model.Direction) bool { return l.action(rule, d) == model.Allow }
		back := traffic.Join(judged.Back, traffic.Constant(true), func(rule int, _ bool) bool { return allows(rule, opposite(d)) })
		type answer struct {
			rule    int
			dropped bool
		}
		m := traffic.Join(judged.Rules, replies(judged.Family, back), func(rule int, replies string) answer { return answer{rule, replies == Dropped} })
		for _, step := range m {
			a, rule := out[step.Value.rule], step.Value.rule
			if !allows(rule, d) {
				continue
			}
			set := traffic.OnLine(judged.Family, m.Spans(func(v answer) bool { return v == step.Value }))
			if step.Value.dropped {
				a.Dropped = a.Dropped.Union(set)
			} else {
				a.Come = a.Come.Union(set)
			}
			out[rule] = a
		}
	}
	return out
}
