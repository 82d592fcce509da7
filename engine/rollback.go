package engine

import (
	"context"
	"fmt"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// RollbackOptions say how far a VPC goes back, and what may go with it.
type RollbackOptions struct {
	// To is the number of the state; 0: the one before the newest change.
	To int
	// Cascade removes the attachments of tiers that the older state lacks.
	Cascade bool
	// Unconfirmed, if not 0, is the change that still has to wait for its
	// confirmation.
	Unconfirmed int
	// ConfirmOpens refuses to open what Openings doesn't name.
	ConfirmOpens bool
	Openings     []reach.Opening
}

// Rollback brings a VPC's structure back to what it was, in one plan. Its
// attachments stay as they are. Where a change waits for its confirmation, that
// ends the waiting.
func (e *Engine) Rollback(ctx context.Context, vpc string, o RollbackOptions, wait Wait) (*Result, error) {
	if o.ConfirmOpens {
		e = e.Confirming(o.Openings)
	}
	b := &rollback{engine: e, vpc: vpc, options: o}
	return e.run(ctx, wait, b.plan)
}

// PlanRollback is what Rollback would do.
func (e *Engine) PlanRollback(ctx context.Context, vpc string, o RollbackOptions) (*Plan, error) {
	b := &rollback{engine: e, vpc: vpc, options: o, reckoning: reckonBrief, judging: judgeMildly}
	return b.plan(ctx, 0)
}

// rollback is a call of Rollback over its attempts.
type rollback struct {
	engine    *Engine
	vpc       string
	options   RollbackOptions
	reckoning reckoning
	judging   judging

	to   int // the state to go to, once that is known
	head int // the newest change as the first attempt has seen it
}

func (b *rollback) plan(ctx context.Context, attempt int) (*Plan, error) {
	e := b.engine
	w, err := e.read(ctx, scope{vpcs: []string{b.vpc}})
	if err != nil {
		return nil, err
	}
	waiting := w.unconfirmed(b.vpc)
	if n := b.options.Unconfirmed; n != 0 && (waiting == nil || waiting.Number != n) {
		return nil, &ConflictError{fmt.Errorf("VPC %s: the change %d doesn't wait for its confirmation", b.vpc, n)}
	}
	if id := vpcResource(b.vpc).ID(); w.before(id) == nil && waiting == nil {
		return nil, &NotFoundError{id}
	}
	if err := b.target(w, waiting, attempt); err != nil {
		return nil, err
	}
	wish, err := b.wish(w, waiting)
	if err != nil {
		return nil, err
	}
	if err := e.readNames(ctx, w, wish.put); err != nil {
		return nil, err
	}
	if wish.through == ThroughExpiry {
		e = e.As(waiting.Manager) // whoever carries it out
	}
	p, err := e.planIn(ctx, w, wish, attempt)
	if err == nil && p.Empty() && waiting != nil {
		p.VPCs = []VPCPlan{{VPC: b.vpc, Transactions: []nbdb.Plan{{Entries: []nbdb.EntryChange{waiting.removal(w)}}}}}
	}
	return p, err
}

// target finds out to which state to go. The one before the newest change is
// that of the first attempt: what others have changed since is not taken back
// unseen.
func (b *rollback) target(w *world, waiting *Unconfirmed, attempt int) error {
	changes := changesOf(w.historyHome(b.vpc))
	head := HistoryEntry{}
	if len(changes) > 0 {
		head = changes[len(changes)-1].HistoryEntry
	}
	switch {
	case attempt > 0:
		own := head.Through == ThroughRollback && *head.To == b.to
		if b.options.To == 0 && waiting == nil && head.Number != b.head && !own {
			return &ConflictError{fmt.Errorf("VPC %s has changed meanwhile, to the state %d", b.vpc, head.Number)}
		}
		return nil
	case b.options.To != 0:
		b.to = b.options.To
	case waiting != nil && w.before(vpcResource(b.vpc).ID()) != nil && head.Number < waiting.Number:
		return invalid(model.Diagnostics{fault(vpcResource(b.vpc), "the change %d is gone from its history", "", waiting.Number)})
	case waiting != nil:
		b.to = waiting.before()
	case len(changes) == 0:
		return invalid(model.Diagnostics{fault(vpcResource(b.vpc), "its history is empty", "")})
	case head.Number-head.Part == 1:
		return invalid(model.Diagnostics{fault(vpcResource(b.vpc), "its history begins with the change 1: there is nothing before it to go back to", "")})
	default:
		b.to = head.Number - head.Part - 1
	}
	b.head = head.Number
	return nil
}

// wish is what brings the structure to the state.
func (b *rollback) wish(w *world, waiting *Unconfirmed) (wish, error) {
	out := wish{cascade: b.options.Cascade, reckoning: b.reckoning, judging: b.judging, settles: waiting,
		through: ThroughRollback, to: &b.to}
	if waiting != nil && b.to == waiting.before() {
		// Only what the change itself attached is in its tiers.
		out.cascade = true
		if waiting.overdue(b.engine.Now()) {
			out.through = ThroughExpiry
		}
	}
	now := w.structure(b.vpc)
	state := map[model.ID]*model.Resource{}
	gone := w.before(vpcResource(b.vpc).ID()) == nil || waiting != nil && waiting.before() == 0 && b.to == 0
	if !gone {
		var err error
		if state, err = w.stateAt(b.vpc, b.to); err != nil {
			return out, err
		}
	}
	for _, r := range sorted(state) {
		if !same(now[r.ID()], r) {
			out.put = append(out.put, r)
		}
	}
	for _, r := range sorted(now) {
		if state[r.ID()] == nil {
			out.remove = append(out.remove, r.ID())
		}
	}
	return out, nil
}
