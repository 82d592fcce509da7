package model

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Lists may have many rules, and are encoded and decoded whole where one of them
// changes. What is here does that for the rules as encoding/json would, several
// times as fast, and leaves all that is not plain to it.

// noRules is where the rules of a stored list begin and end, where it has none. No
// string holds these quotes.
const noRules = `"spec":{"rules":[]`

// MarshalList is MarshalStored of a list, and the same in parts: the list without
// its rules, and each of these.
func MarshalList(r *Resource) (whole, bare string, rules []string, err error) {
	list := r.Spec.(*ACLSpec)
	data, bareData, ends, err := marshalList(list, func(spec Spec) any { return stored{r.Metadata, spec} })
	if err != nil {
		return "", "", nil, fmt.Errorf("encode %s: %w", r.ID(), err)
	}
	whole, rules = string(data), make([]string, len(ends))
	for i, end := range ends {
		rules[i] = whole[end.from:end.to]
	}
	return whole, string(bareData), rules, nil
}

// marshalSpec is compactJSON of a value that has a spec.
func marshalSpec(spec Spec, with func(Spec) any) ([]byte, error) {
	list, ok := spec.(*ACLSpec)
	if !ok || len(list.Rules) == 0 {
		return compactJSON(with(spec))
	}
	data, _, _, err := marshalList(list, with)
	return data, err
}

// span is where a rule stands.
type span struct{ from, to int }

func marshalList(list *ACLSpec, with func(Spec) any) (whole, bare []byte, at []span, err error) {
	short := *list
	short.Rules = []Rule{}
	bare, err = compactJSON(with(&short))
	head := bytes.Index(bare, []byte(noRules)) + len(noRules) - 1
	if err != nil {
		return nil, nil, nil, err
	}
	whole = append(make([]byte, 0, len(bare)+len(list.Rules)*160), bare[:head]...)
	at = make([]span, len(list.Rules))
	for i := range list.Rules {
		if i > 0 {
			whole = append(whole, ',')
		}
		at[i].from = len(whole)
		if whole, err = appendRule(whole, &list.Rules[i]); err != nil {
			return nil, nil, nil, err
		}
		at[i].to = len(whole)
	}
	return append(whole, bare[head:]...), bare, at, nil
}

// MarshalRule is a rule as it stands in MarshalStored.
func MarshalRule(r *Rule) (string, error) {
	data, err := appendRule(nil, r)
	return string(data), err
}

// ParseRule reads what MarshalRule has written; false for another text.
func ParseRule(text string) (Rule, bool) {
	c := &ruleReader{rest: text}
	rule := c.rule()
	again, err := appendRule(nil, &rule)
	rule.complete()
	return rule, !c.lost && c.rest == "" && err == nil && string(again) == text
}

// appendRule appends compactJSON of a rule.
func appendRule(b []byte, r *Rule) (_ []byte, err error) {
	text := func(name, value string) {
		if b = append(append(b, name...), '"'); err == nil {
			b, err = appendText(b, value)
		}
		b = append(b, '"')
	}
	b = strconv.AppendInt(append(b, `{"number":`...), int64(r.Number), 10)
	text(`,"action":`, string(r.Action))
	text(`,"direction":`, string(r.Direction))
	text(`,"protocol":`, string(r.Protocol))
	for i, p := range r.Ports {
		b = append(b, opening(i, `,"ports":[`)...)
		if p.First == p.Last {
			b = strconv.AppendUint(b, uint64(p.First), 10)
		} else {
			b = append(append(append(b, '"'), p.String()...), '"')
		}
	}
	b = closing(b, len(r.Ports))
	if r.ICMP != nil {
		b = strconv.AppendInt(append(b, `,"icmp":{"type":`...), int64(r.ICMP.Type), 10)
		b = append(strconv.AppendInt(append(b, `,"code":`...), int64(r.ICMP.Code), 10), '}')
	}
	for i, p := range r.CIDRs {
		b = append(append(b, opening(i, `,"cidrs":[`)...), '"')
		b = append(p.AppendTo(b), '"')
	}
	b = closing(b, len(r.CIDRs))
	for i, t := range r.Tiers {
		text(opening(i, `,"tiers":[`), t)
	}
	b = closing(b, len(r.Tiers))
	if r.Log != "" {
		text(`,"log":`, string(r.Log))
	}
	if r.Description != "" {
		text(`,"description":`, r.Description)
	}
	return append(b, '}'), err
}

// opening comes before the element i of an array.
func opening(i int, first string) string {
	if i == 0 {
		return first
	}
	return ","
}

// closing ends an array of n elements, which is left out where it has none.
func closing(b []byte, n int) []byte {
	if n > 0 {
		b = append(b, ']')
	}
	return b
}

// appendText appends what stands between the quotes of a JSON string.
func appendText(b []byte, text string) ([]byte, error) {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return append(b, text...), nil
	}
	data, err := compactJSON(text)
	if err != nil {
		return nil, err
	}
	return append(b, data[1:len(data)-1]...), nil
}

// splitList takes the rules out of a list that was encoded by compactJSON; ok is
// false for what may be no such list.
func splitList(text string) (bare string, rules []Rule, ok bool) {
	const open = `"spec":{"rules":[`
	at := strings.Index(text, open)
	if at < 0 {
		return "", nil, false
	}
	at += len(open)
	c := &ruleReader{rest: text[at:]}
	if n := strings.Count(c.rest, `{"number":`); n > 0 {
		rules = make([]Rule, 0, n)
	}
	for !strings.HasPrefix(c.rest, "]") && !c.lost {
		if len(rules) > 0 {
			c.expect(",")
		}
		rules = append(rules, c.rule())
	}
	return text[:at] + c.rest, rules, !c.lost
}

// ruleReader reads rules as appendRule writes them; it is lost where that isn't so.
type ruleReader struct {
	rest string
	lost bool
}

func (c *ruleReader) has(text string) bool {
	rest, ok := strings.CutPrefix(c.rest, text)
	if ok {
		c.rest = rest
	}
	return ok
}

func (c *ruleReader) expect(text string) { c.lost = !c.has(text) || c.lost }

// until is what stands before the first of some characters.
func (c *ruleReader) until(ends string) string {
	at := strings.IndexAny(c.rest, ends)
	if at < 0 {
		c.lost = true
		return ""
	}
	text := c.rest[:at]
	c.rest = c.rest[at:]
	return text
}

func (c *ruleReader) number(name string) int {
	c.expect(name)
	n, err := strconv.Atoi(c.until(",}"))
	c.lost = c.lost || err != nil
	return n
}

// quoted is a string; one with an escape loses the reader.
func (c *ruleReader) quoted() string {
	c.expect(`"`)
	text := c.until(`"\`)
	c.expect(`"`)
	return text
}

// list reads the elements of an array.
func (c *ruleReader) list(name string, element func()) {
	if !c.has(name) {
		return
	}
	for {
		if element(); c.lost || c.has("]") {
			return
		}
		c.expect(",")
	}
}

// parsed is a text that a parser takes.
func parsed[T any](c *ruleReader, text string, parse func(string) (T, error)) T {
	value, err := parse(text)
	c.lost = c.lost || err != nil
	return value
}

func (c *ruleReader) rule() Rule {
	r := Rule{Number: c.number(`{"number":`)}
	c.expect(`,"action":`)
	r.Action = parsed(c, c.quoted(), ParseAction)
	c.expect(`,"direction":`)
	r.Direction = parsed(c, c.quoted(), ParseDirection)
	c.expect(`,"protocol":`)
	r.Protocol = parsed(c, c.quoted(), ParseProtocol)
	c.list(`,"ports":[`, func() {
		text := ""
		if strings.HasPrefix(c.rest, `"`) {
			text = c.quoted()
		} else {
			text = c.until(",]")
		}
		r.Ports = append(r.Ports, parsed(c, text, ParsePortRange))
	})
	if strings.HasPrefix(c.rest, `,"icmp":`) {
		r.ICMP = &ICMP{Type: c.number(`,"icmp":{"type":`), Code: c.number(`,"code":`)}
		c.expect("}")
	}
	c.list(`,"cidrs":[`, func() { r.CIDRs = append(r.CIDRs, parsed(c, c.quoted(), ParsePrefix)) })
	c.list(`,"tiers":[`, func() { r.Tiers = append(r.Tiers, strings.Clone(c.quoted())) })
	if c.has(`,"log":`) {
		r.Log = parsed(c, c.quoted(), ParseSeverity)
	}
	if c.has(`,"description":`) {
		r.Description = strings.Clone(c.quoted())
	}
	c.expect("}")
	return r
}
