package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// unreadable is a row whose stored spec can't be read, or with a key an entry in
// its external_ids.
type unreadable struct {
	row nbdb.Row
	key string
	id  model.ID // whose it is, where that is known
	err error
}

// unreadable notes that a row's spec can't be read.
func (w *world) unreadable(r nbdb.Row, err error) unreadable {
	id, _ := w.resourceOf(r)
	return unreadable{row: r, id: id, err: err}
}

// hollow is the error for a stored spec that lacks what every one has: whoever reads
// it goes by the first of them.
func hollow(r *model.Resource) error {
	lacks := func(what string, n int) error {
		if n == 0 {
			return fmt.Errorf("it has no %s", what)
		}
		return nil
	}
	switch spec := r.Spec.(type) {
	case *model.VPCSpec:
		return lacks("cidrs", len(spec.CIDRs))
	case *model.TierSpec:
		return lacks("cidrs or gateways", min(len(spec.CIDRs), len(spec.Gateways)))
	case *model.AttachmentSpec:
		return lacks("addresses", len(spec.Addresses))
	}
	return nil
}

// misplaced is the error for a stored spec that is not of what its row realises: of
// another resource, or of an attachment with another address.
func misplaced(r *model.Resource, key string) error {
	if id, ok := translate.ResourceOf(key); ok && id != r.ID() {
		return fmt.Errorf("it is of %s, in a row of %s", r.ID(), id)
	}
	spec, ok := r.Spec.(*model.AttachmentSpec)
	if ok && len(spec.Addresses) > 0 && strings.HasPrefix(key, "address/") && key != translate.AddressKey(r.Metadata.VPC, spec.Addresses[0]) {
		return fmt.Errorf("it is of %s of VPC %s, in the row of %s", spec.Addresses[0], r.Metadata.VPC, key)
	}
	return nil
}

// adopter gives changes the unreadable rows that stand in their place, and the ports
// that have lost their specs: a row of the same UUID, or a port of the same name. The
// key of a port tells an address alone.
func (w *world) adopter() func(*change) {
	rows := map[string]nbdb.Row{}
	for _, r := range w.strays {
		if _, ok := r.(*nbdb.LogicalSwitchPort); ok {
			rows[string(r.ID())] = r
		}
	}
	for _, u := range w.unread {
		if u.key != "" {
			continue
		}
		rows[string(u.row.ID())] = u.row
		if port, ok := u.row.(*nbdb.LogicalSwitchPort); ok {
			rows[port.Name] = port
		}
	}
	return func(c *change) {
		for _, name := range w.places(c) {
			r := rows[name]
			if r != nil && !slices.ContainsFunc(c.have.Rows, func(x nbdb.Row) bool { return x.ID() == r.ID() }) {
				c.have.Rows = append(slices.Clip(c.have.Rows), r)
				c.have.Edges = append(slices.Clip(c.have.Edges), w.edges(r)...)
				c.same = false
			}
		}
	}
}

// places are the UUIDs of the rows that a change is about, and the names of ports.
func (w *world) places(c *change) []string {
	var out []string
	for _, want := range c.want.Rows {
		out = append(out, string(want.ID()))
		if port, ok := want.(*nbdb.LogicalSwitchPort); ok {
			out = append(out, port.Name)
		}
	}
	if c.after != nil || c.id.Kind != model.KindAttachment {
		return out
	}
	if c.before == nil {
		return append(out, defaultPortName(c.id))
	}
	spec := c.before.Spec.(*model.AttachmentSpec)
	return append(out, string(translate.PortUUID(w.owner, c.id.VPC, spec.Addresses[0])), spec.InterfaceID)
}

// damaged is the row that stores a resource, where it can't be read and there is no
// second copy, nil if there is none such. The port of an attachment tells by its name
// alone whose it is.
func (w *world) damaged(id model.ID) *unreadable {
	if w.before(id) != nil {
		return nil
	}
	for _, u := range w.unread {
		port, ok := u.row.(*nbdb.LogicalSwitchPort)
		if u.id == id || ok && u.id == (model.ID{}) && id.Kind == model.KindAttachment && port.Name == defaultPortName(id) {
			u.id = id
			return &u
		}
	}
	return nil
}

// allDamaged stand for the resources that damaged knows, as far as it is known whose
// the rows are.
func (w *world) allDamaged() []*model.Resource {
	var out []*model.Resource
	for _, u := range w.unread {
		if u.id != (model.ID{}) && w.before(u.id) == nil {
			out = append(out, u.resource())
		}
	}
	return inOrder(out)
}

// defaultPortName is the name of an attachment's port where its spec gives none.
func defaultPortName(id model.ID) string { return id.VPC + "/" + id.Name }

// spot is what a plan changes of it.
type spot struct {
	row nbdb.UUID
	key string
}

func (u unreadable) spot() spot { return spot{u.row.ID(), u.key} }

// resource stands for the one that it should store.
func (u unreadable) resource() *model.Resource {
	return &model.Resource{Kind: u.id.Kind, Metadata: model.Metadata{VPC: u.id.VPC, Name: u.id.Name}}
}

// diagnostic is the warning that the resource is overwritten, or removed.
func (u unreadable) diagnostic(r *model.Resource) model.Diagnostic {
	return u.warning(r, u.problem(), repairDamage).Coded(model.CodeDamaged)
}

// warning is one of the resource, whose name somebody else may have written.
func (u unreadable) warning(r *model.Resource, problem, fix string) model.Diagnostic {
	d := r.Warning("", problem, fix)
	d.Resource = model.Brief(d.Resource)
	return d
}

// brief is an error about what somebody else may have written, cut where it is long.
func brief(err error) error {
	if err == nil || model.Brief(err.Error()) == err.Error() {
		return err
	}
	return errors.New(model.Brief(err.Error()))
}

// leftOut is the warning that the resource, where it is known which, is left out.
func (u unreadable) leftOut() model.Diagnostic {
	d := u.warning(u.resource(), "left out, since "+u.problem(), "drift tells more").Coded(model.CodeDamaged)
	if u.id == (model.ID{}) {
		d.Resource = ""
	}
	return d
}

// problem names the row, which tells more than the resource.
func (u unreadable) problem() string {
	what := cmp.Or(model.Brief(u.row.IDs()[translate.KeyKey]), string(u.row.ID()))
	return fmt.Sprintf("the spec stored in %s %s can't be read: %s", u.row.Table(), what, u.err)
}

const repairDamage = "drift --repair restores it where there is a second copy, apply --repair (?repair=true) overwrites it, delete --repair removes it"

// DamagedError says that what is stored of a VPC does not fit together, or can't
// be read: Drift tells more.
type DamagedError struct {
	VPC string // "": offerings
	Err error
	// Overwritten tells of what a change would overwrite, where that is why it was
	// refused.
	Overwritten model.Diagnostics
}

func (e *DamagedError) Error() string {
	whose := "VPC " + e.VPC
	if e.VPC == "" {
		whose = "offerings"
	}
	return fmt.Sprintf("what is stored of %s is damaged (drift tells more): %s", whose, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// damaged is the error for diagnostics that tell of what would be overwritten, nil
// where none does.
func damaged(found model.Diagnostics) error {
	e := &DamagedError{}
	var errs []error
	for _, x := range found {
		if x.Code != model.CodeDamaged {
			continue
		}
		if id, ok := model.ParseID(x.Resource); ok {
			e.VPC = vpcOf(id)
		}
		x.Severity = model.LevelError
		e.Overwritten = append(e.Overwritten, x)
		errs = append(errs, fmt.Errorf("%s: %s (%s)", x.Resource, x.Problem, x.Fix))
	}
	if len(errs) == 0 {
		return nil
	}
	e.Err = errors.Join(errs...)
	return e
}

// spare refuses a plan that overwrites what can't be read, unless that is wanted:
// what stands there may still be of use to somebody. What is wanted in no case is that
// it stays without what it refers to. Of an apply the parts for other VPCs stay. A plan
// that is only shown warns of it.
func (e *Engine) spare(d *desire, p *Plan, touched map[string][]*change) error {
	w := d.world
	if len(w.unread) == 0 || d.judging == judgeNever {
		return nil
	}
	changed, holders, bereft := d.overwritten(p, touched), holdersOf(touched), p.bereft()
	for _, u := range w.unread {
		if !bereft(u.row) && (e.RepairDamaged || !changed[u.spot()]) {
			continue
		}
		if u.id == (model.ID{}) {
			parent, _ := w.parent(u.id, u.row)
			u.id = cmp.Or(holders[u.row.ID()], holders[parent.From])
		}
		d.found = append(d.found, u.diagnostic(cmp.Or(d.resources[u.id], u.resource())))
	}
	if d.judging == judgeMildly {
		return nil
	}
	err := damaged(d.found)
	if err == nil {
		return nil
	}
	return d.refuse(p, err)
}

// refuse takes the parts for damaged VPCs out of the plan of an apply. Where none is
// left, or the offerings, which others rely on, are among them, all of it is refused.
func (d *desire) refuse(p *Plan, err error) error {
	hit := map[string]bool{}
	for _, x := range d.found {
		if id, ok := model.ParseID(x.Resource); ok && x.Code == model.CodeDamaged {
			hit[vpcOf(id)] = true
		}
	}
	d.found = slices.DeleteFunc(d.found, func(x model.Diagnostic) bool { return x.Code == model.CodeDamaged }) // the error says so
	if d.through != "" || hit[""] {
		return err
	}
	var kept []VPCPlan
	for _, part := range p.VPCs {
		if hit[part.VPC] {
			p.refused = append(p.refused, part)
		} else {
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 {
		return err
	}
	p.VPCs, p.refusal = kept, err
	return nil
}

// explained adds to the error that something stored lacks what it refers to the rows of
// its VPC that can't be read, which are behind it.
func (w *world) explained(err error) error {
	var broken *DamagedError
	if !errors.As(err, &broken) {
		return err
	}
	errs := []error{broken.Err}
	for _, u := range w.unread {
		if u.id != (model.ID{}) && vpcOf(u.id) == broken.VPC {
			errs = append(errs, errors.New(u.problem()))
		}
	}
	return &DamagedError{VPC: broken.VPC, Err: errors.Join(errs...)}
}

// mentionDamage adds to faults what may be behind them: that something can't be
// read, and so counts as not being there.
func (d *desire) mentionDamage() {
	if !d.found.HasErrors() {
		return
	}
	for _, u := range d.world.unread {
		if u.id != (model.ID{}) && d.resources[u.id] == nil {
			d.found = append(d.found, u.warning(u.resource(), u.problem(), "see ovn-vpc drift"))
		}
	}
}

// unmarked looks for rows without marks (reclaim) among those that a plan brings,
// where it is one that repairs or not the first, and among those of what it removes. A
// plan that is to be kept is not made again: it looks at what stored resources lack. It
// tells whether there were any.
func (e *Engine) unmarked(ctx context.Context, d *desire, p *Plan, touched map[string][]*change, attempt int) (bool, error) {
	rows, of := d.lostRows()
	rows = append(rows, d.unmarkedRules(touched)...)
	owners := ownersOf(touched)
	maps.Copy(owners, of)
	inserts := p.inserts()
	if attempt == 0 && !p.repairs() && len(rows) == 0 {
		inserts = slices.DeleteFunc(inserts, func(r nbdb.RowChange) bool {
			return d.judging != judgeMildly || d.world.resources[owners[r.UUID]] == nil
		})
	}
	if rows = append(rows, inserts...); len(rows) == 0 {
		return false, nil
	}
	again, inTheWay, err := e.reclaim(ctx, d.world, rows, owners)
	return again, cmp.Or(err, invalid(sortedDiagnostics(inTheWay)))
}

// unmarkedRules are the rows of lists that were not read and that switches which
// change refer to by what is stored: left there, they would stay in force.
func (d *desire) unmarkedRules(touched map[string][]*change) (rows []nbdb.RowChange) {
	for _, changes := range touched {
		for _, c := range changes {
			for _, r := range c.have.Rows {
				sw, ok := r.(*nbdb.LogicalSwitch)
				unread := func(acl nbdb.UUID) bool { return d.world.state.Get(nbdb.TableACL, acl) == nil }
				if !ok || c.same || c.before == nil || !slices.ContainsFunc(sw.ACLs, unread) {
					continue
				}
				was, err := translate.Fragment(c.before, d.now)
				if err != nil {
					continue // what it refers to is gone
				}
				for _, x := range was.Edges {
					if x.From == sw.UUID && slices.Contains(sw.ACLs, x.Target) && unread(x.Target) {
						rows = append(rows, nbdb.RowChange{Table: nbdb.TableACL, UUID: x.Target})
					}
				}
			}
		}
	}
	return rows
}

// lostRows are the rows, and whose they are, that were not read of what is removed, or
// that have its second copy.
func (d *desire) lostRows() (rows []nbdb.RowChange, of map[nbdb.UUID]model.ID) {
	of = map[nbdb.UUID]model.ID{}
	for _, r := range d.removed {
		if tier, row, there := d.world.copyHome(r); tier != nil && !there && len(d.world.copies[r.ID()]) == 0 {
			rows = append(rows, nbdb.RowChange{Table: nbdb.TablePortGroup, UUID: row})
			of[row] = tier.ID()
		}
	}
	// An attachment that is stored has its row; others have several.
	lost := slices.DeleteFunc(slices.Clone(d.removed), func(r *model.Resource) bool {
		return r.Kind == model.KindAttachment && d.world.resources[r.ID()] != nil
	})
	if len(lost) == 0 {
		return rows, of
	}
	was := d.world.context(d.world.all())
	for _, r := range lost {
		f, err := fragment(r, was)
		if err != nil {
			continue // what it refers to is gone, and such rows with that
		}
		for _, row := range f.Rows {
			key := row.IDs()[translate.KeyKey]
			if known := d.world.state.Get(row.Table(), row.ID()); known == nil || !d.world.marked(known, key, r.ID()) {
				rows = append(rows, nbdb.RowChange{Table: row.Table(), UUID: row.ID(), Key: key})
				of[row.ID()] = r.ID()
			}
		}
	}
	return rows, of
}

// mentionLost says of faults that something isn't there when that is because
// somebody has deleted its rows. wished tells of what the input itself brings or
// removes.
func (w *world) mentionLost(found model.Diagnostics, wished func(model.ID) bool) {
	for i, x := range found {
		if !slices.ContainsFunc(w.lost, func(r *model.Resource) bool { return r.ID() == x.Against }) || wished(x.Against) {
			continue
		}
		found[i].Problem = fmt.Sprintf("somebody has deleted the rows of %s, or damaged them", x.Against)
		found[i].Fix = "see ovn-vpc drift, which restores it with --repair"
	}
}

// undamaged refuses a plan that was made knowing that it overwrites what can't be
// read, unless that is wanted.
func (e *Engine) undamaged(p *Plan) error {
	if e.RepairDamaged {
		return nil
	}
	return damaged(p.Diagnostics)
}

// bereft tells of rows that stay whether they refer to what the plan deletes, which the
// database does not allow.
func (p *Plan) bereft() func(nbdb.Row) bool {
	deleted, released := map[nbdb.UUID]bool{}, map[[2]nbdb.UUID]bool{}
	for _, part := range p.VPCs {
		for _, tx := range part.Transactions {
			for _, r := range tx.Rows {
				deleted[r.UUID] = r.Op == nbdb.Delete
			}
			for _, x := range tx.Edges {
				for _, target := range x.Remove {
					released[[2]nbdb.UUID{x.From, target}] = true
				}
			}
		}
	}
	return func(r nbdb.Row) bool {
		return !deleted[r.ID()] && slices.ContainsFunc(nbdb.EdgesOf(r), func(x nbdb.Edge) bool {
			return deleted[x.Target] && !released[[2]nbdb.UUID{x.From, x.Target}]
		})
	}
}

// overwritten is what a plan changes, but for what the wish removes by name. The ports
// of a switch go with it.
func (d *desire) overwritten(p *Plan, touched map[string][]*change) map[spot]bool {
	gone := map[spot]bool{}
	for _, changes := range touched {
		for _, c := range changes {
			if c.after != nil || d.prune {
				continue
			}
			for _, r := range c.have.Rows {
				gone[spot{r.ID(), ""}] = true
			}
			for _, x := range c.have.Entries {
				gone[spot{x.Row, x.Key}] = true
			}
		}
	}
	changed := map[spot]bool{}
	note := func(s spot) { changed[s] = !gone[s] }
	for _, part := range p.VPCs {
		for _, tx := range part.Transactions {
			for _, r := range tx.Rows {
				note(spot{r.UUID, ""})
				if sw := nbdb.Lookup[*nbdb.LogicalSwitch](d.world.state, r.UUID); sw != nil && r.Op == nbdb.Delete {
					for _, port := range sw.Ports {
						note(spot{port, ""})
					}
				}
			}
			for _, x := range tx.Entries {
				note(spot{x.Row, x.Key})
			}
		}
	}
	return changed
}
