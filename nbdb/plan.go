package nbdb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Plan is the difference between two states, as plain data: it can be shown,
// stored as JSON and carried out later. Its guards, and those that follow from
// its changes, make the server refuse it where the database has moved on.
type Plan struct {
	Guards  []Guard       `json:"guards,omitempty"`
	Rows    []RowChange   `json:"rows,omitempty"`
	Edges   []EdgeChange  `json:"edges,omitempty"`
	Entries []EntryChange `json:"entries,omitempty"`
}

// Op is what happens to a row.
type Op string

// The values of Op.
const (
	Insert Op = "insert"
	Update Op = "update"
	Delete Op = "delete"
)

// UnmarshalText refuses what is none of them.
func (o *Op) UnmarshalText(text []byte) error {
	*o = Op(text)
	switch *o {
	case Insert, Update, Delete:
		return nil
	}
	return fmt.Errorf("unknown operation %q", text)
}

// RowChange is one row that is inserted, updated or deleted.
type RowChange struct {
	Op      Op             `json:"op"`
	Table   string         `json:"table"`
	UUID    UUID           `json:"uuid"`
	Key     string         `json:"key,omitempty"`  // external_ids ovn-vpc:key
	Name    string         `json:"name,omitempty"` // the name column
	Columns []ColumnChange `json:"columns,omitempty"`
}

// ColumnChange is a column's value before and after, in canonical form (see
// Columns). Of external_ids an update holds only our own keys that differ; a
// delete holds what is lost.
type ColumnChange struct {
	Column string `json:"column"`
	Old    any    `json:"old,omitempty"`
	New    any    `json:"new,omitempty"`
}

// EdgeChange is what changes in a set of references of an existing row.
type EdgeChange struct {
	Table  string `json:"table"`
	From   UUID   `json:"from"`
	Column string `json:"column"`
	Add    []UUID `json:"add,omitempty"`
	Remove []UUID `json:"remove,omitempty"`
}

// EntryChange is one key of the external_ids of a row that is not ours; nil
// is no such key. With Over it becomes New whatever it was.
type EntryChange struct {
	Table string  `json:"table"`
	Row   UUID    `json:"row"`
	Key   string  `json:"key"`
	Old   *string `json:"old,omitempty"`
	New   *string `json:"new,omitempty"`
	Over  bool    `json:"over,omitempty"`
}

// Empty says whether the plan changes nothing; guards alone change nothing.
func (p Plan) Empty() bool {
	return len(p.Rows) == 0 && len(p.Edges) == 0 && len(p.Entries) == 0
}

// Merge adds other plans, to be carried out in the same transaction. No two
// may change the same row or entry. Many plans are best merged in one call.
func (p *Plan) Merge(others ...Plan) {
	for _, q := range others {
		p.Guards = append(p.Guards, q.Guards...)
		p.Rows = append(p.Rows, q.Rows...)
		p.Edges = append(p.Edges, q.Edges...)
		p.Entries = append(p.Entries, q.Entries...)
	}
	p.sort()
}

// sort puts changes into the plan's order and joins those of one set.
func (p *Plan) sort() {
	slices.SortFunc(p.Rows, func(a, b RowChange) int {
		if a.Table != b.Table {
			return compareTables(a.Table, b.Table)
		}
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.UUID, b.UUID))
	})
	slices.SortFunc(p.Edges, func(a, b EdgeChange) int { return compareEdges(a.set(), b.set()) })
	joined := p.Edges[:0]
	for _, e := range p.Edges {
		if n := len(joined); n > 0 && joined[n-1].set() == e.set() {
			last := &joined[n-1]
			last.Add = sortedUnion(last.Add, e.Add)
			last.Remove = sortedUnion(last.Remove, e.Remove)
			continue
		}
		joined = append(joined, e)
	}
	p.Edges = joined
	slices.SortFunc(p.Entries, func(a, b EntryChange) int {
		return cmp.Or(compareTables(a.Table, b.Table), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Key, b.Key))
	})
}

func (e EdgeChange) set() Edge { return Edge{Table: e.Table, From: e.From, Column: e.Column} }

func sortedUnion(a, b []UUID) []UUID {
	if len(a)+len(b) == 0 {
		return nil
	}
	union := slices.Concat(a, b)
	slices.Sort(union)
	return slices.Compact(union)
}

func compareTables(a, b string) int {
	if a == b {
		return 0
	}
	return cmp.Or(cmp.Compare(tableRank(a), tableRank(b)), cmp.Compare(a, b))
}

func tableRank(table string) int {
	if t, ok := rowTypes()[table]; ok {
		return t.rank
	}
	return len(rowTypes())
}

// label names a row in messages.
func label(table string, uuid UUID, key, name string) string {
	switch {
	case key != "":
		return table + " " + key
	case name != "":
		return fmt.Sprintf("%s %q", table, name)
	default:
		return fmt.Sprintf("%s %s", table, uuid)
	}
}

func (c RowChange) label() string { return label(c.Table, c.UUID, c.Key, c.Name) }

func (g Guard) label() string {
	if g.Row != "" {
		return label(g.Table, g.Row, g.Includes[keyKey], "")
	}
	var by []string
	if g.Match != "" {
		by = append(by, fmt.Sprintf("%s %s", g.Match, g.Ref))
	}
	for _, k := range slices.Sorted(maps.Keys(g.Includes)) {
		by = append(by, k+"="+g.Includes[k])
	}
	return fmt.Sprintf("the rows of %s with %v", g.Table, by)
}

// UnmarshalJSON restores the canonical forms of the values.
func (c *ColumnChange) UnmarshalJSON(text []byte) error {
	type plain ColumnChange
	if err := unmarshalNumbers(text, (*plain)(c)); err != nil {
		return err
	}
	var err error
	if c.Old, err = fromJSON(c.Old); err != nil {
		return fmt.Errorf("column %s: %w", c.Column, err)
	}
	if c.New, err = fromJSON(c.New); err != nil {
		return fmt.Errorf("column %s: %w", c.Column, err)
	}
	return nil
}

// UnmarshalJSON restores the canonical forms of the values.
func (g *Guard) UnmarshalJSON(text []byte) error {
	type plain Guard
	if err := unmarshalNumbers(text, (*plain)(g)); err != nil {
		return err
	}
	for column, value := range g.Columns {
		canonical, err := fromJSON(value)
		if err != nil {
			return fmt.Errorf("guard of %s, column %s: %w", g.Table, column, err)
		}
		g.Columns[column] = canonical
	}
	return nil
}

func unmarshalNumbers(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields() // a guard of another version that was passed over would guard less
	return d.Decode(into)
}

func fromJSON(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		n, err := v.Int64()
		return int(n), err
	case []any:
		set := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("unexpected element %v", e)
			}
			set[i] = s
		}
		return set, nil
	case map[string]any:
		m := make(map[string]string, len(v))
		for k, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("unexpected value %v of %s", e, k)
			}
			m[k] = s
		}
		return m, nil
	}
	return value, nil
}
