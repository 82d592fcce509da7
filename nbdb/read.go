package nbdb

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

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
}

func (q Query) operation(s *Schema, t *rowType) (ovsdb.Operation, error) {
	op := ovsdb.Operation{Op: ovsdb.OperationSelect, Table: q.Table, Columns: s.present(t)}
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
			op, err := q.operation(s, t)
			if err != nil {
				return nil, err
			}
			ops, types = append(ops, op), append(types, t)
		}
		return ops, nil
	})
	if err != nil {
		return nil, err
	}
	known := newWords()
	for i, result := range results {
		s := newScanner(result.Rows, known)
		s.array(func() { state.add(types[i], s) })
		if s.err != nil {
			return nil, fmt.Errorf("reading %s: %w", c.database, s.err)
		}
	}
	return state, nil
}

// add reads a row into the state, into the row that is there already if any.
func (s *State) add(t *rowType, in *scanner) {
	fresh := reflect.New(t.typ)
	found := t.read(in, fresh.Interface())
	row := fresh.Interface().(Row)
	if there := s.Get(t.table, row.ID()); there != nil {
		v := reflect.ValueOf(there).Elem()
		for i, f := range t.fields {
			if found.has(i) {
				v.Field(f.index).Set(fresh.Elem().Field(f.index))
			}
		}
		return
	}
	s.Put(row)
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
