package nbdb

import (
	"fmt"
	"reflect"
)

// fieldSet holds fields of a row type by their index.
type fieldSet uint64

func (s fieldSet) has(i int) bool { return s>>i&1 == 1 }

// read reads a row as the server writes it (RFC 7047, 4.1.3 «<row>») into the
// struct that dst points to, and tells which fields it has. Columns without a
// field are passed over.
func (t *rowType) read(s *scanner, dst any) (found fieldSet) {
	v := reflect.ValueOf(dst).Elem()
	s.object(func(column string) {
		i, ok := t.named[column]
		if !ok {
			s.raw()
			return
		}
		found |= 1 << i
		if t.fields[i].read(s, v); s.err != nil {
			s.err = fmt.Errorf("table %s, column %s: %w", t.table, column, s.err)
		}
	})
	return found
}

// read reads a column's value (RFC 7047, 5.1 «<value>») into its field. A set
// of one element comes as the element.
func (f field) read(s *scanner, structure reflect.Value) {
	v := structure.Field(f.index)
	switch f.kind {
	case kindMap:
		v.Set(reflect.ValueOf(s.pairs()))
		return
	case kindSet:
		set := []string{}
		s.atoms(func() { set = append(set, s.atom()) })
		f.setSlice(v, canonicalSet(set))
		return
	}
	n := 0
	v.SetZero()
	s.atoms(func() {
		if n++; n > 1 {
			s.fail("several values where one is expected")
			return
		}
		switch f.kind {
		case kindInt, kindOptInt:
			target(v).SetInt(int64(s.integer()))
		case kindBool, kindOptBool:
			target(v).SetBool(s.boolean())
		default:
			target(v).SetString(s.atom())
		}
	})
}

// tag enters ["set", ...], ["map", ...] or ["uuid", ...], or leaves what is none
// of them as it is, with the tag "".
func (s *scanner) tag() string {
	if s.next() != '[' {
		return ""
	}
	s.at++
	tag := s.text()
	s.expect(',')
	return tag
}

// atoms visits the atoms of a set, or the only one; visit has to read it.
func (s *scanner) atoms(visit func()) {
	start := s.at
	if s.tag() != "set" {
		s.at = start
		visit()
		return
	}
	s.array(visit)
	s.expect(']')
}

// atom reads a text or a reference.
func (s *scanner) atom() string {
	switch tag := s.tag(); tag {
	case "":
		return s.text()
	case "uuid", "named-uuid":
		text := s.text()
		s.expect(']')
		return text
	default:
		s.fail("a %s where one value is expected", tag)
		return ""
	}
}

// pairs reads a map of texts, nil for an empty one.
func (s *scanner) pairs() map[string]string {
	if tag := s.tag(); tag != "map" {
		s.fail("no map")
		return nil
	}
	var m map[string]string
	s.array(func() {
		if m == nil {
			m = map[string]string{}
		}
		s.expect('[')
		key := s.atom()
		s.expect(',')
		m[key] = s.atom()
		s.expect(']')
	})
	s.expect(']')
	return m
}
