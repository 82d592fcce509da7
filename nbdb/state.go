package nbdb

import (
	"cmp"
	"slices"
)

// State holds rows by table and UUID, as they were at one moment.
type State struct {
	tables map[string]map[UUID]Row
}

// NewState makes a state of rows; of two rows with one UUID the last stays.
func NewState(rows ...Row) *State {
	s := &State{tables: map[string]map[UUID]Row{}}
	for _, r := range rows {
		s.Put(r)
	}
	return s
}

// Put adds a row, in the place of one with its UUID.
func (s *State) Put(r Row) {
	table := s.tables[r.Table()]
	if table == nil {
		table = map[UUID]Row{}
		s.tables[r.Table()] = table
	}
	table[r.ID()] = r
}

// Remove takes a row out.
func (s *State) Remove(r Row) { delete(s.tables[r.Table()], r.ID()) }

// Len is the number of rows of a table.
func (s *State) Len(table string) int { return len(s.tables[table]) }

// Each visits the rows of a table, in no order.
func (s *State) Each(table string, visit func(Row)) {
	for _, r := range s.tables[table] {
		visit(r)
	}
}

// Get is the row, or nil.
func (s *State) Get(table string, uuid UUID) Row {
	return s.tables[table][uuid]
}

// Rows are the rows of a table, ordered by UUID.
func (s *State) Rows(table string) []Row {
	rows := make([]Row, 0, len(s.tables[table]))
	for _, r := range s.tables[table] {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.ID(), b.ID()) })
	return rows
}

// All are the rows of one type, ordered by UUID: All[*ACL](state).
func All[T Row](s *State) []T {
	var none T
	// Table doesn't look at its receiver, so a nil pointer will do.
	rows := s.Rows(none.Table())
	typed := make([]T, len(rows))
	for i, r := range rows {
		typed[i] = r.(T)
	}
	return typed
}

// Lookup is the row of one type, or nil: Lookup[*ACL](state, uuid).
func Lookup[T Row](s *State, uuid UUID) T {
	var none T
	r, ok := s.Get(none.Table(), uuid).(T)
	if !ok {
		return none
	}
	return r
}
