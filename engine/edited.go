package engine

import (
	"context"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// edited tells each edit what has become of it; failed is why not all has
// landed.
func (b *batch) edited(ctx context.Context, failed error) []Edited {
	v := &views{bindings: b.bindings(ctx), made: map[view]*statuses{}}
	out := make([]Edited, len(b.edits))
	for i := range b.edits {
		o := &b.outcomes[i]
		out[i] = Edited{Existed: o.before != nil, Err: o.err, Result: Result{VPCs: []VPCResult{}}}
		if o.err != nil {
			continue
		}
		out[i].Result = b.result(i)
		if out[i].Err = failed; failed == nil || o.landed {
			out[i].Object, out[i].Err = v.object(o), nil
		}
	}
	return out
}

// Repaired tells whether the resource was not there, but something of it was: a
// row whose stored spec can't be read, say.
func (x *Edited) Repaired() bool {
	if x.Existed || x.Object.Resource == nil {
		return false
	}
	id := x.Object.Resource.ID()
	return slices.ContainsFunc(x.Result.VPCs, func(v VPCResult) bool {
		return slices.ContainsFunc(v.Changes, func(c ResourceChange) bool { return c.Action == Repair && c.ID() == id })
	})
}

// bindings are those of the attachments that were there before.
func (b *batch) bindings(ctx context.Context) map[string]nbdb.Binding {
	if b.engine.SB == nil {
		return nil
	}
	found := map[string]nbdb.Binding{}
	var ports []string
	for _, i := range b.live() {
		if r := b.outcomes[i].before; r != nil && r.Kind == model.KindAttachment {
			ports = append(ports, r.Spec.(*model.AttachmentSpec).InterfaceID)
		}
	}
	if len(ports) == 0 {
		return found
	}
	return b.engine.bindings(ctx, ports...)
}

// views are what attempts saw, and what they have made of it.
type views struct {
	bindings map[string]nbdb.Binding
	made     map[view]*statuses
}

type view struct {
	plan   *Plan
	before bool
}

func (v *views) of(o *outcome, before bool) *statuses {
	key := view{o.plan, before}
	if st := v.made[key]; st != nil {
		return st
	}
	w := *o.world
	if !before {
		w.resources = o.plan.then
	}
	st := &statuses{world: &w}
	st.count()
	v.made[key] = st
	return st
}

// object is the resource as it is now, of a removed one as it was.
func (v *views) object(o *outcome) Object {
	r, removed := o.after, o.after == nil
	if removed {
		r = o.before
	}
	if r == nil {
		return Object{}
	}
	stored := *r
	stored.Source = nil
	if r.Kind == model.KindAttachment {
		return Object{Resource: &stored, Status: v.port(o, r).of(&stored)}
	}
	return Object{Resource: &stored, Status: v.of(o, removed).of(&stored)}
}

// port is what tells the status of one attachment: of one whose port is new
// nobody has said anything yet.
func (v *views) port(o *outcome, r *model.Resource) *statuses {
	st := &statuses{world: o.world, bindings: v.bindings}
	if o.before != nil && samePort(o.before, r) {
		spec := r.Spec.(*model.AttachmentSpec)
		uuid := translate.PortUUID(o.world.owner, r.Metadata.VPC, spec.Addresses[0])
		st.ports = map[string]*nbdb.LogicalSwitchPort{spec.InterfaceID: nbdb.Lookup[*nbdb.LogicalSwitchPort](o.world.state, uuid)}
	} else if v.bindings != nil {
		st.bindings = map[string]nbdb.Binding{}
	}
	return st
}

// samePort tells whether an attachment has kept its port's row and name.
func samePort(a, b *model.Resource) bool {
	x, y := a.Spec.(*model.AttachmentSpec), b.Spec.(*model.AttachmentSpec)
	return x.InterfaceID == y.InterfaceID && slices.Equal(x.Addresses[:1], y.Addresses[:1])
}

// result is the part of all that was done which is due to one edit: the
// changes of its resource, and those of resources that nobody edits, which
// follow from edits of the structure or go with what is removed.
func (b *batch) result(i int) Result {
	o, res := &b.outcomes[i], Result{VPCs: []VPCResult{}}
	moved := o.put != nil || o.remove
	due := func(id string, others bool) bool {
		return id == b.edits[i].ID.String() || others && moved &&
			!slices.ContainsFunc(b.live(), func(k int) bool { return b.edits[k].ID.String() == id })
	}
	for _, v := range b.runner.result.VPCs {
		mine, seen := v, map[model.ID]bool{}
		mine.Changes = nil
		for _, c := range v.Changes {
			if !seen[c.ID()] && due(c.ID().String(), b.edits[i].ID.Kind != model.KindAttachment) {
				mine.Changes = append(mine.Changes, c)
			}
			seen[c.ID()] = true
		}
		if len(mine.Changes) > 0 {
			res.VPCs = append(res.VPCs, mine)
		}
	}
	if o.plan == nil {
		return res
	}
	for _, d := range o.plan.Diagnostics {
		if due(d.Resource, true) {
			res.Diagnostics = append(res.Diagnostics, d)
		}
	}
	return res
}
