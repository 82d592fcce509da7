package engine

import (
	"context"
	"time"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Observer is told what an engine does, for metrics. Its methods may run at the
// same time, and must return at once.
type Observer interface {
	// Planned is a plan that was made; attempt counts those of one operation from 0.
	Planned(attempt int)
	Committed(t Transaction)
	// Realised is a change that has come as far as was waited for, and how long
	// that took from its commit.
	Realised(stage Wait, took time.Duration)
}

// Transaction is one that was sent to the northbound database.
type Transaction struct {
	Result CommitResult
	Size   int // rows, references and map entries changed
	Took   time.Duration
}

// CommitResult is what became of a transaction.
type CommitResult string

// The results of a commit.
const (
	CommitLanded   CommitResult = "landed"
	CommitConflict CommitResult = "conflict" // refused: the database has changed since it was planned
	CommitUnknown  CommitResult = "unknown"  // the answer never came
	CommitFailed   CommitResult = "failed"
)

// CommitResults are all of them.
func CommitResults() []CommitResult {
	return []CommitResult{CommitLanded, CommitConflict, CommitUnknown, CommitFailed}
}

func commitResult(err error) CommitResult {
	switch {
	case err == nil:
		return CommitLanded
	case unknown(err):
		return CommitUnknown
	case stale(err):
		return CommitConflict
	}
	return CommitFailed
}

// planned tells the observer of a plan.
func (e *Engine) planned(attempt int) {
	if e.Observer != nil {
		e.Observer.Planned(attempt)
	}
}

// commit is NB.Commit, and tells the observer.
func (e *Engine) commit(ctx context.Context, p nbdb.Plan, bump bool) (nbCfg int, err error) {
	start := e.Now()
	nbCfg, err = e.NB.Commit(ctx, p, bump)
	if e.Observer != nil {
		e.Observer.Committed(Transaction{commitResult(err), len(p.Rows) + len(p.Edges) + len(p.Entries), e.Now().Sub(start)})
	}
	return nbCfg, err
}

// waitCfg is NB.WaitCfg for a change that was just committed, and tells the
// observer.
func (e *Engine) waitCfg(ctx context.Context, wait Wait, target int) error {
	start := e.Now()
	err := e.NB.WaitCfg(ctx, wait.column(), target)
	if err == nil && e.Observer != nil {
		e.Observer.Realised(wait, e.Now().Sub(start))
	}
	return err
}

// Capacity is how many logical switches and routers there are, of all owners, and
// how many OVN can realise: 4095 with VXLAN.
func (e *Engine) Capacity(ctx context.Context) (used, limit int, err error) {
	w, err := e.read(ctx, scope{})
	if err != nil {
		return 0, 0, err
	}
	return w.datapaths, w.datapathLimit(), nil
}
