package match

import "fmt"

// maxParens is how deep OVN's parser nests parentheses.
const maxParens = 100

// Parse reads an expression as OVN's parser does: all that Render writes, and
// what people write by hand (`!`, every comparison operator, constants before
// the field, hexadecimal numbers, masks, comments). It refuses with the column
// what OVN refuses, and besides subfields (`ip4.src[0..7]`), functions,
// references to address sets and port groups, connection state and every
// field or predicate that this package doesn't list. It accepts, as OVN does, what
// is a trap: a range that no number is in, and a negated ip.* or ip4.mcast or
// ip6.mcast that isn't beside its positive protocol (see Not).
func Parse(s string) (Expr, error) {
	p := &parser{text: s}
	e, err := p.all()
	if err != nil {
		return nil, fmt.Errorf("parse match: %w", err)
	}
	return e, nil
}

type parser struct {
	text  string
	next  int   // offset behind tok
	tok   token // the token to be read
	depth int   // of parentheses
}

func (p *parser) advance() (err error) {
	p.tok, p.next, err = lex(p.text, p.next)
	return err
}

func (p *parser) at(punct string) bool { return p.tok.kind == tokPunct && p.tok.text == punct }

// take advances over the punctuation if it is next.
func (p *parser) take(punct string) (bool, error) {
	if !p.at(punct) {
		return false, nil
	}
	return true, p.advance()
}

// wants is the fault that something else was expected here.
func (p *parser) wants(what string) error {
	if p.tok.kind == tokEnd {
		return fault(p.tok.at, "%s expected, found the end", what)
	}
	return fault(p.tok.at, "%s expected, found %q", what, p.tok.text)
}

func (p *parser) all() (Expr, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	e, err := p.junction(false)
	if err == nil && p.tok.kind != tokEnd {
		err = p.wants("&& or || or the end")
	}
	return e, err
}

// junction reads operands joined by one sort of operator. As in OVN, neg says
// that an odd number of negations encloses them: the tree is built negated.
func (p *parser) junction(neg bool) (Expr, error) {
	e, err := p.operand(neg)
	if err != nil || !p.at("&&") && !p.at("||") {
		return e, err
	}
	op, es := p.tok.text, []Expr{e}
	for p.at(op) {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if e, err = p.operand(neg); err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	if p.at("&&") || p.at("||") {
		return nil, fault(p.tok.at, "&& and || need parentheses when used together")
	}
	return join((op == "&&") != neg, es), nil
}

func (p *parser) operand(neg bool) (Expr, error) {
	at := p.tok.at
	bang, err := p.take("!")
	if err != nil {
		return nil, err
	}
	e, atomic, err := p.primary(neg != bang)
	if err == nil && bang && !atomic {
		err = fault(at, "! before a comparison needs parentheses around it")
	}
	return e, err
}

// primary reads a parenthesis, predicate, comparison or constant; all but the
// comparison are atomic.
func (p *parser) primary(neg bool) (e Expr, atomic bool, err error) {
	switch {
	case p.at("("):
		e, err = p.parenthesis(neg)
		return e, true, err
	case p.tok.kind == tokName && Pred(p.tok.text).known():
		e, err = p.predicate(neg)
		return e, true, err
	case p.tok.kind == tokName:
		e, err = p.fieldFirst(neg)
		return e, false, err
	}
	return p.constantFirst(neg)
}

func (p *parser) parenthesis(neg bool) (Expr, error) {
	if p.depth == maxParens {
		return nil, fault(p.tok.at, "more than %d parentheses nested", maxParens)
	}
	p.depth++
	defer func() { p.depth-- }()
	if err := p.advance(); err != nil {
		return nil, err
	}
	e, err := p.junction(neg)
	if err != nil {
		return nil, err
	}
	if closed, err := p.take(")"); closed || err != nil {
		return e, err
	}
	return nil, p.wants("&& or || or )")
}

func (p *parser) predicate(neg bool) (Expr, error) {
	pred, at := Pred(p.tok.text), p.tok.at
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.atOperator() || p.at("[") {
		return nil, fault(p.tok.at, "predicate %s is tested by its name alone", pred)
	}
	if neg && pred.nominal() {
		return nil, fault(at, "%s can't be negated: it is nominal", pred)
	}
	return test{pred, neg}, nil
}

// field reads a field's name.
func (p *parser) field() (Field, error) {
	f, at := Field(p.tok.text), p.tok.at
	if p.tok.kind != tokName {
		return "", p.wants("field")
	}
	if err := p.advance(); err != nil {
		return "", err
	}
	switch {
	case p.at("("):
		return "", fault(at, "function %s is not supported", f)
	case p.at("["):
		return "", fault(p.tok.at, "subfields are not supported")
	case f.symbol().kind == unknown:
		return "", fault(at, "unknown or unsupported field %q", f)
	}
	return f, nil
}

func (p *parser) atOperator() bool {
	return p.at("==") || p.at("!=") || p.at("<") || p.at("<=") || p.at(">") || p.at(">=")
}

func (p *parser) operator() (operator, error) {
	if !p.atOperator() {
		return "", p.wants("comparison operator")
	}
	op := operator(p.tok.text)
	return op, p.advance()
}

// operandSet is a constant, or several in braces.
type operandSet struct {
	at     int
	braces bool
	of     []token
}

func (p *parser) constants() (operandSet, error) {
	c := operandSet{at: p.tok.at}
	var err error
	if c.braces, err = p.take("{"); err != nil {
		return c, err
	}
	for done := false; !done; {
		if p.tok.kind != tokInteger && p.tok.kind != tokString {
			return c, p.wants("constant")
		}
		if len(c.of) > 0 && c.of[0].kind != p.tok.kind {
			return c, fault(p.tok.at, "numbers and strings in one set")
		}
		c.of = append(c.of, p.tok)
		if err := p.advance(); err != nil {
			return c, err
		}
		if done = !c.braces; !done {
			if _, err := p.take(","); err != nil {
				return c, err
			}
			if done, err = p.take("}"); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

func (p *parser) fieldFirst(neg bool) (Expr, error) {
	f, err := p.field()
	if err != nil {
		return nil, err
	}
	op, err := p.operator()
	if err != nil {
		return nil, err
	}
	c, err := p.constants()
	if err != nil {
		return nil, err
	}
	return newComparison(f, op, c, neg)
}

// constantFirst reads `1`, `0`, `80 == tcp.dst` or `1 <= tcp.dst <= 80`.
func (p *parser) constantFirst(neg bool) (e Expr, atomic bool, err error) {
	c, err := p.constants()
	if err != nil {
		return nil, false, err
	}
	if t := c.of[0]; !p.atOperator() && !c.braces && (t.text == "0" || t.text == "1") && t.kind == tokInteger {
		return boolean((t.text == "1") != neg), true, nil
	}
	op, err := p.operator()
	if err != nil {
		return nil, false, err
	}
	f, err := p.field()
	if err != nil {
		return nil, false, err
	}
	if !p.atOperator() {
		e, err = newComparison(f, op.turned(), c, neg)
		return e, false, err
	}
	e, err = p.rest(c, op, f, neg)
	return e, false, err
}

// rest reads the second half of a range, after its first constant, operator
// and field.
func (p *parser) rest(first operandSet, op1 operator, f Field, neg bool) (Expr, error) {
	at := p.tok.at
	op2, err := p.operator()
	if err != nil {
		return nil, err
	}
	second, err := p.constants()
	if err != nil {
		return nil, err
	}
	if (op1 != lt && op1 != le || op2 != lt && op2 != le) && (op1 != gt && op1 != ge || op2 != gt && op2 != ge) {
		return nil, fault(at, "a range has the form x < field < y or x > field > y, or with <= and >=")
	}
	a, err := newComparison(f, op1.turned(), first, false)
	if err != nil {
		return nil, err
	}
	b, err := newComparison(f, op2, second, false)
	if err != nil {
		return nil, err
	}
	e := And(a, b)
	if op1 == le && op2 == le {
		e = between{f, first.of[0].value, second.of[0].value}
	} else if op1 == ge && op2 == ge {
		e = between{f, second.of[0].value, first.of[0].value}
	}
	if neg {
		return e.not()
	}
	return e, nil
}

// newComparison checks what OVN checks of a comparison and builds it, negated
// if asked to.
func newComparison(f Field, op operator, c operandSet, neg bool) (Expr, error) {
	s := f.symbol()
	values := make([]constant, len(c.of))
	for i, t := range c.of {
		v, err := s.constant(f, t)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	if op != eq && op != ne {
		switch {
		case s.nominal:
			return nil, fault(c.at, "%s can only be compared by ==: it is nominal", f)
		case c.braces:
			return nil, fault(c.at, "a set can only be compared by == and !=")
		case c.of[0].masked:
			return nil, fault(c.at, "a masked constant can only be compared by == and !=")
		}
	}
	if neg {
		op = op.inverse()
	}
	if s.nominal && op != eq {
		return nil, fault(c.at, "%s can only be compared by ==: it is nominal", f)
	}
	return comparison{f, op, values}, nil
}

// constant is the token as a constant of the field.
func (s symbol) constant(f Field, t token) (constant, error) {
	if (t.kind == tokString) != (s.kind == port) {
		return constant{}, fault(t.at, "%q is no constant for %s", t.text, f)
	}
	if s.kind == port {
		return constant{name: t.text}, nil
	}
	width := map[format]int{dottedQuad: 32, colonQuads: 128, macAddress: 48}[t.format]
	switch {
	case t.masked && s.nominal:
		return constant{}, fault(t.at, "%s takes no mask: it is nominal", f)
	case t.masked:
		width = t.mask.width()
	case width == 0:
		width = t.value.width()
	}
	if width > s.bits {
		return constant{}, fault(t.at, "%s has %d bits, more than the %d of %s", t.text, width, s.bits, f)
	}
	if !t.masked {
		t.mask = ones(s.bits)
	}
	return constant{value: t.value, mask: t.mask}, nil
}
