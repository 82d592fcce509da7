package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// wish is what an operation wants of the database.
type wish struct {
	put    []*model.Resource // as written; attachments perhaps without addresses
	remove []model.ID
	// cascade removes the users of what is removed too.
	cascade bool
	// prune removes what this manager brought into the VPCs of put and is not
	// in put.
	prune bool
	// reckoning says whether the plan tells what it opens.
	reckoning reckoning
	judging   judging

	// For the history of the VPCs:
	through Through
	to      *int                    // of a rollback
	within  time.Duration           // in which the change has to be confirmed, 0: it has not
	notes   map[string]*Unconfirmed // of this operation's own changes that wait for that, as they are stored
	settles *Unconfirmed            // the change whose waiting this one ends
}

// desire is a wish merged into what is stored.
type desire struct {
	world     *world
	resources map[model.ID]*model.Resource // all of the scope, as it is to be
	input     []*model.Resource            // those of the wish, as they are to be
	haves     []nbdb.Fragment              // as put, the first of the input, stands in the database
	removed   []*model.Resource            // as they are stored
	mended    []*model.Resource            // those that are stored and get rows with names which they lack
	found     model.Diagnostics
	now       translate.Context // of what is stored
	index     index
	wish
}

// before is a resource as it is stored, or as its second copy says.
func (w *world) before(id model.ID) *model.Resource {
	if r := w.resources[id]; r != nil {
		return r
	}
	for _, r := range w.lost {
		if r.ID() == id {
			return r
		}
	}
	return nil
}

// all are the resources as they are stored, those that only second copies tell of
// among them.
func (w *world) all() map[model.ID]*model.Resource {
	if len(w.lost) == 0 {
		return w.resources
	}
	all := maps.Clone(w.resources)
	for _, r := range w.lost {
		all[r.ID()] = r
	}
	return all
}

func (e *Engine) desire(w *world, wish wish, attempt int) *desire {
	d := &desire{world: w, resources: maps.Clone(w.resources), wish: wish, haves: make([]nbdb.Fragment, len(wish.put))}
	finish := begin(len(d.haves), func(i int) { d.haves[i] = w.have(wish.put[i].ID()) })
	for _, r := range wish.put {
		put := asInput(r)
		put.Manager = cmp.Or(put.Manager, e.Manager) // one that was there before has its own
		if old := w.before(r.ID()); old != nil {
			put.Manager, put.Request = old.Manager, old.Request
		}
		d.resources[r.ID()] = put
		d.input = append(d.input, put)
	}
	remove := wish.remove
	if wish.prune {
		remove = append(slices.Clone(remove), e.pruned(w, wish.put)...)
	}
	d.remove(remove, wish.cascade, e.RepairDamaged)
	e.allocate(d, attempt)
	d.found = append(d.found, model.CheckPart(sorted(d.resources), w.before, func(string) bool { return true }, func(vpc string) int { return w.others[vpc] })...)
	w.mentionLost(d.found, func(id model.ID) bool {
		return d.resources[id] != nil || slices.ContainsFunc(d.removed, func(r *model.Resource) bool { return r.ID() == id })
	})
	finish()
	return d
}

// follows tells whether the rows of a resource are as they have to be for what
// is stored, so that they change only with another resource.
func (d *desire) follows(c *change) bool {
	stored, err := translate.Fragment(c.before, d.now)
	return err == nil && nbdb.Diff(c.have, stored).Empty()
}

// asInput is a copy that checks take for input: one with a source.
func asInput(r *model.Resource) *model.Resource {
	put := *r
	if put.Source == nil {
		put.Source = &model.Source{}
	}
	return &put
}

// pruned are the resources that an earlier apply of this manager brought into
// the VPCs of the input and that the input no longer has. The VPC itself and
// the offerings, which belong to no VPC, are left.
func (e *Engine) pruned(w *world, put []*model.Resource) []model.ID {
	vpcs, kept := map[string]bool{}, map[model.ID]bool{}
	for _, r := range put {
		vpcs[vpcOf(r.ID())] = true
		kept[r.ID()] = true
	}
	var out []model.ID
	for _, r := range append(sorted(w.resources), w.lost...) {
		id := r.ID()
		if id.Kind != model.KindVPC && id.Kind != model.KindVPCOffering &&
			vpcs[id.VPC] && !kept[id] && r.Manager == e.Manager {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, compareIDs)
	return out
}

// remove takes resources out, and refuses what others still use. Users whose
// rows somebody has deleted go along in any case: left alone they would be
// restored without what they use. So does what can't be read, which is told of
// unless that is to be repaired.
func (d *desire) remove(ids []model.ID, cascade, repair bool) {
	if len(ids) == 0 {
		return
	}
	gone := map[model.ID]bool{}
	known := append(sorted(d.resources), d.world.allDamaged()...)
	for _, r := range d.world.lost {
		if d.resources[r.ID()] == nil {
			known = append(known, r)
		}
	}
	stored := func(id model.ID) *model.Resource {
		if u := d.world.damaged(id); u != nil {
			return u.resource()
		}
		return d.world.before(id)
	}
	users := model.Users(known)
	for queue := slices.Clone(ids); len(queue) > 0; queue = queue[1:] {
		id := queue[0]
		if gone[id] || stored(id) == nil {
			continue
		}
		gone[id] = true
		for _, user := range users[id] {
			if (cascade || d.resources[user] == nil) && !names(user, id) {
				queue = append(queue, user)
			}
		}
	}
	for id := range gone {
		delete(d.resources, id)
	}
	if cascade {
		d.forgetTiers(gone)
	}
	for _, id := range slices.SortedFunc(maps.Keys(gone), compareIDs) {
		r := stored(id)
		d.removed = append(d.removed, r)
		if u := d.world.damaged(id); u != nil && !repair {
			d.found = append(d.found, u.diagnostic(r))
		}
		left := slices.DeleteFunc(users[id], func(user model.ID) bool { return d.resources[user] == nil || cascade && names(user, id) })
		if len(left) > 0 {
			d.found = append(d.found, fault(r, "it is in use by %s",
				"delete those first, or delete with --cascade", listIDs(left)).Coded(model.CodeInUse))
		}
	}
}

// names tells whether a resource only names another one as a far side: a list
// whose rules name a tier. A cascade takes the tier out of such a list, instead
// of going on to the list, the tiers that it guards and all that is in them.
func names(user, id model.ID) bool {
	return user.Kind == model.KindACL && id.Kind == model.KindTier
}

// forgetTiers takes tiers that go out of the lists that stay. A tier that is
// not there matches nothing, so a rule that names no other far side goes too:
// without one it would match everything.
func (d *desire) forgetTiers(gone map[model.ID]bool) {
	for _, r := range sorted(d.resources) {
		spec, ok := r.Spec.(*model.ACLSpec)
		if !ok {
			continue
		}
		left := *spec
		left.Rules = []model.Rule{}
		changed := false
		for _, rule := range spec.Rules {
			tiers := slices.DeleteFunc(slices.Clone(rule.Tiers), func(t string) bool {
				return gone[model.ID{Kind: model.KindTier, VPC: r.Metadata.VPC, Name: t}]
			})
			if len(tiers) != len(rule.Tiers) {
				changed = true
				if rule.Tiers = tiers; len(tiers)+len(rule.CIDRs) == 0 {
					continue
				}
			}
			left.Rules = append(left.Rules, rule)
		}
		if changed {
			put := asInput(r)
			put.Spec = &left
			d.resources[r.ID()] = put
			d.input = append(d.input, put)
		}
	}
}

// listIDs names a few and counts the rest.
func listIDs(ids []model.ID) string {
	const few = 5
	var names []string
	for _, id := range ids[:min(few, len(ids))] {
		names = append(names, id.String())
	}
	s := strings.Join(names, ", ")
	if n := len(ids) - few; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
