package nbdb

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// KeyPrefix starts the keys of external_ids that are ours. Only they are
// compared, and on a row that exists they are written one by one, so that
// foreign keys stay. Other keys of a row that we insert are written with it
// and never looked at again: notes of a run ("ovn-vpc-run:...").
const KeyPrefix = "ovn-vpc:"

// keyKey is the external_ids key with what the row realises.
const keyKey = KeyPrefix + "key"

// keyDigest is that with the digest of all that the row stores of its resource.
const keyDigest = KeyPrefix + "digest"

type rowID struct {
	table string
	uuid  UUID
}

func idOf(r Row) rowID { return rowID{r.Table(), r.ID()} }

// Diff is the plan that turns one fragment into another. Edges are compared
// as they stand in the fragments; what rows hold in their role:"edges" columns
// is not looked at (EdgesOf gives it as edges). The result doesn't depend on
// the order of rows, edges and entries.
func Diff(have, want Fragment) Plan {
	var p Plan
	left := byID(have.Rows)
	inserted := map[rowID]*RowChange{}
	deleted := map[rowID]bool{}
	p.Rows = make([]RowChange, 0, len(want.Rows)) // never grown: inserted points into it
	for _, w := range want.Rows {
		id := idOf(w)
		h, ok := left[id]
		if !ok {
			p.Rows = append(p.Rows, insertOf(w))
			inserted[id] = &p.Rows[len(p.Rows)-1]
			continue
		}
		delete(left, id)
		if c, changed := updateOf(h, w); changed {
			p.Rows = append(p.Rows, c)
		}
	}
	for id := range left {
		deleted[id] = true
	}
	p.Edges = diffEdges(have.Edges, want.Edges, inserted, deleted)
	p.Entries = diffEntries(have.Entries, want.Entries)
	for _, h := range left {
		p.Rows = append(p.Rows, deleteOf(h))
	}
	if len(p.Rows) == 0 {
		p.Rows = nil
	}
	p.sort()
	return p
}

// Same tells whether a plan that turns one fragment into another is empty.
func Same(have, want Fragment) bool {
	single := func(f Fragment) bool { return len(f.Rows) == 1 && len(f.Edges) < 2 && len(f.Entries) < 2 }
	switch {
	case len(have.Rows) != len(want.Rows):
		return false
	case !single(have) || !single(want):
		return Diff(have, want).Empty()
	case idOf(have.Rows[0]) != idOf(want.Rows[0]):
		return false
	}
	_, changed := updateOf(have.Rows[0], want.Rows[0])
	return !changed && slices.Equal(have.Edges, want.Edges) && slices.Equal(have.Entries, want.Entries)
}

func byID(rows []Row) map[rowID]Row {
	m := make(map[rowID]Row, len(rows))
	for _, r := range rows {
		m[idOf(r)] = r
	}
	return m
}

func changeOf(op Op, r Row) RowChange {
	return RowChange{Op: op, Table: r.Table(), UUID: r.ID(), Key: r.IDs()[keyKey], Name: NameOf(r)}
}

// NameOf is the name of a row, "" where its table has none.
func NameOf(r Row) string {
	t := typeOf(r)
	i, ok := t.named["name"]
	if !ok {
		return ""
	}
	name, _ := t.fields[i].get(reflect.ValueOf(r).Elem()).(string)
	return name
}

// owned calls f for each owned column of a row but the UUID.
func owned(r Row, f func(field, reflect.Value)) {
	v := reflect.ValueOf(r).Elem()
	for _, fd := range typeOf(r).fields {
		if fd.role == roleOwned && fd.column != columnUUID {
			f(fd, v)
		}
	}
}

func insertOf(r Row) RowChange {
	c := changeOf(Insert, r)
	owned(r, func(f field, v reflect.Value) {
		if value := f.get(v); f.matters(value) {
			c.Columns = append(c.Columns, ColumnChange{Column: f.column, New: value})
		}
	})
	return c
}

func deleteOf(r Row) RowChange {
	c := changeOf(Delete, r)
	owned(r, func(f field, v reflect.Value) {
		if value := f.get(v); f.matters(value) {
			c.Columns = append(c.Columns, ColumnChange{Column: f.column, Old: value})
		}
	})
	return c
}

func updateOf(have, want Row) (RowChange, bool) {
	c := changeOf(Update, want)
	h := reflect.ValueOf(have).Elem()
	owned(want, func(f field, w reflect.Value) {
		if f.same(h, w) {
			return
		}
		was, is := f.get(h), f.get(w)
		if f.column == columnExternalIDs {
			was, is = ownKeys(was.(map[string]string), is.(map[string]string))
		}
		if !equalValues(was, is) {
			c.Columns = append(c.Columns, ColumnChange{Column: f.column, Old: was, New: is})
		}
	})
	return c, len(c.Columns) > 0
}

// same tells cheaply whether a column of two rows is the same; false does not
// mean that it isn't.
func (f field) same(a, b reflect.Value) bool {
	x, y := a.Field(f.index), b.Field(f.index)
	switch f.kind {
	case kindString:
		return x.String() == y.String()
	case kindInt:
		return x.Int() == y.Int()
	case kindBool:
		return x.Bool() == y.Bool()
	case kindSet:
		if x.Len() != y.Len() {
			return false
		}
		for i := range x.Len() {
			if x.Index(i).String() != y.Index(i).String() {
				return false
			}
		}
		return true
	case kindMap:
		return maps.Equal(x.Interface().(map[string]string), y.Interface().(map[string]string))
	}
	if x.IsNil() || y.IsNil() {
		return x.IsNil() && y.IsNil()
	}
	return x.Elem().Equal(y.Elem())
}

// ownKeys are those of our keys whose values differ.
func ownKeys(have, want map[string]string) (was, is any) {
	old, fresh := map[string]string{}, map[string]string{}
	for k, v := range have {
		if w, ok := want[k]; strings.HasPrefix(k, KeyPrefix) && (!ok || w != v) {
			old[k] = v
		}
	}
	for k, v := range want {
		if h, ok := have[k]; strings.HasPrefix(k, KeyPrefix) && (!ok || h != v) {
			fresh[k] = v
		}
	}
	return old, fresh
}

func diffEdges(have, want []Edge, inserted map[rowID]*RowChange, deleted map[rowID]bool) []EdgeChange {
	left := make(map[Edge]bool, len(have)) // of have; false for what is wanted
	for _, e := range have {
		left[e] = true
	}
	changes := map[Edge]*EdgeChange{} // by the edge without its target
	change := func(e Edge) *EdgeChange {
		e.Target = ""
		c := changes[e]
		if c == nil {
			c = &EdgeChange{Table: e.Table, From: e.From, Column: e.Column}
			changes[e] = c
		}
		return c
	}
	for _, e := range want {
		had, known := left[e]
		if _, ok := inserted[rowID{e.Table, e.From}]; !known || ok && had {
			c := change(e)
			c.Add = append(c.Add, e.Target)
		}
		left[e] = false
	}
	for e, goes := range left {
		if _, ok := inserted[rowID{e.Table, e.From}]; !ok && goes {
			c := change(e)
			c.Remove = append(c.Remove, e.Target)
		}
	}
	var edges []EdgeChange
	for _, set := range slices.SortedFunc(maps.Keys(changes), compareEdges) {
		c, id := changes[set], rowID{set.Table, set.From}
		slices.Sort(c.Add)
		c.Add = slices.Compact(c.Add)
		slices.Sort(c.Remove)
		if row, ok := inserted[id]; ok {
			row.Columns = append(row.Columns, ColumnChange{Column: c.Column, New: toStrings(c.Add)})
		} else if !deleted[id] {
			edges = append(edges, *c)
		}
	}
	return edges
}

func compareEdges(a, b Edge) int {
	return cmp.Or(compareTables(a.Table, b.Table), cmp.Compare(a.From, b.From),
		cmp.Compare(a.Column, b.Column), cmp.Compare(a.Target, b.Target))
}

func toStrings(uuids []UUID) []string {
	s := make([]string, len(uuids))
	for i, u := range uuids {
		s[i] = string(u)
	}
	return s
}

func diffEntries(have, want []Entry) []EntryChange {
	left := make(map[Entry]string, len(have)) // by the entry without its value
	for _, e := range have {
		value := e.Value
		e.Value = ""
		left[e] = value
	}
	var changes []EntryChange
	for _, e := range want {
		is := e.Value
		e.Value = ""
		c := EntryChange{Table: e.Table, Row: e.Row, Key: e.Key, New: &is}
		was, there := left[e]
		if delete(left, e); there {
			c.Old = &was
		}
		if !there || was != is {
			changes = append(changes, c)
		}
	}
	for e, was := range left {
		changes = append(changes, EntryChange{Table: e.Table, Row: e.Row, Key: e.Key, Old: &was})
	}
	return changes
}
