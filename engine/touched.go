package engine

import (
	"context"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// change is a resource with its rows before and after.
type change struct {
	id     model.ID
	have   nbdb.Fragment
	want   nbdb.Fragment
	before *model.Resource // as stored, nil when new
	after  *model.Resource // nil when removed
	input  bool
	same   bool // the rows are as they are to be
}

// touched are the changes by VPC: those of the wish, and those of resources
// whose translation depends on them. Names are looked at of what gets back rows.
func (e *Engine) touched(ctx context.Context, d *desire) (map[string][]*change, error) {
	touched, err := d.touched()
	if err == nil {
		err = e.readNames(ctx, d.world, d.mended)
	}
	if err != nil {
		return nil, d.world.explained(err)
	}
	return touched, e.checkNames(ctx, d, d.mended)
}

// touched is Engine.touched without a look at names.
func (d *desire) touched() (map[string][]*change, error) {
	out := map[string][]*change{}
	w := d.world
	then := w.context(d.resources)
	d.now = w.context(w.all())
	seen := make(map[model.ID]bool, len(d.input))
	structural := map[string]bool{}
	adopt := func(*change) {}
	if len(w.unread)+len(w.strays) > 0 {
		adopt = w.adopter()
	}
	d.index.lists = map[nbdb.UUID]bool{}
	add := func(c *change) {
		adopt(c)
		seen[c.id] = true
		if c.id.Kind == model.KindACL {
			d.index.lists[translate.DefaultUUID(w.owner, c.id.VPC, c.id.Name, model.Ingress)] = true
		}
		out[vpcOf(c.id)] = append(out[vpcOf(c.id)], c)
		if c.id.Kind != model.KindAttachment {
			structural[vpcOf(c.id)] = true
		}
		if w.resources[c.id] != nil && c.lacks() {
			d.mended = append(d.mended, c.after)
		}
	}
	follow := func(r *model.Resource) error {
		c, err := d.changeOf(r.ID(), w.have(r.ID()), then)
		if err == nil && !seen[c.id] {
			add(c)
		}
		return err
	}
	changes, err := d.wished(then)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		add(c)
	}
	following, err := d.following(changes, then, func(id model.ID) bool { return !seen[id] && structural[vpcOf(id)] })
	if err != nil {
		return nil, err
	}
	for _, r := range append(following, w.homeless(slices.Concat(d.input, following))...) {
		if err := follow(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// following are the resources, of those that may, whose translation depends on changes.
func (d *desire) following(changes []*change, then translate.Context, may func(model.ID) bool) (out []*model.Resource, err error) {
	moved := d.moved(changes)
	for _, r := range sortedIf(d.resources, func(r *model.Resource) bool {
		return may(r.ID()) && d.world.resources[r.ID()] != nil && moved.concerns(r) &&
			(r.Kind != model.KindAttachment || d.tierMoved(r))
	}) {
		same := false
		if moved.vpcs[vpcOf(r.ID())] {
			if same, err = sameFragment(r, d.now, then); err != nil {
				return nil, err
			}
		}
		if !same {
			out = append(out, r)
		}
	}
	return out, nil
}

// wished are the changes of what a wish names.
func (d *desire) wished(then translate.Context) ([]*change, error) {
	wished := slices.Concat(d.input, d.removed)
	changes, errs := make([]*change, len(wished)), make([]error, len(wished))
	haves := append(d.haves, make([]nbdb.Fragment, len(wished)-len(d.haves))...)
	sideBySide(len(wished), func(i int) {
		id := wished[i].ID()
		if i >= len(d.haves) {
			haves[i] = d.world.have(id)
		}
		if changes[i], errs[i] = d.changeOf(id, haves[i], then); errs[i] == nil {
			changes[i].input = true
		}
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// moved says what of a wish changes as far as others' rows hang on it.
type moved struct {
	vpcs  map[string]bool   // that change, or whose tiers do
	lists map[model.ID]bool // that change, or whose rows are repaired
}

func (d *desire) moved(wished []*change) moved {
	m := moved{map[string]bool{}, map[model.ID]bool{}}
	for _, c := range wished {
		switch c.id.Kind {
		case model.KindVPC, model.KindTier:
			was, is := d.world.resources[c.id], d.resources[c.id]
			if was == nil || is == nil || !sameSpec(was, is) {
				m.vpcs[vpcOf(c.id)] = true
			}
		case model.KindACL:
			if !c.same {
				m.lists[c.id] = true
			}
		}
	}
	return m
}

// concerns tells whether the rows of a resource may hang on what changes.
func (m moved) concerns(r *model.Resource) bool {
	if r.Kind == model.KindVPCOffering {
		return false
	}
	spec, tier := r.Spec.(*model.TierSpec)
	return m.vpcs[vpcOf(r.ID())] || tier && m.lists[model.ID{Kind: model.KindACL, VPC: r.Metadata.VPC, Name: spec.ACL}]
}

// changeOf is a resource with its rows as they are and as they are to be.
func (d *desire) changeOf(id model.ID, have nbdb.Fragment, then translate.Context) (*change, error) {
	w := d.world
	c := &change{id: id, before: w.resources[id], after: d.resources[id], have: have}
	if c.after == nil {
		c.before = w.before(id)
	} else {
		var err error
		if c.want, err = fragment(c.after, then); err != nil {
			return nil, err
		}
	}
	c.same = nbdb.Same(c.have, c.want)
	return c, nil
}

// lacks tells whether rows are to come beside the principal one that have a name, which
// another row may have taken.
func (c *change) lacks() bool {
	return !c.same && c.id.Kind != model.KindAttachment && slices.ContainsFunc(c.want.Rows, func(r nbdb.Row) bool {
		return nameKey(r) != "" && !slices.ContainsFunc(c.have.Rows, func(x nbdb.Row) bool { return x.ID() == r.ID() })
	})
}

// tierMoved tells whether an attachment's tier, or where an agent plugs it its
// VPC, changes in a way that its port may depend on.
func (d *desire) tierMoved(r *model.Resource) bool {
	if r.Spec.(*model.AttachmentSpec).Plug != nil {
		return true
	}
	id := model.ID{Kind: model.KindTier, VPC: r.Metadata.VPC, Name: r.Spec.(*model.AttachmentSpec).Tier}
	was, is := d.world.resources[id], d.resources[id]
	if was == nil || is == nil {
		return true
	}
	a, b := was.Spec.(*model.TierSpec), is.Spec.(*model.TierSpec)
	return a.DHCP.Enabled != b.DHCP.Enabled || !slices.Equal(a.CIDRs, b.CIDRs)
}

func sameFragment(r *model.Resource, now, then translate.Context) (bool, error) {
	a, err := fragment(r, now)
	if err != nil {
		// Its references were broken before: whatever comes is a change.
		return false, nil
	}
	b, err := fragment(r, then)
	if err != nil {
		return false, err
	}
	return nbdb.Diff(a, b).Empty(), nil
}
