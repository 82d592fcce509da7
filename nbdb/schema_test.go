package nbdb

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func columnsOf(tables map[string]any, table string) map[string]any {
	return tables[table].(map[string]any)["columns"].(map[string]any)
}

// TestOldSchema runs on a database that lacks columns and tables.
func TestOldSchema(t *testing.T) {
	old := editSchema(t, func(tables map[string]any) {
		delete(columnsOf(tables, "ACL"), "options")
		delete(columnsOf(tables, "ACL"), "label")
		delete(columnsOf(tables, "Logical_Router"), "load_balancer_group")
		delete(columnsOf(tables, "Logical_Switch"), "load_balancer_group")
		delete(columnsOf(tables, "Logical_Router"), "policies")
		delete(columnsOf(tables, "Logical_Switch_Port"), "mirror_rules")
		for _, table := range []string{"Load_Balancer_Group", "Mirror", "Logical_Router_Policy"} {
			delete(tables, table)
		}
	})
	c := startServer(t, old).dial()
	require.False(t, c.Schema().Has(TableACL, "options"))
	require.False(t, c.Schema().Has(TableLogicalRouterPolicy, ""))
	require.True(t, c.Schema().Has(TableACL, "match"))
	require.Equal(t, "7.0.0", c.Schema().Version())

	var feature *FeatureError
	_, err := c.Commit(testContext(t), Diff(Fragment{}, sample()), false)
	require.ErrorAs(t, err, &feature)

	f := sample()
	f.Rows = append(f.Rows[:4], f.Rows[5:]...) // without the policy
	f.Edges = f.Edges[:4]
	_, err = c.Commit(testContext(t), Diff(Fragment{}, f), false)
	require.ErrorAs(t, err, &feature)
	require.EqualError(t, feature, "the database (schema 7.0.0) has no column ACL.options: this needs OVN 22.03 or newer")
	require.ErrorContains(t, err, "acl-rule/shop/web/ingress/10")

	acl := *f.Rows[4].(*ACL)
	acl.Options = nil
	f.Rows[4] = &acl
	commit(t, c, Diff(Fragment{}, f))
	have := read(t, c)
	require.True(t, Diff(asFragment(have), f).Empty())

	changed := acl
	changed.Options = map[string]string{"log-related": "true"}
	_, err = c.Commit(testContext(t), Diff(Fragment{Rows: []Row{&acl}}, Fragment{Rows: []Row{&changed}}), false)
	require.ErrorAs(t, err, &feature)
	_, err = c.Commit(testContext(t), Plan{Edges: []EdgeChange{{Table: TableLogicalRouter, From: uid(3), Column: "policies", Add: []UUID{uid(5)}}}}, false)
	require.ErrorAs(t, err, &feature)
	commit(t, c, Plan{Guards: []Guard{{Table: TableACL, Row: uid(6), Columns: map[string]any{"options": map[string]string{}, "priority": acl.Priority}}},
		Entries: []EntryChange{{Table: TableLogicalRouter, Row: uid(3), Key: "ovn-vpc:a", New: ptr("b")}}})
}

// TestNewSchema runs on a database with columns and tables that are unknown here.
func TestNewSchema(t *testing.T) {
	fresh := editSchema(t, func(tables map[string]any) {
		for _, table := range []string{"ACL", "Logical_Switch", "Logical_Switch_Port", "NB_Global"} {
			columnsOf(tables, table)["novel"] = map[string]any{"type": map[string]any{"key": "integer", "min": 0, "max": "unlimited"}}
		}
		tables["Sample"] = map[string]any{"isRoot": true, "columns": map[string]any{"set_id": map[string]any{"type": "integer"}}}
	})
	s := startServer(t, fresh)
	c := s.dial()
	f := sample()
	commit(t, c, Diff(Fragment{}, f))
	s.transact(`["OVN_Northbound",{"op":"update","table":"ACL","where":[],"row":{"novel":["set",[1,2]]}}]`)
	require.True(t, Diff(asFragment(read(t, c)), f).Empty())
	acl := *f.Rows[5].(*ACL)
	acl.Priority = 1
	commit(t, c, Diff(Fragment{Rows: f.Rows[5:6]}, Fragment{Rows: []Row{&acl}}))
	require.Contains(t, s.transact(`["OVN_Northbound",{"op":"select","table":"ACL","where":[],"columns":["novel"]}]`), "[1,2]")
}

func TestParseSchema(t *testing.T) {
	text, err := os.ReadFile(packagedSchema)
	require.NoError(t, err)
	s, err := ParseSchema(text)
	require.NoError(t, err)
	require.Equal(t, Northbound, s.Name())
	// Every column of the row types is one that OVN knows, or that a newer one brings.
	for table, row := range rowTypes() {
		for _, f := range row.fields {
			require.True(t, s.Has(table, f.column) || since(table, f.column) != "", "%s.%s", table, f.column)
		}
	}
	require.Equal(t, "22.03", since("ACL", "options"))
	require.Equal(t, "23.06", since("ACL", "tier"))
	require.Equal(t, "24.09", since("Sample", "set_id"))
	_, err = ParseSchema([]byte("{"))
	require.Error(t, err)
}

func packaged(t *testing.T) *Schema {
	text, err := os.ReadFile(packagedSchema)
	require.NoError(t, err)
	s, err := ParseSchema(text)
	require.NoError(t, err)
	return s
}
