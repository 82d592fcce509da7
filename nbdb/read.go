package nbdb

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Query picks rows of a table: those that meet all conditions given.
type Query struct {
	Table    string
	Includes map[string]string // pairs that external_ids hold
	Excludes map[string]string // pairs of which external_ids hold none
	Where    map[string]any    // columns with exactly these values, in canonical form
	Match    string            // a column of references that includes Ref
	Ref      UUID
	// Columns to read, nil for all that the row type and the server have. The
	// other fields of the rows are at their zero value.
	Columns []string
	// NoStatus leaves out of those what OVN writes.
	NoStatus bool
}

func (q Query) operation(s *Schema, t *rowType) (ovsdb.Operation, error) {
	op := ovsdb.Operation{Op: ovsdb.OperationSelect, Table: q.Table, Columns: s.present(t)}
	if q.NoStatus {
		op.Columns = slices.DeleteFunc(op.Columns, func(column string) bool { return t.fields[t.named[column]].role == roleStatus })
	}
	if q.Columns != nil {
		op.Columns = []string{columnUUID}
		for _, column := range q.Columns {
			if s.Has(q.Table, column) && column != columnUUID {
				op.Columns = append(op.Columns, column)
			}
		}
	}
	for _, column := range slices.Sorted(maps.Keys(q.Where)) {
		wire, ok, err := s.encode(q.Table, column, q.Where[column])
		if err != nil {
			return op, err
		}
		if ok {
			op.Where = append(op.Where, ovsdb.Condition{Column: column, Function: ovsdb.ConditionEqual, Value: wire})
		}
	}
	if q.Match != "" {
		op.Where = append(op.Where, includes(q.Match, ref(q.Ref)))
	}
	if len(q.Includes) > 0 {
		op.Where = append(op.Where, includes(columnExternalIDs, wireMap(q.Includes)))
	}
	if len(q.Excludes) > 0 {
		op.Where = append(op.Where, ovsdb.Condition{Column: columnExternalIDs, Function: ovsdb.ConditionExcludes, Value: wireMap(q.Excludes)})
	}
	return op, nil
}

// operations are operation, but columns that most rows have empty are asked for by
// themselves, where they are not. That is for queries that look at all rows.
func (q Query) operations(s *Schema, t *rowType) ([]ovsdb.Operation, error) {
	op, err := q.operation(s, t)
	if err != nil || q.Columns != nil || q.Where != nil {
		return []ovsdb.Operation{op}, err
	}
	ops := []ovsdb.Operation{op}
	for _, f := range t.fields {
		if !f.seldom || !s.Has(t.table, f.column) {
			continue
		}
		empty, _, err := s.encode(t.table, f.column, f.get(reflect.Zero(t.typ)))
		if err != nil {
			return nil, err
		}
		ops[0].Columns = slices.DeleteFunc(ops[0].Columns, func(column string) bool { return column == f.column })
		ops = append(ops, ovsdb.Operation{Op: op.Op, Table: op.Table, Columns: []string{columnUUID, f.column},
			Where: append(slices.Clone(op.Where), ovsdb.Condition{Column: f.column, Function: ovsdb.ConditionNotEqual, Value: empty})})
	}
	return ops, nil
}

// Read runs queries on one consistent state of the database. A row found by
// several has the columns of all. A table that the server lacks has no rows.
func (c *Client) Read(ctx context.Context, queries ...Query) (*State, error) {
	state := NewState()
	var types []*rowType
	results, err := c.selects(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		types = nil
		var ops []ovsdb.Operation
		for _, q := range queries {
			t, ok := rowTypes()[q.Table]
			if !ok {
				return nil, fmt.Errorf("no row type for table %q", q.Table)
			}
			if !s.Has(q.Table, "") {
				continue
			}
			of, err := q.operations(s, t)
			if err != nil {
				return nil, err
			}
			ops, types = append(ops, of...), append(types, slices.Repeat([]*rowType{t}, len(of))...)
		}
		return ops, nil
	})
	if err != nil {
		return nil, err
	}
	rows, errs := make([][]readRow, len(results)), make([]error, len(results))
	var all sync.WaitGroup
	for i, result := range results {
		all.Go(func() { rows[i], errs[i] = readRows(types[i], result.Rows) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", c.database, err)
		}
		for _, r := range rows[i] {
			state.add(types[i], r)
		}
	}
	return state, nil
}

// readRow is a row with the fields that it was read with.
type readRow struct {
	Row
	found fieldSet
}

func readRows(t *rowType, data []byte) (rows []readRow, err error) {
	s := newScanner(data, newWords())
	s.array(func() {
		r := reflect.New(t.typ).Interface().(Row)
		rows = append(rows, readRow{r, t.read(s, r)})
	})
	return rows, s.err
}

// add puts a row into the state, into the row that is there already if any.
func (s *State) add(t *rowType, r readRow) {
	there := s.Get(t.table, r.ID())
	if there == nil {
		s.Put(r.Row)
		return
	}
	v, fresh := reflect.ValueOf(there).Elem(), reflect.ValueOf(r.Row).Elem()
	for i, f := range t.fields {
		if r.found.has(i) {
			v.Field(f.index).Set(fresh.Field(f.index))
		}
	}
}

// selects runs reading operations. A connection that broke is made anew
// once: reading twice does no harm.
func (c *Client) selects(ctx context.Context, build func(*Schema) ([]ovsdb.Operation, error)) ([]result, error) {
	results, sent, err := c.transact(ctx, build)
	if err != nil && sent && ctx.Err() == nil {
		c.log.DebugContext(ctx, "reading again after a broken connection", "error", err)
		results, _, err = c.transact(ctx, build)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.database, err)
	}
	for _, r := range results {
		if r.Error != "" {
			return nil, fmt.Errorf("reading %s: %s: %s", c.database, r.Error, r.Details)
		}
	}
	return results, nil
}
