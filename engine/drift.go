package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// DriftKind says how the database differs from what is stored in it.
type DriftKind string

// The kinds of drift.
const (
	DriftMissing    DriftKind = "missing"    // a row, reference or key is gone
	DriftChanged    DriftKind = "changed"    // a row has other values
	DriftLeftover   DriftKind = "leftover"   // an owned row, reference or key that no spec explains
	DriftUnreadable DriftKind = "unreadable" // a spec is lost, or damaged: apply it again, told to repair
	DriftForeign    DriftKind = "foreign"    // somebody else's row on one of ours, or with its name: told, never touched
)

// DriftFault is one difference.
type DriftFault struct {
	Kind     DriftKind           `json:"kind"`
	Resource string              `json:"resource,omitempty"`
	Table    string              `json:"table,omitempty"`
	Row      nbdb.UUID           `json:"row,omitempty"`
	Key      string              `json:"key,omitempty"`
	Name     string              `json:"name,omitempty"`
	Problem  string              `json:"problem"`
	Columns  []nbdb.ColumnChange `json:"columns,omitempty"`
}

// DriftReport is all drift of the scope. Foreign rows are notes: they are no
// fault that a repair could mend.
type DriftReport struct {
	Faults   []DriftFault `json:"faults"`
	Notes    []DriftFault `json:"notes,omitempty"`
	Repaired bool         `json:"repaired"`
}

// Drift compares the owned rows of a VPC ("" for all) with the specs that are
// stored with them, in both directions; with repair it mends the rows in one
// transaction.
func (e *Engine) Drift(ctx context.Context, vpc string, repair bool, wait Wait) (*DriftReport, error) {
	var first *DriftReport
	s := scope{all: vpc == ""}
	if vpc != "" {
		s.vpcs = []string{vpc}
	}
	_, err := e.run(ctx, wait, func(ctx context.Context, _ int) (*Plan, error) {
		w, err := e.read(ctx, s)
		if err != nil {
			return nil, err
		}
		f := newDriftFinder(e, w)
		f.find()
		again, inTheWay, err := e.reclaim(ctx, w, f.inserts(), f.names)
		if err != nil {
			return nil, err
		}
		if again {
			f = newDriftFinder(e, w)
			f.find()
		}
		f.desire.found = inTheWay
		if err := f.checkNames(ctx); err != nil {
			return nil, err
		}
		if first == nil {
			first = &f.report
		}
		if !repair {
			return &Plan{}, nil
		}
		return f.plan(), invalid(f.desire.found)
	})
	var hindered *obstacleError
	if errors.As(err, &hindered) { // no fault of an input
		err = &DamagedError{VPC: hindered.vpc, Err: errors.New(hindered.Error())}
		var damaged *DamagedError
		if errors.As(hindered.told, &damaged) {
			err = damaged
		}
	}
	if err != nil {
		return first, err
	}
	if repair && len(first.Faults) > 0 {
		after, err := e.Drift(ctx, vpc, false, WaitNone)
		if err != nil {
			return first, err
		}
		first.Repaired = len(after.Faults) == 0
	}
	return first, nil
}

type driftFinder struct {
	engine *Engine
	desire *desire
	diff   nbdb.Plan
	names  map[nbdb.UUID]model.ID // rows by resource, as they are or should be
	report DriftReport
}

// newDriftFinder takes as desired what is stored, and what can be restored
// from second copies.
func newDriftFinder(e *Engine, w *world) *driftFinder {
	d := &desire{world: w, resources: maps.Clone(w.resources)}
	for _, r := range w.lost {
		d.resources[r.ID()] = asInput(r)
	}
	f := &driftFinder{engine: e, desire: d, names: map[nbdb.UUID]model.ID{}, report: DriftReport{Faults: []DriftFault{}}}
	for _, bad := range model.Check(sorted(d.resources), w.before, func(string) bool { return true }).Errors() {
		for _, r := range w.lost {
			if r.ID().String() == bad.Resource && d.resources[r.ID()] != nil {
				delete(d.resources, r.ID())
				f.report.Faults = append(f.report.Faults, DriftFault{Kind: DriftUnreadable, Resource: bad.Resource,
					Problem: "its rows are gone, and it can't be restored: " + bad.Problem})
			}
		}
	}
	for _, u := range w.unread {
		f.report.Faults = append(f.report.Faults, DriftFault{Kind: DriftUnreadable, Table: u.row.Table(), Row: u.row.ID(),
			Key: model.Brief(u.row.IDs()[translate.KeyKey]), Problem: "the spec stored in it can't be read: " + u.err.Error()})
	}
	return f
}

func (f *driftFinder) find() {
	w := f.desire.world
	var have, want nbdb.Fragment
	ctx := w.context(f.desire.resources)
	kept := f.unknown() // resources that can't be judged: their rows stay
	for _, r := range sorted(f.desire.resources) {
		if kept[r.ID()] {
			continue
		}
		fragment, err := translate.Fragment(r, ctx)
		if err != nil {
			kept[r.ID()] = true
			f.report.Faults = append(f.report.Faults, DriftFault{Kind: DriftUnreadable, Resource: r.ID().String(), Problem: err.Error()})
			continue
		}
		join(&want, fragment)
		for _, row := range fragment.Rows {
			f.names[row.ID()] = r.ID()
		}
	}
	for _, u := range w.unread {
		if id, ok := translate.ResourceOf(u.row.IDs()[translate.KeyKey]); ok && f.desire.resources[id] == nil {
			kept[id] = true
		}
	}
	f.have(&have, kept)
	f.diff = nbdb.Diff(have, want)
	f.spareGuests()
	f.describe()
	f.foreign()
}

// spareGuests leaves the switches and routers that no spec explains where they hold
// what somebody else made: it would go with them.
func (f *driftFinder) spareGuests() {
	f.diff.Rows = slices.DeleteFunc(f.diff.Rows, func(r nbdb.RowChange) bool {
		if r.Op != nbdb.Delete || len(f.desire.world.guests(r)) == 0 {
			return false
		}
		f.report.Faults = append(f.report.Faults, DriftFault{Kind: DriftLeftover, Resource: f.resource(r.UUID), Table: r.Table, Row: r.UUID, Key: r.Key, Name: r.Name,
			Problem: "no spec explains the row, and it stays: it holds what somebody else made"})
		return true
	})
}

// unknown are the resources that others refer to and that are gone with every
// copy of their spec, and those that can't be translated without them. Their
// rows are no leftovers: applying the lost spec again finds them in place.
func (f *driftFinder) unknown() map[model.ID]bool {
	kept := map[model.ID]bool{}
	lose := func(id model.ID, user *model.Resource, what string) {
		if !kept[id] {
			f.report.Faults = append(f.report.Faults, DriftFault{Kind: DriftUnreadable, Resource: id.String(),
				Problem: what + ", which held its spec, is gone, or its spec can't be read: apply it again"})
		}
		kept[id], kept[user.ID()] = true, true
	}
	for _, r := range sorted(f.desire.resources) {
		if r.Kind == model.KindVPC || r.Kind == model.KindVPCOffering {
			continue
		}
		if id := (model.ID{Kind: model.KindVPC, Name: r.Metadata.VPC}); f.desire.resources[id] == nil {
			lose(id, r, "its router")
			continue
		}
		tier, ok := r.Spec.(*model.TierSpec)
		if !ok || model.BuiltinACL(tier.ACL) != nil {
			continue
		}
		if id := (model.ID{Kind: model.KindACL, VPC: r.Metadata.VPC, Name: tier.ACL}); f.desire.resources[id] == nil {
			lose(id, r, "its port group")
		}
	}
	return kept
}

// have are all owned rows, with the references between them.
func (f *driftFinder) have(have *nbdb.Fragment, kept map[model.ID]bool) {
	w := f.desire.world
	holders := w.holders()
	add := func(r nbdb.Row) {
		have.Rows = append(have.Rows, r)
		have.Edges = append(append(have.Edges, w.lists(r)...), holders[r.ID()]...)
	}
	seen := map[nbdb.UUID]bool{}
	for id, rows := range w.rows {
		for _, r := range rows {
			seen[r.ID()] = true
			if f.names[r.ID()] == (model.ID{}) {
				f.names[r.ID()] = id
			}
			if !kept[id] {
				add(r)
			}
		}
	}
	for _, r := range w.strays {
		if !seen[r.ID()] {
			add(r)
		}
	}
	for id, entries := range w.copies {
		if id.Kind == model.KindAttachment || f.desire.resources[id] == nil {
			have.Entries = append(have.Entries, entries...)
		}
	}
	for id := range f.desire.resources {
		if id.Kind == model.KindVPCOffering || id.Kind == model.KindExpectation {
			have.Entries = append(have.Entries, w.have(id).Entries...)
		}
	}
}

func (f *driftFinder) inserts() []nbdb.RowChange {
	return (&Plan{VPCs: []VPCPlan{{Transactions: []nbdb.Plan{f.diff}}}}).inserts()
}

// checkNames notes which rows that are gone can't come back, since another row has
// their name.
func (f *driftFinder) checkNames(ctx context.Context) error {
	d := f.desire
	var back []*model.Resource
	for _, r := range f.inserts() {
		if res := d.resources[f.names[r.UUID]]; res != nil && !slices.Contains(back, res) {
			back = append(back, res)
		}
	}
	if err := f.engine.readNames(ctx, d.world, back); err != nil {
		return err
	}
	if err := f.engine.checkNames(ctx, d, back); err != nil {
		return err
	}
	for _, x := range d.found {
		f.report.Notes = append(f.report.Notes, DriftFault{Kind: DriftForeign, Resource: x.Resource, Problem: x.Discreet().Problem + ": before that is gone nothing is repaired"})
	}
	return nil
}

// describe names each difference.
func (f *driftFinder) describe() {
	add := func(x DriftFault) { f.report.Faults = append(f.report.Faults, x) }
	for _, r := range f.diff.Rows {
		x := DriftFault{Resource: f.resource(r.UUID), Table: r.Table, Row: r.UUID, Key: r.Key, Name: r.Name}
		switch r.Op {
		case nbdb.Insert:
			x.Kind, x.Problem = DriftMissing, "the row is gone"
		case nbdb.Delete:
			x.Kind, x.Problem = DriftLeftover, "no spec explains the row"
		default:
			x.Kind, x.Columns = DriftChanged, r.Columns
			x.Problem = "it was changed"
		}
		add(x)
	}
	inserted := map[nbdb.UUID]bool{}
	for _, r := range f.diff.Rows {
		inserted[r.UUID] = r.Op == nbdb.Insert || r.Op == nbdb.Delete
	}
	for _, c := range f.diff.Edges {
		one := func(target nbdb.UUID, kind DriftKind, problem string) {
			// The reference of a row that is itself named needs no line of its own.
			if !inserted[target] {
				add(DriftFault{Kind: kind, Resource: f.resource(c.From), Table: c.Table, Row: c.From, Key: f.key(c.From),
					Problem: fmt.Sprintf(problem, c.Column, cmp.Or(f.key(target), string(target)))})
			}
		}
		for _, t := range c.Add {
			one(t, DriftMissing, "its %s no longer refer to %s")
		}
		for _, t := range c.Remove {
			one(t, DriftLeftover, "its %s refer to %s, which no spec explains")
		}
	}
	for _, c := range f.diff.Entries {
		kind := DriftChanged
		if c.Old == nil {
			kind = DriftMissing
		} else if c.New == nil {
			kind = DriftLeftover
		}
		add(DriftFault{Kind: kind, Resource: f.resource(c.Row), Table: c.Table, Row: c.Row, Key: c.Key,
			Problem: "external_ids:" + c.Key + " differs from the spec"})
	}
}

func (f *driftFinder) resource(row nbdb.UUID) string {
	if id, ok := f.names[row]; ok {
		return id.String()
	}
	return ""
}

// key is what a row realises.
func (f *driftFinder) key(row nbdb.UUID) string {
	for _, table := range ownedTables {
		if r := f.desire.world.state.Get(table, row); r != nil {
			return r.IDs()[translate.KeyKey]
		}
	}
	return ""
}

// foreign notes what others put on our switches and routers.
func (f *driftFinder) foreign() {
	w := f.desire.world
	for _, id := range slices.SortedFunc(maps.Keys(w.rows), compareIDs) {
		for _, r := range w.rows[id] {
			for _, e := range nbdb.EdgesOf(r) {
				known := w.state.Get(targetTable(e), e.Target)
				if _, ours := f.names[e.Target]; ours || known != nil && w.owns(known) {
					continue
				}
				f.report.Notes = append(f.report.Notes, DriftFault{Kind: DriftForeign, Resource: id.String(), Table: e.Table, Row: e.From,
					Problem: fmt.Sprintf("its %s refer to row %s, which somebody else made", e.Column, e.Target)})
			}
		}
	}
}

// targetTable is the table that a reference points into.
func targetTable(e nbdb.Edge) string {
	switch e.Table + "." + e.Column {
	case "Logical_Switch.ports":
		return nbdb.TableLogicalSwitchPort
	case "Logical_Router.ports":
		return nbdb.TableLogicalRouterPort
	case "Logical_Router.policies":
		return nbdb.TableLogicalRouterPolicy
	}
	return nbdb.TableACL
}

// plan is the repair: one transaction over all VPCs, guarded by everything
// that it was judged by.
func (f *driftFinder) plan() *Plan {
	w := f.desire.world
	p := f.engine.newPlan(w)
	if f.diff.Empty() {
		return p
	}
	tx := f.diff
	for _, vpc := range f.vpcs() {
		g := f.engine.newGuarder(f.desire, vpc)
		g.tx, g.seen = &tx, map[string]bool{}
		g.contents()
		g.digest(model.ID{Kind: model.KindVPC, Name: vpc})
	}
	part := VPCPlan{Transactions: []nbdb.Plan{tx}}
	named := map[model.ID]bool{}
	for _, r := range tx.Rows {
		named[f.names[r.UUID]] = true
	}
	for _, x := range tx.Edges {
		named[f.names[x.From]] = true
	}
	delete(named, model.ID{})
	for _, id := range slices.SortedFunc(maps.Keys(named), compareIDs) {
		part.Changes = append(part.Changes, ResourceChange{Action: Repair, Kind: id.Kind, VPC: id.VPC, Name: id.Name})
	}
	p.VPCs = []VPCPlan{part}
	return p
}

// vpcs are those that anything is stored of.
func (f *driftFinder) vpcs() []string {
	set := map[string]bool{}
	for id := range f.desire.world.rows {
		set[vpcOf(id)] = true
	}
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}
