package nbdb

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// ParseDump reads what Dump writes. The rows, edges and entries come in the
// order of the text; errors name the line.
func ParseDump(r io.Reader) (Fragment, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return Fragment{}, fmt.Errorf("reading a dump: %w", err)
	}
	p := dumpParser{uuids: map[string]string{}}
	lines := strings.Split(string(text), "\n")
	for _, line := range lines {
		if fields := strings.Fields(line); !strings.HasPrefix(line, " ") && len(fields) == 3 && fields[0] != "to" {
			p.uuids[fields[1]] = fields[2]
		}
	}
	for i, line := range lines {
		if err := p.line(line); err != nil {
			return Fragment{}, fmt.Errorf("dump, line %d: %w", i+1, err)
		}
	}
	return p.fragment, nil
}

type dumpParser struct {
	fragment Fragment
	uuids    map[string]string // @key -> UUID
	id       rowID             // the paragraph's row
	row      Row               // nil in a paragraph of additions
}

func (p *dumpParser) line(line string) error {
	switch {
	case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		return nil
	case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
		return p.column(strings.TrimSpace(line))
	}
	return p.header(strings.Fields(line))
}

func (p *dumpParser) header(fields []string) error {
	additions := fields[0] == "to"
	if additions {
		fields = fields[1:]
	}
	if len(fields) < 2 || len(fields) > 3 {
		return errors.New("a row starts with its table, its @key if it has one, and its UUID")
	}
	table, id := fields[0], fields[len(fields)-1]
	t, ok := rowTypes()[table]
	if !ok {
		return fmt.Errorf("unknown table %q", table)
	}
	if _, err := uuid.Parse(id); err != nil {
		return fmt.Errorf("row of %s: %w", table, err)
	}
	p.id, p.row = rowID{table, UUID(id)}, nil
	if additions {
		return nil
	}
	v := reflect.New(t.typ)
	if err := t.fields[t.named[columnUUID]].set(v.Elem(), id); err != nil {
		return err
	}
	p.row = v.Interface().(Row)
	p.fragment.Rows = append(p.fragment.Rows, p.row)
	return nil
}

// column reads `column = value`, `column:key = value` and the same with `+=`.
func (p *dumpParser) column(line string) error {
	if p.id.table == "" {
		return errors.New("a column before the first row")
	}
	end := strings.IndexAny(line, ": ")
	if end < 0 {
		return fmt.Errorf("no value in %q", line)
	}
	column, rest, key, keyed := line[:end], line[end:], "", false
	if strings.HasPrefix(rest, ":") {
		var err error
		if key, rest, err = cutKey(rest[1:]); err != nil {
			return fmt.Errorf("column %s: %w", column, err)
		}
		keyed = true
	}
	t := rowTypes()[p.id.table]
	i, ok := t.named[column]
	if !ok || column == columnUUID {
		return fmt.Errorf("table %s has no column %q", p.id.table, column)
	}
	var err error
	if value, ok := strings.CutPrefix(rest, " += "); ok {
		err = p.addition(t.fields[i], key, keyed, value)
	} else if value, ok := strings.CutPrefix(rest, " = "); ok && p.row != nil {
		err = p.value(t.fields[i], key, keyed, value)
	} else {
		err = fmt.Errorf("unexpected %q", rest)
	}
	if err != nil {
		return fmt.Errorf("column %s: %w", column, err)
	}
	return nil
}

func cutKey(text string) (key, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		i := strings.Index(text, " ")
		if i < 0 {
			return "", "", errors.New("no value")
		}
		return text[:i], text[i:], nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("key %s: %w", text, err)
	}
	key, err = strconv.Unquote(quoted)
	return key, text[len(quoted):], err
}

func (p *dumpParser) addition(f field, key string, keyed bool, text string) error {
	if keyed {
		value, err := strconv.Unquote(text)
		if err != nil || f.column != columnExternalIDs {
			return fmt.Errorf("unexpected addition %s", text)
		}
		p.fragment.Entries = append(p.fragment.Entries, Entry{Table: p.id.table, Row: p.id.uuid, Key: key, Value: value})
		return nil
	}
	targets, err := p.set(text, true)
	if err != nil {
		return err
	}
	for _, target := range targets {
		p.fragment.Edges = append(p.fragment.Edges,
			Edge{Table: p.id.table, From: p.id.uuid, Column: f.column, Target: UUID(target)})
	}
	return nil
}

func (p *dumpParser) value(f field, key string, keyed bool, text string) error {
	v := reflect.ValueOf(p.row).Elem()
	if keyed != (f.kind == kindMap) {
		return errors.New("a map has keys, other columns have none")
	}
	var value any
	var err error
	switch f.kind {
	case kindMap:
		var s string
		s, err = strconv.Unquote(text)
		m := maps.Clone(f.get(v).(map[string]string))
		m[key] = s
		value = m
	case kindSet:
		var set []string
		set, err = p.set(text, f.ref)
		value = canonicalSet(set)
	case kindInt, kindOptInt:
		value, err = strconv.Atoi(text)
	case kindBool, kindOptBool:
		value, err = strconv.ParseBool(text)
	default:
		value, err = p.atom(text, f.ref)
	}
	if err != nil {
		return fmt.Errorf("value %s: %w", text, err)
	}
	return f.set(v, value)
}

func (p *dumpParser) atom(text string, isRef bool) (string, error) {
	if !isRef {
		return strconv.Unquote(text)
	}
	if !strings.HasPrefix(text, "@") {
		return text, nil
	}
	id, ok := p.uuids[text]
	if !ok {
		return "", fmt.Errorf("no row %s in the dump", text)
	}
	return id, nil
}

func (p *dumpParser) set(text string, refs bool) ([]string, error) {
	rest, ok := strings.CutPrefix(text, "[")
	if !ok || !strings.HasSuffix(rest, "]") {
		return nil, errors.New("a set stands in brackets")
	}
	rest = rest[:len(rest)-1]
	set := []string{}
	for rest != "" {
		token := rest
		if !refs {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("element %s: %w", rest, err)
			}
			token = quoted
		} else if i := strings.Index(rest, ", "); i >= 0 {
			token = rest[:i]
		}
		atom, err := p.atom(token, refs)
		if err != nil {
			return nil, fmt.Errorf("element %s: %w", token, err)
		}
		set = append(set, atom)
		rest = strings.TrimPrefix(rest[len(token):], ", ")
	}
	return set, nil
}
