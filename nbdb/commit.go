package nbdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// OVSDB's names of errors (RFC 7047, 3.1 and 4.1.3; ovsdb-server(7) for
// "duplicate uuid"; ovsdb/execution.c, ovsdb/log.c and ovsdb/rbac.c for the last
// three).
const (
	timedOut             = "timed out"
	duplicateUUID        = "duplicate uuid"
	constraintViolation  = "constraint violation"
	referentialIntegrity = "referential integrity violation"
	rangeError           = "range error"
	domainError          = "domain error"
	notAllowed           = "not allowed"
	ioError              = "I/O error"
	permissionError      = "permission error"
)

// Commit carries out a plan in one transaction. With bump it also raises
// NB_Global's nb_cfg by one and returns the new value, for WaitCfg. A plan
// without changes and without bump sends nothing.
//
// Errors: *FeatureError, *ConflictError, *ConstraintError and *RefusedError, all
// of them with nothing written; *UnknownOutcomeError where the answer never came; others
// where nothing was sent.
func (c *Client) Commit(ctx context.Context, p Plan, bump bool) (nbCfg int, err error) {
	if p.Empty() && !bump {
		return 0, nil
	}
	var steps []step
	results, sent, err := c.transact(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		var err error
		if steps, err = p.steps(s); err != nil {
			return nil, err
		}
		if bump {
			steps = append(steps, bumpSteps()...)
		}
		ops := make([]ovsdb.Operation, len(steps))
		for i, st := range steps {
			ops[i] = st.op
		}
		return ops, nil
	})
	if err != nil && sent {
		return 0, &UnknownOutcomeError{Err: err}
	}
	if err != nil {
		return 0, err
	}
	for i, r := range results {
		if r.Error == "" {
			continue
		}
		what := ""
		if i < len(steps) {
			what = steps[i].what
		}
		return 0, refusal(r, what)
	}
	if !bump {
		return 0, nil
	}
	nbCfg, err = intOf(results[len(steps)-1].Rows, "nb_cfg")
	if err != nil {
		return 0, fmt.Errorf("committed, but without raising nb_cfg: %w", err)
	}
	return nbCfg, nil
}

// refusal is the error for a result that says the transaction was refused.
func refusal(r result, what string) error {
	switch r.Error {
	case timedOut:
		return &ConflictError{What: what}
	case duplicateUUID:
		return &ConflictError{What: what + " exists by now"}
	case constraintViolation, referentialIntegrity, rangeError, domainError:
		return &ConstraintError{Kind: r.Error, Details: r.Details, What: what}
	case notAllowed, ioError, permissionError:
		return &RefusedError{Kind: r.Error, Details: r.Details, What: what}
	}
	return errors.New(refusalText(r.Error, r.Details, what))
}

// bumpSteps raise nb_cfg and read it. libovsdb leaves an empty condition out
// of the message, so the one row is picked by a condition that always holds.
func bumpSteps() []step {
	theRow := []ovsdb.Condition{{Column: columnUUID, Function: ovsdb.ConditionNotEqual,
		Value: ref("00000000-0000-0000-0000-000000000000")}}
	return []step{
		{what: "NB_Global, column nb_cfg", op: ovsdb.Operation{Op: ovsdb.OperationMutate, Table: TableNBGlobal, Where: theRow,
			Mutations: []ovsdb.Mutation{{Column: "nb_cfg", Mutator: ovsdb.MutateOperationAdd, Value: 1}}}},
		{what: "NB_Global, column nb_cfg", op: ovsdb.Operation{Op: ovsdb.OperationSelect, Table: TableNBGlobal,
			Columns: []string{"nb_cfg"}}},
	}
}

// intOf is an integer column of the only row of a result.
func intOf(raw json.RawMessage, column string) (int, error) {
	var rows []map[string]int
	if err := json.Unmarshal(raw, &rows); err != nil {
		return 0, fmt.Errorf("NB_Global, column %s: %w", column, err)
	}
	if len(rows) != 1 {
		return 0, fmt.Errorf("table NB_Global has %d rows instead of one: the database is not initialised", len(rows))
	}
	return rows[0][column], nil
}
