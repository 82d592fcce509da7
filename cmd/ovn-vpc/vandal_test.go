package main

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/translate"
)

// rawNB talks to the northbound database as any program might.
type rawNB struct {
	net.Conn
	answers *json.Decoder
}

func dialRaw(t require.TestingT, remote string) *rawNB {
	conn, err := net.Dial("unix", strings.TrimPrefix(remote, "unix:"))
	require.NoError(t, err)
	return &rawNB{conn, json.NewDecoder(conn)}
}

// try carries out operations, and says what the database holds against them.
func (db *rawNB) try(t require.TestingT, ops ...any) (results []map[string]any, refused string) {
	request := map[string]any{"id": 1, "method": "transact", "params": append([]any{"OVN_Northbound"}, ops...)}
	_, err := io.WriteString(db, jsonText(request))
	require.NoError(t, err)
	var answer struct {
		Result []map[string]any
		Error  any
	}
	require.NoError(t, db.answers.Decode(&answer))
	require.Nil(t, answer.Error)
	for _, r := range answer.Result {
		if r["error"] != nil {
			return nil, jsonText(r)
		}
	}
	return answer.Result, ""
}

func (db *rawNB) transact(t require.TestingT, ops ...any) []map[string]any {
	results, refused := db.try(t, ops...)
	require.Empty(t, refused)
	return results
}

func operation(op, table string, where []any, more map[string]any) map[string]any {
	all := map[string]any{"op": op, "table": table, "where": where}
	maps.Copy(all, more)
	return all
}

// empty makes the database what it was at first.
func (db *rawNB) empty(t require.TestingT) {
	ops := []any{operation("update", "NB_Global", []any{}, map[string]any{"row": map[string]any{"external_ids": []any{"map", []any{}}}})}
	for _, table := range tables() {
		ops = append(ops, operation("delete", table, []any{}, nil))
	}
	db.transact(t, ops...)
}

// rows are those of a table, by UUID.
func (db *rawNB) rows(t require.TestingT, table string) []row {
	var rows []row
	for _, raw := range db.transact(t, operation("select", table, []any{}, nil))[0]["rows"].([]any) {
		r := row{table: table, raw: raw.(map[string]any), ids: map[string]string{}}
		r.id = r.raw["_uuid"].([]any)[1].(string)
		r.name, _ = r.raw["name"].(string)
		for _, pair := range r.raw["external_ids"].([]any)[1].([]any) {
			r.ids[pair.([]any)[0].(string)] = pair.([]any)[1].(string)
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.id, b.id) })
	return rows
}

func (db *rawNB) all(t require.TestingT) []row {
	all := db.rows(t, "NB_Global")
	for _, table := range tables() {
		all = append(all, db.rows(t, table)...)
	}
	return all
}

// dump is the database as text.
func (db *rawNB) dump(t require.TestingT) string {
	var text strings.Builder
	for _, r := range db.all(t) {
		delete(r.raw, "_version")
		text.WriteString(r.table + " " + jsonText(r.raw) + "\n")
	}
	return text.String()
}

// foreign is what belongs to others.
func (db *rawNB) foreign(t require.TestingT) string {
	var text strings.Builder
	for _, r := range db.all(t) {
		delete(r.raw, "_version")
		switch {
		case !strings.HasPrefix(r.ids["note"], "foreign"):
		case r.ours(): // it may go
		case r.table == "NB_Global":
			text.WriteString(r.id + " note\n")
		default:
			text.WriteString(r.table + " " + jsonText(r.raw) + "\n")
		}
	}
	return text.String()
}

// vandal does to the database what nobody should.
type vandal struct {
	*rapid.T
	db     *rawNB
	acts   int
	blamed []row // what drift has to speak of
}

func draw[T any](d *vandal, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(d.T, what)
}

func (d *vandal) act() {
	rows := slices.DeleteFunc(d.db.all(d), func(r row) bool { return !r.ours() && r.table != "NB_Global" })
	if len(rows) == 0 {
		return
	}
	r := rows[rapid.IntRange(0, len(rows)-1).Draw(d.T, "row")]
	ways := map[string]func(row){"deface": d.deface, "strip": d.strip, "destroy": d.destroy, "scribble": d.scribble, "copy": d.copy, "note": d.note, "refer": d.refer}
	how := draw(d, "how", "deface", "deface", "deface", "deface", "strip", "destroy", "scribble", "copy", "copy", "note", "refer")
	d.Logf("%s %s %s %q", how, r.table, r.id, r.ids["ovn-vpc:key"])
	ways[how](r)
}

// deface gives one of a row's keys another value.
func (d *vandal) deface(r row) {
	keys := slices.DeleteFunc(keysOf(r.ids), func(k string) bool { return !strings.HasPrefix(k, "ovn-vpc") })
	if len(keys) == 0 {
		return
	}
	key := draw(d, "key", append(keys, "ovn-vpc:spec", "ovn-vpc:unknown", "ovn-vpc:offering/gold", "ovn-vpc-expectation:f", "ovn-vpc-attachment:x", "ovn-vpc-run:freed/10.0.1.4", "ovn-vpc-run:freed/x",
		"ovn-vpc-run:epoch", "ovn-vpc-run:overridden")...)
	ids := maps.Clone(r.ids)
	ids[key] = d.value(ids[key])
	if key == "ovn-vpc:spec" && draw(d, "digest too", true, false) {
		ids["ovn-vpc:digest"] = translate.Digest([]byte(ids[key]), ids["ovn-vpc:manager"])
	}
	noted := strings.HasPrefix(key, "ovn-vpc-run:") || key == "ovn-vpc:unknown" || key == "ovn-vpc:offering/gold"
	if d.write(r, map[string]any{"external_ids": ovsMap(ids)}) && r.ours() && !noted && r.ids[key] != ids[key] && r.ids[key] != "" {
		d.blamed = append(d.blamed, r)
	}
}

// value is one that nobody expects, most often a little off what there was.
func (d *vandal) value(was string) string {
	var tree any
	if json.Unmarshal([]byte(was), &tree) == nil && draw(d, "subtle", true, true, false) {
		for range rapid.IntRange(1, 2).Draw(d.T, "changes") {
			tree = d.twist(tree)
		}
		return jsonText(tree)
	}
	return draw(d, "value", "", "nonsense", "null", "{}", "[]", `{"metadata":{"name":"web","vpc":"shop"},"spec":{}}`, `{"metadata":{"name":"x","vpc":"other"},"spec":{"cidrs":["10.0.0.0/8"]}}`,
		`{"metadata":{"name":"a\u0000b","vpc":"\u0000"},"spec":{"tier":"web"}}`, `{"owner":"default","manager":"cli","stored":{}}`, `{"owner":"default","stored":{"metadata":{"name":"gold"},"spec":{"limits":{"tiers":-1}}}}`,
		`{"owner":"default","stored":{"metadata":{"name":"f","vpc":"shop"},"spec":{"from":"x","to":"y","traffic":"tcp 80","expect":"allow"}}}`,
		"\ufffd", strings.Repeat("x", 1<<20), was+was, "default", "other", "acl-rule/shop/db/ingress/99999999999999999999", "tier/shop/web", "/////", "9999999999999999999999", "-1")
}

// twist changes one leaf of a tree, or what is around it.
func (d *vandal) twist(tree any) any {
	odd := func() any {
		return draw[any](d, "odd", nil, "", "x", -1, 0, 1e308, 1<<40, 65536, true, []any{}, map[string]any{}, "0.0.0.0/0", "10.0.0.0/33", "10.0.1.0/24", "10.0.1.1", "::", "255.255.255.255", "::ffff:10.0.1.1", "fe80::1%x", "ff:ff:ff:ff:ff:ff",
			"10.0.1.9-10.0.1.1", "a\x00b", "web", "shop", "nosuch", strings.Repeat("y", 1<<16), "default-allow", "tcp", "reject")
	}
	switch v := tree.(type) {
	case map[string]any:
		if len(v) == 0 || draw(d, "here", false, false, false, true) {
			v[draw(d, "field", append(keysOf(v), "unknown")...)] = odd()
			return v
		}
		key := draw(d, "into", keysOf(v)...)
		v[key] = d.twist(v[key])
		return v
	case []any:
		if len(v) == 0 || draw(d, "here", false, false, true) {
			return append(v, odd())
		}
		i := rapid.IntRange(0, len(v)-1).Draw(d.T, "at")
		v[i] = d.twist(v[i])
		return v
	}
	return odd()
}

// strip takes keys away.
func (d *vandal) strip(r row) {
	ids := maps.Clone(r.ids)
	for _, key := range keysOf(ids) {
		if draw(d, "strip "+key, true, false, false) {
			delete(ids, key)
		}
	}
	d.write(r, map[string]any{"external_ids": ovsMap(ids)})
}

func (d *vandal) destroy(r row) {
	if r.table != "NB_Global" {
		d.db.try(d, operation("delete", r.table, here(r), nil))
	}
}

// scribble gives a column another value.
func (d *vandal) scribble(r row) {
	columns := slices.DeleteFunc(keysOf(r.raw), func(c string) bool { return strings.HasPrefix(c, "_") || c == "external_ids" || r.table == "NB_Global" })
	if len(columns) == 0 {
		return
	}
	d.write(r, map[string]any{draw(d, "column", columns...): draw[any](d, "value", "", "x", "ip4.src == ", 0, 1, 32767, false, []any{"set", []any{}}, []any{"map", []any{}}, []any{"map", []any{[]any{"a", "b"}}},
		"0e:58:0a:00:01:01", "dynamic", strings.Repeat("z", 1<<16))})
}

// copy makes a second row: with our marks, or with those of others and an equal
// name where the table allows it.
func (d *vandal) copy(r row) {
	if r.table == "NB_Global" {
		return
	}
	columns := maps.Clone(r.raw)
	delete(columns, "_uuid")
	delete(columns, "_version")
	ids := maps.Clone(r.ids)
	if draw(d, "whose", "theirs", "theirs", "ours") == "theirs" {
		ids["ovn-vpc:owner"] = draw(d, "owner", "theirs", "")
		ids["note"] = "foreign copy"
	}
	columns["external_ids"] = ovsMap(ids)
	for _, column := range []string{"ports", "acls", "policies", "up", "tag"} { // shared, or of a kind that is not inserted
		delete(columns, column)
	}
	if draw(d, "rename", true, false) && columns["name"] != nil {
		columns["name"] = draw(d, "name", "copy", "shop/copy", "shop/web/gw", "ovnvpc.shop.copy", "shop/web-2")
	}
	ops := []any{operation("insert", r.table, nil, map[string]any{"row": columns, "uuid-name": "copy"})}
	if parent := map[string][2]string{"ACL": {"Logical_Switch", "acls"}, "Logical_Switch_Port": {"Logical_Switch", "ports"}, "Logical_Router_Port": {"Logical_Router", "ports"},
		"Logical_Router_Policy": {"Logical_Router", "policies"}}[r.table]; parent[0] != "" {
		if at := d.db.rows(d, parent[0]); len(at) > 0 {
			ops = append(ops, operation("mutate", parent[0], here(at[rapid.IntRange(0, len(at)-1).Draw(d.T, "parent")]), map[string]any{"mutations": []any{[]any{parent[1], "insert", []any{"named-uuid", "copy"}}}}))
		}
	}
	delete(ops[0].(map[string]any), "where")
	d.db.try(d, ops...)
}

// note leaves a key of somebody else's.
func (d *vandal) note(r row) {
	d.db.try(d, operation("mutate", r.table, here(r), map[string]any{"mutations": []any{[]any{"external_ids", "insert", ovsMap(map[string]string{"note": "foreign"})}}}))
}

// refer lets a row refer to one that is none of its business.
func (d *vandal) refer(row) {
	pair := draw(d, "reference", [3]string{"Port_Group", "ports", "Logical_Switch_Port"}, [3]string{"Port_Group", "acls", "ACL"}, [3]string{"Logical_Switch", "acls", "ACL"},
		[3]string{"Logical_Switch", "ports", "Logical_Switch_Port"}, [3]string{"Logical_Router", "ports", "Logical_Router_Port"}, [3]string{"Logical_Switch_Port", "dhcpv4_options", "DHCP_Options"})
	from, to := d.db.rows(d, pair[0]), d.db.rows(d, pair[2])
	if len(from) == 0 || len(to) == 0 {
		return
	}
	target := []any{"uuid", to[rapid.IntRange(0, len(to)-1).Draw(d.T, "to")].id}
	d.db.try(d, operation("mutate", pair[0], here(from[rapid.IntRange(0, len(from)-1).Draw(d.T, "from")]), map[string]any{"mutations": []any{[]any{pair[1], "insert", target}}}))
}

func (d *vandal) write(r row, columns map[string]any) (taken bool) {
	d.Log(shorten(jsonText(columns)))
	_, refused := d.db.try(d, operation("update", r.table, here(r), map[string]any{"row": columns}))
	return refused == ""
}

func here(r row) []any { return []any{[]any{"_uuid", "==", []any{"uuid", r.id}}} }

func ovsMap(m map[string]string) []any {
	list := []any{}
	for _, k := range keysOf(m) {
		list = append(list, []any{k, m[k]})
	}
	return []any{"map", list}
}
