// Package match is OVN's expression language (ovn-sb(5), Logical_Flow, match):
// a typed tree, its text, a parser and an evaluator. No other package knows
// the syntax.
//
// OVN takes any text for a match; one that its parser refuses is stored all
// the same and the row then doesn't exist. So the constructors only build
// trees whose text OVN accepts, and Parse refuses what OVN refuses.
//
// The symbols follow OVN's table (lib/logical-fields.c), what is nominal and
// what ordinal included: nominal fields and predicates (protocols, Ethernet
// types, ICMP types, ports of a switch) know equality only and can't be
// negated.
package match

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Expr is an expression: an immutable tree, safe for concurrent use. Two
// trees are equal exactly if their texts are.
type Expr interface {
	// render appends the text.
	render(b []byte) []byte
	// eval is the verdict on a packet.
	eval(p *Packet) bool
	// not is the negation, or an error where OVN has none.
	not() (Expr, error)
}

// boolean is `1` or `0`.
type boolean bool

// test is a predicate, or its negation.
type test struct {
	pred Pred
	neg  bool
}

// comparison compares a field with a constant, or by == and != with several:
// == holds when one of them is met, != when none is.
type comparison struct {
	field  Field
	op     operator
	values []constant
}

// between is `lo <= field <= hi`.
type between struct {
	field  Field
	lo, hi u128
}

// junction is an AND or an OR of two operands or more, none of them a
// boolean or a junction of the same sort.
type junction struct {
	and bool
	of  []Expr
}

// constant is a masked number, value&^mask == 0, or the name of a port.
type constant struct {
	value, mask u128
	name        string
}

type operator string

const (
	eq operator = "=="
	ne operator = "!="
	lt operator = "<"
	le operator = "<="
	gt operator = ">"
	ge operator = ">="
)

// And is the conjunction in the order given. Nested conjunctions are flattened
// and constants folded; And() is true (`1`).
func And(es ...Expr) Expr { return join(true, es) }

// Or is the disjunction in the order given. Nested disjunctions are flattened
// and constants folded; Or() is false (`0`).
func Or(es ...Expr) Expr { return join(false, es) }

func join(and bool, es []Expr) Expr {
	of := make([]Expr, 0, len(es))
	for _, e := range es {
		switch e := e.(type) {
		case boolean:
			if bool(e) != and {
				return e
			}
		case junction:
			if e.and == and {
				of = append(of, e.of...)
			} else {
				of = append(of, e)
			}
		default:
			of = append(of, e)
		}
	}
	switch len(of) {
	case 0:
		return boolean(and)
	case 1:
		return of[0]
	}
	return junction{and, of}
}

// Constant tells whether e is the constant true or false, and which.
func Constant(e Expr) (value, ok bool) {
	b, ok := e.(boolean)
	return bool(b), ok
}

// Not is the negation as OVN means it: it moves inwards, and what it negates
// keeps its prerequisites. Not of `tcp.dst == 80` is `tcp.dst != 80`, which holds for
// TCP packets only; Not of ip.is_frag is `ip && !ip.is_frag`.
//
// It panics where OVN has no negation: nominal fields (ip.proto, eth.type,
// ICMP types and codes, inport, outport) and predicates made of them (ip,
// tcp, arp and so on).
func Not(e Expr) Expr {
	n, err := e.not()
	if err != nil {
		panic("match.Not: " + err.Error())
	}
	return n
}

func (e boolean) not() (Expr, error) { return !e, nil }

func (e test) not() (Expr, error) {
	if e.pred.nominal() {
		return nil, fmt.Errorf("%s can't be negated: it is nominal", e.pred)
	}
	if guard := e.pred.guard(); guard != "" && !e.neg {
		return And(Is(guard), test{e.pred, true}), nil
	}
	return test{e.pred, !e.neg}, nil
}

func (e comparison) not() (Expr, error) {
	if e.field.symbol().nominal {
		return nil, fmt.Errorf("%s can only be compared by ==: it is nominal", e.field)
	}
	return comparison{e.field, e.op.inverse(), e.values}, nil
}

func (e between) not() (Expr, error) {
	return Or(compare(e.field, lt, e.lo), compare(e.field, gt, e.hi)), nil
}

func (e junction) not() (Expr, error) {
	of := make([]Expr, len(e.of))
	for i, sub := range e.of {
		n, err := sub.not()
		if err != nil {
			return nil, err
		}
		of[i] = n
	}
	return join(!e.and, of), nil
}

// inverse is the operator that holds when o doesn't.
func (o operator) inverse() operator {
	switch o {
	case eq:
		return ne
	case ne:
		return eq
	case lt:
		return ge
	case ge:
		return lt
	case gt:
		return le
	default:
		return gt
	}
}

// turned is the operator with its operands exchanged.
func (o operator) turned() operator {
	switch o {
	case lt:
		return gt
	case gt:
		return lt
	case le:
		return ge
	case ge:
		return le
	default:
		return o
	}
}

// Is tests a predicate of this package's list; it panics on another.
func Is(p Pred) Expr {
	if !p.known() {
		panic(fmt.Sprintf("match.Is: unknown predicate %q", p))
	}
	return test{pred: p}
}

// Addrs holds when the field's address lies in one of the prefixes. Host bits
// don't count; the prefixes are sorted, and those that another covers dropped.
// A prefix of another family than the field's contains no address that the
// field can have: with no prefix of its family the result is false. It panics
// when the field holds no IP address.
func Addrs(f Field, prefixes ...netip.Prefix) Expr {
	s := f.mustBe("Addrs", ipv4, ipv6)
	ps := make([]netip.Prefix, 0, len(prefixes))
	for _, p := range prefixes {
		if p.IsValid() && p.Addr().BitLen() == s.bits {
			ps = append(ps, p.Masked())
		}
	}
	// A covering prefix sorts before all that it covers.
	slices.SortFunc(ps, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var last netip.Prefix
	var values []constant
	for _, p := range ps {
		if last.IsValid() && last.Contains(p.Addr()) {
			continue
		}
		last = p
		values = append(values, constant{value: fromAddr(p.Addr()), mask: prefixMask(p.Bits(), s.bits)})
	}
	if len(values) == 0 {
		return Or()
	}
	return comparison{f, eq, values}
}

// Range is a closed range of numbers.
type Range struct{ Lo, Hi uint32 }

// Num holds when the field's number lies in one of the ranges, which are
// sorted and merged. Numbers that the field can't have don't count (OVN
// refuses a match with one); nothing left, or Lo above Hi, is false, and all
// of the field's numbers are its prerequisite alone (`tcp`). Ranges of nominal
// fields are written out as a set. It panics when the field isn't numeric.
//
// In a fragment OVS sees port, ICMP type and code as 0, so a range with 0 in
// it holds for fragments.
func Num(f Field, ranges ...Range) Expr {
	s := f.mustBe("Num", number, hexNumber)
	top := uint32(1)<<s.bits - 1
	var values []constant
	var spans []Expr
	for _, r := range merged(ranges, top) {
		switch {
		case r.Lo == 0 && r.Hi == top:
			return s.always()
		case s.nominal || r.Lo == r.Hi:
			for n := r.Lo; n <= r.Hi; n++ {
				values = append(values, constant{value: u128{lo: uint64(n)}, mask: ones(s.bits)})
			}
		default:
			spans = append(spans, between{f, u128{lo: uint64(r.Lo)}, u128{lo: uint64(r.Hi)}})
		}
	}
	if len(values) > 0 {
		spans = slices.Insert(spans, 0, Expr(comparison{f, eq, values}))
	}
	return Or(spans...)
}

// merged are the numbers of rs up to top as ascending ranges with gaps
// between them.
func merged(rs []Range, top uint32) []Range {
	rs = slices.Clone(rs)
	slices.SortFunc(rs, func(a, b Range) int { return cmp.Compare(a.Lo, b.Lo) })
	var out []Range
	for _, r := range rs {
		r.Hi = min(r.Hi, top)
		if r.Lo > r.Hi {
			continue
		}
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

// EthMasked compares the bits of an Ethernet address that the mask has set,
// for equality or, with equal false, for the contrary; a mask of ones stands
// for the whole address. Value and mask are in colon notation. It panics when
// they aren't, or when the field holds no Ethernet address.
func EthMasked(f Field, value, mask string, equal bool) Expr {
	f.mustBe("EthMasked", ether)
	m := mustMAC(mask)
	op := ne
	if equal {
		op = eq
	}
	return comparison{f, op, []constant{{value: mustMAC(value).and(m), mask: m}}}
}

func mustMAC(s string) u128 {
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 {
		panic(fmt.Sprintf("match.EthMasked: %q is no Ethernet address", s))
	}
	return fromBytes(mac)
}

// Port holds when inport or outport is the logical port of that name; outport
// is known to OVN in to-lport rows only. A name that no port can have (invalid
// UTF-8, a zero byte) is false. It panics on another field.
func Port(f Field, name string) Expr {
	f.mustBe("Port", port)
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return Or()
	}
	return comparison{f, eq, []constant{{name: name}}}
}

func compare(f Field, op operator, v u128) Expr {
	return comparison{f, op, []constant{{value: v, mask: ones(f.symbol().bits)}}}
}
