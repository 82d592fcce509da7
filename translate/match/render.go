package match

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Render writes the expression in OVN's syntax, deterministically, operands in
// the order they were given in, with parentheses only where OVN demands them:
// around a junction inside a junction of the other sort.
func Render(e Expr) string { return string(e.render(nil)) }

func (e boolean) render(b []byte) []byte {
	if e {
		return append(b, '1')
	}
	return append(b, '0')
}

func (e test) render(b []byte) []byte {
	if e.neg {
		b = append(b, '!')
	}
	return append(b, e.pred...)
}

func (e between) render(b []byte) []byte {
	s := e.field.symbol()
	all := ones(s.bits)
	b = s.render(b, constant{value: e.lo, mask: all})
	b = append(append(append(b, " <= "...), e.field...), " <= "...)
	return s.render(b, constant{value: e.hi, mask: all})
}

func (e comparison) render(b []byte) []byte {
	s := e.field.symbol()
	b = append(b, e.field...)
	b = append(append(append(b, ' '), e.op...), ' ')
	if len(e.values) == 1 {
		return s.render(b, e.values[0])
	}
	b = append(b, '{')
	for i, v := range e.values {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = s.render(b, v)
	}
	return append(b, '}')
}

func (e junction) render(b []byte) []byte {
	op := " || "
	if e.and {
		op = " && "
	}
	for i, sub := range e.of {
		if i > 0 {
			b = append(b, op...)
		}
		if _, nested := sub.(junction); nested {
			b = append(sub.render(append(b, '(')), ')')
		} else {
			b = sub.render(b)
		}
	}
	return b
}

// render writes a constant of the symbol's kind.
func (s symbol) render(b []byte, c constant) []byte {
	if s.kind == port {
		// A string always marshals; OVN unescapes as JSON does.
		text, _ := json.Marshal(c.name)
		return append(b, text...)
	}
	b = s.renderNumber(b, c.value)
	if c.mask == ones(s.bits) {
		return b
	}
	b = append(b, '/')
	if n := c.mask.prefixLen(s.bits); n >= 0 && (s.kind == ipv4 || s.kind == ipv6) {
		return strconv.AppendInt(b, int64(n), 10)
	}
	return s.renderNumber(b, c.mask)
}

func (s symbol) renderNumber(b []byte, v u128) []byte {
	switch s.kind {
	case ipv4, ipv6:
		return v.addr(s.bits).AppendTo(b)
	case ether:
		m := v.bytes()
		return fmt.Appendf(b, "%02x:%02x:%02x:%02x:%02x:%02x", m[10], m[11], m[12], m[13], m[14], m[15])
	case hexNumber:
		return strconv.AppendUint(append(b, "0x"...), v.lo, 16)
	default:
		return strconv.AppendUint(b, v.lo, 10)
	}
}
