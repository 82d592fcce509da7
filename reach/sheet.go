package reach

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// sheet is what is said of a family's traffic with some addresses: of each
// header one strip, which gives each piece of the addresses a value. It is as
// large as what is said differs, not as headers times addresses.
type sheet[V comparable] struct {
	pieces []netipx.IPRange // ascending
	// The points of a strip are the numbers of the pieces, and from the last on
	// all that follow.
	strips []traffic.Map[V]
	by     traffic.Map[int] // each header's strip
}

// sheets are what the list says of traffic with far addresses, by rules: for
// each packet the index of the one that decides, or Default. The pieces of a
// stateless list are the same for both directions. plain tells that they are
// what the list says of addresses that no rule names.
func (l *list) sheets(far *netipx.IPSet, d model.Direction) (out [2]sheet[int], plain bool) {
	cuts, pieces := l.cuts(far, d), byFamily(far)
	if len(cuts) > 0 {
		for f := range pieces {
			pieces[f] = cut(pieces[f], cuts)
		}
		return l.read(pieces, d), false
	}
	out = l.plain[d]()
	for f := range out {
		out[f].pieces = pieces[f]
	}
	return out, true
}

// read walks along both lines.
func (l *list) read(pieces [2][]netipx.IPRange, d model.Direction) (out [2]sheet[int]) {
	for f := range out {
		w := &walk{claims: l.claims(pieces[f], d), known: map[string]int{}, strips: newStrips[int]()}
		by := w.along(l, traffic.Family(f))
		out[f] = sheet[int]{pieces[f], w.strips.all, by}
	}
	return out
}

// cut cuts ranges before some addresses.
func cut(ranges []netipx.IPRange, before []netip.Addr) []netipx.IPRange {
	var out []netipx.IPRange
	for _, r := range ranges {
		from := r.From()
		first, _ := slices.BinarySearchFunc(before, from, netip.Addr.Compare)
		for _, at := range before[first:] {
			if r.To().Less(at) {
				break
			}
			if from.Less(at) {
				out = append(out, netipx.IPRangeFrom(from, at.Prev()))
				from = at
			}
		}
		out = append(out, netipx.IPRangeFrom(from, r.To()))
	}
	return out
}

func byFamily(s *netipx.IPSet) (out [2][]netipx.IPRange) {
	for _, r := range s.Ranges() {
		f := familyOf(r.From())
		out[f] = append(out[f], r)
	}
	return out
}

// overlaps tells whether a range has addresses of some that are ascending.
func overlaps(ranges []netipx.IPRange, r netipx.IPRange) bool {
	// The first that doesn't end before the range begins.
	at, _ := slices.BinarySearchFunc(ranges, r.From(), func(r netipx.IPRange, a netip.Addr) int { return r.To().Compare(a) })
	return at < len(ranges) && !r.To().Less(ranges[at].From())
}

// cuts are where far sides of rules that are about some of the addresses begin
// and end, ascending: none where there is no such rule.
func (l *list) cuts(far *netipx.IPSet, d model.Direction) []netip.Addr {
	var cuts []netip.Addr
	ranges := far.Ranges()
	for i, r := range l.rules {
		if r.any || !l.spec.Stateless && l.spec.Rules[i].Direction != d {
			continue
		}
		for _, f := range r.far {
			if !overlaps(ranges, f) {
				continue
			}
			cuts = append(cuts, f.From())
			if next := f.To().Next(); next.IsValid() {
				cuts = append(cuts, next)
			}
		}
	}
	slices.SortFunc(cuts, netip.Addr.Compare)
	return slices.Compact(cuts)
}

// claim is the pieces that a rule is about.
type claim struct {
	rule   int
	pieces []traffic.Span
}

func (c claim) whole() bool { return isWhole(c.pieces) }

func isWhole(spans []traffic.Span) bool {
	return len(spans) == 1 && spans[0] == traffic.Span{First: 0, Last: traffic.End}
}

// claims are those of a direction's rules, in their order.
func (l *list) claims(pieces []netipx.IPRange, d model.Direction) []claim {
	var out []claim
	for i, r := range l.rules {
		if l.spec.Rules[i].Direction != d {
			continue
		}
		c := claim{i, everything()}
		if !r.any {
			c.pieces = within(pieces, r.far)
		}
		if len(c.pieces) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// within are the pieces that lie in ranges, which cut none of them.
func within(pieces, ranges []netipx.IPRange) []traffic.Span {
	var out []traffic.Span
	for _, r := range ranges {
		first, _ := slices.BinarySearchFunc(pieces, r.From(), func(p netipx.IPRange, a netip.Addr) int { return p.From().Compare(a) })
		end, found := slices.BinarySearchFunc(pieces, r.To(), func(p netipx.IPRange, a netip.Addr) int { return p.To().Compare(a) })
		if found {
			end++
		}
		if first >= end {
			continue
		}
		span := traffic.Span{First: traffic.Point(first), Last: traffic.Point(end - 1)}
		if end == len(pieces) {
			span.Last = traffic.End
		}
		if n := len(out); n > 0 && out[n-1].Last+1 == span.First {
			out[n-1].Last = span.Last
		} else {
			out = append(out, span)
		}
	}
	return out
}

// walk goes along a family's line of headers, in the company of the claims of
// the rules that match there.
type walk struct {
	claims []claim
	active []int          // claims, in their order
	known  map[string]int // strips by the claims that make them
	key    []byte
	strips *strips[int]
}

func (w *walk) along(l *list, f traffic.Family) traffic.Map[int] {
	type event struct {
		at     traffic.Point
		claim  int
		enters bool
	}
	var events []event
	for i, c := range w.claims {
		for _, s := range l.rules[c.rule].traffic.Spans(f) {
			events = append(events, event{s.First, i, true}, event{s.Last + 1, i, false})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var by traffic.Map[int]
	for at := traffic.Point(0); at <= traffic.End; {
		for len(events) > 0 && events[0].at == at {
			i, in := slices.BinarySearch(w.active, events[0].claim)
			if events[0].enters && !in {
				w.active = slices.Insert(w.active, i, events[0].claim)
			} else if !events[0].enters {
				w.active = slices.Delete(w.active, i, i+1)
			}
			events = events[1:]
		}
		last := traffic.End
		if len(events) > 0 {
			last = min(last, events[0].at-1)
		}
		by = by.Extend(last, w.strip())
		at = last + 1
	}
	return by
}

// strip is the one of a header that the active claims' rules match: the first
// claim to a piece has it.
func (w *walk) strip() int {
	w.key = w.key[:0]
	deciding := w.active
	for i, c := range w.active {
		w.key = binary.AppendUvarint(w.key, uint64(c))
		if w.claims[c].whole() {
			deciding = w.active[:i+1]
			break
		}
	}
	if known, ok := w.known[string(w.key)]; ok {
		return known
	}
	key := string(w.key)
	var layers []traffic.Layer[int]
	for _, c := range deciding {
		layers = append(layers, traffic.Layer[int]{Spans: w.claims[c].pieces, Value: w.claims[c].rule})
	}
	i := w.strips.number(traffic.Paint(layers, Default))
	w.known[key] = i
	return i
}

// strips are numbered by their content.
type strips[V comparable] struct {
	all    []traffic.Map[V]
	known  map[string]int
	values map[V]int
	key    []byte
}

func newStrips[V comparable]() *strips[V] {
	return &strips[V]{known: map[string]int{}, values: map[V]int{}}
}

func (s *strips[V]) number(m traffic.Map[V]) int {
	s.key = s.key[:0]
	for _, step := range m {
		value, ok := s.values[step.Value]
		if !ok {
			value = len(s.values)
			s.values[step.Value] = value
		}
		s.key = binary.AppendUvarint(binary.AppendUvarint(s.key, uint64(step.Last)), uint64(value))
	}
	if i, ok := s.known[string(s.key)]; ok {
		return i
	}
	s.known[string(s.key)] = len(s.all)
	s.all = append(s.all, m)
	return len(s.all) - 1
}

// translated is a sheet with other strips.
func translated[A, V comparable](s sheet[A], to func(strip traffic.Map[A]) traffic.Map[V]) sheet[V] {
	made := newStrips[V]()
	numbers := make([]int, len(s.strips))
	for i, strip := range s.strips {
		numbers[i] = made.number(to(strip))
	}
	out := sheet[V]{pieces: s.pieces}
	for _, step := range s.by {
		out.by = out.by.Extend(step.Last, numbers[step.Value])
	}
	out.strips = made.all
	return out
}

// mapped is a sheet with other values.
func mapped[A, V comparable](s sheet[A], to func(A) V) sheet[V] {
	return translated(s, func(strip traffic.Map[A]) traffic.Map[V] {
		return traffic.Join(strip, traffic.Constant(true), func(a A, _ bool) V { return to(a) })
	})
}

// classify parts a sheet's pieces, or those of several that have the same, by what
// is said of them whatever the header: each piece has a class, numbered in the
// order of their first pieces, and of each class one piece is given.
func classify[V comparable](sheets ...sheet[V]) (classes traffic.Map[int], examples []traffic.Point) {
	classes = traffic.Constant(0)
	for _, s := range sheets {
		for _, strip := range s.strips {
			type both struct {
				class int
				value V
			}
			numbers := map[both]int{}
			classes = traffic.Join(classes, strip, func(class int, value V) int {
				b := both{class, value}
				if _, ok := numbers[b]; !ok {
					numbers[b] = len(numbers)
				}
				return numbers[b]
			})
		}
	}
	first := traffic.Point(0)
	for _, step := range classes {
		if step.Value == len(examples) {
			examples = append(examples, first)
		}
		first = step.Last + 1
	}
	return classes, examples
}

// column is what is said of one piece.
func (s sheet[V]) column(piece traffic.Point) (m traffic.Map[V]) {
	values := make([]V, len(s.strips))
	for i, strip := range s.strips {
		values[i] = strip.At(piece)
	}
	for _, step := range s.by {
		m = m.Extend(step.Last, values[step.Value])
	}
	return m
}

// ranges are the addresses of pieces.
func (s sheet[V]) ranges(pieces []traffic.Span) []netipx.IPRange {
	var out []netipx.IPRange
	for _, span := range pieces {
		if span.First < traffic.Point(len(s.pieces)) {
			out = append(out, s.pieces[span.First:min(int(span.Last)+1, len(s.pieces))]...)
		}
	}
	return out
}

// judge parts far addresses by what the list says of them, in the order of
// their first addresses.
func (l *list) judge(far *netipx.IPSet, d model.Direction) []Judgement {
	var out []Judgement
	there, _ := l.sheets(far, d)
	var back [2]sheet[int]
	if l.spec.Stateless {
		back, _ = l.sheets(far, opposite(d))
	}
	for _, f := range traffic.Families() {
		s, all := there[f], []sheet[int]{there[f]}
		if l.spec.Stateless {
			all = append(all, back[f])
		}
		if len(s.pieces) == 0 {
			continue
		}
		classes, examples := classify(all...)
		for class, piece := range examples {
			pieces := classes.Spans(func(c int) bool { return c == class })
			j := Judgement{Family: f, Far: rangeSet(s.ranges(pieces)), Rules: s.column(piece)}
			if l.spec.Stateless {
				j.Back = back[f].column(piece)
			}
			out = append(out, j)
		}
	}
	return out
}
