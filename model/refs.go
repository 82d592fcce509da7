package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Check checks resources against each other: set is the whole desired state,
// what comes from the input (Source set) and what stays as it is in the
// database (Source nil). A fault is reported on a resource of the input, the
// later one where there are two; what is wrong among stored ones alone is not.
//
// before gives a resource as it is stored now, nil for a new one. complete
// tells whether set holds all resources of a VPC ("" for the kinds outside of
// VPCs): where it doesn't, a reference into the unknown is but a warning.
//
// Deletions are not checked: Users says who stands against one.
func Check(set []*Resource, before func(ID) *Resource, complete func(vpc string) bool) Diagnostics {
	return CheckPart(set, before, complete, func(string) int { return 0 })
}

// CheckPart is Check of a set that lacks attachments on which nothing hangs but the
// limits of offerings: others tells how many a VPC has.
func CheckPart(set []*Resource, before func(ID) *Resource, complete func(vpc string) bool, others func(vpc string) int) Diagnostics {
	c := &crossChecker{state: newState(set), before: before, complete: complete, others: others, said: make(map[ID]bool)}
	c.interfaces = make(map[string]spot, len(set))
	c.addresses = make(map[addressKey]spot, len(set))
	c.macs = make(map[macKey]spot, len(set))
	for _, r := range set {
		c.scope(r)
		switch spec := r.Spec.(type) {
		case *VPCSpec:
			c.vpc(r, spec)
		case *TierSpec:
			c.tier(r, spec)
		case *ACLSpec:
			c.acl(r, spec)
		case *AttachmentSpec:
			c.attachment(r, spec)
		case *ExpectationSpec:
			c.expectation(r, spec)
		}
	}
	for _, name := range sortedKeys(c.state.vpcs) {
		c.overlaps(c.state.vpcs[name])
	}
	c.found.Sort()
	return c.found
}

// state is a set by what its resources refer to.
type state struct {
	byID map[ID]*Resource
	vpcs map[string]*members
}

// members are the resources of one VPC, in the order of the set.
type members struct {
	tiers, acls, attachments []*Resource
	byTier                   map[string][]*Resource // attachments
}

func newState(set []*Resource) *state {
	s := &state{byID: make(map[ID]*Resource, len(set)), vpcs: make(map[string]*members)}
	for _, r := range set {
		s.byID[r.ID()] = r
		if r.Scope() == "" {
			continue
		}
		m := s.vpcs[r.Scope()]
		if m == nil {
			m = &members{byTier: make(map[string][]*Resource)}
			s.vpcs[r.Scope()] = m
		}
		switch spec := r.Spec.(type) {
		case *TierSpec:
			m.tiers = append(m.tiers, r)
		case *ACLSpec:
			m.acls = append(m.acls, r)
		case *AttachmentSpec:
			m.attachments = append(m.attachments, r)
			m.byTier[spec.Tier] = append(m.byTier[spec.Tier], r)
		}
	}
	return s
}

// spot is a field of a resource.
type spot struct {
	r     *Resource
	field string
}

type crossChecker struct {
	state    *state
	before   func(ID) *Resource
	complete func(vpc string) bool
	others   func(vpc string) int // attachments that are not in the state
	said     map[ID]bool          // unknown references that were warned of
	found    Diagnostics

	interfaces map[string]spot
	addresses  map[addressKey]spot
	macs       map[macKey]spot
}

type addressKey struct {
	tier ID
	addr netip.Addr
}

type macKey struct {
	tier ID
	mac  MAC
}

func (c *crossChecker) fault(at spot, code Code, problem, fix string) {
	c.found = append(c.found, at.r.Fault(at.field, problem, fix).Coded(code))
}

// collision reports two resources that want one thing, on the later one that
// comes from the input.
func (c *crossChecker) collision(later, first spot, problem, fix string) {
	on, other := later, first
	if on.r.Source == nil {
		on, other = first, later
	}
	if on.r.Source == nil {
		return
	}
	c.found = append(c.found, on.r.Fault(on.field, fmt.Sprintf("%s %s (%s)", problem, other.r.ID(), other.r.place()), fix).
		Coded(CodeTaken).With(other.r))
}

// sound tells whether a field of a resource can be held against others: the
// resource is there and nothing was found wrong in that field before.
func sound(r *Resource, field string) bool {
	if r == nil || r.Source == nil {
		return r != nil
	}
	for _, faulty := range r.Source.faulty {
		if written := r.Source.written(field); within(faulty, written) || within(written, faulty) {
			return false
		}
	}
	return true
}

// fromInput tells whether a resource comes from the input.
func fromInput(r *Resource) bool { return r.Source != nil }

// scope reports a resource whose VPC is unknown.
func (c *crossChecker) scope(r *Resource) {
	id := ID{Kind: KindVPC, Name: r.Metadata.VPC}
	if !r.Kind.Global() && id.Name != "" && c.state.byID[id] == nil {
		c.unknown(spot{r, "metadata.vpc"}, id, id.Name)
	}
}

// refer finds what a field refers to; where there is nothing it is reported,
// unless its VPC is unknown too.
func (c *crossChecker) refer(at spot, id ID) *Resource {
	found := c.state.byID[id]
	if found == nil && (id.VPC == "" || c.state.byID[ID{Kind: KindVPC, Name: id.VPC}] != nil) {
		c.unknown(at, id, id.VPC)
	}
	return found
}

// unknown reports a reference to what isn't in the set, a warning where the
// set isn't all there is in the scope.
func (c *crossChecker) unknown(at spot, id ID, scope string) {
	if !fromInput(at.r) {
		return
	}
	if !c.complete(scope) {
		if !c.said[id] {
			c.said[id] = true
			c.found = append(c.found, at.r.Warning(at.field, fmt.Sprintf("%s is not in the input", id), "it is looked up in the database on apply"))
		}
		return
	}
	var names []string
	for other := range c.state.byID {
		if other.Kind == id.Kind && other.VPC == id.VPC {
			names = append(names, other.Name)
		}
	}
	if id.Kind == KindACL {
		names = append(names, ACLDefaultAllow, ACLDefaultDeny)
	}
	slices.Sort(names)
	fix := "create it"
	if len(names) > 0 {
		fix += ", or use one of " + few(names)
	}
	found := at.r.Fault(at.field, fmt.Sprintf("there is no %s", id), suggest(id.Name, names, fix))
	found.Against = id
	c.found = append(c.found, found)
}

// few lists at most five names, and how many more there are.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func (c *crossChecker) vpc(r *Resource, spec *VPCSpec) {
	c.keepsTiers(r, spec)
	if spec.Offering == "" {
		return
	}
	offering := c.refer(spot{r, "spec.offering"}, ID{Kind: KindVPCOffering, Name: spec.Offering})
	if offering == nil {
		return
	}
	granted := offering.Spec.(*VPCOfferingSpec)
	if sound(offering, "spec.capabilities") && sound(r, "spec.distributedRouting") && spec.DistributedRouting && !granted.Capabilities.DistributedRouting {
		c.blame(
			spot{r, "spec.distributedRouting"}, CodeLimit, fmt.Sprintf("%s does not permit distributed routing", offering.ID()),
			spot{offering, "spec.capabilities.distributedRouting"}, CodeInUse, fmt.Sprintf("%s uses distributed routing", r.ID()),
			"set distributedRouting to false and name a chassis in the VPC, or permit it in the offering")
	}
	for _, q := range granted.Limits.quotas() {
		if sound(offering, q.field) {
			c.quota(r, offering, q)
		}
	}
}

// blame reports a fault on the first spot if it comes from the input, else on
// the second.
func (c *crossChecker) blame(first spot, code Code, problem string, second spot, other Code, otherwise, fix string) {
	switch {
	case fromInput(first.r):
		c.found = append(c.found, first.r.Fault(first.field, problem, fix).Coded(code).With(second.r))
	case fromInput(second.r):
		c.fault(second, other, otherwise, fix)
	}
}

// quota holds a VPC against one limit of its offering. The fault stands on
// the offering if it was narrowed, else on the last resource of the input that
// uses the limit up.
func (c *crossChecker) quota(vpc, offering *Resource, q quota) {
	used, last := c.usage(vpc.Metadata.Name, q.kind)
	if q.limit == nil || used <= *q.limit {
		return
	}
	at, code := spot{vpc, "spec.offering"}, CodeLimit
	switch {
	case c.narrowed(offering, q):
		at, code = spot{offering, q.field}, CodeInUse
	case last != nil && q.kind == KindACL:
		at = spot{last, "spec.rules"}
	case last != nil:
		at = spot{last, "metadata.name"}
	case !fromInput(vpc):
		at = spot{offering, q.field}
	}
	if fromInput(at.r) {
		c.fault(at, code, fmt.Sprintf("%s would have %d %s, %s permits %d", vpc.ID(), used, q.what, offering.ID(), *q.limit),
			"use fewer, or raise the limit in the offering")
	}
}

// narrowed tells whether the input lowers a limit.
func (c *crossChecker) narrowed(offering *Resource, q quota) bool {
	old := c.before(offering.ID())
	if old == nil || !fromInput(offering) {
		return false
	}
	for _, was := range old.Spec.(*VPCOfferingSpec).Limits.quotas() {
		if was.field == q.field {
			return was.limit == nil || *was.limit > *q.limit
		}
	}
	return false
}

// usage counts what a VPC has, and finds the last of the input among it.
func (c *crossChecker) usage(vpc string, kind Kind) (used int, last *Resource) {
	m := c.state.vpcs[vpc]
	list := map[Kind][]*Resource{KindTier: m.tiers, KindACL: m.acls, KindAttachment: m.attachments}[kind]
	used = len(list)
	switch kind {
	case KindACL:
		used = 0
	case KindAttachment:
		used += c.others(vpc)
	}
	for _, r := range list {
		if acl, ok := r.Spec.(*ACLSpec); ok {
			used += len(acl.Rules)
		}
		if fromInput(r) {
			last = r
		}
	}
	return used, last
}

// keepsTiers reports stored tiers that the VPC's prefixes no longer cover.
func (c *crossChecker) keepsTiers(r *Resource, spec *VPCSpec) {
	if !fromInput(r) || !sound(r, "spec.cidrs") {
		return
	}
	var lost []string
	for _, tier := range c.state.vpcs[r.Metadata.Name].tiers {
		for _, p := range tier.Spec.(*TierSpec).CIDRs {
			if !fromInput(tier) && !coveredBy(p, spec.CIDRs) {
				lost = append(lost, fmt.Sprintf("%s of tier %s", p, tier.Metadata.Name))
			}
		}
	}
	if len(lost) == 0 {
		return
	}
	fix := "add prefixes that cover them, or delete the tiers first"
	if old := c.before(r.ID()); old != nil {
		fix = "keep those of " + join(old.Spec.(*VPCSpec).CIDRs) + " that cover them, or delete the tiers first"
	}
	c.fault(spot{r, "spec.cidrs"}, CodeInUse, "no longer cover "+few(lost), fix)
}

func (c *crossChecker) acl(r *Resource, spec *ACLSpec) {
	for i, rule := range spec.Rules {
		for j, tier := range rule.Tiers {
			at := spot{r, index(index("spec.rules", i)+".tiers", j)}
			if tier != "" && sound(r, at.field) {
				c.refer(at, ID{KindTier, r.Metadata.VPC, tier})
			}
		}
	}
}

// Users tells who in a set refers to a resource, in the order of the set:
// they keep it from being deleted.
func Users(set []*Resource) map[ID][]ID {
	users := make(map[ID][]ID)
	known := newState(set).byID
	for _, r := range set {
		for _, id := range r.references(func(id ID) bool { return known[id] != nil }) {
			if list := users[id]; len(list) == 0 || list[len(list)-1] != r.ID() {
				users[id] = append(list, r.ID())
			}
		}
	}
	return users
}

// references are the resources that one refers to, each at least once. exists
// settles which resource a name is that leaves the kind open.
func (r *Resource) references(exists func(ID) bool) []ID {
	var ids []ID
	if !r.Kind.Global() {
		ids = append(ids, ID{Kind: KindVPC, Name: r.Metadata.VPC})
	}
	switch spec := r.Spec.(type) {
	case *VPCSpec:
		if spec.Offering != "" {
			ids = append(ids, ID{Kind: KindVPCOffering, Name: spec.Offering})
		}
	case *TierSpec:
		ids = append(ids, ID{Kind: KindACL, VPC: r.Metadata.VPC, Name: spec.ACL})
	case *AttachmentSpec:
		ids = append(ids, ID{Kind: KindTier, VPC: r.Metadata.VPC, Name: spec.Tier})
	case *ACLSpec:
		for _, rule := range spec.Rules {
			for _, tier := range rule.Tiers {
				ids = append(ids, ID{Kind: KindTier, VPC: r.Metadata.VPC, Name: tier})
			}
		}
	case *ExpectationSpec:
		for _, id := range spec.ends(r.Metadata.VPC, exists) {
			if id != (ID{}) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
