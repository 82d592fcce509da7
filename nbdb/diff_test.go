package nbdb

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func newRow(t *rowType) Row { return reflect.New(t.typ).Interface().(Row) }

func valueOf(r Row) reflect.Value { return reflect.ValueOf(r).Elem() }

func shuffled(t *rapid.T, f Fragment) Fragment {
	return Fragment{
		Rows:    rapid.Permutation(f.Rows).Draw(t, "rows"),
		Edges:   rapid.Permutation(f.Edges).Draw(t, "edges"),
		Entries: rapid.Permutation(f.Entries).Draw(t, "entries"),
	}
}

func TestDiffProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genFragment(t), genFragment(t)
		require.True(t, Diff(a, shuffled(t, a)).Empty())
		p := Diff(a, b)
		require.Equal(t, p, Diff(shuffled(t, a), shuffled(t, b)), "the order of the input must not matter")
		require.Equal(t, p.Empty(), Same(a, b))
		require.True(t, Same(a, shuffled(t, a)))
		one, other := part(t, a), part(t, rapid.SampledFrom([]Fragment{a, b}).Draw(t, "of"))
		require.Equal(t, Diff(one, other).Empty(), Same(one, other))
		text, err := json.Marshal(p)
		require.NoError(t, err)
		var back Plan
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, p, back)
	})
}

// part has one row, one edge and one entry of a fragment, as far as it has any.
func part(t *rapid.T, f Fragment) Fragment {
	few := func(n int) (from, to int) {
		at := rapid.IntRange(0, min(n, 2)).Draw(t, "at")
		return at, min(at+1, n)
	}
	var p Fragment
	from, to := few(len(f.Rows))
	p.Rows = f.Rows[from:to]
	from, to = few(len(f.Edges))
	p.Edges = f.Edges[from:to]
	from, to = few(len(f.Entries))
	p.Entries = f.Entries[from:to]
	return p
}

// TestDiffIsWhatTheServerNeeds: from any state to any other one plan leads,
// and then nothing is left to do.
func TestDiffIsWhatTheServerNeeds(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	rapid.Check(t, func(t *rapid.T) {
		want := genNetwork(t)
		have, err := c.Read(t.Context(), everything()...)
		require.NoError(t, err)
		p := Diff(asFragment(have), want)
		_, err = c.Commit(t.Context(), p, false)
		require.NoError(t, err)
		have, err = c.Read(t.Context(), everything()...)
		require.NoError(t, err)
		require.Equal(t, Plan{}, Diff(asFragment(have), want))
	})
}

// genNetwork draws switches, lists and ports that a server accepts.
func genNetwork(t *rapid.T) Fragment {
	var f Fragment
	some := func(label string) bool { return rapid.Bool().Draw(t, label) }
	used := map[UUID]bool{}
	for i := range 4 {
		if !some("switch") {
			continue
		}
		sw := uid(1 + i)
		f.Rows = append(f.Rows, &LogicalSwitch{UUID: sw, Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
			OtherConfig: map[string]string{"k": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "v")}, ExternalIDs: ids("s")})
		for n := range 4 {
			if some("acl") {
				used[uid(20+n)] = true
				f.Edges = append(f.Edges, Edge{Table: TableLogicalSwitch, From: sw, Column: "acls", Target: uid(20 + n)})
			}
			if port := uid(40 + 10*i + n); some("port") {
				var dhcp *UUID
				if some("dhcp") {
					dhcp = ptr(uid(80))
				}
				f.Rows = append(f.Rows, &LogicalSwitchPort{UUID: port, Name: string(port), Dhcpv4Options: dhcp, Enabled: rapid.Ptr(rapid.Bool(), true).Draw(t, "enabled"),
					Addresses: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"unknown", "dynamic", "router"}), 0, 3, rapid.ID).Draw(t, "addresses")})
				f.Edges = append(f.Edges, Edge{Table: TableLogicalSwitch, From: sw, Column: "ports", Target: port})
			}
		}
	}
	if some("group") {
		f.Rows = append(f.Rows, &PortGroup{UUID: uid(30), Name: "g", ExternalIDs: ids("g")})
		f.Edges = append(f.Edges, Edge{Table: TablePortGroup, From: uid(30), Column: "acls", Target: uid(20)})
		used[uid(20)] = true
	}
	for acl := range used {
		f.Rows = append(f.Rows, &ACL{UUID: acl, Priority: rapid.IntRange(0, 3).Draw(t, "priority"), Direction: "to-lport", Action: "drop",
			Match: "ip", Severity: rapid.Ptr(rapid.Just("info"), true).Draw(t, "severity"), ExternalIDs: ids(string(acl))})
	}
	// The target of weak references, always there so that none is cleared.
	f.Rows = append(f.Rows, &DHCPOptions{UUID: uid(80), Cidr: "10.0.0.0/24", ExternalIDs: ids("d")})
	return f
}

// TestPlanGolden shows a plan with every kind of change, and its operations.
func TestPlanGolden(t *testing.T) {
	have, want := sample(), sample()
	sw := *want.Rows[0].(*LogicalSwitch)
	sw.OtherConfig = nil
	sw.ExternalIDs = map[string]string{"ovn-vpc:key": "tier/shop/web", "ovn-vpc:owner": "default", "ovn-vpc:spec": "{}"}
	want.Rows[0] = &sw
	want.Rows = want.Rows[:8] // without the port group
	port := &LogicalSwitchPort{UUID: uid(10), Name: "shop/b", Enabled: ptr(true), ExternalIDs: ids("address/shop/10.10.1.6")}
	router := &LogicalRouter{UUID: uid(11), Name: "other", ExternalIDs: ids("vpc/other")}
	want.Rows = append(want.Rows, port, router)
	want.Edges = append(want.Edges[:1], want.Edges[3:]...) // the switch loses its ACL
	want.Edges = append(want.Edges,
		Edge{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Target: uid(10)},
		Edge{Table: TableLogicalRouter, From: uid(11), Column: "ports", Target: uid(4)})
	want.Entries = []Entry{{Table: TableNBGlobal, Row: uid(51), Key: "ovn-vpc:offering/gold", Value: "{}"}}
	p := Diff(have, want)
	p.Guards = []Guard{
		{Table: TableLogicalRouter, Row: uid(3), Includes: map[string]string{"ovn-vpc:spec": "{}"}, Columns: map[string]any{"name": "shop"}},
		{Table: TableLogicalSwitch, Match: "acls", Ref: uid(6), Rows: []UUID{uid(1)}},
		{Table: TableLogicalSwitchPort, Includes: map[string]string{"ovn-vpc:key": "x"}},
	}
	plan, err := json.MarshalIndent(p, "", "  ")
	require.NoError(t, err)
	golden(t, "plan.json", string(plan)+"\n")

	ops, err := p.Operations(packaged(t))
	require.NoError(t, err)
	var lines []byte
	for _, op := range ops {
		line, err := appendOperation(nil, &op)
		require.NoError(t, err)
		lines = append(append(lines, line...), '\n')
	}
	golden(t, "operations.json", string(lines))
}

// What a plan relies on of one row costs one precondition, but for what
// contradicts itself, which no row meets. What it mutates in one is one operation.
func TestPreconditionsOfOneRow(t *testing.T) {
	pairs := func(value string) map[string]string { return map[string]string{"ovn-vpc:digest": value} }
	update := RowChange{Op: Update, Table: TableLogicalSwitch, UUID: uid(1), Columns: []ColumnChange{
		{Column: columnExternalIDs, Old: pairs("a"), New: map[string]string{"ovn-vpc:digest": "b", "ovn-vpc:rule/1": "{}"}},
		{Column: "name", Old: "shop/web", New: "shop/www"}}}
	ofRow := func(digest string, columns map[string]any) Guard {
		return Guard{Table: TableLogicalSwitch, Row: uid(1), Includes: pairs(digest), Columns: columns}
	}
	operations := func(guards ...Guard) (waits, mutations []ovsdb.Operation) {
		p := Plan{Guards: guards, Rows: []RowChange{update},
			Edges: []EdgeChange{{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Add: []UUID{uid(2)}}}}
		ops, err := p.Operations(packaged(t))
		require.NoError(t, err)
		for _, op := range ops {
			switch op.Op {
			case ovsdb.OperationWait:
				waits = append(waits, op)
			case ovsdb.OperationMutate:
				mutations = append(mutations, op)
			}
		}
		return waits, mutations
	}
	waits, mutations := operations(ofRow("a", nil), ofRow("a", map[string]any{"other_config": map[string]string{}}))
	require.Len(t, waits, 1)
	require.Equal(t, []string{"name", "other_config"}, waits[0].Columns)
	require.Equal(t, includes(columnExternalIDs, wireMap(pairs("a"))), waits[0].Where[1])
	require.Len(t, mutations, 1)
	require.Equal(t, []ovsdb.Mutation{
		{Column: columnExternalIDs, Mutator: ovsdb.MutateOperationDelete, Value: wireTexts{"ovn-vpc:digest", "ovn-vpc:rule/1"}},
		{Column: columnExternalIDs, Mutator: ovsdb.MutateOperationInsert, Value: wireMap{"ovn-vpc:digest": "b", "ovn-vpc:rule/1": "{}"}},
		{Column: "ports", Mutator: ovsdb.MutateOperationInsert, Value: wireRefs[UUID]{uid(2)}},
	}, mutations[0].Mutations)
	waits, _ = operations(ofRow("other", nil))
	require.Len(t, waits, 2)
	waits, _ = operations(Guard{Table: TableLogicalRouter, Match: "ports", Ref: uid(4), Rows: []UUID{uid(1)}})
	require.Len(t, waits, 2, "of another table")

	update.Columns[0].Old, update.Columns[0].New = map[string]string{}, map[string]string{"ovn-vpc:rule/1": "{}"}
	waits, _ = operations()
	require.Len(t, waits, 2, "before and after")
	require.Equal(t, includes(columnExternalIDs, wireMap(map[string]string{"ovn-vpc:rule/1": "{}"})), waits[1].Where[1], "only what is new")

	entries := []EntryChange{{Table: TableLogicalRouter, Row: uid(3), Key: "ovn-vpc-history:2", New: ptr("{}")}, {Table: TableLogicalRouter, Row: uid(3), Key: "ovn-vpc-history:1", Over: true}}
	of := func(ids map[string]string, columns map[string]any) []ovsdb.Operation {
		ops, err := Plan{Guards: []Guard{{Table: TableLogicalRouter, Row: uid(3), Includes: ids, Columns: columns}}, Entries: entries}.Operations(packaged(t))
		require.NoError(t, err)
		return ops
	}
	ops := of(map[string]string{"note": "1"}, nil)
	require.Len(t, ops, 2, "what stays is looked at with what is added")
	require.Equal(t, includes(columnExternalIDs, wireMap{"ovn-vpc-history:2": "{}", "note": "1"}), ops[1].Where[1])
	require.Len(t, of(map[string]string{"ovn-vpc-history:1": "1"}, nil), 3, "that goes")
	require.Len(t, of(map[string]string{"ovn-vpc-history:2": "{}"}, nil), 3, "that comes")
	require.Len(t, of(map[string]string{"note": "1"}, map[string]any{"name": "shop"}), 3)

	ops, err := Plan{Entries: []EntryChange{{Table: TableLogicalRouter, Row: uid(3), Key: "note", New: ptr("2"), Over: true}}}.Operations(packaged(t))
	require.NoError(t, err)
	require.Len(t, ops, 2, "a row that is gone takes no key, whatever it was")
	require.Equal(t, ovsdb.OperationWait, ops[0].Op)

	update.Op = Insert // of another row: nothing but the edge is about this one
	update.UUID = uid(3)
	waits, _ = operations()
	require.Len(t, waits, 1)
	require.Len(t, waits[0].Where, 1, "the row is there")
	waits, _ = operations(Guard{Table: TableLogicalSwitch, Match: "acls", Ref: uid(6), Rows: []UUID{uid(1)}})
	require.Len(t, waits, 1, "that says it too")
}

func TestMerge(t *testing.T) {
	full := sample()
	var p Plan
	for _, r := range full.Rows {
		p.Merge(Diff(Fragment{}, Fragment{Rows: []Row{r}}))
	}
	for _, e := range full.Edges {
		p.Merge(Diff(Fragment{}, Fragment{Edges: []Edge{e}}))
	}
	require.Len(t, p.Edges, 5)
	c := startServer(t, packagedSchema).dial()
	commit(t, c, p) // edges of rows that another part of the plan inserts
	require.True(t, Diff(asFragment(read(t, c)), full).Empty())

	var q Plan
	edge := full.Edges[0]
	q.Merge(Diff(Fragment{}, Fragment{Edges: []Edge{edge}}))
	edge.Target = uid(77)
	q.Merge(Diff(Fragment{Edges: []Edge{edge}}, Fragment{}))
	require.Equal(t, []EdgeChange{{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Add: []UUID{uid(2)}, Remove: []UUID{uid(77)}}}, q.Edges)
}

func TestStateOf(t *testing.T) {
	sw, acl := &LogicalSwitch{UUID: "sw"}, &ACL{UUID: "acl"}
	edge := Edge{Table: TableLogicalSwitch, From: "sw", Column: "acls", Target: "acl"}
	state, err := StateOf(Fragment{Rows: []Row{acl}, Edges: []Edge{edge}}, Fragment{Rows: []Row{sw}})
	require.NoError(t, err)
	require.Equal(t, []UUID{"acl"}, Lookup[*LogicalSwitch](state, "sw").ACLs)
	require.Same(t, acl, Lookup[*ACL](state, "acl"))
	_, err = StateOf(Fragment{Edges: []Edge{edge}})
	require.ErrorContains(t, err, "no row Logical_Switch sw to refer to acl")
}
