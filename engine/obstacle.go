package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// lasting is how often in a row the database refuses plans for one reason before
// that is taken for what does not pass by itself.
const lasting = 3

// holders are the queries for what keeps a row alive, and from being deleted.
func holders(table string, row nbdb.UUID) []nbdb.Query {
	in := func(table, column string) nbdb.Query { return nbdb.Query{Table: table, Match: column, Ref: row} }
	switch table {
	case nbdb.TableLogicalSwitchPort:
		return []nbdb.Query{in(nbdb.TableLogicalSwitch, "ports")}
	case nbdb.TableLogicalRouterPort:
		return []nbdb.Query{in(nbdb.TableLogicalRouter, "ports")}
	case nbdb.TableLogicalRouterPolicy:
		return []nbdb.Query{in(nbdb.TableLogicalRouter, "policies")}
	case nbdb.TableACL:
		return []nbdb.Query{in(nbdb.TableLogicalSwitch, "acls"), in(nbdb.TablePortGroup, "acls")}
	}
	return nil
}

// obstacleError tells of the row that is in the way of every plan.
type obstacleError struct {
	vpc   string
	told  error // *InvalidError or *DamagedError
	cause error
}

func (e *obstacleError) Error() string   { return e.told.Error() }
func (e *obstacleError) Unwrap() []error { return []error{e.told, e.cause} }

// hindered notes why a plan was not carried out. Where that has been so for a while
// it is the error that tells of the obstacle, if there is one.
func (r *runner) hindered(ctx context.Context, p *Plan, err error) error {
	if r.last == nil || r.last.Error() != err.Error() {
		r.alike, r.gone = 0, false
	}
	r.last = err
	if r.alike++; p == nil || r.alike < lasting {
		return nil
	}
	told := r.engine.obstacle(ctx, p, err)
	if errors.As(told, new(*goneError)) && !r.gone {
		r.gone = true
		return nil // somebody may just have deleted it: the next plan knows
	}
	return told
}

// obstacle looks for the row for which the database has refused a plan: one that
// refers to what the plan deletes, that has a name which it brings, or that was not
// read since it has lost its marks. It is nil where there is none any more.
func (e *Engine) obstacle(ctx context.Context, p *Plan, cause error) error {
	var refused *nbdb.ConstraintError
	var conflict *nbdb.ConflictError
	if errors.As(cause, &conflict) {
		return e.unmarkedRow(ctx, p, conflict)
	}
	if !errors.As(cause, &refused) {
		return nil
	}
	for _, part := range p.VPCs {
		for _, tx := range part.Transactions {
			for _, x := range tx.Edges {
				if told := e.lacking(ctx, part.VPC, x, refused.Details); told != nil {
					return &obstacleError{part.VPC, told, cause}
				}
			}
			for _, r := range tx.Rows {
				vpc := part.VPC
				if parts := strings.Split(r.Key, "/"); vpc == "" && len(parts) > 1 { // of a repair of all
					vpc = parts[1]
				}
				if told := e.inTheWay(ctx, p, vpc, r, refused.Details); told != nil {
					return &obstacleError{vpc, told, cause}
				}
			}
		}
	}
	return nil
}

// unmarkedRow is the error that names a row without our marks which is not as a plan
// relies on: whoever plans does not see it.
func (e *Engine) unmarkedRow(ctx context.Context, p *Plan, conflict *nbdb.ConflictError) error {
	for _, part := range p.VPCs {
		var queries []nbdb.Query
		ask := func(table string, row nbdb.UUID) {
			if table != nbdb.TableNBGlobal && row != "" && strings.Contains(conflict.What, string(row)) {
				queries = append(queries, nbdb.Query{Table: table, Where: map[string]any{"_uuid": string(row)}})
			}
		}
		for _, tx := range part.Transactions {
			for _, x := range tx.Entries {
				ask(x.Table, x.Row)
			}
			for _, g := range tx.Guards {
				ask(g.Table, g.Row)
				if g.Row == "" && strings.Contains(conflict.What, "rows of "+g.Table) {
					queries = append(queries, nbdb.Query{Table: g.Table, Includes: g.Includes, Match: g.Match, Ref: g.Ref})
				}
			}
		}
		for _, q := range queries {
			state, err := e.NB.Read(ctx, q)
			if err != nil {
				return nil // the conflict is told as it is
			}
			if q.Where != nil && state.Len(q.Table) == 0 {
				return gone(part.VPC, q.Table, conflict.What)
			}
			for _, row := range state.Rows(q.Table) {
				ids := row.IDs()
				if id, ok := translate.ResourceOf(ids[translate.KeyKey]); ok && isGivenAway(row, e.Owner) {
					return &obstacleError{part.VPC, invalid(model.Diagnostics{givenAway(row, id)}), conflict}
				}
				if ids[translate.KeyOwner] != e.Owner || ids[translate.KeyVPC] != part.VPC {
					what := cmp.Or(ids[translate.KeyKey], string(row.ID()))
					return &DamagedError{VPC: part.VPC, Err: fmt.Errorf("%s %s has lost marks of ours (drift --repair brings them back)", q.Table, what)}
				}
			}
		}
	}
	return nil
}

// isGivenAway tells whether a row has the mark of another installation than the owner.
func isGivenAway(row nbdb.Row, owner string) bool {
	by := row.IDs()[translate.KeyOwner]
	return by != "" && by != owner
}

// givenAway is the fault of a row of a resource's that another installation has by
// its mark.
func givenAway(row nbdb.Row, of model.ID) model.Diagnostic {
	return model.Diagnostic{Severity: model.LevelError, Code: model.CodeTaken, Resource: of.String(),
		Problem: fmt.Sprintf("its row %s of %s belongs to the installation %q by now", row.ID(), row.Table(), row.IDs()[translate.KeyOwner]),
		Fix:     "delete that row, or set its external_ids:" + translate.KeyOwner + " back"}
}

// lacking is obstacle for references to what somebody has deleted.
func (e *Engine) lacking(ctx context.Context, vpc string, x nbdb.EdgeChange, details string) error {
	table := targetTable(nbdb.Edge{Table: x.Table, Column: x.Column})
	for _, target := range x.Add {
		if !strings.Contains(details, "references nonexistent row "+string(target)) {
			continue
		}
		state, err := e.NB.Read(ctx, nbdb.Query{Table: table, Where: map[string]any{"_uuid": string(target)}})
		if err == nil && state.Len(table) == 0 {
			return gone(vpc, table, string(target))
		}
	}
	return nil
}

// goneError says that a row is not there which a plan relies on: somebody has deleted it.
type goneError struct{ table, what string }

func (e *goneError) Error() string {
	return fmt.Sprintf("a row of %s is gone that it needs (drift --repair brings it back): %s", e.table, e.what)
}

func gone(vpc, table, what string) error {
	return &DamagedError{VPC: vpc, Err: &goneError{table, what}}
}

// inTheWay is obstacle for one row of the plan. details are the database's words,
// which name the row or its name.
func (e *Engine) inTheWay(ctx context.Context, p *Plan, vpc string, r nbdb.RowChange, details string) error {
	row, problem := e.blocking(ctx, p, r, details)
	if row == nil {
		return nil
	}
	return e.told(vpc, r, row, fmt.Sprintf(problem, cmp.Or(r.Key, r.Name, string(r.UUID))))
}

// takenName is the error that tells which name of a plan somebody has taken since it
// was made, and whose that row is, nil where that is not why it was refused. Not
// everybody may know of other VPCs: who plans anew is told which.
func (e *Engine) takenName(ctx context.Context, p *Plan, cause error) error {
	var refused *nbdb.ConstraintError
	if !errors.As(cause, &refused) {
		return nil
	}
	for _, part := range p.VPCs {
		for _, tx := range part.Transactions {
			for _, r := range tx.Rows {
				if r.Op == nbdb.Delete {
					continue
				}
				row, _ := e.blocking(ctx, p, r, refused.Details)
				if row == nil {
					continue
				}
				owner, err := e.ownerOf(ctx, row, part.VPC)
				if err != nil {
					return err
				}
				if strings.HasPrefix(owner, ofVPC) {
					owner = "another VPC"
				}
				return fmt.Errorf("the name %q is taken by a row of %s of %s", r.Name, r.Table, owner)
			}
		}
	}
	return nil
}

// blocking is the row that is in the way of a row of the plan, and how, with %s for
// that one; nil where there is none.
func (e *Engine) blocking(ctx context.Context, p *Plan, r nbdb.RowChange, details string) (row nbdb.Row, problem string) {
	queries, problem := []nbdb.Query{{Table: r.Table, Where: map[string]any{"name": r.Name}}}, "has the name of %s"
	if r.Op == nbdb.Delete {
		queries, problem = holders(r.Table, r.UUID), "refers to %s, which is to be deleted"
	}
	if !strings.Contains(details, string(r.UUID)) || r.Op != nbdb.Delete && r.Name == "" {
		return nil, ""
	}
	for _, q := range queries {
		q.Columns = []string{"_uuid", "name", "external_ids"}
		state, err := e.NB.Read(ctx, q)
		if err != nil {
			return nil, "" // the refusal is told as it is
		}
		for _, row := range state.Rows(q.Table) {
			if row.ID() != r.UUID && !p.frees(row.ID(), r.UUID) {
				return row, problem
			}
		}
	}
	return nil, ""
}

// frees tells whether a plan deletes a row, or takes its reference to another one away.
func (p *Plan) frees(row, target nbdb.UUID) bool {
	return slices.ContainsFunc(p.VPCs, func(part VPCPlan) bool {
		return slices.ContainsFunc(part.Transactions, func(tx nbdb.Plan) bool {
			return slices.ContainsFunc(tx.Rows, func(r nbdb.RowChange) bool { return r.Op == nbdb.Delete && r.UUID == row }) ||
				slices.ContainsFunc(tx.Edges, func(x nbdb.EdgeChange) bool { return x.From == row && slices.Contains(x.Remove, target) })
		})
	})
}

// told is the error that names the row in the way of a change.
func (e *Engine) told(vpc string, r nbdb.RowChange, row nbdb.Row, problem string) error {
	what := fmt.Sprintf("%s %s", row.Table(), row.IDs()[translate.KeyKey])
	if row.IDs()[translate.KeyKey] == "" {
		what = fmt.Sprintf("%s %q (row %s)", row.Table(), nbdb.NameOf(row), row.ID())
	}
	if row.IDs()[translate.KeyOwner] == e.Owner {
		return &DamagedError{VPC: vpc, Err: fmt.Errorf("%s %s, and no spec explains that (drift --repair mends it)", what, problem)}
	}
	d := model.Diagnostic{Severity: model.LevelError, Code: model.CodeInUse,
		Problem: fmt.Sprintf("%s %s, and somebody else made it, or it has lost its marks", what, problem), Fix: "remove what is somebody else's, and see ovn-vpc drift"}
	if r.Op != nbdb.Delete {
		d.Code = model.CodeTaken
	}
	if id, ok := translate.ResourceOf(r.Key); ok {
		d.Resource = id.String()
	}
	return &InvalidError{Diagnostics: model.Diagnostics{d}}
}
