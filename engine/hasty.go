package engine

import (
	"context"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// hastily is the plan of a first attempt from the mirror as it is, which may be
// behind: the commit finds that out. It is nil where nothing would, since an edit
// changes nothing or is refused, and where edits don't ask for haste.
func (b *batch) hastily(ctx context.Context) *Plan {
	m := b.engine.Mirror
	if b.attempt > 0 || m == nil || b.engine.Openings != nil || len(b.edits) == 0 || slices.ContainsFunc(b.edits, func(x Edit) bool { return !x.Hasty }) {
		return nil
	}
	p := b.guess(ctx, m)
	if p == nil {
		b.outcomes = make([]outcome, len(b.edits))
		return nil
	}
	p.hasty = true
	return p
}

func (b *batch) guess(ctx context.Context, m *Mirror) *Plan {
	if b.ofRules() {
		if !m.hold(m.synced.Load()) {
			return nil
		}
		defer m.mu.RUnlock()
		return b.rulesAlone(m)
	}
	open, err := b.lookHastily(m)
	if err != nil || b.world == nil || b.marked() {
		return nil
	}
	p, open, err := b.fit(ctx, open)
	if err != nil || len(open) < len(b.edits) {
		return nil
	}
	b.note(p, open)
	if slices.ContainsFunc(b.outcomes, func(o outcome) bool { return !o.moves() }) {
		return nil
	}
	return p
}

// lookHastily is lookNarrowly where all edits are of attachments that hang on
// nothing but their tiers: the world has no others.
func (b *batch) lookHastily(m *Mirror) (open []int, err error) {
	if b.world = nil; !m.hold(m.synced.Load()) {
		return nil, nil
	}
	defer m.mu.RUnlock()
	s := scope{vpcs: []string{vpcOf(b.edits[0].ID)}, attachments: map[string]bool{}}
	n := m.networks[s.vpcs[0]]
	if n == nil || !n.intact() {
		return nil, nil
	}
	for _, x := range b.edits {
		if x.ID.Kind != model.KindAttachment {
			return nil, nil
		}
		s.attachments[x.ID.Name] = true
	}
	if m.expects(s.vpcs[0], n) { // a verdict hangs on all tiers
		return b.lookNarrowly(m)
	}
	if m.rows.Get(nbdb.TablePortGroup, translate.HistoryUUID(m.owner, s.vpcs[0])) == nil {
		return nil, nil // without it a limit hangs on all tiers
	}
	b.world = m.sketch(n, s)
	open = b.begin(n.requests)
	for _, name := range m.holders(s.vpcs[0], b.wish(open).put) {
		s.attachments[name] = true
	}
	tiers := map[string]bool{}
	s.pages = map[nbdb.UUID]bool{}
	for _, o := range b.outcomes {
		for _, r := range []*model.Resource{o.before, o.put} {
			if r == nil {
				continue
			}
			spec := r.Spec.(*model.AttachmentSpec)
			if spec.Plug != nil { // what an agent is told hangs on all tiers
				return b.lookNarrowly(m)
			}
			tiers[spec.Tier] = true
			if _, tier := m.tier(n, model.ID{Kind: model.KindTier, VPC: s.vpcs[0], Name: spec.Tier}); tier != nil {
				s.pages[translate.RegistryUUID(m.owner, s.vpcs[0], spec.Tier)] = true
				s.pages[translate.CopyUUID(m.owner, s.vpcs[0], spec.Tier, tier, r.Metadata.Name)] = true
			}
		}
	}
	b.world, err = m.part(n, s, func(id model.ID, _ []nbdb.Row) (some, rules bool) {
		return id.Kind == model.KindVPC || id.Kind == model.KindTier && tiers[id.Name], false
	})
	if err != nil {
		return nil, err
	}
	if len(b.world.homeless(b.wish(open).put)) > 0 {
		b.world = nil
		return nil, nil
	}
	m.putNames(b.world.state, b.fresh(open))
	return open, nil
}

// marked tells whether an edit is a request's that is known by its mark: it may have
// created something already.
func (b *batch) marked() bool {
	return slices.ContainsFunc(b.outcomes, func(o outcome) bool { return o.put != nil && o.put.Request != "" })
}

// ofRules tells whether there is nothing to do but to change some rules of a list.
func (b *batch) ofRules() bool { return len(b.edits) == 1 && b.edits[0].Rules }

// rulesAlone plans an edit of some rules of a list from what these come to, in a
// VPC where nothing else can hang on them; nil where that is not enough. The caller
// holds the mirror's lock.
func (b *batch) rulesAlone(m *Mirror) *Plan {
	e, x := b.engine, b.edits[0]
	if e.RepairDamaged || e.Openings != nil {
		return nil
	}
	r := m.rulesOf(x)
	if r == nil || r.world.unconfirmed(x.ID.VPC) != nil {
		return nil
	}
	d := r.desire
	part, err := e.planVPC(d, x.ID.VPC, r.changes)
	if err != nil || part == nil || d.found.HasErrors() {
		return nil
	}
	p := e.newPlan(r.world)
	p.then, p.VPCs, p.Diagnostics = d.resources, []VPCPlan{*part}, d.found
	b.world = r.world
	b.outcomes[0] = outcome{before: r.before, put: r.after, after: r.after, world: r.world, plan: p}
	return p
}
