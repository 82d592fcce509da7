package traffic

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// String is the set's text: "all", "none", "tcp 8080, 8443; icmp echo", "all
// but tcp 22, fragments". Parse reads it.
func (s Set) String() string { return s.Text(All()) }

// MarshalText writes the set; as String.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Text is the set's text among what is possible: "all" is all of that. Where
// only one family is, it isn't named.
func (s Set) Text(possible Set) string {
	s = s.Intersect(possible)
	switch {
	case s.Empty():
		return "none"
	case s.Equal(possible):
		return "all"
	}
	var families []Family
	for _, f := range Families() {
		if len(possible.of[f]) > 0 {
			families = append(families, f)
		}
	}
	text, items := write(s, families)
	// What is left out is worth a word where all the protocols are in that
	// nobody names.
	for _, f := range families {
		if n := len(s.of[f]); n == 0 || s.of[f][n-1].Last != End {
			return text
		}
	}
	if but, fewer := write(possible.Minus(s), families); fewer < items {
		return "all but " + but
	}
	return text
}

// writer collects a set's clauses. items counts what they enumerate.
type writer struct {
	clauses []string
	items   int
}

func write(s Set, families []Family) (string, int) {
	w := &writer{}
	if len(families) == 2 {
		for _, f := range families {
			if whole := (Span{0, End}); len(s.of[f]) == 1 && s.of[f][0] == whole {
				w.add(f.String(), "")
				s = s.Minus(All().Only(f))
			}
		}
	}
	for _, p := range []uint8{TCP, UDP, SCTP} {
		of := families
		if len(families) == 2 && slices.Equal(near(s.of[IPv4], p), near(s.of[IPv6], p)) {
			of = families[:1]
		}
		w.perFamily(of, func(f Family) (string, int) { return ports(s.of[f], p) })
	}
	for _, f := range families {
		text, items := icmp(s.of[f], f)
		w.add(text, "")
		w.items += max(0, items-1)
	}
	for _, part := range []part{entire, fragmented, unfragmented} {
		w.perFamily(families, func(f Family) (string, int) { return others(s.of[f], f, part) })
	}
	return strings.Join(w.clauses, "; "), w.items
}

func (f Family) String() string {
	if f == IPv4 {
		return "ipv4"
	}
	return "ipv6"
}

// add adds a clause, if there is one.
func (w *writer) add(text, family string) {
	if text != "" {
		w.clauses = append(w.clauses, family+text)
		w.items++
	}
}

// perFamily adds what is said of the families, once if it is the same of all.
func (w *writer) perFamily(families []Family, say func(Family) (string, int)) {
	first, items := say(families[0])
	if len(families) == 1 {
		w.add(first, "")
		w.items += max(0, items-1)
		return
	}
	second, more := say(families[1])
	if first == second {
		w.add(first, "")
		w.items += max(0, items-1)
		return
	}
	w.add(first, families[0].String()+" ")
	w.add(second, families[1].String()+" ")
	w.items += max(0, items-1) + max(0, more-1)
}

// of are the values of a protocol that are among the points, and whether its
// fragments are.
func of(spans []Span, protocol uint8) (found []Span, fragments bool) {
	first, last := point(protocol, 0), point(protocol, values-1)
	there := near(spans, protocol)
	found = make([]Span, 0, len(there))
	for _, s := range there {
		if s.First <= last && s.Last >= first {
			found = append(found, Span{max(s.First, first) - first, min(s.Last, last) - first})
		}
		fragments = fragments || s.First <= last+1 && last+1 <= s.Last
	}
	return found, fragments
}

// near are the spans that have points of a protocol.
func near(spans []Span, protocol uint8) []Span {
	first, _ := slices.BinarySearchFunc(spans, point(protocol, 0), func(s Span, at Point) int { return cmp.Compare(s.Last, at) })
	end, _ := slices.BinarySearchFunc(spans, point(protocol, values)+1, func(s Span, at Point) int { return cmp.Compare(s.First, at) })
	return spans[first:end]
}

// enumeration is a text of several items.
type enumeration struct {
	text  []byte
	items int
}

func (e *enumeration) add(item string) {
	e.next()
	e.text = append(e.text, item...)
}

func (e *enumeration) numbers(first, last uint32) {
	e.next()
	e.text = appendNumbers(e.text, first, last)
}

func (e *enumeration) next() {
	if e.items++; e.items > 1 {
		e.text = append(e.text, ", "...)
	}
}

// clause is a protocol with what is listed of it, and how many that are.
func clause(protocol string, found []Span, fragments bool, list func(*enumeration, Span)) (string, int) {
	full := len(found) == 1 && found[0] == Span{0, values - 1}
	switch {
	case full && fragments:
		return protocol, 1
	case full:
		return protocol + " unfragmented", 1
	}
	e := &enumeration{text: append([]byte(protocol), ' ')}
	for _, s := range found {
		list(e, s)
	}
	if fragments {
		e.add("fragments")
	}
	if e.items == 0 {
		return "", 0
	}
	return string(e.text), e.items
}

func ports(spans []Span, protocol uint8) (string, int) {
	name := map[uint8]string{TCP: "tcp", UDP: "udp", SCTP: "sctp"}[protocol]
	found, fragments := of(spans, protocol)
	return clause(name, found, fragments, func(e *enumeration, s Span) { e.numbers(uint32(s.First), uint32(s.Last)) })
}

func numbers(first, last uint32) string { return string(appendNumbers(nil, first, last)) }

func appendNumbers(b []byte, first, last uint32) []byte {
	b = strconv.AppendUint(b, uint64(first), 10)
	if first != last {
		b = strconv.AppendUint(append(b, '-'), uint64(last), 10)
	}
	return b
}

func icmp(spans []Span, f Family) (string, int) {
	name := "icmp"
	if f == IPv6 {
		name = "icmpv6"
	}
	found, fragments := of(spans, icmpOf(f))
	return clause(name, found, fragments, func(e *enumeration, s Span) {
		for _, item := range icmpItems(uint32(s.First), uint32(s.Last), f) {
			e.add(item)
		}
	})
}

// icmpItems lists types that are whole, and of the first and last the codes
// where they are not.
func icmpItems(first, last uint32, f Family) []string {
	var items []string
	codes := func(t, first, last uint32) { items = append(items, typeName(t, f)+"/"+numbers(first, last)) }
	if first>>8 == last>>8 && last-first < 255 {
		codes(first>>8, first&0xff, last&0xff)
		return items
	}
	if first&0xff != 0 {
		codes(first>>8, first&0xff, 0xff)
		first = (first>>8 + 1) << 8
	}
	end := (last + 1) >> 8 // of the whole types
	if begin := first >> 8; begin < end {
		items = append(items, types(begin, end-1, f)...)
	}
	if last&0xff != 0xff {
		codes(end, 0, last&0xff)
	}
	return items
}

// types names the types of a range where all have names.
func types(first, last uint32, f Family) []string {
	var names []string
	for t := first; t <= last; t++ {
		name := typeName(t, f)
		if name == strconv.Itoa(int(t)) {
			return []string{numbers(first, last)}
		}
		names = append(names, name)
	}
	return names
}

func typeName(t uint32, f Family) string {
	for name, n := range typeNames(f) {
		if uint32(n) == t {
			return name
		}
	}
	return strconv.Itoa(int(t))
}

// typeNames are the names that texts have for ICMP types (RFC 792, RFC 4443).
func typeNames(f Family) map[string]uint8 {
	if f == IPv6 {
		return map[string]uint8{"unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4, "echo": 128, "echo-reply": 129}
	}
	return map[string]uint8{"echo-reply": 0, "unreachable": 3, "redirect": 5, "echo": 8, "time-exceeded": 11, "parameter-problem": 12}
}

// part is what of a protocol without ports and types is in a set.
type part uint8

const (
	unfragmented part = 1 << iota
	fragmented
	entire = unfragmented | fragmented
)

// parts are those of all protocols.
func parts(spans []Span) (of [256]part) {
	for _, s := range spans {
		for p := s.First / width; p <= s.Last/width; p++ {
			if fragments := p*width + values; s.First < fragments {
				of[p] |= unfragmented
			}
			if s.Last/width > p || s.Last%width == values {
				of[p] |= fragmented
			}
		}
	}
	return of
}

// others are the protocols that have neither ports nor types in a family and of
// which the part is in the set.
func others(spans []Span, f Family, wanted part) (string, int) {
	var items []string
	first := -1
	in := parts(spans)
	for p := 0; p <= len(in); p++ {
		listed := p < len(in) && in[p] == wanted && !HasPorts(uint8(p)) && uint8(p) != icmpOf(f)
		switch {
		case listed && first < 0:
			first = p
		case !listed && first >= 0:
			items = append(items, numbers(uint32(first), uint32(p-1)))
			first = -1
		}
	}
	if len(items) == 0 {
		return "", 0
	}
	return "protocol " + strings.Join(items, ", ") + suffix(wanted), len(items)
}

func suffix(p part) string {
	switch p {
	case fragmented:
		return " fragments"
	case unfragmented:
		return " unfragmented"
	}
	return ""
}
