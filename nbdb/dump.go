package nbdb

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The text of a dump. A row is a paragraph: a line with its table, its key if
// it has one and its UUID, and a line per column that isn't at its default; a
// map has a line per pair; what other fragments add stands with `+=`:
//
//	Logical_Switch @tier/shop/web 0b7a…
//	    name = "shop/web"
//	    ports += [@address/shop/10.10.1.5]
//	    external_ids:ovn-vpc:key = "tier/shop/web"
//
// Additions to a row that isn't in the dump make a paragraph that starts with
// `to`. A reference is the target's key where the dump has it, else its UUID.

// Dump writes a fragment as text that ParseDump reads back: rows by table and
// key, everything in order, so that equal fragments give equal text.
func Dump(w io.Writer, f Fragment) error {
	d := newDumper(f)
	ids := slices.SortedFunc(maps.Keys(d.paragraphs), func(a, b rowID) int {
		return cmp.Or(compareTables(a.table, b.table), cmp.Compare(d.paragraphs[a].key, d.paragraphs[b].key),
			cmp.Compare(a.uuid, b.uuid))
	})
	out := bufio.NewWriter(w)
	for i, id := range ids {
		if i > 0 {
			fmt.Fprintln(out)
		}
		d.write(out, id, d.paragraphs[id])
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing a dump: %w", err)
	}
	return nil
}

type paragraph struct {
	row     Row // nil: additions only
	key     string
	edges   map[string][]string // column -> targets
	entries map[string]string
}

type dumper struct {
	paragraphs map[rowID]*paragraph
	refs       map[UUID]string // how a row is referred to
}

// plainKey are the keys that can stand in a dump without quotes.
func plainKey(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(",[]\"`", r)
	})
}

func newDumper(f Fragment) *dumper {
	d := &dumper{paragraphs: map[rowID]*paragraph{}, refs: map[UUID]string{}}
	uses := map[string]int{}
	for _, r := range f.Rows {
		key := r.IDs()[keyKey]
		d.paragraphs[idOf(r)] = &paragraph{row: r, key: key}
		uses[key]++
	}
	for id, p := range d.paragraphs {
		if plainKey(p.key) && uses[p.key] == 1 {
			d.refs[id.uuid] = "@" + p.key
		} else {
			p.key = ""
		}
	}
	for _, e := range f.Edges {
		p := d.at(rowID{e.Table, e.From})
		if p.edges == nil {
			p.edges = map[string][]string{}
		}
		p.edges[e.Column] = append(p.edges[e.Column], string(e.Target))
	}
	for _, e := range f.Entries {
		p := d.at(rowID{e.Table, e.Row})
		if p.entries == nil {
			p.entries = map[string]string{}
		}
		p.entries[e.Key] = e.Value
	}
	return d
}

func (d *dumper) at(id rowID) *paragraph {
	p := d.paragraphs[id]
	if p == nil {
		p = &paragraph{}
		d.paragraphs[id] = p
	}
	return p
}

// write puts a paragraph out; the writer keeps its first error for Flush.
func (d *dumper) write(out io.Writer, id rowID, p *paragraph) {
	switch {
	case p.row == nil:
		fmt.Fprintf(out, "to %s %s\n", id.table, id.uuid)
	case p.key != "":
		fmt.Fprintf(out, "%s @%s %s\n", id.table, p.key, id.uuid)
	default:
		fmt.Fprintf(out, "%s %s\n", id.table, id.uuid)
	}
	if p.row != nil {
		v := reflect.ValueOf(p.row).Elem()
		for _, f := range typeOf(p.row).fields {
			if value := f.get(v); f.column != columnUUID && f.matters(value) {
				d.column(out, f, value)
			}
		}
	}
	for _, column := range slices.Sorted(maps.Keys(p.edges)) {
		fmt.Fprintf(out, "    %s += %s\n", column, d.set(canonicalSet(p.edges[column]), true))
	}
	for _, key := range slices.Sorted(maps.Keys(p.entries)) {
		fmt.Fprintf(out, "    external_ids:%s += %s\n", quoteKey(key), quote(p.entries[key]))
	}
}

func (d *dumper) column(out io.Writer, f field, value any) {
	switch v := value.(type) {
	case map[string]string:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(out, "    %s:%s = %s\n", f.column, quoteKey(key), quote(v[key]))
		}
	case []string:
		fmt.Fprintf(out, "    %s = %s\n", f.column, d.set(v, f.ref))
	case string:
		if f.ref {
			fmt.Fprintf(out, "    %s = %s\n", f.column, d.ref(v))
			return
		}
		fmt.Fprintf(out, "    %s = %s\n", f.column, quote(v))
	default:
		fmt.Fprintf(out, "    %s = %v\n", f.column, v)
	}
}

func (d *dumper) ref(uuid string) string {
	if name, ok := d.refs[UUID(uuid)]; ok {
		return name
	}
	return uuid
}

func (d *dumper) set(values []string, refs bool) string {
	shown := make([]string, len(values))
	for i, v := range values {
		if refs {
			shown[i] = d.ref(v)
		} else {
			shown[i] = quote(v)
		}
	}
	if refs {
		slices.Sort(shown)
	}
	return "[" + strings.Join(shown, ", ") + "]"
}

// quote writes a string; one with quotes in it between backquotes, where that
// is more readable.
func quote(s string) string {
	if strings.ContainsAny(s, "\"\\") && strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

func quoteKey(key string) string {
	if plainKey(key) {
		return key
	}
	return strconv.Quote(key)
}
