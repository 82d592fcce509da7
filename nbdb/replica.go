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
	amender, amends := r.sink.(Amender)
	switch kind {
	case updateDelete:
		s.raw()
		delete(r.rows.tables[table], uuid)
		r.sink.Row(old, nil)
		return
	case updateModify:
		d := t.difference(s)
		if s.err != nil {
			return
		}
		if amends {
			r.rows.Put(amender.Amend(old, d))
			return
		}
		now = d.Apply(old)
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

// Difference is how a row has changed: of a set it has the elements that are
// only in the old or only in the new one, of a map the pairs that are removed
// as they were, and those that are new or changed as they are.
type Difference struct {
	row     Row // the columns of fields
	changed []field
}

func (t *rowType) difference(s *scanner) Difference {
	d := Difference{row: reflect.New(t.typ).Interface().(Row)}
	found := t.read(s, d.row)
	for i, f := range t.fields {
		if found.has(i) {
			d.changed = append(d.changed, f)
		}
	}
	return d
}

// IDs are the different pairs of external_ids.
func (d Difference) IDs() map[string]string { return d.row.IDs() }

// Apply is a row of its own after the change, which shares with the old one
// what is the same: sets and maps. But for columns named in except.
func (d Difference) Apply(old Row, except ...string) Row {
	fresh := reflect.New(reflect.TypeOf(old).Elem())
	fresh.Elem().Set(reflect.ValueOf(old).Elem())
	for _, f := range d.changed {
		if !slices.Contains(except, f.column) {
			f.amend(fresh.Elem(), reflect.ValueOf(d.row).Elem())
		}
	}
	return fresh.Interface().(Row)
}

func (f field) amend(structure, difference reflect.Value) {
	v, d := structure.Field(f.index), difference.Field(f.index)
	switch difference := d.Interface().(type) {
	case map[string]string:
		v.Set(reflect.ValueOf(amendedMap(v.Interface().(map[string]string), difference)))
	case []string:
		v.Set(reflect.ValueOf(amendedSet(v.Interface().([]string), difference)))
	case []UUID:
		v.Set(reflect.ValueOf(amendedSet(v.Interface().([]UUID), difference)))
	default:
		v.Set(d)
	}
}

// Revise is a row of a table as one record of the database's log leaves it
// (ovsdb(5), Transaction Record): columns is the JSON of its columns there, and
// old is nil where it is new. With difference, columns of sets and maps tell what
// differs, as in an update of a monitor. It is nil for a table of no row type.
func Revise(old Row, table string, uuid UUID, columns []byte, difference bool) (Row, error) {
	t, ok := rowTypes()[table]
	if !ok {
		return nil, nil
	}
	s := newScanner(columns, nil)
	var now Row
	switch {
	case old != nil && difference:
		now = t.difference(s).Apply(old)
	case old != nil:
		now = Difference{}.Apply(old)
		t.read(s, now)
	default:
		now = reflect.New(t.typ).Interface().(Row)
		t.read(s, now)
		t.identify(now, uuid)
	}
	if s.err != nil {
		return nil, fmt.Errorf("reading row %s of %s: %w", uuid, table, s.err)
	}
	return now, nil
}

func amendedMap(old, difference map[string]string) map[string]string {
	pairs := make(map[string]string, len(old)+len(difference))
	maps.Copy(pairs, old)
	for k, v := range difference {
		if had, ok := pairs[k]; ok && had == v {
			delete(pairs, k)
		} else {
			pairs[k] = v
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	return pairs
}

// amendedSet merges two sets in canonical form: what is in both goes.
func amendedSet[S ~string](old, difference []S) []S {
	set := make([]S, 0, len(old)+len(difference))
	for _, d := range difference {
		at, both := slices.BinarySearch(old, d)
		set = append(set, old[:at]...)
		if old = old[at:]; both {
			old = old[1:]
		} else {
			set = append(set, d)
		}
	}
	if set = append(set, old...); len(set) == 0 {
		return nil
	}
	return set
}
