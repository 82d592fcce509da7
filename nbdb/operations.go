package nbdb

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// step is an operation and what a refusal of it means, in words.
type step struct {
	op   ovsdb.Operation
	what string
}

// Operations are the plan as OVSDB operations (RFC 7047, 5.2) for a server
// with this schema: preconditions first, then inserts, updates, mutations and
// deletes. A value that the schema has no place for is a *FeatureError.
//
// Besides the plan's own guards these preconditions follow from its changes:
// an updated row has the old values of the changed columns; a deleted row is
// there with its key; a row whose sets or keys change is there; a key that is
// replaced has its old value, a key that is added isn't there with another.
//
// A wait without rows is for there being none, or with != any: libovsdb's own
// encoding would leave that out.
func (p Plan) Operations(s *Schema) ([]ovsdb.Operation, error) {
	steps, err := p.steps(s)
	if err != nil {
		return nil, err
	}
	ops := make([]ovsdb.Operation, len(steps))
	for i, st := range steps {
		ops[i] = st.op
	}
	return ops, nil
}

func (p Plan) steps(s *Schema) ([]step, error) {
	b := newBuilder(s, p)
	for _, g := range p.Guards {
		b.guardOne(g)
	}
	for _, c := range p.Rows {
		b.guardRow(c)
	}
	for _, e := range p.Edges {
		b.guardExists(rowID{e.Table, e.From})
	}
	entries := groupEntries(p.Entries)
	entries = slices.DeleteFunc(entries, func(e rowEntries) bool {
		whole := b.made[e.id] && len(e.was) == 0
		if whole {
			b.added[e.id] = e.is // written with the row
		}
		return whole
	})
	for _, e := range entries {
		b.guardEntries(e)
	}
	for i := range entries {
		b.fold(&entries[i])
	}
	for _, d := range b.demands {
		b.waitRow(d)
	}
	b.guardSets(p.Guards)
	for _, c := range p.Rows {
		switch c.Op {
		case Insert:
			b.insert(c)
		case Update:
			b.update(c)
		}
	}
	for _, e := range p.Edges {
		b.edges(e)
	}
	for _, e := range entries {
		b.keys(e)
	}
	for _, c := range p.Rows {
		if c.Op == Delete {
			b.add(c.label(), ovsdb.Operation{Op: ovsdb.OperationDelete, Table: c.Table, Where: isRow(c.UUID)})
		}
	}
	return b.steps, b.err
}

// builder collects operations and keeps its first error.
type builder struct {
	schema   *Schema
	steps    []step
	err      error
	made     map[rowID]bool              // rows that the plan inserts
	gone     map[rowID]bool              // rows that the plan deletes
	there    map[rowID]bool              // rows of guards about sets
	added    map[rowID]map[string]string // entries of rows that the plan inserts
	demands  []*demand
	demanded map[rowID]*demand // the first for each row
	changed  map[rowID]bool    // rows that the plan updates or deletes
	mutated  map[rowID]int     // the step that mutates a row
}

// newBuilder is one that knows which rows a plan is about.
func newBuilder(s *Schema, p Plan) *builder {
	b := &builder{schema: s, made: map[rowID]bool{}, gone: map[rowID]bool{}, there: map[rowID]bool{}, changed: map[rowID]bool{},
		added: map[rowID]map[string]string{}, demanded: map[rowID]*demand{}, mutated: map[rowID]int{}, steps: make([]step, 0, len(p.Rows)+len(p.Edges))}
	for _, c := range p.Rows {
		id := rowID{c.Table, c.UUID}
		switch c.Op {
		case Insert:
			b.made[id] = true
		case Update:
			b.changed[id] = true
		case Delete:
			b.gone[id], b.changed[id] = true, true
		}
	}
	for _, g := range p.Guards {
		for _, uuid := range g.Rows {
			b.there[rowID{g.Table, uuid}] = true
		}
	}
	return b
}

func (b *builder) add(what string, op ovsdb.Operation) {
	b.steps = append(b.steps, step{op: op, what: what})
}

func (b *builder) fail(what string, err error) {
	if b.err == nil {
		b.err = fmt.Errorf("%s: %w", what, err)
	}
}

// put writes a value into a row on the wire.
func (b *builder) put(what string, row ovsdb.Row, table, column string, value any) {
	wire, ok, err := b.schema.encode(table, column, value)
	if err != nil {
		b.fail(what, err)
	} else if ok {
		row[column] = wire
	}
}

func ref(uuid UUID) [2]string { return [2]string{"uuid", string(uuid)} }

// isRow is the condition that picks one row. As the first clause the server
// looks the row up instead of scanning the table.
func isRow(uuid UUID) []ovsdb.Condition {
	return []ovsdb.Condition{{Column: columnUUID, Function: ovsdb.ConditionEqual, Value: ref(uuid)}}
}

func includes(column string, wire any) ovsdb.Condition {
	return ovsdb.Condition{Column: column, Function: ovsdb.ConditionIncludes, Value: wire}
}

// wait is a precondition: the rows that meet the conditions, cut down to the
// columns, are (==) or are not (!=) the given rows, right now.
func wait(table string, where []ovsdb.Condition, columns []string, until ovsdb.WaitCondition, rows ...ovsdb.Row) ovsdb.Operation {
	now := 0
	return ovsdb.Operation{Op: ovsdb.OperationWait, Table: table, Timeout: &now,
		Where: where, Columns: columns, Until: string(until), Rows: rows}
}

// require fails where the server lacks a column, or with an empty column a table.
func (b *builder) require(what, table, column string) bool {
	if b.schema.Has(table, column) {
		return true
	}
	b.fail(what, &FeatureError{Table: table, Column: column, Schema: b.schema.Version(), Since: since(table, column)})
	return false
}

// guardOne is the part of a guard that is about one row.
func (b *builder) guardOne(g Guard) {
	what := g.label()
	if g.Row == "" || !b.require(what, g.Table, "") {
		return
	}
	values := ovsdb.Row{}
	for column, value := range g.Columns {
		b.put(what, values, g.Table, column, value)
	}
	b.demand(demand{what + " is gone or has changed", rowID{g.Table, g.Row}, g.Includes, values})
}

// guardSets writes each precondition about sets of rows once, however many plans
// have brought it.
func (b *builder) guardSets(guards []Guard) {
	seen := map[string]bool{}
	for _, g := range guards {
		if g.Row != "" {
			continue
		}
		text, err := json.Marshal(g)
		if err != nil {
			b.fail(g.label(), err)
			continue
		}
		if !seen[string(text)] {
			b.guardSet(g)
		}
		seen[string(text)] = true
	}
}

// guardSet is the part of a guard that is about all rows that meet conditions.
func (b *builder) guardSet(g Guard) {
	what := g.label()
	if g.Row != "" || !b.require(what, g.Table, g.Match) {
		return
	}
	var where []ovsdb.Condition
	if g.Match != "" {
		where = append(where, includes(g.Match, ref(g.Ref)))
	}
	if len(g.Includes) > 0 {
		where = append(where, includes(columnExternalIDs, wireMap(g.Includes)))
	}
	if len(where) == 0 {
		b.fail(what, fmt.Errorf("a guard without a row needs a condition"))
		return
	}
	if len(g.Rows) == 0 {
		what += ": there is one by now"
	} else {
		what += " are others by now"
	}
	var rows []ovsdb.Row
	for _, uuid := range g.Rows {
		rows = append(rows, ovsdb.Row{columnUUID: ref(uuid)})
	}
	b.add(what, wait(g.Table, where, []string{columnUUID}, ovsdb.WaitConditionEqual, rows...))
}

func (b *builder) guardRow(c RowChange) {
	id := rowID{c.Table, c.UUID}
	switch c.Op {
	case Update:
		var ids map[string]string
		values := ovsdb.Row{}
		for _, col := range c.Columns {
			if col.Column == columnExternalIDs {
				ids, _ = col.Old.(map[string]string)
				continue
			}
			b.put(c.label(), values, c.Table, col.Column, col.Old)
		}
		b.demand(demand{c.label() + " is gone or has changed", id, ids, values})
	case Delete:
		var ids map[string]string
		if c.Key != "" {
			ids = map[string]string{keyKey: c.Key}
		}
		b.demand(demand{c.label() + " is gone", id, ids, nil})
	}
}

// guardExists demands that a row is there that the plan neither inserts nor
// deletes: a mutation of a row that is gone is no error by itself.
func (b *builder) guardExists(id rowID) {
	if !b.made[id] && !b.gone[id] && !b.there[id] && b.demanded[id] == nil {
		b.demand(demand{label(id.table, id.uuid, "", "") + " is gone", id, nil, nil})
	}
}

// rowEntries are all entries of one row: they are written at once, so that
// many cost no more than the row.
type rowEntries struct {
	id      rowID
	what    string // in words, where that is known
	was, is map[string]string
	over    []string          // keys that are set whatever they were
	stays   map[string]string // pairs that have to be there
}

func (e rowEntries) label() string {
	if e.what != "" {
		return e.what
	}
	keys := slices.Sorted(maps.Keys(e.was))
	if len(e.is) > 0 {
		keys = slices.Sorted(maps.Keys(e.is))
	}
	what := label(e.id.table, e.id.uuid, "", "") + ", external_ids"
	if len(keys) == 0 {
		return what // of a plan that somebody has written
	}
	what += ":" + keys[0]
	if len(keys) > 1 {
		what += fmt.Sprintf(" and %d more", len(keys)-1)
	}
	return what
}

// groupEntries groups entries by row, in the order of the rows' first ones.
func groupEntries(entries []EntryChange) []rowEntries {
	var groups []rowEntries
	at := map[rowID]int{}
	for _, e := range entries {
		id := rowID{e.Table, e.Row}
		i, ok := at[id]
		if !ok {
			i = len(groups)
			at[id] = i
			groups = append(groups, rowEntries{id: id, was: map[string]string{}, is: map[string]string{}})
		}
		if e.Old != nil {
			groups[i].was[e.Key] = *e.Old
		}
		if e.New != nil {
			groups[i].is[e.Key] = *e.New
		}
		if e.Over {
			groups[i].over = append(groups[i].over, e.Key)
		}
	}
	return groups
}

// guardEntries demands what is replaced. A row that is only added to has to be
// there after that (keys).
func (b *builder) guardEntries(e rowEntries) {
	switch {
	case len(e.was) > 0:
		b.demand(demand{e.label() + " has changed", e.id, e.was, nil})
	case !e.adds():
		b.guardExists(e.id)
	}
}

// adds tells whether there are keys that nobody may have added meanwhile.
func (e rowEntries) adds() bool {
	for key := range e.is {
		if _, had := e.was[key]; !had && !slices.Contains(e.over, key) {
			return true
		}
	}
	return false
}

func (b *builder) insert(c RowChange) {
	row := ovsdb.Row{}
	what := c.label()
	for _, col := range c.Columns {
		b.put(what, row, c.Table, col.Column, col.New)
	}
	if more := b.added[rowID{c.Table, c.UUID}]; len(more) > 0 {
		own, _ := row[columnExternalIDs].(wireMap)
		row[columnExternalIDs] = union(own, wireMap(more))
	}
	if len(row) == 0 {
		// An empty row is left out of the message.
		row[columnExternalIDs] = wireMap(nil)
	}
	b.require(what, c.Table, "")
	b.add(what, ovsdb.Operation{Op: ovsdb.OperationInsert, Table: c.Table, UUID: string(c.UUID), Row: row})
}

func (b *builder) update(c RowChange) {
	row := ovsdb.Row{}
	for _, col := range c.Columns {
		if col.Column == columnExternalIDs {
			was, _ := col.Old.(map[string]string)
			is, _ := col.New.(map[string]string)
			var over []string
			if was[keyDigest] != "" && is[keyDigest] != "" { // it changes with the others: they are as they were
				over = slices.Collect(maps.Keys(is))
			}
			b.keys(rowEntries{id: rowID{c.Table, c.UUID}, what: c.label(), was: was, is: is, over: over})
			continue
		}
		b.put(c.label(), row, c.Table, col.Column, col.New)
	}
	if len(row) > 0 {
		b.add(c.label(), ovsdb.Operation{Op: ovsdb.OperationUpdate, Table: c.Table, Where: isRow(c.UUID), Row: row})
	}
}

// keys exchanges pairs in the external_ids of a row. Inserting a key that is there leaves it as it is; so the wait after it
// refuses the transaction where somebody else has added the key with another
// value meanwhile. That can't be with one that had a value, which is demanded
// and taken out before.
func (b *builder) keys(e rowEntries) {
	var mutations []ovsdb.Mutation
	if out := slices.Concat(e.over, slices.Collect(maps.Keys(e.was))); len(out) > 0 {
		slices.Sort(out)
		out = slices.Compact(out)
		mutations = append(mutations, ovsdb.Mutation{Column: columnExternalIDs,
			Mutator: ovsdb.MutateOperationDelete, Value: wireTexts(out)})
	}
	if len(e.is) > 0 {
		mutations = append(mutations, ovsdb.Mutation{Column: columnExternalIDs,
			Mutator: ovsdb.MutateOperationInsert, Value: wireMap(e.is)})
	}
	b.mutate(e.label(), e.id, mutations)
	added := maps.Clone(e.is)
	maps.DeleteFunc(added, func(key, _ string) bool {
		_, had := e.was[key]
		return had || slices.Contains(e.over, key)
	})
	if len(added) > 0 {
		b.waitRow(&demand{e.label() + ": external_ids have changed", e.id, union(added, e.stays), nil})
	}
}

// mutate mutates a row, all in one operation: each costs the server the whole row.
func (b *builder) mutate(what string, id rowID, mutations []ovsdb.Mutation) {
	if len(mutations) == 0 {
		return
	}
	if at, ok := b.mutated[id]; ok {
		op := &b.steps[at].op
		op.Mutations = append(op.Mutations, mutations...)
		return
	}
	b.mutated[id] = len(b.steps)
	b.add(what, ovsdb.Operation{Op: ovsdb.OperationMutate, Table: id.table, Where: isRow(id.uuid), Mutations: mutations})
}

func (b *builder) edges(e EdgeChange) {
	if b.gone[rowID{e.Table, e.From}] {
		return
	}
	what := label(e.Table, e.From, "", "") + ", column " + e.Column
	if !b.require(what, e.Table, e.Column) {
		return
	}
	var mutations []ovsdb.Mutation
	if len(e.Remove) > 0 {
		mutations = append(mutations, ovsdb.Mutation{Column: e.Column,
			Mutator: ovsdb.MutateOperationDelete, Value: wireRefs[UUID](e.Remove)})
	}
	if len(e.Add) > 0 {
		mutations = append(mutations, ovsdb.Mutation{Column: e.Column,
			Mutator: ovsdb.MutateOperationInsert, Value: wireRefs[UUID](e.Add)})
	}
	b.mutate(what, rowID{e.Table, e.From}, mutations)
}
