package match

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

type tokenKind int

const (
	tokEnd tokenKind = iota
	tokName
	tokString
	tokInteger
	tokPunct
)

// format is how an integer was written; value and mask must agree in it.
type format int

const (
	decimal format = iota
	hexadecimal
	dottedQuad
	colonQuads
	macAddress
)

type token struct {
	kind tokenKind
	at   int    // offset of its first byte
	text string // name, unescaped string, punctuation, or integer as written
	// Of integers: mask is meaningful when masked.
	value, mask u128
	masked      bool
	format      format
}

// fault is a fault in a text at an offset.
func fault(at int, format string, args ...any) error {
	return fmt.Errorf("column %d: %s", at+1, fmt.Sprintf(format, args...))
}

const (
	nameStart = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_."
	digits    = "0123456789"
	hexDigits = digits + "abcdefABCDEF"
)

// span is the length of the longest start of s made of chars.
func span(s, chars string) int {
	for i := range len(s) {
		if strings.IndexByte(chars, s[i]) < 0 {
			return i
		}
	}
	return len(s)
}

// lex reads the token at or after offset i and returns it with the offset
// behind it.
func lex(s string, i int) (token, int, error) {
	i, err := skipBlank(s, i)
	if err != nil || i == len(s) {
		return token{kind: tokEnd, at: i}, i, err
	}
	rest := s[i:]
	switch c := rest[0]; {
	case strings.IndexByte(digits, c) >= 0, strings.HasPrefix(rest, "::"),
		strings.IndexByte(hexDigits, c) >= 0 && strings.HasPrefix(rest[span(rest, hexDigits):], ":"):
		return lexInteger(s, i)
	case c == '"':
		return lexString(s, i)
	case c == '$' || c == '@':
		return token{}, i, fault(i, "references to address sets ($) and port groups (@) are not supported")
	case strings.HasPrefix(rest, ".."):
		return token{}, i, fault(i, "unexpected `..'")
	case strings.IndexByte(nameStart, c) >= 0:
		n := span(rest, nameStart+digits)
		return token{kind: tokName, at: i, text: rest[:n]}, i + n, nil
	}
	for _, p := range []string{"==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "{", "}", ",", "["} {
		if strings.HasPrefix(rest, p) {
			return token{kind: tokPunct, at: i, text: p}, i + len(p), nil
		}
	}
	return token{}, i, fault(i, "unexpected %q", rest[:1])
}

// skipBlank passes over white space and comments.
func skipBlank(s string, i int) (int, error) {
	for {
		i += span(s[i:], " \t\n\r\v\f")
		switch {
		case strings.HasPrefix(s[i:], "//"):
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				return len(s), nil
			}
			i += n
		case strings.HasPrefix(s[i:], "/*"):
			line, _, _ := strings.Cut(s[i+2:], "\n")
			n := strings.Index(line, "*/")
			if n < 0 {
				return i, fault(i, "`/*' without `*/' in its line")
			}
			i += 2 + n + 2
		default:
			return i, nil
		}
	}
}

func lexString(s string, i int) (token, int, error) {
	for end := i + 1; end < len(s); end++ {
		switch s[end] {
		case '\\':
			end++
		case '"':
			t := token{kind: tokString, at: i}
			if err := json.Unmarshal([]byte(s[i:end+1]), &t.text); err != nil {
				return token{}, i, fault(i, "string: %v", err)
			}
			if strings.ContainsRune(t.text, 0) {
				return token{}, i, fault(i, "zero byte in string")
			}
			return t, end + 1, nil
		}
	}
	return token{}, i, fault(i, "string without end")
}

// lexInteger reads an integer and the mask that follows it, if any.
func lexInteger(s string, i int) (token, int, error) {
	t, end, err := lexNumber(s, i)
	if err != nil || !strings.HasPrefix(s[end:], "/") ||
		strings.HasPrefix(s[end:], "//") || strings.HasPrefix(s[end:], "/*") {
		return t, end, err
	}
	m, end, err := lexNumber(s, end+1)
	if err != nil {
		return token{}, i, err
	}
	t.masked = true
	bits := map[format]int{dottedQuad: 32, colonQuads: 128}[t.format]
	switch {
	case t.format == m.format:
		t.mask = m.value
	case m.format == decimal && bits > 0 && m.value.hi == 0 && m.value.lo <= uint64(bits):
		t.mask = prefixMask(int(m.value.lo), bits)
	case t.format == decimal && m.format == hexadecimal && t.value == u128{}:
		t.format, t.mask = hexadecimal, m.value
	default:
		return token{}, i, fault(m.at, "mask %s doesn't fit %s", m.text, t.text)
	}
	t.value = t.value.and(t.mask)
	return t, end, nil
}

func lexNumber(s string, i int) (token, int, error) {
	end := i
	for dot := false; end < len(s); end++ {
		c := s[end]
		if c == '.' && !strings.HasPrefix(s[end:], "..") {
			dot = true
		} else if (c != ':' || dot) && (c == '.' || c == '_' || strings.IndexByte(digits+nameStart, c) < 0) {
			break
		}
	}
	t := token{kind: tokInteger, at: i, text: s[i:end]}
	switch {
	case len(t.text) == 17 && isMAC(t.text):
		mac, _ := net.ParseMAC(t.text)
		t.format, t.value = macAddress, fromBytes(mac)
	case t.text != "" && span(t.text, digits) == len(t.text):
		n, err := strconv.ParseUint(t.text, 10, 64)
		if err != nil || t.text[0] == '0' && len(t.text) > 1 {
			return t, i, fault(i, "%s: decimal numbers are less than 2**64 and have no leading zeros", t.text)
		}
		t.format, t.value = decimal, u128{lo: n}
	case strings.HasPrefix(t.text, "0x") || strings.HasPrefix(t.text, "0X"):
		hex := strings.TrimLeft(t.text[2:], "0")
		if len(t.text) == 2 || span(hex, hexDigits) != len(hex) || len(hex) > 32 {
			return t, i, fault(i, "%s is no hexadecimal number of 128 bits at most", t.text)
		}
		for _, c := range []byte(hex) {
			d, _ := strconv.ParseUint(string(c), 16, 8)
			t.value = t.value.shl(4)
			t.value.lo |= d
		}
		t.format = hexadecimal
	default:
		a, err := netip.ParseAddr(t.text)
		if err != nil {
			return t, i, fault(i, "%q is no number and no address", t.text)
		}
		t.format, t.value = colonQuads, fromAddr(a)
		if a.Is4() {
			t.format = dottedQuad
		}
	}
	return t, end, nil
}

func isMAC(s string) bool {
	mac, err := net.ParseMAC(s)
	return err == nil && len(mac) == 6
}
