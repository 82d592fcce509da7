package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Unconfirmed is a change of a VPC's structure that is taken back unless it is
// confirmed in time.
type Unconfirmed struct {
	VPC     string    `json:"vpc"`
	Number  int       `json:"number"` // of its (first) entry in the history
	Until   time.Time `json:"until"`  // by the clock of who made the change
	Manager string    `json:"manager"`
	// Tiers are those that it brought: nothing else is attached to them before it
	// is confirmed.
	Tiers []string `json:"tiers,omitempty"`
	ID    string   `json:"id"` // tells it from another one with the same number

	raw string // as it is stored
}

// The shortest and the longest time in which a change can be confirmed.
const (
	MinConfirm = time.Second
	MaxConfirm = 24 * time.Hour
)

// expiryPause is how often TakeBackOverdue looks.
const expiryPause = time.Second

// String says what the change waits for.
func (u *Unconfirmed) String() string {
	return fmt.Sprintf("the change %d of %s waits for its confirmation until %s", u.Number, u.Manager, u.Until.Format(time.RFC3339))
}

// before is the state that the change is taken back to; 0: there was no VPC.
func (u *Unconfirmed) before() int { return u.Number - 1 }

func (u *Unconfirmed) overdue(now time.Time) bool { return !now.Before(u.Until) }

func unconfirmedKey(owner, vpc string) string {
	return translate.NoteUnconfirmedPrefix + owner + "/" + vpc
}

// removal takes the note of the change out of NB_Global.
func (u *Unconfirmed) removal(w *world) nbdb.EntryChange {
	return nbdb.EntryChange{Table: nbdb.TableNBGlobal, Row: w.global.UUID, Key: unconfirmedKey(w.owner, u.VPC), Old: &u.raw}
}

// unconfirmed are an owner's changes that wait for their confirmation, by VPC.
func unconfirmed(global *nbdb.NBGlobal, owner string) map[string]*Unconfirmed {
	out := map[string]*Unconfirmed{}
	for key, value := range global.ExternalIDs {
		vpc, ok := strings.CutPrefix(key, unconfirmedKey(owner, ""))
		if !ok || strings.Contains(vpc, "/") {
			continue
		}
		u := &Unconfirmed{}
		if json.Unmarshal([]byte(value), u) != nil || u.Number < 1 {
			continue // nobody can act on it
		}
		u.VPC, u.raw = vpc, value
		out[vpc] = u
	}
	return out
}

// unconfirmed reads what waits for its confirmation, and nothing else.
func (e *Engine) unconfirmed(ctx context.Context) (map[string]*Unconfirmed, error) {
	state, err := e.NB.Read(ctx, nbdb.Query{Table: nbdb.TableNBGlobal, Columns: []string{"_uuid", "external_ids"}})
	if err != nil {
		return nil, err
	}
	out := map[string]*Unconfirmed{}
	for _, global := range nbdb.All[*nbdb.NBGlobal](state) {
		maps.Copy(out, unconfirmed(global, e.Owner))
	}
	return out, nil
}

func (w *world) unconfirmed(vpc string) *Unconfirmed { return unconfirmed(w.global, w.owner)[vpc] }

// newest is the note of the last plan that had one for a VPC.
func (w wish) newest(vpc string) *Unconfirmed {
	var newest *Unconfirmed
	for _, u := range w.notes {
		if u.VPC == vpc && (newest == nil || newest.Until.Before(u.Until)) {
			newest = u
		}
	}
	return newest
}

// await notes with the first transaction of a change that it has to be confirmed.
func (r *recorder) await(tx *nbdb.Plan) {
	d, e := r.desire, r.engine
	if d.within == 0 || r.parts > 0 || r.waiting != nil {
		return
	}
	u := &Unconfirmed{VPC: r.vpc, Number: r.next, Until: e.Now().Add(d.within).UTC().Truncate(time.Millisecond),
		Manager: e.Manager, ID: strconv.FormatUint(e.Rand(), 36)}
	for id := range d.resources {
		if id.Kind == model.KindTier && id.VPC == r.vpc && d.world.before(id) == nil {
			u.Tiers = append(u.Tiers, id.Name)
		}
	}
	slices.Sort(u.Tiers)
	data, err := json.Marshal(u)
	if err != nil {
		panic(fmt.Errorf("encoding a note: %w", err)) // plain data: a mistake in this program
	}
	u.raw = string(data)
	d.notes[u.raw] = u
	c := u.removal(d.world)
	c.Old, c.New = nil, &u.raw
	if damaged, ok := d.world.global.ExternalIDs[c.Key]; ok {
		c.Old = &damaged
	}
	tx.Entries = append(tx.Entries, c)
}

// unbuilt refuses attachments in tiers that may be taken back.
func (d *desire) unbuilt() {
	waiting := unconfirmed(d.world.global, d.world.owner)
	for _, r := range d.input {
		spec, ok := r.Spec.(*model.AttachmentSpec)
		u := waiting[r.Metadata.VPC]
		if !ok || u == nil || d.settles != nil || d.notes[u.raw] != nil || d.world.before(r.ID()) != nil || !slices.Contains(u.Tiers, spec.Tier) {
			continue
		}
		d.found = append(d.found, fault(r, "its tier %q may be taken back: %s", "attach when it is confirmed", spec.Tier, u).Coded(model.CodeInUse))
	}
}

// overdueError says that a change has to be taken back before another one of the
// VPC's structure.
type overdueError struct{ *Unconfirmed }

func (e *overdueError) Error() string { return "VPC " + e.VPC + ": " + e.String() }

// overdue is what has to be taken back before the wish is planned, and what
// should be.
func (e *Engine) overdue(w *world, wish wish) (must, should *Unconfirmed) {
	if wish.judging != judgeStrictly || wish.settles != nil {
		return nil, nil
	}
	waiting := unconfirmed(w.global, w.owner)
	maps.DeleteFunc(waiting, func(_ string, u *Unconfirmed) bool { return !u.overdue(e.Now()) })
	if len(waiting) == 0 {
		return nil, nil
	}
	ids := slices.Clone(wish.remove)
	for _, r := range wish.put {
		ids = append(ids, r.ID())
	}
	for _, id := range ids {
		u := waiting[vpcOf(id)]
		switch {
		case u == nil || wish.notes[u.raw] != nil:
		case structural(id.Kind) || wish.prune || wish.cascade:
			return u, nil
		default:
			should = u
		}
	}
	return nil, should
}

// takeBack takes back what is overdue before a plan that was made, or with an
// overdueError was not. With again another plan has to be made.
func (r *runner) takeBack(ctx context.Context, p *Plan, planned error) (again bool, err error) {
	var must *overdueError
	var u *Unconfirmed
	switch {
	case errors.As(planned, &must):
		u = must.Unconfirmed
	case planned == nil && p.overdue != nil && !r.untakable[p.overdue.raw]:
		u = p.overdue
	default:
		return false, nil
	}
	var conflict *ConflictError
	var refused *InvalidError
	err = r.engine.takeBack(ctx, u)
	switch {
	case err == nil:
		r.taken = append(r.taken, vpcResource(u.VPC).Warning("", fmt.Sprintf("the change %d of %s was not confirmed until %s: it was taken back before this one",
			u.Number, u.Manager, u.Until.Format(time.RFC3339)), ""))
		return true, nil
	case errors.As(err, &conflict): // somebody else has taken it back, or confirmed it
		return true, nil
	case must == nil:
		// Attachments don't wait for somebody to mend that.
		r.engine.Log.Warn("a change that was not confirmed in time stays", "error", err)
		r.untakable[u.raw] = true
		return false, nil
	case errors.As(err, &refused):
		return false, &ConflictError{errors.New(err.Error())}
	}
	return false, err
}

// unhindered refuses a plan for VPCs whose structure waits for a confirmation.
func (p *Plan) unhindered(w *world) error {
	for _, part := range p.VPCs {
		u := w.unconfirmed(part.VPC)
		if u != nil && slices.ContainsFunc(part.Changes, func(c ResourceChange) bool { return structural(c.Kind) }) {
			return &ConflictError{fmt.Errorf("VPC %s: %s", u.VPC, u)}
		}
	}
	return nil
}

// takeBack takes a change back that nobody has confirmed. That may break
// expectations.
func (e *Engine) takeBack(ctx context.Context, u *Unconfirmed) error {
	_, err := e.Overriding().Rollback(ctx, u.VPC, RollbackOptions{Unconfirmed: u.Number}, WaitNone)
	if err != nil {
		return fmt.Errorf("VPC %s: %s, and can't be taken back: %w", u.VPC, u, err)
	}
	e.Log.Info("a change that was not confirmed in time was taken back", "vpc", u.VPC, "number", u.Number, "manager", u.Manager)
	return nil
}

// TakeBackOverdue takes back, until ctx ends, what is not confirmed in time.
// Several may do so at once.
func (e *Engine) TakeBackOverdue(ctx context.Context) {
	failed := map[string]bool{} // what was told of
	for sleep(ctx, expiryPause) == nil {
		waiting, err := e.unconfirmed(ctx)
		if err != nil {
			e.Log.Debug("what waits for its confirmation can't be read", "error", err)
			continue
		}
		for _, u := range waiting {
			if !u.overdue(e.Now()) {
				continue
			}
			var conflict *ConflictError // somebody else has done it
			if err := e.takeBack(ctx, u); err != nil && !errors.As(err, &conflict) && !failed[u.raw] {
				failed[u.raw] = true
				e.Log.Warn("a change that was not confirmed in time stays", "error", err)
			}
		}
	}
}

// Confirm lets the change of a VPC that waits for its confirmation stand. One
// that comes too late is a *ConflictError; the change is taken back then, unless
// that is impossible.
func (e *Engine) Confirm(ctx context.Context, vpc string) (*Unconfirmed, error) {
	var first *Unconfirmed
	_, err := e.run(ctx, WaitNone, func(ctx context.Context, _ int) (*Plan, error) {
		w, err := e.read(ctx, scope{})
		if err != nil {
			return nil, err
		}
		u := w.unconfirmed(vpc)
		if u == nil || first != nil && u.raw != first.raw {
			return e.newPlan(w), e.settled(ctx, vpc, first)
		}
		first = u
		if u.overdue(e.Now()) {
			err := e.takeBack(ctx, u)
			var refused *InvalidError
			if err == nil {
				err = &ConflictError{fmt.Errorf("VPC %s: the confirmation comes too late, the change %d was taken back", vpc, u.Number)}
			}
			if !errors.As(err, &refused) {
				return nil, err
			}
		}
		p := e.newPlan(w)
		p.VPCs = []VPCPlan{{VPC: vpc, Transactions: []nbdb.Plan{{Entries: []nbdb.EntryChange{u.removal(w)}}}}}
		return p, nil
	})
	return first, err
}

// settled is an error unless a change that waits no more was confirmed; nil stands
// for any change, of which there is none.
func (e *Engine) settled(ctx context.Context, vpc string, u *Unconfirmed) error {
	h, err := e.History(ctx, vpc)
	switch {
	case err != nil:
		return err
	case u != nil && !h.TakenBack(u):
		return nil
	case len(h.Entries) > 0 && h.Entries[0].Through == ThroughExpiry:
		newest := h.Entries[0]
		return &ConflictError{fmt.Errorf("VPC %s: no change waits for its confirmation; the last one came too late: at %s it was taken back, to the state %d",
			vpc, newest.Time.Format(time.RFC3339), *newest.To)}
	}
	return &ConflictError{fmt.Errorf("VPC %s: no change waits for its confirmation", vpc)}
}

// TakenBack tells whether a change that waits for its confirmation no more was
// taken back.
func (h *History) TakenBack(u *Unconfirmed) bool {
	return slices.ContainsFunc(h.Entries, func(x HistoryEntry) bool {
		return x.Number > u.Number && x.To != nil && *x.To == u.before()
	})
}
