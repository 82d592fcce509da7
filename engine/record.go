package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// recorder adds to the transactions of one VPC's part of a plan what the VPC's
// history keeps of them. An entry's number is taken once: a second writer's
// transaction is refused, and planned again.
type recorder struct {
	engine     *Engine
	desire     *desire
	vpc        string
	kept       []int // numbers of the entries, ascending
	next       int
	parts      int
	overridden bool
	waiting    *Unconfirmed // the VPC's change that waits for its confirmation
}

func (e *Engine) newRecorder(d *desire, vpc string, overridden bool) *recorder {
	r := &recorder{engine: e, desire: d, vpc: vpc, overridden: overridden,
		kept: historyNumbers(d.world.historyHome(vpc)), waiting: d.world.unconfirmed(vpc)}
	switch {
	case len(r.kept) > 0:
		r.next = r.kept[len(r.kept)-1] + 1
	case d.world.before(vpcResource(vpc).ID()) == nil:
		r.next = 1
	default:
		r.next = 2 // the state before it has a number too
	}
	return r
}

// record adds to a transaction, the last one of the part or not, the entry for
// its changes.
func (r *recorder) record(changes []*change, tx *nbdb.Plan, last bool) error {
	u, err := r.undo(changes)
	if err != nil {
		return err
	}
	d := r.desire
	for _, c := range changes {
		if d.within > 0 && !structural(c.id.Kind) && c.before != nil && !same(c.before, c.after) {
			d.found = append(d.found, fault(c.before, "its change could not be taken back", "apply it by itself, without a time to confirm it in"))
		}
	}
	if len(u) > 0 {
		if err := r.admit(); err != nil {
			return err
		}
		if err := r.enter(u, tx); err != nil {
			return err
		}
	}
	if last && d.settles != nil && d.settles.VPC == r.vpc {
		tx.Entries = append(tx.Entries, d.settles.removal(d.world))
	}
	return nil
}

// undo is what takes the changes of the VPC's structure back.
func (r *recorder) undo(changes []*change) (undo, error) {
	u := undo{}
	for _, c := range changes {
		before := r.desire.world.before(c.id)
		mended := before == nil && len(c.have.Rows)+len(c.have.Entries) > 0 // its spec alone was lost
		if !structural(c.id.Kind) || mended || same(before, c.after) {
			continue
		}
		var f former
		var err error
		switch {
		case before == nil:
		case c.after == nil:
			f.Manager, f.Request = before.Manager, before.Request
			f.Stored, err = model.MarshalStored(before)
		default:
			f.Delta, err = model.Delta(differing(c.after, before))
		}
		if err != nil {
			return nil, err
		}
		u[c.id.String()] = f
	}
	return u, nil
}

// admit refuses a change of structure while another one waits for its
// confirmation.
func (r *recorder) admit() error {
	d := r.desire
	if r.waiting == nil || d.settles != nil || d.notes[r.waiting.raw] != nil {
		return nil
	}
	problem := r.waiting.String() + ": until then nothing else of the VPC's structure is changed"
	switch d.judging {
	case judgeStrictly:
		return &ConflictError{fmt.Errorf("VPC %s: %s", r.vpc, problem)}
	case judgeMildly:
		d.found = append(d.found, vpcResource(r.vpc).Warning("", problem, "confirm it, or roll it back"))
	}
	return nil
}

// enter adds the entry, takes out the oldest one, and for a change that has to be
// confirmed notes that.
func (r *recorder) enter(u undo, tx *nbdb.Plan) error {
	d, home := r.desire, translate.HistoryUUID(r.engine.Owner, r.vpc)
	if d.resources[vpcResource(r.vpc).ID()] == nil {
		return nil // with the VPC its history goes
	}
	if d.world.historyHome(r.vpc) == nil && !slices.ContainsFunc(tx.Rows, func(c nbdb.RowChange) bool { return c.UUID == home }) {
		if d.within > 0 {
			d.found = append(d.found, fault(vpcResource(r.vpc), "the row that keeps its history is gone, so nothing could be taken back", "run ovn-vpc drift --repair"))
		}
		return nil
	}
	c := storedChange{HistoryEntry: HistoryEntry{Number: r.next, Time: r.engine.Now().UTC().Truncate(time.Second), Manager: r.engine.Manager,
		Through: cmp.Or(d.through, ThroughApply), To: d.to, Part: r.parts, Overridden: r.overridden, Summary: u.summary()}, Undo: u}
	value, err := r.engine.encode(&c)
	if err != nil {
		return fmt.Errorf("encoding an entry of the history: %w", err)
	}
	if c.NotKept != "" && d.within > 0 {
		d.found = append(d.found, fault(vpcResource(r.vpc), "the change could not be taken back: %s", "apply it in parts, or without a time to confirm it in", c.NotKept))
	}
	entry := nbdb.EntryChange{Table: nbdb.TablePortGroup, Row: home, Key: historyKey(c.Number), New: &value}
	tx.Entries = append(tx.Entries, entry)
	for len(r.kept) > 0 && r.kept[0] <= r.next-maxHistory {
		old := nbdb.EntryChange{Table: nbdb.TablePortGroup, Row: home, Key: historyKey(r.kept[0]), Over: true}
		tx.Entries = append(tx.Entries, old)
		r.kept = r.kept[1:]
	}
	r.await(tx)
	r.next++
	r.parts++
	return nil
}

func historyKey(number int) string { return translate.KeyHistoryPrefix + strconv.Itoa(number) }

// summary counts what a change does, such as "+2 tiers ~1 acl".
func (u undo) summary() string {
	counts := map[Action]map[model.Kind]int{Create: {}, Change: {}, Remove: {}}
	for name, f := range u {
		id, _ := model.ParseID(name)
		counts[f.action()][id.Kind]++
	}
	var parts []string
	for _, by := range []struct {
		action Action
		sign   string
	}{{Create, "+"}, {Change, "~"}, {Remove, "-"}} {
		for _, k := range model.Kinds() {
			switch n := counts[by.action][k]; {
			case n == 1:
				parts = append(parts, by.sign+"1 "+strings.ToLower(string(k)))
			case n > 1:
				parts = append(parts, by.sign+strconv.Itoa(n)+" "+k.Plural())
			}
		}
	}
	return strings.Join(parts, " ")
}

// stamp makes the history tell when the plan is carried out, not when it was made.
func (e *Engine) stamp(p *Plan) {
	for _, part := range p.VPCs {
		for _, tx := range part.Transactions {
			for i, x := range tx.Entries {
				if x.New == nil || !strings.HasPrefix(x.Key, translate.KeyHistoryPrefix) {
					continue
				}
				c, err := decodeChange(*x.New)
				if err != nil {
					continue // somebody has written it: the history will tell
				}
				c.Time = e.Now().UTC().Truncate(time.Second)
				if value, err := e.encode(&c); err == nil {
					tx.Entries[i].New = &value
				}
			}
		}
	}
}
