package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// Action is what a plan does with a resource.
type Action string

// The actions. A resource is repaired when its spec stays but its rows differ
// from it, and follows when another resource's change changes its rows.
const (
	Create Action = "create"
	Change Action = "update"
	Remove Action = "delete"
	Repair Action = "repair"
	Follow Action = "follow"
)

// FieldChange is one field of a spec that changes; absent is nil.
type FieldChange struct {
	Field string `json:"field"`
	Old   any    `json:"old,omitempty"`
	New   any    `json:"new,omitempty"`
}

// ResourceChange is what a plan does with one resource.
type ResourceChange struct {
	Action Action        `json:"action"`
	Kind   model.Kind    `json:"kind"`
	VPC    string        `json:"vpc,omitempty"`
	Name   string        `json:"name"`
	Fields []FieldChange `json:"fields,omitempty"`
}

// ID is the resource's.
func (c ResourceChange) ID() model.ID { return model.ID{Kind: c.Kind, VPC: c.VPC, Name: c.Name} }

// VPCPlan is the part of a plan that concerns one VPC ("" for the offerings):
// as a rule one transaction, all or nothing.
type VPCPlan struct {
	VPC          string           `json:"vpc"`
	Changes      []ResourceChange `json:"changes"`
	Transactions []nbdb.Plan      `json:"transactions"`
	// Reach is what the part opens and closes between tiers; nil where it changes
	// nothing of that kind.
	Reach        *reach.Difference `json:"reach,omitempty"`
	ReachSkipped string            `json:"reachSkipped,omitempty"` // why it wasn't reckoned
}

// Plan is what an operation would change, as data: it can be printed, kept
// in a file and committed later, as long as the database stays as it was read.
type Plan struct {
	Database    nbdb.UUID         `json:"database"` // the row of NB_Global: which database this is
	Owner       string            `json:"owner"`
	VPCs        []VPCPlan         `json:"vpcs"`
	Diagnostics model.Diagnostics `json:"diagnostics,omitempty"` // warnings

	hasty  bool // it was made of what may have been overtaken
	northd bool // an ovn-northd has worked on this database
	behind bool // and has not caught up
	nbCfg  int
	then   map[model.ID]*model.Resource // what was read and planned, as it is to be
	lost   []*model.Resource            // of which the rows were gone

	overdue *Unconfirmed // a change that should be taken back before

	refused []VPCPlan // parts that are not carried out while others are
	refusal error     // why
}

// Empty tells that nothing would change.
func (p *Plan) Empty() bool { return len(p.VPCs) == 0 }

// Plan is what Apply would do.
func (e *Engine) Plan(ctx context.Context, set *model.Set, prune bool) (*Plan, error) {
	return e.plan(ctx, wish{put: set.Resources, prune: prune, reckoning: reckonBrief, judging: judgeMildly}, 0)
}

// plan makes a plan of a wish. The mirror doesn't know names of other owners' ports:
// after a plan that failed the database is read, and before one that is only shown
// they are.
func (e *Engine) plan(ctx context.Context, wish wish, attempt int) (*Plan, error) {
	read, s := e.read, e.scopeOf(wish)
	s.noStatus = true
	if attempt > 0 {
		read = e.readFresh
	} else if e.onlyLists(wish) {
		s.attachments = map[string]bool{}
	}
	w, err := read(ctx, s)
	if err == nil && e.Mirror != nil && wish.judging == judgeMildly {
		err = e.readNames(ctx, w, slices.DeleteFunc(slices.Clone(wish.put), func(r *model.Resource) bool { return !w.unnamed(r) }))
	}
	if err != nil {
		return nil, err
	}
	return e.planIn(ctx, w, wish, attempt)
}

// onlyLists tells whether a wish that is to be carried out is about lists alone,
// whose rows are the same whoever is attached, and nobody wants to know what it
// opens.
func (e *Engine) onlyLists(wish wish) bool {
	return wish.judging == judgeStrictly && len(wish.remove) == 0 && !wish.prune && wish.reckoning == reckonNever && e.Openings == nil &&
		!slices.ContainsFunc(wish.put, func(r *model.Resource) bool { return r.Kind != model.KindACL })
}

// scopeOf is what has to be read for a wish.
func (e *Engine) scopeOf(wish wish) scope {
	s := scope{puts: wish.put}
	vpcs := map[string]bool{}
	ids := slices.Clone(wish.remove)
	for _, r := range wish.put {
		ids = append(ids, r.ID())
	}
	for _, id := range ids {
		// An offering concerns every VPC that uses it.
		s.all = s.all || id.Kind == model.KindVPCOffering
		vpcs[vpcOf(id)] = true
	}
	delete(vpcs, "")
	s.vpcs = slices.Sorted(maps.Keys(vpcs))
	return s
}

func (e *Engine) planIn(ctx context.Context, w *world, wish wish, attempt int) (*Plan, error) {
	return e.planOnce(ctx, w, wish, attempt, false)
}

// planOnce is planIn; reclaimed tells that rows without marks have been looked
// for already.
func (e *Engine) planOnce(ctx context.Context, w *world, wish wish, attempt int, reclaimed bool) (*Plan, error) {
	must, should := e.overdue(w, wish)
	if must != nil {
		return nil, &overdueError{must}
	}
	if e.Openings != nil {
		wish.reckoning = reckonAlways
	}
	d := e.desire(w, wish, attempt)
	d.unbuilt()
	if err := e.checkNames(ctx, d, d.input); err != nil {
		return nil, err
	}
	e.checkVersion(d)
	e.checkChassis(ctx, d)
	d.mentionDamage()
	if err := invalid(sortedDiagnostics(d.found)); err != nil {
		return nil, err
	}
	touched, err := e.touched(ctx, d)
	if err != nil {
		return nil, err
	}
	p := e.newPlan(w)
	p.then, p.overdue = d.resources, should
	for _, vpc := range slices.Sorted(maps.Keys(touched)) {
		part, err := e.planVPC(d, vpc, touched[vpc])
		if err != nil {
			return nil, err
		}
		if part != nil {
			p.VPCs = append(p.VPCs, *part)
		}
	}
	d.checkCapacity(p)
	if err := e.checkGuests(ctx, d, p, touched); err != nil {
		return nil, err
	}
	if err := e.spare(d, p, touched); err != nil {
		return nil, err
	}
	if err := invalid(sortedDiagnostics(d.found)); err != nil {
		return nil, err
	}
	p.Diagnostics = d.found
	if !reclaimed {
		again, err := e.unmarked(ctx, d, p, touched, attempt)
		if err != nil {
			return nil, err
		}
		if again {
			return e.planOnce(ctx, w, wish, 0, true)
		}
	}
	p.offeringsLast()
	if e.Openings != nil {
		return p, p.Confirm(*e.Openings)
	}
	return p, nil
}

// newPlan is a plan without changes.
func (e *Engine) newPlan(w *world) *Plan {
	return &Plan{Database: w.global.UUID, Owner: e.Owner, VPCs: []VPCPlan{}, then: w.resources, lost: w.lost,
		northd: w.northd(), behind: w.global.NbCfg > w.global.SbCfg, nbCfg: w.global.NbCfg}
}

// repairs tells whether a plan brings back rows.
func (p *Plan) repairs() bool {
	return slices.ContainsFunc(p.VPCs, func(part VPCPlan) bool {
		return slices.ContainsFunc(part.Changes, func(c ResourceChange) bool { return c.Action == Repair })
	})
}

// inserts are the rows that a plan brings.
func (p *Plan) inserts() []nbdb.RowChange {
	var out []nbdb.RowChange
	for _, part := range p.VPCs {
		for _, tx := range part.Transactions {
			for _, r := range tx.Rows {
				if r.Op == nbdb.Insert {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// ownersOf are the resources of the rows that changes want.
func ownersOf(touched map[string][]*change) map[nbdb.UUID]model.ID {
	return resourcesOf(touched, func(c *change) []nbdb.Row { return c.want.Rows })
}

// holdersOf are the resources that changes take rows for theirs by.
func holdersOf(touched map[string][]*change) map[nbdb.UUID]model.ID {
	return resourcesOf(touched, func(c *change) []nbdb.Row { return c.have.Rows })
}

func resourcesOf(touched map[string][]*change, rows func(*change) []nbdb.Row) map[nbdb.UUID]model.ID {
	out := map[nbdb.UUID]model.ID{}
	for _, changes := range touched {
		for _, c := range changes {
			for _, r := range rows(c) {
				out[r.ID()] = c.id
			}
		}
	}
	return out
}

// offeringsLast moves the deletion of offerings behind the VPCs, which may
// still use them; all else of the offerings comes before them.
func (p *Plan) offeringsLast() {
	if len(p.VPCs) < 2 || p.VPCs[0].VPC != "" {
		return
	}
	if !slices.ContainsFunc(p.VPCs[0].Changes, func(c ResourceChange) bool { return c.Action != Remove }) {
		p.VPCs = append(p.VPCs[1:], p.VPCs[0])
	}
}

// northd tells whether an ovn-northd has ever worked on this database.
func (w *world) northd() bool { return w.global.Options["northd_internal_version"] != "" }

// planVPC is the part of the plan for one VPC, nil when nothing changes.
func (e *Engine) planVPC(d *desire, vpc string, changes []*change) (*VPCPlan, error) {
	if !slices.ContainsFunc(changes, func(c *change) bool { return !c.same }) {
		return nil, nil
	}
	part := &VPCPlan{VPC: vpc}
	var active []*change
	for _, c := range changes {
		if rc, ok := d.report(c); ok {
			part.Changes = append(part.Changes, rc)
			active = append(active, c)
		}
	}
	slices.SortFunc(part.Changes, func(a, b ResourceChange) int { return compareIDs(a.ID(), b.ID()) })
	d.reckon(part)
	guards := e.newGuarder(d, vpc)
	broken, judged, gated := d.judge(part)
	guards.reckoned, guards.gated, guards.judged = part.Reach != nil || judged, gated, judged || e.Openings != nil
	history, groups := e.newRecorder(d, vpc, len(broken) > 0), split(active)
	for i, group := range groups {
		tx := diffOf(group)
		guards.guard(group, &tx)
		if i < len(groups)-1 {
			guards.advance(group)
		}
		if err := history.record(group, &tx, i == len(groups)-1); err != nil {
			return nil, err
		}
		part.Transactions = append(part.Transactions, tx)
	}
	return part, e.override(d, part, broken)
}

func diffOf(changes []*change) nbdb.Plan {
	var have, want nbdb.Fragment
	if len(changes) == 1 {
		return nbdb.Diff(changes[0].have, changes[0].want)
	}
	want.Rows = make([]nbdb.Row, 0, 2*len(changes))
	for _, c := range changes {
		join(&have, c.have)
		join(&want, c.want)
	}
	return nbdb.Diff(have, want)
}

func join(f *nbdb.Fragment, g nbdb.Fragment) {
	f.Rows = append(f.Rows, g.Rows...)
	f.Edges = append(f.Edges, g.Edges...)
	f.Entries = append(f.Entries, g.Entries...)
}

// report is a change in the user's terms; ok is false when there is none.
func (d *desire) report(c *change) (ResourceChange, bool) {
	rc := ResourceChange{Kind: c.id.Kind, VPC: c.id.VPC, Name: c.id.Name}
	switch {
	case c.after == nil:
		rc.Action = Remove
		return rc, true
	case c.same:
		return rc, false
	case c.before == nil && len(c.have.Rows)+len(c.have.Entries) == 0:
		rc.Action = Create
	case c.before == nil:
		rc.Action = Repair
	default:
		rc.Fields = changedFields(c.before, c.after)
		switch {
		case len(rc.Fields) > 0:
			rc.Action = Change
		case c.input && !d.follows(c):
			rc.Action = Repair
		default:
			rc.Action = Follow
		}
	}
	return rc, true
}

// String is a line such as `create Tier shop/web`.
func (c ResourceChange) String() string { return fmt.Sprintf("%s %s", c.Action, c.ID()) }
