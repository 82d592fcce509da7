package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// content is what stands in a northbound database, as it is inserted by hand.
type content struct {
	rows map[string][]entry // by table, sorted by UUID
}

// entry is one row: the columns that are not at their defaults.
type entry struct {
	uuid    string
	columns map[string]json.RawMessage
}

// The tables whose names the commands and the cuts into transactions need.
const (
	tableSwitch = "Logical_Switch"
	tablePort   = "Logical_Switch_Port"
)

// readContent reads all rows of a database, but NB_Global, which is there
// before anybody writes.
func readContent(ctx context.Context, remote string) (*content, error) {
	w, err := dialWire(ctx, remote)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	data, err := request("get_schema", "OVN_Northbound")
	if err != nil {
		return nil, err
	}
	answer, err := w.exchange(data)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	var schema struct {
		Tables map[string]struct {
			Columns map[string]struct{ Type json.RawMessage }
		}
	}
	if err := json.Unmarshal(answer, &schema); err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	c := &content{rows: map[string][]entry{}}
	for table, s := range schema.Tables {
		if table == "NB_Global" {
			continue
		}
		rows, err := w.query(table)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			e := entry{columns: map[string]json.RawMessage{}}
			if e.uuid, err = uuidOf(r["_uuid"]); err != nil {
				return nil, err
			}
			for column, value := range r {
				if described, ok := s.Columns[column]; ok && !byDefault(value, described.Type) {
					e.columns[column] = value
				}
			}
			c.rows[table] = append(c.rows[table], e)
		}
		slices.SortFunc(c.rows[table], func(a, b entry) int { return bytes.Compare([]byte(a.uuid), []byte(b.uuid)) })
	}
	return c, nil
}

// byDefault tells whether a column of a type has the value that an insert
// without it gives.
func byDefault(value, typ json.RawMessage) bool {
	switch string(value) {
	case `["set",[]]`, `["map",[]]`:
		return true
	case `""`, `0`, `false`:
		var ranged struct{ Min *int }
		return json.Unmarshal(typ, &ranged) != nil || ranged.Min == nil || *ranged.Min == 1
	}
	return false
}

func uuidOf(value json.RawMessage) (string, error) {
	var pair [2]string
	if err := json.Unmarshal(value, &pair); err != nil {
		return "", fmt.Errorf("reading the UUID %s: %w", value, err)
	}
	return pair[1], nil
}

// tables are the names of those that have rows.
func (c *content) tables() []string { return slices.Sorted(maps.Keys(c.rows)) }

// text is a column that holds one string, or one optional one.
func (e entry) text(column string) string {
	var s string
	_ = json.Unmarshal(e.columns[column], &s) // empty where it is something else
	return s
}

// number is a column that holds an integer.
func (e entry) number(column string) int {
	var n int
	_ = json.Unmarshal(e.columns[column], &n) // 0 where it is absent
	return n
}

// set are the elements of a column that holds a set of strings or UUIDs.
func (e entry) set(column string) []string {
	value := e.columns[column]
	if value == nil {
		return nil
	}
	var whole [2]json.RawMessage
	if json.Unmarshal(value, &whole) != nil {
		return []string{e.text(column)}
	}
	if string(whole[0]) == `"uuid"` {
		var s string
		_ = json.Unmarshal(whole[1], &s) // a UUID is a string
		return []string{s}
	}
	var elements []json.RawMessage
	_ = json.Unmarshal(whole[1], &elements) // a set is a list
	all := make([]string, len(elements))
	for i, element := range elements {
		if json.Unmarshal(element, &all[i]) != nil {
			all[i], _ = uuidOf(element)
		}
	}
	return all
}

// pairs are those of a column that holds a map of strings.
func (e entry) pairs(column string) map[string]string {
	var whole [2]json.RawMessage
	var list [][2]string
	if json.Unmarshal(e.columns[column], &whole) == nil {
		_ = json.Unmarshal(whole[1], &list) // a map is a list of pairs
	}
	pairs := map[string]string{}
	for _, p := range list {
		pairs[p[0]] = p[1]
	}
	return pairs
}
