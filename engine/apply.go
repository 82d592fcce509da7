package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// Wait says how far a change has to have come before an operation returns.
type Wait string

// The places to wait for (ovn-nbctl(8), --wait).
const (
	WaitNone Wait = "none" // the northbound database has it
	WaitSB   Wait = "sb"   // ovn-northd has brought it to the southbound database
	WaitHV   Wait = "hv"   // every hypervisor has it
)

// any tells whether there is anything to wait for.
func (w Wait) any() bool { return w != WaitNone && w != "" }

func (w Wait) column() string {
	if w == WaitHV {
		return "hv_cfg"
	}
	return "sb_cfg"
}

// Result is what an operation did.
type Result struct {
	VPCs        []VPCResult       `json:"vpcs"`
	Diagnostics model.Diagnostics `json:"diagnostics,omitempty"` // warnings
	// Unconfirmed are the changes that are taken back unless they are confirmed.
	Unconfirmed []Unconfirmed `json:"unconfirmed,omitempty"`
}

// VPCResult is what became of one VPC's part.
type VPCResult struct {
	VPC     string           `json:"vpc"`
	Changes []ResourceChange `json:"changes"`
	// Transactions of those planned that landed; all or nothing where one was
	// planned.
	Landed  int  `json:"landed"`
	Planned int  `json:"planned"`
	Done    bool `json:"done"`
	// Error says why a part did not land.
	Error string `json:"error,omitempty"`
}

// Changed tells whether anything was written.
func (r *Result) Changed() bool {
	return slices.ContainsFunc(r.VPCs, func(v VPCResult) bool { return v.Landed > 0 })
}

const (
	// attempts is how often a plan is made anew when the database moves under it.
	attempts = 12
	// retryUnit spreads attempts of writers that collide.
	retryUnit = 20 * time.Millisecond
	// northdPatience is how long a deletion of switches waits for ovn-northd.
	northdPatience = 15 * time.Second
)

// Apply brings the database to what the set says.
func (e *Engine) Apply(ctx context.Context, set *model.Set, prune bool, wait Wait) (*Result, error) {
	return e.apply(ctx, wish{put: set.Resources, prune: prune}, wait)
}

// ApplyConfirmed is Apply, but a plan that opens anything which is not named is
// refused (Plan.Confirm), also one that had to be made anew.
func (e *Engine) ApplyConfirmed(ctx context.Context, set *model.Set, prune bool, named []reach.Opening, wait Wait) (*Result, error) {
	return e.Confirming(named).Apply(ctx, set, prune, wait)
}

// apply carries out a wish, and tells what of it has to be confirmed.
func (e *Engine) apply(ctx context.Context, wish wish, wait Wait) (*Result, error) {
	wish.within, wish.notes = e.ConfirmWithin, map[string]*Unconfirmed{}
	r, err := e.run(ctx, wait, func(ctx context.Context, attempt int) (*Plan, error) {
		return e.plan(ctx, wish, attempt)
	})
	// What is known to have landed somebody may have confirmed already. Of the rest
	// the answer may have been lost.
	for _, v := range r.VPCs {
		if u := wish.newest(v.VPC); u != nil && v.Landed > 0 {
			r.Unconfirmed = append(r.Unconfirmed, *u)
			maps.DeleteFunc(wish.notes, func(_ string, u *Unconfirmed) bool { return u.VPC == v.VPC })
		}
	}
	if len(wish.notes) > 0 {
		waiting, failed := e.unconfirmed(ctx)
		if failed != nil {
			return r, cmp.Or(err, fmt.Errorf("it is not known what has to be confirmed: %w", failed))
		}
		for _, u := range waiting {
			if wish.notes[u.raw] != nil {
				r.Unconfirmed = append(r.Unconfirmed, *u)
			}
		}
	}
	slices.SortFunc(r.Unconfirmed, func(a, b Unconfirmed) int { return cmp.Compare(a.VPC, b.VPC) })
	return r, err
}

// Delete removes resources. What others use is refused, or with cascade its
// users go too.
func (e *Engine) Delete(ctx context.Context, ids []model.ID, cascade bool, wait Wait) (*Result, error) {
	return e.run(ctx, wait, func(ctx context.Context, attempt int) (*Plan, error) {
		if attempt == 0 {
			return e.PlanDelete(ctx, ids, cascade)
		}
		// By now some may be gone, by our own hand.
		return e.plan(ctx, wish{remove: ids, cascade: cascade, through: ThroughDelete}, attempt)
	})
}

// PlanDelete is what Delete would do. What does not exist, by its rows or its
// second copy, is a *NotFoundError, what can't be read a *DamagedError, unless it is
// to be repaired.
func (e *Engine) PlanDelete(ctx context.Context, ids []model.ID, cascade bool) (*Plan, error) {
	wish := wish{remove: ids, cascade: cascade, through: ThroughDelete}
	w, err := e.read(ctx, e.scopeOf(wish))
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		u := w.damaged(id)
		switch {
		case u == nil && w.before(id) == nil:
			return nil, &NotFoundError{id}
		case u != nil && !e.RepairDamaged:
			return nil, damaged(model.Diagnostics{u.diagnostic(u.resource())})
		}
	}
	return e.planIn(ctx, w, wish, 0)
}

// ReplaceACL exchanges the list in force at a tier's boundary, in one
// transaction.
func (e *Engine) ReplaceACL(ctx context.Context, vpc, tier, acl string, wait Wait) (*Result, error) {
	return e.run(ctx, wait, func(ctx context.Context, attempt int) (*Plan, error) {
		id := model.ID{Kind: model.KindTier, VPC: vpc, Name: tier}
		w, err := e.readBeside(ctx, id)
		if err != nil {
			return nil, err
		}
		old := w.resources[id]
		if old == nil {
			return nil, &NotFoundError{id}
		}
		spec := *old.Spec.(*model.TierSpec)
		spec.ACL = acl
		put := *old
		put.Spec = &spec
		return e.planIn(ctx, w, wish{put: []*model.Resource{&put}, through: ThroughReplace}, attempt)
	})
}

// ReplaceACLConfirmed is ReplaceACL, but refused where it opens anything which is
// not named.
func (e *Engine) ReplaceACLConfirmed(ctx context.Context, vpc, tier, acl string, named []reach.Opening, wait Wait) (*Result, error) {
	return e.Confirming(named).ReplaceACL(ctx, vpc, tier, acl, wait)
}

// ApplyPlan commits a plan that was made before. It is not made anew: when the
// database has moved on, it is stale, a *ConflictError.
func (e *Engine) ApplyPlan(ctx context.Context, p *Plan, wait Wait) (*Result, error) {
	w, err := e.read(ctx, scope{})
	if err != nil {
		return nil, err
	}
	if w.global.UUID != p.Database {
		return nil, &ConflictError{errors.New("the plan was made for another database")}
	}
	if p.Owner != e.Owner {
		return nil, &ConflictError{fmt.Errorf("the plan was made for the owner %q, not %q", p.Owner, e.Owner)}
	}
	if err := cmp.Or(p.unbroken(), p.unhindered(w), e.undamaged(p)); err != nil {
		return nil, err
	}
	e.stamp(p)
	p.northd, p.behind, p.nbCfg = w.northd(), w.global.NbCfg > w.global.SbCfg, w.global.NbCfg
	r := e.newRunner(wait.any())
	err = r.commit(ctx, p)
	if err != nil && stale(err) {
		err = &ConflictError{fmt.Errorf("the plan is stale: %w (make it anew with ovn-vpc plan)", cmp.Or(e.takenName(ctx, p, err), err))}
	}
	if err == nil {
		err = r.settle(ctx, wait)
	}
	return &r.result, err
}

// run makes plans, commits them until one lands whole, and waits.
func (e *Engine) run(ctx context.Context, wait Wait, plan planner) (*Result, error) {
	r := e.newRunner(wait.any())
	if err := r.land(ctx, plan); err != nil {
		return &r.result, err
	}
	return &r.result, r.settle(ctx, wait)
}

// planner makes a plan from the database as it is now; attempt counts from 0.
type planner func(ctx context.Context, attempt int) (*Plan, error)

// land makes plans and commits them until one lands whole.
func (r *runner) land(ctx context.Context, plan planner) error {
	pauses := 0
	for attempt := range attempts {
		if err := r.engine.pause(ctx, pauses); err != nil {
			return errors.Join(fmt.Errorf("giving up: %w", err), r.last)
		}
		p, err := plan(ctx, attempt)
		if p == nil || !p.hasty {
			pauses++
		}
		if again, err := r.takeBack(ctx, p, err); err != nil || again {
			if err != nil {
				return r.unplanned(err)
			}
			continue
		}
		if err != nil && !stale(err) {
			return r.unplanned(err)
		}
		if err == nil {
			r.engine.planned(attempt)
			err = r.commit(ctx, p)
		}
		if err == nil || !stale(err) {
			r.last = err
			return err
		}
		if told := r.hindered(ctx, p, err); told != nil {
			return told
		}
		r.engine.Log.Info("planning again", "attempt", attempt+1, "reason", r.last)
	}
	return &ConflictError{fmt.Errorf("the database kept changing, %d plans were overtaken: %w", attempts, r.last)}
}

// unplanned is why there is no further plan, and what that leaves open.
func (r *runner) unplanned(err error) error {
	var invalid *InvalidError
	switch {
	case r.result.Changed():
		return fmt.Errorf("part of it has landed, the rest can't be planned any more: %w", err)
	case unknown(r.last) && !errors.As(err, &invalid):
		return fmt.Errorf("%w; before that: %w", err, r.last)
	}
	return err
}

// pause waits a little, longer each time and by chance, before another attempt.
func (e *Engine) pause(ctx context.Context, before int) error {
	if before == 0 {
		return ctx.Err()
	}
	most := retryUnit << min(before, 5)
	return sleep(ctx, time.Duration(e.Rand()%uint64(most)))
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runner commits plans and collects what landed.
type runner struct {
	engine  *Engine
	bump    bool // raise nb_cfg with the last transaction
	result  Result
	nbCfg   int   // of the last transaction that was to be waited for
	deleted bool  // switches or routers were deleted and ovn-northd may not know yet
	last    error // of the last commit
	alike   int   // as many in a row said the same
	gone    bool  // of these one relied on a row that was not there

	taken     model.Diagnostics // what was taken back before
	untakable map[string]bool   // what could not be
}

func (e *Engine) newRunner(bump bool) *runner {
	return &runner{engine: e, bump: bump, result: Result{VPCs: []VPCResult{}}, untakable: map[string]bool{}}
}

func (r *runner) commit(ctx context.Context, p *Plan) error {
	r.resume()
	r.result.Diagnostics = slices.Concat(r.taken, p.Diagnostics)
	r.deleted = r.deleted || p.behind
	total, done := 0, 0
	for _, part := range p.VPCs {
		total += len(part.Transactions)
	}
	for i, part := range p.VPCs {
		res := VPCResult{VPC: part.VPC, Changes: part.Changes, Planned: len(part.Transactions)}
		var err error
		for k, tx := range part.Transactions {
			last := i == len(p.VPCs)-1 && k == len(part.Transactions)-1
			if err = r.transact(ctx, p, tx, last); err != nil {
				res.Error = err.Error()
				break
			}
			res.Landed++
			done++
			if r.engine.Progress != nil {
				r.engine.Progress(done, total)
			}
		}
		res.Done = err == nil
		r.merge(res)
		if err != nil {
			for _, rest := range p.VPCs[i+1:] {
				r.merge(VPCResult{VPC: rest.VPC, Changes: rest.Changes, Planned: len(rest.Transactions), Error: "not tried"})
			}
			return err
		}
	}
	for _, part := range p.refused {
		r.merge(VPCResult{VPC: part.VPC, Changes: part.Changes, Planned: len(part.Transactions), Error: p.refusal.Error()})
	}
	return p.refusal
}

// resume leaves of earlier attempts what has landed.
func (r *runner) resume() {
	r.result.VPCs = slices.DeleteFunc(r.result.VPCs, func(v VPCResult) bool { return v.Landed == 0 })
	for i := range r.result.VPCs {
		v := &r.result.VPCs[i]
		v.Planned, v.Done, v.Error = v.Landed, true, ""
	}
}

// confirm counts the transaction that failed as landed.
func (r *runner) confirm() {
	for i := range r.result.VPCs {
		if v := &r.result.VPCs[i]; v.Landed < v.Planned {
			v.Landed++
			return
		}
	}
}

// merge replaces what an earlier attempt said of the same VPC.
func (r *runner) merge(res VPCResult) {
	for i, old := range r.result.VPCs {
		if old.VPC == res.VPC {
			res.Landed += old.Landed
			res.Planned += old.Landed
			if old.Landed > 0 {
				res.Changes = append(old.Changes, res.Changes...)
			}
			r.result.VPCs[i] = res
			return
		}
	}
	r.result.VPCs = append(r.result.VPCs, res)
}

// transact commits one transaction. ovn-northd has to have seen deleted
// switches and routers before others come.
func (r *runner) transact(ctx context.Context, p *Plan, tx nbdb.Plan, last bool) error {
	if r.deleted && insertsDatapath(tx) && p.northd {
		r.awaitNorthd(ctx, p)
	}
	deletes := removesDatapath(tx) && p.northd
	bump := deletes || last && r.bump
	nbCfg, err := r.engine.commit(ctx, tx, bump)
	if err != nil {
		return err
	}
	if bump {
		r.nbCfg = nbCfg
	}
	r.deleted = r.deleted || deletes
	if deletes && last {
		r.awaitNorthd(ctx, p)
	}
	return nil
}

// awaitNorthd waits for ovn-northd for a while; one that doesn't answer must
// not hold up the change.
func (r *runner) awaitNorthd(ctx context.Context, p *Plan) {
	brief, cancel := context.WithTimeout(ctx, northdPatience)
	defer cancel()
	target := r.nbCfg
	if target == 0 {
		target = p.nbCfg
	}
	if err := r.engine.waitCfg(brief, WaitSB, target); err != nil && ctx.Err() == nil {
		r.engine.Log.Warn("ovn-northd doesn't answer; going on", "error", err)
	}
	r.deleted = false
}

// target is the nb_cfg to wait for. Where nothing was written, an empty
// transaction that counts it up is what tells that all before it has arrived.
func (r *runner) target(ctx context.Context) (int, error) {
	if r.nbCfg == 0 {
		n, err := r.engine.commit(ctx, nbdb.Plan{}, true)
		if err != nil {
			return 0, fmt.Errorf("asking whether everything has arrived: %w", err)
		}
		r.nbCfg = n
	}
	return r.nbCfg, nil
}

// settle waits as far as it was asked for.
func (r *runner) settle(ctx context.Context, wait Wait) error {
	if !wait.any() {
		return nil
	}
	target, err := r.target(ctx)
	if err != nil {
		return err
	}
	if err := r.engine.waitCfg(ctx, wait, target); err != nil {
		return fmt.Errorf("the change is in the northbound database, but waiting for %s failed: %w", wait, err)
	}
	return nil
}
