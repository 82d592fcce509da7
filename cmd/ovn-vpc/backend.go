package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// backend is what commands work with: an engine on the databases, or a client
// of a server that has one.
type backend interface {
	Get(ctx context.Context, f engine.Filter) ([]engine.Object, error)
	Names(ctx context.Context, kind model.Kind, vpc string) ([]string, error)
	Export(ctx context.Context, vpc string) ([]*model.Resource, error)
	Faults(ctx context.Context, set *model.Set) (model.Diagnostics, error)
	Plan(ctx context.Context, set *model.Set, prune bool) (*engine.Plan, error)
	Apply(ctx context.Context, set *model.Set, prune bool, wait engine.Wait) (*engine.Result, error)
	ApplyConfirmed(ctx context.Context, set *model.Set, prune bool, named []reach.Opening, wait engine.Wait) (*engine.Result, error)
	ApplyPlan(ctx context.Context, p *engine.Plan, wait engine.Wait) (*engine.Result, error)
	Delete(ctx context.Context, ids []model.ID, cascade bool, wait engine.Wait) (*engine.Result, error)
	ReplaceACL(ctx context.Context, vpc, tier, acl string, wait engine.Wait) (*engine.Result, error)
	ReplaceACLConfirmed(ctx context.Context, vpc, tier, acl string, named []reach.Opening, wait engine.Wait) (*engine.Result, error)
	History(ctx context.Context, vpc string) (*engine.History, error)
	HistoryState(ctx context.Context, vpc string, number int) ([]*model.Resource, error)
	PlanRollback(ctx context.Context, vpc string, o engine.RollbackOptions) (*engine.Plan, error)
	Rollback(ctx context.Context, vpc string, o engine.RollbackOptions, wait engine.Wait) (*engine.Result, error)
	Confirm(ctx context.Context, vpc string) (*engine.Unconfirmed, error)
	Reach(ctx context.Context, set *model.Set, o engine.ReachOptions) (*engine.ReachReport, error)
	Verify(ctx context.Context, set *model.Set, vpc string) (*engine.VerifyReport, error)
	Drift(ctx context.Context, vpc string, repair bool, wait engine.Wait) (*engine.DriftReport, error)
	Trace(ctx context.Context, q engine.TraceQuery) (*engine.TraceReport, error)
	Explain(ctx context.Context, text string, set *model.Set) ([]engine.Explanation, error)
}

// connect is the way to the databases: through a server where one is named. A
// command that doesn't ask for it does without the southbound database. The
// caller ends with close.
func (a *app) connect(ctx context.Context, southbound bool) (b backend, close func(), err error) {
	if url := a.server(); url != "" {
		c, err := a.client(url)
		if err != nil {
			return nil, nil, &usageError{err}
		}
		return c, c.Close, nil
	}
	return a.engine(ctx, southbound)
}

// connectOr is connect for a question about an input: without a server, and where
// nobody has named a database and none answers at the usual place, the input is
// taken for all there is.
func (a *app) connectOr(ctx context.Context, input, southbound bool) (b backend, close func(), err error) {
	if !input || a.server() != "" || a.named() {
		return a.connect(ctx, southbound)
	}
	brief, cancel := context.WithTimeout(ctx, min(sbPatience, a.flags.timeout/4))
	defer cancel()
	if b, close, err = a.connect(brief, southbound); err == nil {
		return b, close, nil
	}
	a.logger().Info("no database answers: the input is taken for all there is", "error", err)
	return engine.New(engine.Nowhere{}, a.flags.owner, a.flags.manager), func() {}, nil
}

// server is the URL of the server to work through, "" for none. A flag is
// stronger than a variable of the environment, also one that says the contrary.
func (a *app) server() string {
	if a.flags.given("server") || slices.ContainsFunc(direct[:], a.flags.given) {
		return a.flags.server
	}
	return a.getenv("OVN_VPC_SERVER")
}

func (a *app) client(url string) (*client.Client, error) {
	o := client.Options{URL: url, CACert: a.flags.serverCA, Certificate: a.flags.certificate, Key: a.flags.key,
		Manager: a.flags.manager, OverrideExpectations: a.flags.override, Repair: a.flags.repair, ConfirmWithin: a.flags.within, Attempts: 1, LeftOut: a.leaveOut, UserAgent: "ovn-vpc/" + build().Version, Log: a.logger()}
	if tokens := cmp.Or(a.flags.tokenFile, a.getenv("OVN_VPC_TOKEN_FILE")); tokens != "" {
		o.Token = client.TokenFile(tokens)
	}
	return client.New(o)
}

// named tells whether somebody has said where the northbound database is.
func (a *app) named() bool { return a.flags.nb != "" || a.getenv("OVN_NB_DB") != "" }

// northbound says how the northbound database is reached.
func (a *app) northbound(log *slog.Logger) nbdb.Options {
	return nbdb.Options{Remotes: cmp.Or(a.flags.nb, a.getenv("OVN_NB_DB"), defaultNB), PrivateKey: a.flags.key,
		Certificate: a.flags.certificate, CACert: a.flags.caCert, Logger: log}
}

// southbound are the remotes of the southbound database, "" if not known or not
// wanted.
func (a *app) southbound() string {
	if a.flags.given("sb") {
		return a.flags.sb
	}
	return a.getenv("OVN_SB_DB")
}

// engine opens the northbound database, and with southbound, where its address
// is known, that database too.
func (a *app) engine(ctx context.Context, southbound bool) (e *engine.Engine, close func(), err error) {
	log := a.logger()
	options := a.northbound(log)
	nb, store, err := a.dial(ctx, options)
	if err != nil && !a.named() {
		err = fmt.Errorf("%w (name the database by --nb or $OVN_NB_DB, or a server by --server)", err)
	}
	if err != nil {
		return nil, nil, err
	}
	e = engine.New(store, a.flags.owner, a.flags.manager)
	e.Log, e.Progress, e.OverrideExpectations = log, a.progress(), a.flags.override
	e.LeftOut = func(_ string, d model.Diagnostic) { a.leaveOut(d) }
	e.ConfirmWithin, e.RepairDamaged = a.flags.within, a.flags.repair
	e.SchemaVersion = func() string { return nb.Schema().Version() }
	close = nb.Close
	options.Remotes, options.Database = a.southbound(), nbdb.Southbound
	if !southbound || options.Remotes == "" {
		return e, close, nil
	}
	brief, cancel := context.WithTimeout(ctx, min(sbPatience, a.flags.timeout/4))
	defer cancel()
	sb, err := nbdb.Dial(brief, options)
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: going on without the southbound database: %s\n", a.message(err))
		return e, close, nil
	}
	e.SB = sb
	return e, func() { nb.Close(); sb.Close() }, nil
}
