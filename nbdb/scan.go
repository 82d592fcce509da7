package nbdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
)

// scanner reads JSON that is in memory from front to back (RFC 8259). It looks
// at each byte about once and keeps nothing but what it is asked for, so that
// many rows cost little. The first fault ends it: from then on there is nothing
// more to read, and err tells why.
type scanner struct {
	data  []byte
	at    int
	err   error
	known *words
	plain []byte      // the last text that had escapes
	ends  map[int]int // of objects and arrays where they are known, by where they begin
}

// words holds short texts that come again and again, such as keys, so that each
// is in memory once. It never grows: of two in one place the last stays.
type words struct {
	seed  maphash.Seed
	texts [1024]string
}

const longestWord = 40 // a UUID is one

func newWords() *words { return &words{seed: maphash.MakeSeed()} }

// text is what b says; nil keeps nothing.
func (w *words) text(b []byte) string {
	if w == nil || len(b) > longestWord {
		return string(b)
	}
	held := &w.texts[maphash.Bytes(w.seed, b)%uint64(len(w.texts))]
	if *held != string(b) {
		*held = string(b)
	}
	return *held
}

func newScanner(data []byte, known *words) *scanner { return &scanner{data: data, known: known} }

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("JSON, byte %d: "+format, append([]any{s.at}, args...)...)
	}
	s.at = len(s.data)
}

// next is the first byte of what comes next, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take passes over a byte, if it is what comes next.
func (s *scanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) expect(c byte) {
	if !s.take(c) {
		s.fail("no %q", c)
	}
}

// array visits the elements of an array; visit has to read the element.
func (s *scanner) array(visit func()) {
	if !s.take('[') {
		s.fail("%.20q where a list is expected", s.data[s.at:])
		return
	}
	if s.take(']') {
		return
	}
	for s.err == nil {
		if visit(); s.take(']') {
			return
		}
		s.expect(',')
	}
}

// object visits the members of an object; visit has to read the value.
func (s *scanner) object(visit func(name string)) {
	if !s.take('{') {
		s.fail("%.20q where an object is expected", s.data[s.at:])
		return
	}
	if s.take('}') {
		return
	}
	for s.err == nil {
		name := s.text()
		if s.expect(':'); s.err != nil {
			return
		}
		if visit(name); s.take('}') {
			return
		}
		s.expect(',')
	}
}

// text reads a string.
func (s *scanner) text() string {
	token, escaped := s.quoted()
	if s.err != nil {
		return ""
	}
	if !escaped {
		return s.known.text(token[1 : len(token)-1])
	}
	return s.known.text(s.unescape(token))
}

// quoted passes over a string: it is the string in its quotes.
func (s *scanner) quoted() (token []byte, escaped bool) {
	if s.next() != '"' {
		s.fail("%.20q where a text is expected", s.data[s.at:])
		return nil, false
	}
	start := s.at
	for i := start + 1; i < len(s.data); i++ {
		switch s.data[i] {
		case '"':
			s.at = i + 1
			return s.data[start:s.at], escaped
		case '\\':
			escaped = true
			i++
		}
	}
	s.fail("a text without an end")
	return nil, false
}

// unescape is the text of a quoted string, until the next one is read.
func (s *scanner) unescape(token []byte) []byte {
	s.plain = s.plain[:0]
	for rest := token[1 : len(token)-1]; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			s.plain = append(s.plain, rest...)
			return s.plain
		}
		c := rest[i+1]
		if c != '"' && c != '\\' && c != '/' {
			break
		}
		s.plain = append(append(s.plain, rest[:i]...), c)
		rest = rest[i+2:]
	}
	var text string
	if err := json.Unmarshal(token, &text); err != nil {
		s.fail("%w", err)
	}
	s.plain = append(s.plain[:0], text...)
	return s.plain
}

// word reads a number, or one of true, false and null.
func (s *scanner) word() []byte {
	s.next()
	start := s.at
	for s.at < len(s.data) && strings.IndexByte(" \t\n\r,:[]{}\"", s.data[s.at]) < 0 {
		s.at++
	}
	if s.at == start {
		s.fail("no value")
	}
	return s.data[start:s.at]
}

func (s *scanner) integer() int {
	word := s.word()
	n, err := strconv.Atoi(string(word))
	if err != nil {
		s.fail("%q where a whole number is expected", word)
	}
	return n
}

func (s *scanner) boolean() bool {
	word := string(s.word())
	if word != "true" && word != "false" {
		s.fail("%q where true or false is expected", word)
	}
	return word == "true"
}

// raw passes over a value: it is the value as it stands there. What is inside
// of it is not checked.
func (s *scanner) raw() []byte {
	c := s.next()
	start := s.at
	switch c {
	case '"':
		s.quoted()
	case '{', '[':
		s.nested()
	default:
		s.word()
	}
	if s.err != nil {
		return nil
	}
	return s.data[start:s.at]
}

// nested passes over an object or an array.
func (s *scanner) nested() {
	if end, known := s.ends[s.at]; known {
		s.at = end
		return
	}
	depth := 0
	for i := s.at; i < len(s.data); i++ {
		switch s.data[i] {
		case '"':
			for i++; i < len(s.data) && s.data[i] != '"'; i++ {
				if s.data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at = i + 1
				return
			}
		}
	}
	s.fail("a value without an end")
}
