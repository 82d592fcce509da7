// Package engine is the one path that the CLI and the server share: read the
// database, merge what is asked for, check, allocate, translate, diff,
// commit, wait.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// Store is the northbound database as the engine needs it; *nbdb.Client is one.
type Store interface {
	Read(ctx context.Context, queries ...nbdb.Query) (*nbdb.State, error)
	Commit(ctx context.Context, p nbdb.Plan, bump bool) (nbCfg int, err error)
	WaitCfg(ctx context.Context, column string, target int) error
	Follow(ctx context.Context, sink nbdb.Sink, queries ...nbdb.Query) error
}

// Southbound tells what hypervisors made of the ports; optional.
type Southbound interface {
	ReadBindings(ctx context.Context, ports ...string) (map[string]nbdb.Binding, error)
	ReadChassis(ctx context.Context) ([]nbdb.Chassis, error)
	ReadBehind(ctx context.Context, nbCfg int) ([]string, error)
}

// Engine works on one northbound database for one installation. It keeps no
// state: the database is the only store. Its methods may run at the same time.
type Engine struct {
	NB      Store
	SB      Southbound // nil: chassis and bindings are not known
	Mirror  *Mirror    // nil: the database is read each time
	Owner   string     // the installation
	Manager string     // who brings resources with this engine
	// OverrideExpectations lets changes pass that break an expectation, and notes
	// it (Overridden).
	OverrideExpectations bool
	// RepairDamaged lets changes overwrite rows whose stored spec can't be read.
	RepairDamaged bool
	// Openings refuse changes that open what they don't name (Plan.Confirm); nil:
	// anything may be opened.
	Openings *[]reach.Opening
	// ConfirmWithin, if not 0, is the time in which what Apply changes of a VPC's
	// structure has to be confirmed (Confirm), or else it is taken back.
	ConfirmWithin time.Duration

	Now  func() time.Time
	Rand func() uint64 // spreads retries
	Log  *slog.Logger
	// SchemaVersion tells the server's, such as 7.0.0, "" if not known; nil: it isn't.
	SchemaVersion func() string
	// Progress is told of each transaction that landed; nil for nobody.
	Progress func(done, total int)
	// LeftOut is told of what Get and Export leave out since it can't be read, and of
	// which VPC it is; nil: the log is.
	LeftOut func(vpc string, d model.Diagnostic)
	// Observer is told of plans and transactions; nil for nobody.
	Observer Observer

	packers *sync.Pool // of *flate.Writer, which are large
}

// New makes an engine with the system's clock and randomness.
func New(nb Store, owner, manager string) *Engine {
	return &Engine{NB: nb, Owner: owner, Manager: manager, Now: time.Now, Rand: rand.Uint64, Log: slog.New(slog.DiscardHandler), packers: &sync.Pool{}}
}

// As is the same engine for another manager.
func (e *Engine) As(manager string) *Engine {
	other := *e
	other.Manager = manager
	return &other
}

// Overriding is the same engine, but for changes that may break expectations.
func (e *Engine) Overriding() *Engine {
	other := *e
	other.OverrideExpectations = true
	return &other
}

// Repairing is the same engine, but for changes that may overwrite rows whose
// stored spec can't be read.
func (e *Engine) Repairing() *Engine {
	other := *e
	other.RepairDamaged = true
	return &other
}

// Confirming is the same engine, but for changes that open nothing that isn't
// named, also where they have to be planned anew.
func (e *Engine) Confirming(named []reach.Opening) *Engine {
	other := *e
	other.Openings = &named
	return &other
}

// Provisional is the same engine, but what Apply changes of a VPC's structure is
// taken back unless it is confirmed within a time, from MinConfirm to MaxConfirm.
func (e *Engine) Provisional(within time.Duration) *Engine {
	other := *e
	other.ConfirmWithin = within
	return &other
}

// InvalidError is an input that was refused: all its faults, nothing written.
type InvalidError struct {
	Diagnostics model.Diagnostics
}

func (e *InvalidError) Error() string {
	return strings.TrimSpace(e.Diagnostics.Errors().String())
}

// ConflictError says that the database kept changing under the plan, or that
// a plan file is stale. Nothing of the transaction was written.
type ConflictError struct {
	Err error
}

func (e *ConflictError) Error() string { return e.Err.Error() }
func (e *ConflictError) Unwrap() error { return e.Err }

// NotFoundError says that a resource does not exist.
type NotFoundError struct {
	ID model.ID
}

func (e *NotFoundError) Error() string { return e.ID.String() + " not found" }

// UnpreparedError says that a database is none that was set up as a northbound one.
type UnpreparedError struct {
	Globals int // rows in NB_Global
}

func (e *UnpreparedError) Error() string {
	return fmt.Sprintf("the database has %d rows in NB_Global, not 1: is it a northbound database that was set up (ovn-nbctl init)?", e.Globals)
}

// RepeatedError says that a request has created another resource already, by
// the first word of its mark (model.Resource.Request).
type RepeatedError struct {
	ID model.ID // that one
}

func (e *RepeatedError) Error() string { return "the same request has created " + e.ID.String() }

// stale tells whether an error of a commit means: read again, plan again. A
// name or a reference that is refused at the commit was fine when the plan was
// made, so it has changed too.
func stale(err error) bool {
	var conflict *nbdb.ConflictError
	var constraint *nbdb.ConstraintError
	return errors.As(err, &conflict) || errors.As(err, &constraint) || unknown(err)
}

// unknown tells whether a transaction may have been committed or not.
func unknown(err error) bool {
	var unknown *nbdb.UnknownOutcomeError
	return errors.As(err, &unknown)
}

// invalid is the error for diagnostics that hold an error, else nil.
func invalid(ds model.Diagnostics) error {
	if !ds.HasErrors() {
		return nil
	}
	return &InvalidError{Diagnostics: ds}
}

func sortedDiagnostics(ds model.Diagnostics) model.Diagnostics {
	ds.Sort()
	return ds
}

// fault is a diagnostic about a resource that may have no document.
func fault(r *model.Resource, problem, fix string, args ...any) model.Diagnostic {
	return r.Fault("", fmt.Sprintf(problem, args...), fix)
}
