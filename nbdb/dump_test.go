package nbdb

import (
	"bytes"
	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func dumpOf(t require.TestingT, f Fragment) string {
	var out bytes.Buffer
	require.NoError(t, Dump(&out, f))
	return out.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if testflag.Update() {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestDumpGolden(t *testing.T) {
	f := sample()
	f.Edges = append(f.Edges, Edge{Table: TableLogicalSwitch, From: uid(50), Column: "acls", Target: uid(6)})
	f.Entries = []Entry{{Table: TableNBGlobal, Row: uid(51), Key: "ovn-vpc:offering/gold", Value: `{"limits":{"tiers":3}}`}}
	golden(t, "sample.dump", dumpOf(t, f))
}

// genFragment draws rows of every type with arbitrary values, edges and entries.
func genFragment(t *rapid.T) Fragment {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", `say "x"`, "`", "tier/shop/web", "a, b]", " = ", "+= [", "é\n\t", "\\"}), rapid.String())
	uuids := rapid.Map(rapid.IntRange(1, 12), uid)
	set := rapid.Map(rapid.SliceOfNDistinct(text, 0, 3, rapid.ID), canonicalSet)
	refs := rapid.Map(rapid.SliceOfNDistinct(uuids, 0, 3, rapid.ID), func(u []UUID) []string { return canonicalSet(toStrings(u)) })
	maps := rapid.MapOfN(text, text, 0, 3)
	var f Fragment
	seen := map[UUID]bool{}
	for _, table := range rapid.SliceOfN(rapid.SampledFrom([]string{TableLogicalSwitch, TableLogicalSwitchPort, TableLogicalRouter, TableLogicalRouterPort,
		TableLogicalRouterPolicy, TableACL, TablePortGroup, TableDHCPOptions, TableNBGlobal}), 0, 6).Draw(t, "tables") {
		rt := rowTypes()[table]
		row := newRow(rt)
		id := uuids.Draw(t, "uuid")
		if seen[id] {
			continue
		}
		seen[id] = true
		for _, fd := range rt.fields {
			var value any
			switch {
			case fd.column == columnUUID:
				value = string(id)
			case fd.column == columnExternalIDs:
				m := maps.Draw(t, fd.column)
				m[keyKey] = text.Draw(t, "key")
				value = m
			case fd.optional() && rapid.Bool().Draw(t, "empty"):
			case fd.kind == kindMap:
				value = maps.Draw(t, fd.column)
			case fd.kind == kindSet && fd.ref:
				value = refs.Draw(t, fd.column)
			case fd.kind == kindSet:
				value = set.Draw(t, fd.column)
			case fd.ref:
				value = string(uuids.Draw(t, fd.column))
			case fd.kind == kindInt || fd.kind == kindOptInt:
				value = rapid.Int().Draw(t, fd.column)
			case fd.kind == kindBool || fd.kind == kindOptBool:
				value = rapid.Bool().Draw(t, fd.column)
			default:
				value = text.Draw(t, fd.column)
			}
			require.NoError(t, fd.set(valueOf(row), value))
		}
		f.Rows = append(f.Rows, row)
	}
	for range rapid.IntRange(0, 4).Draw(t, "edges") {
		f.Edges = append(f.Edges, Edge{Table: TableLogicalSwitch, From: uuids.Draw(t, "from"),
			Column: rapid.SampledFrom([]string{"ports", "acls"}).Draw(t, "column"), Target: uuids.Draw(t, "target")})
	}
	entries := map[string]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "entries") {
		e := Entry{Table: TableNBGlobal, Row: uid(99), Key: text.Draw(t, "key"), Value: text.Draw(t, "value")}
		if !entries[e.Key] {
			f.Entries = append(f.Entries, e)
		}
		entries[e.Key] = true
	}
	return f
}

func TestDumpReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := genFragment(t)
		text := dumpOf(t, f)
		back, err := ParseDump(strings.NewReader(text))
		require.NoError(t, err, text)
		require.Equal(t, text, dumpOf(t, back))
		require.ElementsMatch(t, f.Rows, back.Rows, text)
		require.Equal(t, edgeSet(f.Edges), edgeSet(back.Edges))
		require.ElementsMatch(t, f.Entries, back.Entries)
	})
}

func edgeSet(edges []Edge) map[Edge]bool {
	set := map[Edge]bool{}
	for _, e := range edges {
		set[e] = true
	}
	return set
}

func TestParseDumpErrors(t *testing.T) {
	row := "ACL 00000001-0000-5000-8000-000000000000\n"
	for text, message := range map[string]string{
		"    name = \"x\"":               "line 1: a column before the first row",
		"Nothing " + string(uid(1)):      `unknown table "Nothing"`,
		"ACL x":                          "line 1: row of ACL: invalid UUID",
		"ACL":                            "a row starts with",
		row + "    nothing = 1":          `line 2: table ACL has no column "nothing"`,
		row + "    _uuid = 1":            "no column",
		row + "    priority = x":         "column priority: value x",
		row + "    log = 3":              "column log",
		row + "    name = x":             "invalid syntax",
		row + "    options = 3":          "a map has keys",
		row + "    options:a":            "no value",
		row + "    priority":             "no value",
		row + "    priority:a = 1":       "a map has keys",
		row + "    priority ! 1":         "unexpected",
		row + "    options:a += \"b\"":   "unexpected addition",
		row + "    external_ids:\"a":     "invalid syntax",
		"to " + row + "    priority = 1": "unexpected",
		"Port_Group " + string(uid(1)) + "\n    ports = [@a]": "no row @a in the dump",
		"Port_Group " + string(uid(1)) + "\n    ports = a":    "in brackets",
	} {
		_, err := ParseDump(strings.NewReader(text))
		require.ErrorContains(t, err, message, text)
	}
}
