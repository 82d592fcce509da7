package nbdb

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"unicode"

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
	const least = 256 << 10 // of a piece, in bytes
	var pieces []piece
	for i, result := range results {
		pieces = append(pieces, cut(types[i], result.Rows, max(len(result.Rows)/runtime.GOMAXPROCS(0)+1, least))...)
	}
	var all sync.WaitGroup
	for i := range pieces {
		all.Go(pieces[i].read)
	}
	all.Wait()
	for _, p := range pieces {
		if p.err != nil {
			return nil, fmt.Errorf("reading %s: %w", c.database, p.err)
		}
		for _, r := range p.rows {
			state.add(p.t, r)
		}
	}
	return state, nil
}

// readRow is a row with the fields that it was read with.
type readRow struct {
	Row
	found fieldSet
}

// piece is a part of a list of rows, without what is around it and around its
// neighbours.
type piece struct {
	t    *rowType
	data []byte
	rows []readRow
	err  error
}

// cut makes pieces of at least so many bytes of a list of rows, so that they can be
// read at the same time.
func cut(t *rowType, list []byte, size int) (pieces []piece) {
	if len(list) < 2 || list[0] != '[' {
		return []piece{{err: fmt.Errorf("%.20q where a list is expected", list)}}
	}
	list = list[1 : len(list)-1]
	for len(list) > size {
		end := boundary(list, size)
		if end < 0 {
			break
		}
		pieces = append(pieces, piece{t: t, data: list[:end]})
		list = list[end+1:]
	}
	return append(pieces, piece{t: t, data: list})
}

// boundary is the comma between two rows of a list, the first after some bytes,
// or -1. Values hold no objects, and a column's name begins with a letter (RFC 7047,
// 5.1 and 3.1), which does not follow a text that ends like a row.
func boundary(list []byte, after int) int {
	between := []byte(`},{"`)
	for {
		i := bytes.Index(list[after:], between)
		if i < 0 {
			return -1
		}
		after += i + len(between)
		if after < len(list) && (list[after] == '_' || unicode.IsLetter(rune(list[after]))) {
			return after - len(`,{"`)
		}
	}
}

// read reads the rows.
func (p *piece) read() {
	s := newScanner(p.data, newWords())
	for more := p.err == nil && s.next() != 0; more && s.err == nil; more = s.take(',') {
		r := reflect.New(p.t.typ).Interface().(Row)
		p.rows = append(p.rows, readRow{r, p.t.read(s, r)})
	}
	if s.next() != 0 {
		s.fail("%.20q between rows", s.data[s.at:])
	}
	p.err = cmp.Or(p.err, s.err)
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
