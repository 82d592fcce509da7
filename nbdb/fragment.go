package nbdb

import (
	"fmt"
	"reflect"
)

// Edge is one reference in a set column of a row that somebody else owns:
// Target stands in Column of the row From of Table. Two fragments that add
// edges to one set don't collide: an edge is written by `mutate`.
type Edge struct {
	Table  string
	From   UUID
	Column string
	Target UUID
}

// Entry is one key of the external_ids of a row that somebody else owns.
type Entry struct {
	Table string
	Row   UUID
	Key   string
	Value string
}

// Fragment is what one resource contributes to the database: rows that it
// alone owns, edges that it adds to the sets of others, and keys that it adds
// to the external_ids of others. Every row, edge and entry belongs to exactly
// one resource; a state is the union of its fragments.
type Fragment struct {
	Rows    []Row
	Edges   []Edge
	Entries []Entry
}

// StateOf is the state that fragments make together: their rows, with their
// edges in the columns. The rows are the fragments' own, and changed. It fails on
// an edge from a row that is in none of them.
func StateOf(fragments ...Fragment) (*State, error) {
	state := NewState()
	for _, f := range fragments {
		for _, r := range f.Rows {
			state.Put(r)
		}
	}
	for _, f := range fragments {
		for _, e := range f.Edges {
			row := state.Get(e.Table, e.From)
			if row == nil {
				return nil, fmt.Errorf("no row %s %s to refer to %s", e.Table, e.From, e.Target)
			}
			t := typeOf(row)
			column := reflect.ValueOf(row).Elem().Field(t.fields[t.named[e.Column]].index)
			column.Set(reflect.Append(column, reflect.ValueOf(e.Target)))
		}
	}
	return state, nil
}

// Guard is a precondition of a transaction (RFC 7047, 5.2.6 `wait`, timeout
// 0): where it doesn't hold, the server refuses the whole transaction.
//
// With Row set, that row must exist, hold every pair of Includes in its
// external_ids, and have exactly the values of Columns.
//
// With Row empty, exactly the given Rows must meet the conditions, no row at all
// where there are none: their Match column (references) includes Ref, and their
// external_ids hold Includes, each where it is given.
type Guard struct {
	Table    string            `json:"table"`
	Row      UUID              `json:"row,omitempty"`
	Includes map[string]string `json:"includes,omitempty"`
	Columns  map[string]any    `json:"columns,omitempty"`
	Match    string            `json:"match,omitempty"`
	Ref      UUID              `json:"ref,omitempty"`
	Rows     []UUID            `json:"rows,omitempty"`
}
