package nbdb

import (
	"bytes"
	"encoding/json"
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

// eachUpdate visits the rows in <table-updates2> one by one, as they are decoded.
func eachUpdate(data []byte, visit func(table string, uuid UUID, kind string, raw ovsdb.Row) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	err := eachMember(d, func(table string) error {
		return eachMember(d, func(uuid string) error {
			var update map[string]ovsdb.Row
			if err := d.Decode(&update); err != nil {
				return err
			}
			for kind, raw := range update {
				if err := visit(table, UUID(uuid), kind, raw); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("reading an update: %w", err)
	}
	return nil
}

// eachMember visits the members of an object; visit has to read the value.
func eachMember(d *json.Decoder, visit func(name string) error) error {
	start, err := d.Token()
	if err == nil && start != json.Delim('{') {
		err = fmt.Errorf("%v where an object is expected", start)
	}
	for err == nil && d.More() {
		var name json.Token
		if name, err = d.Token(); err == nil {
			err = visit(name.(string))
		}
	}
	if err == nil {
		_, err = d.Token()
	}
	return err
}

// replica keeps the rows that are followed, since an update only brings what
// is different from before.
type replica struct {
	sink Sink
	rows *State
}

func (r *replica) update(data []byte) error {
	if err := eachUpdate(data, r.row); err != nil {
		return err
	}
	r.sink.Done()
	return nil
}

func (r *replica) row(table string, uuid UUID, kind string, raw ovsdb.Row) error {
	t, ok := rowTypes()[table]
	if !ok {
		return fmt.Errorf("rows of table %q, which nobody has asked for", table)
	}
	old := r.rows.Get(table, uuid)
	if old == nil && (kind == updateModify || kind == updateDelete) {
		return nil // one that the sink doesn't want
	}
	var now Row
	switch kind {
	case updateDelete:
		delete(r.rows.tables[table], uuid)
		r.sink.Row(old, nil)
		return nil
	case updateModify:
		now = t.copy(old)
		if err := t.amend(raw, now); err != nil {
			return err
		}
	default:
		now = reflect.New(t.typ).Interface().(Row)
		raw[columnUUID] = ovsdb.UUID{GoUUID: string(uuid)}
		if err := t.decode(raw, now); err != nil {
			return err
		}
	}
	if r.sink.Row(old, now) || old != nil {
		r.rows.Put(now)
	}
	return nil
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
func (t *rowType) amend(raw ovsdb.Row, row Row) error {
	difference := reflect.New(t.typ)
	if err := t.decode(raw, difference.Interface()); err != nil {
		return err
	}
	v := reflect.ValueOf(row).Elem()
	for column := range raw {
		i, ok := t.named[column]
		if !ok {
			continue
		}
		f := t.fields[i]
		if err := f.set(v, amended(f.get(v), f.get(difference.Elem()))); err != nil {
			return fmt.Errorf("table %s: %w", t.table, err)
		}
	}
	return nil
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
	var raw ovsdb.Row
	if err := json.Unmarshal(columns, &raw); err != nil {
		return nil, fmt.Errorf("reading row %s of %s: %w", uuid, table, err)
	}
	if old != nil {
		now := t.copy(old)
		if difference {
			return now, t.amend(raw, now)
		}
		return now, t.decode(raw, now)
	}
	now := reflect.New(t.typ).Interface().(Row)
	raw[columnUUID] = ovsdb.UUID{GoUUID: string(uuid)}
	return now, t.decode(raw, now)
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
