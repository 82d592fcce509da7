package nbdb

import (
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/stretchr/testify/require"
)

// Columns that few rows have are read of those, whether one row is looked for or
// all.
func TestSeldomColumns(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	sw := &LogicalSwitch{UUID: uid(1), Name: "sw"}
	plain := &LogicalSwitchPort{UUID: uid(2), Name: "plain", ExternalIDs: ids("p")}
	full := &LogicalSwitchPort{UUID: uid(3), Name: "full", Type: "localport", Enabled: ptr(false), ParentName: ptr("plain"), Tag: ptr(7), ExternalIDs: ids("p")}
	other := &LogicalSwitchPort{UUID: uid(4), Name: "other", Enabled: ptr(true), ExternalIDs: ids("q")}
	var edges []Edge
	for n := range 3 {
		edges = append(edges, Edge{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Target: uid(2 + n)})
	}
	commit(t, c, Diff(Fragment{}, Fragment{Rows: []Row{sw, plain, full, other}, Edges: edges}))
	asked, err := c.current().Transact(ovsdb.Operation{Op: ovsdb.OperationUpdate, Table: TableLogicalSwitchPort,
		Where: isRow(uid(3)), Row: ovsdb.Row{"up": true}})
	require.NoError(t, err)
	_, err = asked.results(<-asked.done)
	require.NoError(t, err)

	query := Query{Table: TableLogicalSwitchPort, Includes: ids("p")}
	state, err := c.Read(testContext(t), query)
	require.NoError(t, err)
	require.Equal(t, 2, state.Len(TableLogicalSwitchPort))
	require.Equal(t, Columns(plain), Columns(state.Get(TableLogicalSwitchPort, uid(2))))
	want := *full
	want.Up = ptr(true)
	require.Equal(t, Columns(&want), Columns(state.Get(TableLogicalSwitchPort, uid(3))))

	query.NoStatus = true
	state, err = c.Read(testContext(t), query)
	require.NoError(t, err)
	require.Equal(t, Columns(full), Columns(state.Get(TableLogicalSwitchPort, uid(3))))

	state, err = c.Read(testContext(t), Query{Table: TableLogicalSwitchPort, Where: map[string]any{"name": "full"}})
	require.NoError(t, err)
	require.Equal(t, Columns(&want), Columns(state.Get(TableLogicalSwitchPort, uid(3))))
}
