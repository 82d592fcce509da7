package nbdb

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// monitorRequest is what a monitor sends of a table (ovsdb-server(7), 4.1.12).
type monitorRequest struct {
	Columns []string          `json:"columns"`
	Where   []ovsdb.Condition `json:"where,omitempty"`
}

// monitorRequests are queries as requests for a monitor. Of a table or a
// column that the server lacks nothing is asked.
func monitorRequests(s *Schema, queries []Query) (map[string][]monitorRequest, error) {
	requests := map[string][]monitorRequest{}
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
		if len(op.Where) > 1 || requests[q.Table] != nil {
			// A select wants all its conditions met, a monitor one of them.
			return nil, fmt.Errorf("following %s: more than one condition, or more than one query", q.Table)
		}
		columns := slices.DeleteFunc(op.Columns, func(column string) bool { return column == columnUUID })
		requests[q.Table] = []monitorRequest{{Columns: columns, Where: op.Where}}
	}
	return requests, nil
}

// updates takes the rows that a monitor sends: those of the answer to its
// request, by UnmarshalJSON, and those of each notification.
type updates func(data []byte) error

// UnmarshalJSON is where the rows of the answer are taken while it is read, so
// that no notification comes before them.
func (u *updates) UnmarshalJSON(data []byte) error { return (*u)(data) }

// The kinds of updates (ovsdb-server(7), 4.1.14). The others, initial and insert,
// bring a whole row, but for columns at their default.
const (
	updateModify = "modify"
	updateDelete = "delete"
)

// eachUpdate visits the rows in <table-updates2> one by one; visit has to read
// the columns.
func eachUpdate(data []byte, known *words, visit func(s *scanner, table string, uuid UUID, kind string)) error {
	s := newScanner(data, known)
	s.object(func(table string) {
		s.object(func(uuid string) {
			s.object(func(kind string) { visit(s, table, UUID(uuid), kind) })
		})
	})
	if s.err != nil {
		return fmt.Errorf("reading an update: %w", s.err)
	}
	return nil
}

// replica keeps the rows that are followed, since an update only brings what
// is different from before.
type replica struct {
	sink  Sink
	rows  *State
	known *words
}

func newReplica(sink Sink) *replica {
	return &replica{sink: sink, rows: NewState(), known: newWords()}
}

func (r *replica) update(data []byte) error {
	if err := eachUpdate(data, r.known, r.row); err != nil {
		return err
	}
	r.sink.Done()
	return nil
}

func (r *replica) row(s *scanner, table string, uuid UUID, kind string) {
	t, ok := rowTypes()[table]
	if !ok {
		s.fail("rows of table %q, which nobody has asked for", table)
		return
	}
	old := r.rows.Get(table, uuid)
	if old == nil && (kind == updateModify || kind == updateDelete) {
		s.raw() // of one that the sink doesn't want
		return
	}
	var now Row
	switch kind {
	case updateDelete:
		s.raw()
		delete(r.rows.tables[table], uuid)
		r.sink.Row(old, nil)
		return
	case updateModify:
		now = t.copy(old)
		t.amend(s, now)
	default:
		now = reflect.New(t.typ).Interface().(Row)
		t.read(s, now)
		t.identify(now, uuid)
	}
	if s.err == nil && (r.sink.Row(old, now) || old != nil) {
		r.rows.Put(now)
	}
}

// identify gives a row its UUID.
func (t *rowType) identify(r Row, uuid UUID) {
	reflect.ValueOf(r).Elem().Field(t.fields[t.named[columnUUID]].index).SetString(string(uuid))
}

// copy is a row of its own that shares its sets and maps with another.
func (t *rowType) copy(r Row) Row {
	fresh := reflect.New(t.typ)
	fresh.Elem().Set(reflect.ValueOf(r).Elem())
	return fresh.Interface().(Row)
}

// amend makes a row what it is after a modify: of a set the elements come that
// are only in the old or only in the new one, of a map the pairs that are
// removed as they were, and those that are new or changed as they are.
func (t *rowType) amend(s *scanner, row Row) {
	difference := reflect.New(t.typ)
	found := t.read(s, difference.Interface())
	v := reflect.ValueOf(row).Elem()
	for i, f := range t.fields {
		if !found.has(i) {
			continue
		}
		if err := f.set(v, amended(f.get(v), f.get(difference.Elem()))); err != nil {
			s.fail("table %s: %w", t.table, err)
		}
	}
}

// amended is a canonical value after a difference.
func amended(old, difference any) any {
	switch d := difference.(type) {
	case map[string]string:
		pairs := maps.Clone(old.(map[string]string))
		for k, v := range d {
			if had, ok := pairs[k]; ok && had == v {
				delete(pairs, k)
			} else {
				pairs[k] = v
			}
		}
		return pairs
	case []string:
		var set []string
		for _, element := range old.([]string) {
			if !slices.Contains(d, element) {
				set = append(set, element)
			}
		}
		for _, element := range d {
			if !slices.Contains(old.([]string), element) {
				set = append(set, element)
			}
		}
		return canonicalSet(set)
	}
	return difference
}
