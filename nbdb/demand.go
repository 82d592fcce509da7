package nbdb

import (
	"maps"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// demand is how a row has to be: there, with these pairs in its external_ids and
// these values.
type demand struct {
	what   string // it means where it is not so
	id     rowID
	ids    map[string]string
	values ovsdb.Row
}

// demand adds to what has to be before anything is changed. What is asked of one
// row becomes one precondition, unless it contradicts itself.
func (b *builder) demand(d demand) {
	first := b.demanded[d.id]
	if first == nil || contradict(first.ids, d.ids) || contradict(first.values, d.values) {
		b.demands = append(b.demands, &d)
		if first == nil {
			b.demanded[d.id] = &d
		}
		return
	}
	if len(first.ids)+len(first.values) == 0 {
		first.what = d.what
	}
	first.ids, first.values = union(first.ids, d.ids), union(first.values, d.values)
}

// fold leaves a demand of pairs in a row to the precondition that follows on what is
// added there (keys), if nothing else happens to the row.
func (b *builder) fold(e *rowEntries) {
	d := b.demanded[e.id]
	if d == nil || len(d.values) > 0 || len(e.was) > 0 || b.changed[e.id] {
		return
	}
	adds := false
	for key := range e.is {
		if _, demanded := d.ids[key]; demanded || slices.Contains(e.over, key) {
			return
		}
		adds = true
	}
	if adds && !slices.ContainsFunc(e.over, func(key string) bool { _, demanded := d.ids[key]; return demanded }) {
		e.stays = d.ids
		b.demands = slices.DeleteFunc(b.demands, func(other *demand) bool { return other == d })
	}
}

// contradict tells whether a key has another value in the second map.
func contradict[M ~map[string]V, V any](a, b M) bool {
	for k, v := range b {
		if had, ok := a[k]; ok && !reflect.DeepEqual(had, v) {
			return true
		}
	}
	return false
}

// union is what two maps hold; it may be one of them.
func union[M ~map[string]V, V any](a, b M) M {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// waitRow refuses the transaction where a row is not as demanded by now.
func (b *builder) waitRow(d *demand) {
	where, values := isRow(d.id.uuid), d.values
	if len(d.ids) > 0 {
		where = append(where, includes(columnExternalIDs, wireMap(d.ids)))
	}
	if len(values) == 0 { // any row will do: not none
		b.add(d.what, wait(d.id.table, where, []string{columnUUID}, ovsdb.WaitConditionNotEqual))
		return
	}
	b.add(d.what, wait(d.id.table, where, slices.Sorted(maps.Keys(values)), ovsdb.WaitConditionEqual, values))
}
