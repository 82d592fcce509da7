package nbdb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Values of more than one atom as they are sent (RFC 7047, 5.1), with pairs in
// order so that equal plans are equal bytes.
type (
	wireMap             map[string]string
	wireTexts           []string
	wireRefs[S ~string] []S
)

// MarshalJSON encodes a map.
func (m wireMap) MarshalJSON() ([]byte, error) { return m.append(nil), nil }

// MarshalJSON encodes a set.
func (s wireTexts) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

// MarshalJSON encodes a set.
func (s wireRefs[S]) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

func (m wireMap) append(b []byte) []byte {
	keys := make([]string, 0, 16)
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b = append(b, `["map",[`...)
	for i, k := range keys {
		b = appendPair(comma(b, i), k, m[k])
	}
	return append(b, "]]"...)
}

func (s wireTexts) append(b []byte) []byte {
	b = append(b, `["set",[`...)
	for i, text := range s {
		b = appendText(comma(b, i), text)
	}
	return append(b, "]]"...)
}

func (s wireRefs[S]) append(b []byte) []byte {
	b = append(b, `["set",[`...)
	for i, uuid := range s {
		b = appendPair(comma(b, i), "uuid", string(uuid))
	}
	return append(b, "]]"...)
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func appendPair(b []byte, key, value string) []byte {
	b = appendText(append(b, '['), key)
	return append(appendText(append(b, ','), value), ']')
}

// appendText adds a text as encoding/json writes it, but for what that escapes
// with regard to HTML.
func appendText(b []byte, text string) []byte {
	start := len(b)
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			plain, _ := encode(text) // of a text always
			return append(b[:start], plain...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// encode is any value as JSON.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// encoded is JSON in pieces: growing one that has megabytes means to copy it
// again and again.
type encoded [][]byte

// transaction are the parameters of the method «transact» (RFC 7047, 4.1.3).
// They are what libovsdb makes of the operations, but its own encoding goes over
// each of them three times.
func transaction(database string, ops []ovsdb.Operation) (encoded, error) {
	const most, room, usual = 64 << 10, 1 << 10, 1 << 9
	piece := func(left int) []byte { return make([]byte, 0, min(most, room+left*usual)) }
	var pieces encoded
	b := appendText(append(piece(len(ops)), '['), database)
	for i := range ops {
		if i > 0 && cap(b)-len(b) < room {
			pieces, b = append(pieces, b), piece(len(ops)-i)
		}
		var err error
		if b, err = appendOperation(append(b, ','), &ops[i]); err != nil {
			return nil, err
		}
	}
	return append(pieces, append(b, ']')), nil
}

// operationWriter adds one operation to what is encoded, and keeps its first
// error.
type operationWriter struct {
	b   []byte
	err error
}

func appendOperation(b []byte, op *ovsdb.Operation) ([]byte, error) {
	w := operationWriter{b: append(b, `{"op":`...)}
	w.text(op.Op)
	if op.Durable != nil || op.Comment != nil || op.Lock != nil {
		return nil, fmt.Errorf("the operation %s has members that nobody writes", op.Op)
	}
	w.member("table", op.Table != "", func() { w.text(op.Table) })
	w.member("row", len(op.Row) > 0, func() { w.row(op.Row) })
	w.member("rows", op.Op == ovsdb.OperationWait, func() { list(&w, op.Rows, w.row) })
	w.member("columns", len(op.Columns) > 0, func() { list(&w, op.Columns, w.text) })
	w.member("mutations", len(op.Mutations) > 0, func() {
		list(&w, op.Mutations, func(m ovsdb.Mutation) { w.triple(m.Column, string(m.Mutator), m.Value) })
	})
	w.member("timeout", op.Timeout != nil, func() { w.value(*op.Timeout) })
	// A select that has none takes all rows.
	w.member("where", len(op.Where) > 0 || op.Op == ovsdb.OperationSelect, func() {
		list(&w, op.Where, func(c ovsdb.Condition) { w.triple(c.Column, string(c.Function), c.Value) })
	})
	// Without it a server sorts what it selects by all columns, also those that
	// nobody asked for (ovsdb/execution.c).
	w.member("sort", op.Op == ovsdb.OperationSelect, func() { list(&w, []string{}, w.text) })
	w.member("until", op.Until != "", func() { w.text(op.Until) })
	w.member("uuid", op.UUID != "", func() { w.text(op.UUID) })
	w.member("uuid-name", op.UUIDName != "", func() { w.text(op.UUIDName) })
	return append(w.b, '}'), w.err
}

func (w *operationWriter) text(s string) { w.b = appendText(w.b, s) }

func (w *operationWriter) member(name string, there bool, write func()) {
	if there {
		w.b = append(appendText(append(w.b, ','), name), ':')
		write()
	}
}

func list[T any](w *operationWriter, elements []T, write func(T)) {
	w.b = append(w.b, '[')
	for i, e := range elements {
		w.b = comma(w.b, i)
		write(e)
	}
	w.b = append(w.b, ']')
}

func (w *operationWriter) triple(column, what string, value any) {
	w.b = append(appendText(append(appendText(append(w.b, '['), column), ','), what), ',')
	w.value(value)
	w.b = append(w.b, ']')
}

func (w *operationWriter) row(row ovsdb.Row) {
	columns := make([]string, 0, 16)
	for column := range row {
		columns = append(columns, column)
	}
	slices.Sort(columns)
	w.b = append(w.b, '{')
	for i, column := range columns {
		w.b = append(appendText(comma(w.b, i), column), ':')
		w.value(row[column])
	}
	w.b = append(w.b, '}')
}

func (w *operationWriter) value(value any) {
	switch v := value.(type) {
	case string:
		w.text(v)
	case int:
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	case bool:
		w.b = strconv.AppendBool(w.b, v)
	case [2]string:
		w.b = appendPair(w.b, v[0], v[1])
	case wireMap:
		w.b = v.append(w.b)
	case wireTexts:
		w.b = v.append(w.b)
	case wireRefs[string]:
		w.b = v.append(w.b)
	case wireRefs[UUID]:
		w.b = v.append(w.b)
	default:
		text, err := encode(value)
		w.b, w.err = append(w.b, text...), cmp.Or(w.err, err)
	}
}
