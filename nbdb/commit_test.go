package nbdb

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryRowTypeRoundTrips(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	want := sample()
	plan := Diff(Fragment{}, want)
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	var stored Plan
	require.NoError(t, json.Unmarshal(text, &stored))
	require.Equal(t, plan, stored, "a plan must survive JSON")

	commit(t, c, stored)
	have := read(t, c)
	require.True(t, Diff(asFragment(have), want).Empty())
	for _, r := range want.Rows {
		got := Columns(have.Get(r.Table(), r.ID()))
		for column, value := range Columns(r) {
			require.Equal(t, value, got[column], "%s.%s", r.Table(), column)
		}
	}
	require.Equal(t, []UUID{uid(2)}, Lookup[*LogicalSwitch](have, uid(1)).Ports)

	// To bare rows and away again: every column can be cleared.
	bare := sample()
	for i, r := range bare.Rows {
		switch r := r.(type) {
		case *LogicalSwitchPort:
			bare.Rows[i] = &LogicalSwitchPort{UUID: r.UUID, Name: r.Name, ExternalIDs: r.ExternalIDs}
		case *ACL:
			bare.Rows[i] = &ACL{UUID: r.UUID, Direction: r.Direction, Action: r.Action, ExternalIDs: r.ExternalIDs}
		case *LogicalRouterPort:
			bare.Rows[i] = &LogicalRouterPort{UUID: r.UUID, Name: r.Name, Networks: []string{"10.0.0.1/8"}, ExternalIDs: r.ExternalIDs}
		case *PortGroup:
			bare.Rows[i] = &PortGroup{UUID: r.UUID, Name: r.Name, ExternalIDs: r.ExternalIDs}
		}
	}
	commit(t, c, Diff(asFragment(have), bare))
	have = read(t, c)
	require.True(t, Diff(asFragment(have), bare).Empty())
	require.Nil(t, Lookup[*LogicalSwitchPort](have, uid(2)).Enabled)

	commit(t, c, Diff(asFragment(have), Fragment{}))
	require.Empty(t, asFragment(read(t, c)).Rows)
}

func TestDuplicateUUIDIsAConflict(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	plan := Diff(Fragment{}, sample())
	commit(t, c, plan)
	_, err := c.Commit(testContext(t), plan, false)
	var conflict *ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Contains(t, err.Error(), "exists by now")
}

func TestTakenNameIsAConstraint(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	f := sample()
	commit(t, c, Diff(Fragment{}, f))
	other := Fragment{
		Rows:  []Row{&LogicalSwitchPort{UUID: uid(20), Name: "shop/a", ExternalIDs: ids("x")}},
		Edges: []Edge{{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Target: uid(20)}},
	}
	_, err := c.Commit(testContext(t), Diff(Fragment{}, other), false)
	var constraint *ConstraintError
	require.ErrorAs(t, err, &constraint)
	require.Contains(t, constraint.Details, "shop/a")

	dangling := Fragment{Edges: []Edge{{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Target: uid(99)}}}
	_, err = c.Commit(testContext(t), Diff(Fragment{}, dangling), false)
	require.ErrorAs(t, err, &constraint)
	require.Equal(t, referentialIntegrity, constraint.Kind)

	wrong := Fragment{Rows: []Row{&LogicalSwitch{UUID: uid(21), Name: "s", ExternalIDs: ids("s")},
		&ACL{UUID: uid(22), Priority: 40000, Direction: "to-lport", Action: "drop", ExternalIDs: ids("acl-x")}}}
	_, err = c.Commit(testContext(t), Diff(Fragment{}, wrong), false)
	require.ErrorAs(t, err, &constraint)
	require.Contains(t, err.Error(), "acl-x")
}

// TestRowsGuardThemselves: a plan made from rows that have changed since is
// refused whole.
func TestRowsGuardThemselves(t *testing.T) {
	base := sample()
	changed := sample()
	acl := *changed.Rows[5].(*ACL)
	acl.Priority = 7
	changed.Rows[5] = &acl
	respec := sample()
	sw := *respec.Rows[0].(*LogicalSwitch)
	sw.ExternalIDs = map[string]string{"ovn-vpc:owner": "default", "ovn-vpc:key": "tier/shop/web", "ovn-vpc:spec": "2"}
	respec.Rows[0] = &sw
	rows := map[string]struct {
		plan    Plan
		between string // what another client does meanwhile
	}{
		"update, column changed": {Diff(base, changed), `{"op":"update","table":"ACL","where":[["_uuid","==",["uuid","` + string(uid(6)) + `"]]],"row":{"priority":8}}`},
		"update, row gone":       {Diff(base, respec), `{"op":"delete","table":"Logical_Switch","where":[["_uuid","==",["uuid","` + string(uid(1)) + `"]]]}`},
		"update, key added by another": {Diff(base, respec), `{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid","` + string(uid(1)) +
			`"]]],"mutations":[["external_ids","insert",["map",[["ovn-vpc:spec","other"]]]]]}`},
		"delete, row of another": {Diff(base, Fragment{}), `{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid","` + string(uid(1)) +
			`"]]],"mutations":[["external_ids","delete",["set",["ovn-vpc:key"]]]]}`},
		"edge, row gone": {Plan{Edges: []EdgeChange{{Table: TableLogicalSwitch, From: uid(1), Column: "acls", Remove: []UUID{uid(6)}}}},
			`{"op":"delete","table":"Logical_Switch","where":[["_uuid","==",["uuid","` + string(uid(1)) + `"]]]}`},
		"entry, changed": {Plan{Entries: []EntryChange{{Table: TableLogicalSwitch, Row: uid(1), Key: "ovn-vpc:owner", Old: ptr("default"), New: ptr("me")}}},
			`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid","` + string(uid(1)) +
				`"]]],"mutations":[["external_ids","delete",["set",["ovn-vpc:owner"]]]]}`},
		"entry, row gone": {Plan{Entries: []EntryChange{{Table: TableLogicalSwitch, Row: uid(1), Key: "ovn-vpc:offering/a", New: ptr("1")}}},
			`{"op":"delete","table":"Logical_Switch","where":[["_uuid","==",["uuid","` + string(uid(1)) + `"]]]}`},
		"entry, added by another": {Plan{Entries: []EntryChange{{Table: TableLogicalSwitch, Row: uid(1), Key: "ovn-vpc:offering/a", New: ptr("1")}}},
			`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid","` + string(uid(1)) +
				`"]]],"mutations":[["external_ids","insert",["map",[["ovn-vpc:offering/a","2"]]]]]}`},
	}
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, packagedSchema)
			c := s.dial()
			commit(t, c, Diff(Fragment{}, base))
			s.transact(`["OVN_Northbound",` + r.between + `]`)
			before := read(t, c)
			_, err := c.Commit(testContext(t), r.plan, false)
			var conflict *ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, before, read(t, c))

			s2 := startServer(t, packagedSchema)
			c2 := s2.dial()
			commit(t, c2, Diff(Fragment{}, base))
			commit(t, c2, r.plan) // without the other client it goes through
		})
	}
}

func TestGuards(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	f := sample()
	commit(t, c, Diff(Fragment{}, f))
	twoPorts := Fragment{
		Rows: []Row{&LogicalSwitchPort{UUID: uid(30), Name: "shop/b", Options: map[string]string{"a": "b"}, ExternalIDs: map[string]string{"ovn-vpc:t": "x"}},
			&LogicalSwitchPort{UUID: uid(31), Name: "shop/c", Type: "router", ExternalIDs: map[string]string{"ovn-vpc:t": "x"}}},
		Edges: []Edge{{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Target: uid(30)},
			{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Target: uid(31)}},
	}
	commit(t, c, Diff(Fragment{}, twoPorts))
	ports := []string{string(uid(2)), string(uid(30)), string(uid(31))}
	guards := map[string]struct {
		guard Guard
		holds bool
	}{
		"row is there":              {Guard{Table: TableLogicalSwitch, Row: uid(1)}, true},
		"row is not there":          {Guard{Table: TableLogicalSwitch, Row: uid(2)}, false},
		"row with key":              {Guard{Table: TableLogicalSwitch, Row: uid(1), Includes: map[string]string{"ovn-vpc:key": "tier/shop/web"}}, true},
		"row with another key":      {Guard{Table: TableLogicalSwitch, Row: uid(1), Includes: map[string]string{"ovn-vpc:key": "tier/shop/db"}}, false},
		"row with values":           {Guard{Table: TableLogicalSwitch, Row: uid(1), Columns: map[string]any{"name": "shop/web", "ports": ports}}, true},
		"row with fewer ports":      {Guard{Table: TableLogicalSwitch, Row: uid(1), Columns: map[string]any{"ports": ports[:2]}}, false},
		"row with no ports":         {Guard{Table: TableLogicalSwitch, Row: uid(1), Columns: map[string]any{"ports": []string{}}}, false},
		"optional, empty":           {Guard{Table: TableLogicalSwitchPort, Row: uid(30), Columns: map[string]any{"enabled": nil, "options": map[string]string{"a": "b"}}}, true},
		"optional, not empty":       {Guard{Table: TableLogicalSwitchPort, Row: uid(2), Columns: map[string]any{"enabled": nil}}, false},
		"int":                       {Guard{Table: TableACL, Row: uid(6), Columns: map[string]any{"priority": 29999, "log": true}}, true},
		"another int":               {Guard{Table: TableACL, Row: uid(6), Columns: map[string]any{"priority": 1}}, false},
		"users of a list":           {Guard{Table: TableLogicalSwitch, Match: "acls", Ref: uid(6), Rows: []UUID{uid(1)}}, true},
		"other users of a list":     {Guard{Table: TableLogicalSwitch, Match: "acls", Ref: uid(6), Rows: []UUID{uid(1), uid(9)}}, false},
		"no user of a list":         {Guard{Table: TableLogicalSwitch, Match: "acls", Ref: uid(6)}, false},
		"no user of an unused list": {Guard{Table: TableLogicalSwitch, Match: "acls", Ref: uid(60)}, true},
		"user of an unused list":    {Guard{Table: TableLogicalSwitch, Match: "acls", Ref: uid(60), Rows: []UUID{uid(1)}}, false},
		"optional reference":        {Guard{Table: TableLogicalSwitchPort, Match: "dhcpv4_options", Ref: uid(7), Rows: []UUID{uid(2)}}, true},
		"rows by external_ids":      {Guard{Table: TableLogicalSwitchPort, Includes: map[string]string{"ovn-vpc:t": "x"}, Rows: []UUID{uid(30), uid(31)}}, true},
		"one row too few":           {Guard{Table: TableLogicalSwitchPort, Includes: map[string]string{"ovn-vpc:t": "x"}, Rows: []UUID{uid(30)}}, false},
		"no port of two":            {Guard{Table: TableLogicalSwitchPort, Includes: map[string]string{"ovn-vpc:t": "x"}}, false},
		"no port":                   {Guard{Table: TableLogicalSwitchPort, Includes: map[string]string{"ovn-vpc:t": "y"}}, true},
		"no rule":                   {Guard{Table: TableACL, Includes: map[string]string{"ovn-vpc:t": "y"}}, true},
		"no rule, but there is":     {Guard{Table: TableACL, Includes: map[string]string{"ovn-vpc:owner": "default"}}, false},
		"no DHCP, but there is":     {Guard{Table: TableDHCPOptions, Includes: map[string]string{"ovn-vpc:owner": "default"}}, false},
		"no policy, but there is":   {Guard{Table: TableLogicalRouterPolicy, Includes: map[string]string{"ovn-vpc:owner": "default"}}, false},
		"both conditions":           {Guard{Table: TableLogicalSwitch, Match: "acls", Ref: uid(6), Includes: map[string]string{"ovn-vpc:owner": "x"}}, true},
	}
	for name, g := range guards {
		t.Run(name, func(t *testing.T) {
			before := read(t, c)
			p := Plan{Guards: []Guard{g.guard}, Entries: []EntryChange{
				{Table: TableLogicalRouter, Row: uid(3), Key: "ovn-vpc:n/" + name, New: ptr("1")}}}
			text, err := json.Marshal(p)
			require.NoError(t, err)
			var stored Plan
			require.NoError(t, json.Unmarshal(text, &stored))
			_, err = c.Commit(testContext(t), stored, false)
			if g.holds {
				require.NoError(t, err)
				require.Equal(t, before.Rows(TableLogicalSwitchPort), read(t, c).Rows(TableLogicalSwitchPort))
				return
			}
			var conflict *ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Contains(t, conflict.What, g.guard.Table)
			require.Equal(t, before, read(t, c))
		})
	}
	_, err := c.Commit(testContext(t), Plan{Guards: []Guard{{Table: TableACL}}, Rows: Diff(Fragment{}, f).Rows}, false)
	require.ErrorContains(t, err, "needs a condition")
}

func TestForeignKeysStay(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	base := sample()
	sw := base.Rows[0].(*LogicalSwitch)
	sw.ExternalIDs["ovn-vpc-run:at"] = "1"
	commit(t, c, Diff(Fragment{}, base))
	s.transact(`["OVN_Northbound",{"op":"mutate","table":"Logical_Switch","where":[],"mutations":[["external_ids","insert",["map",[["neutron:x","1"]]]]]}]`)
	have := read(t, c)
	want := sample()
	require.True(t, Diff(asFragment(have), want).Empty(), "foreign keys and notes of a run are no difference")
	next := *want.Rows[0].(*LogicalSwitch)
	next.ExternalIDs = map[string]string{"ovn-vpc:owner": "default", "ovn-vpc:key": "tier/shop/web2", "ovn-vpc:new": "1"}
	want.Rows[0] = &next
	commit(t, c, Diff(asFragment(have), want))
	require.Equal(t, map[string]string{"ovn-vpc:owner": "default", "ovn-vpc:key": "tier/shop/web2", "ovn-vpc:new": "1", "ovn-vpc-run:at": "1", "neutron:x": "1"},
		Lookup[*LogicalSwitch](read(t, c), uid(1)).ExternalIDs)
}

// An entry that is set over another has its value whatever was there.
func TestEntriesOverOthers(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	row := All[*NBGlobal](read(t, c))[0].UUID
	for _, value := range []string{"1", "2"} {
		_, err := c.Commit(testContext(t), Plan{Entries: []EntryChange{{Table: TableNBGlobal, Row: row, Key: "k", New: ptr(value), Over: true}}}, false)
		require.NoError(t, err)
		require.Equal(t, value, All[*NBGlobal](read(t, c))[0].ExternalIDs["k"])
	}
}

func TestEntriesAndBump(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	global := All[*NBGlobal](read(t, c))[0]
	entry := Entry{Table: TableNBGlobal, Row: global.UUID, Key: "ovn-vpc:offering/gold", Value: "1"}
	next := entry
	next.Value = "2"
	cfg, err := c.Commit(testContext(t), Diff(Fragment{}, Fragment{Entries: []Entry{entry}}), true)
	require.NoError(t, err)
	require.Equal(t, 1, cfg)
	cfg, err = c.Commit(testContext(t), Diff(Fragment{Entries: []Entry{entry}}, Fragment{Entries: []Entry{next}}), true)
	require.NoError(t, err)
	require.Equal(t, 2, cfg)
	require.Equal(t, "2", All[*NBGlobal](read(t, c))[0].ExternalIDs[entry.Key])

	group := &PortGroup{UUID: uid(30), Name: "g", ExternalIDs: ids("g")}
	added := Entry{Table: TablePortGroup, Row: uid(30), Key: "other:note", Value: "of a row that comes with it"}
	commit(t, c, Diff(Fragment{}, Fragment{Rows: []Row{group}, Entries: []Entry{added}}))
	stored := Lookup[*PortGroup](read(t, c), uid(30)).ExternalIDs
	require.Equal(t, added.Value, stored[added.Key])
	delete(stored, added.Key)
	require.Equal(t, group.ExternalIDs, stored)
	cfg, err = c.Commit(testContext(t), Diff(Fragment{Entries: []Entry{next}}, Fragment{}), false)
	require.NoError(t, err)
	require.Zero(t, cfg)
	require.Empty(t, All[*NBGlobal](read(t, c))[0].ExternalIDs)
	cfg, err = c.Commit(testContext(t), Plan{}, false)
	require.NoError(t, err)
	require.Zero(t, cfg)
}

// A plan that somebody has written, with what no database has, is refused
// before anything is sent.
func TestOperationsThatNoSchemaHas(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	value := "x"
	_, err := c.Commit(t.Context(), Plan{Entries: []EntryChange{{Table: "Nonsense", Row: uid(1), Key: "k", New: &value}}}, false)
	require.ErrorContains(t, err, "the schema of OVN_Northbound")
	var unknown *UnknownOutcomeError
	require.False(t, errors.As(err, &unknown))
	value = "\x00" // of which the server's reader would end the connection
	_, err = c.Commit(t.Context(), Plan{Entries: []EntryChange{{Table: TableNBGlobal, Row: uid(1), Key: "k", New: &value}}}, false)
	require.ErrorContains(t, err, "U+0000")
	require.False(t, errors.As(err, &unknown))
	require.NotPanics(t, func() {
		_, err = c.Commit(t.Context(), Plan{Entries: []EntryChange{{Table: TableNBGlobal, Row: uid(1), Key: "k"}}}, false)
	})
	require.Error(t, err)
}
