package reach

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// axis is all that is said of the addresses of one end, by the list of the other.
type axis[V comparable] struct {
	sheets [2]sheet[V]
	space  space
	shares [2][][]share[V] // by strip, of those that were asked for
	sets   [2]pieceSets
	chosen map[pick]*chosen
}

// share is the pieces that have one value on a strip.
type share[V comparable] struct {
	value  V
	pieces []traffic.Span
}

// whole and absent stand for sets of pieces: all and none of a family's.
const (
	whole  = 0
	absent = -1
)

// pick is a set of pieces for each family.
type pick [2]int

// chosen are the addresses of a pick.
type chosen struct {
	set   *netipx.IPSet
	names Addresses
}

// pieceSets are sets of pieces, numbered by their content from 1 on: 0 is all.
type pieceSets struct {
	sets  [][]traffic.Span
	known map[string]int
	key   []byte
}

func (s *pieceSets) number(spans []traffic.Span) int {
	if isWhole(spans) {
		return whole
	}
	s.key = s.key[:0]
	for _, span := range spans {
		s.key = binary.AppendUvarint(binary.AppendUvarint(s.key, uint64(span.First)), uint64(span.Last))
	}
	if i, ok := s.known[string(s.key)]; ok {
		return i
	}
	if s.known == nil {
		s.known = map[string]int{}
	}
	s.sets = append(s.sets, spans)
	s.known[string(s.key)] = len(s.sets)
	return len(s.sets)
}

func (s *pieceSets) pieces(number int) []traffic.Span {
	if number == whole {
		return everything()
	}
	return s.sets[number-1]
}

// everything is all pieces.
func everything() []traffic.Span { return []traffic.Span{{First: 0, Last: traffic.End}} }

// sharesOf are those of a strip, in the order of their first pieces.
func (x *axis[V]) sharesOf(f traffic.Family, strip int) []share[V] {
	if x.shares[f] == nil {
		x.shares[f] = make([][]share[V], len(x.sheets[f].strips))
	}
	if known := x.shares[f][strip]; known != nil {
		return known
	}
	numbers := map[V]int{}
	var out []share[V]
	first := traffic.Point(0)
	for _, step := range x.sheets[f].strips[strip] {
		i, ok := numbers[step.Value]
		if !ok {
			i = len(out)
			numbers[step.Value], out = i, append(out, share[V]{value: step.Value})
		}
		out[i].pieces = append(out[i].pieces, traffic.Span{First: first, Last: step.Last})
		first = step.Last + 1
	}
	x.shares[f][strip] = out
	return out
}

// find are the addresses of a pick, nil for all that there are.
func (x *axis[V]) find(p pick) *chosen {
	if p == (pick{whole, whole}) || p == (pick{whole, absent}) || p == (pick{absent, whole}) {
		return nil
	}
	if known, ok := x.chosen[p]; ok {
		return known
	}
	var ranges []netipx.IPRange
	for f, set := range p {
		if set != absent {
			ranges = append(ranges, x.sheets[f].ranges(x.sets[f].pieces(set))...)
		}
	}
	c := &chosen{set: rangeSet(ranges)}
	c.names = x.space.describe(c.set)
	if x.chosen == nil {
		x.chosen = map[pick]*chosen{}
	}
	x.chosen[p] = c
	return c
}

// together joins sets of pieces that have none in common.
func together(sets ...[]traffic.Span) []traffic.Span {
	if len(sets) == 1 {
		return sets[0]
	}
	all := slices.Concat(sets...)
	slices.SortFunc(all, func(a, b traffic.Span) int { return int(a.First) - int(b.First) })
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].Last+1 == s.First {
			out[n-1].Last = s.Last
		} else {
			out = append(out, s)
		}
	}
	return out
}

// overlay puts two sheets on one, whose pieces are pieces of both or, where the
// value is none, of one alone.
func overlay[V comparable](before, after sheet[V], none V) sheet[[2]V] {
	pieces, of := shatter(before.pieces, after.pieces)
	a, b := before.onto(of[0], none), after.onto(of[1], none)
	out := sheet[[2]V]{pieces: pieces}
	numbers := map[[2]int]int{}
	out.by = traffic.Join(before.by, after.by, func(i, k int) int {
		n, ok := numbers[[2]int{i, k}]
		if !ok {
			n = len(out.strips)
			numbers[[2]int{i, k}] = n
			out.strips = append(out.strips, traffic.Join(a[i], b[k], func(x, y V) [2]V { return [2]V{x, y} }))
		}
		return n
	})
	return out
}

// onto are the strips on smaller pieces, given those they were cut from.
func (s sheet[V]) onto(of []int, none V) []traffic.Map[V] {
	out := make([]traffic.Map[V], len(s.strips))
	for i, strip := range s.strips {
		var m traffic.Map[V]
		rest := strip
		for at, piece := range of {
			value := none
			if piece >= 0 {
				for rest[0].Last < traffic.Point(piece) {
					rest = rest[1:]
				}
				value = rest[0].Value
			}
			last := traffic.Point(at)
			if at == len(of)-1 {
				last = traffic.End
			}
			m = m.Extend(last, value)
		}
		if len(of) == 0 {
			m = traffic.Constant(none)
		}
		out[i] = m
	}
	return out
}

// shatter cuts the pieces of two lists so that each lies in at most one of each,
// and tells in which, -1 for none.
func shatter(before, after []netipx.IPRange) (pieces []netipx.IPRange, of [2][]int) {
	lists := [2][]netipx.IPRange{before, after}
	var cuts []netip.Addr // where a piece begins, or one has ended
	for _, list := range lists {
		for _, r := range list {
			cuts = append(cuts, r.From())
			if next := r.To().Next(); next.IsValid() {
				cuts = append(cuts, next)
			}
		}
	}
	slices.SortFunc(cuts, netip.Addr.Compare)
	cuts = slices.Compact(cuts)
	at := [2]int{}
	for i, from := range cuts {
		var in [2]int
		to := netip.Addr{}
		for k, list := range lists {
			for at[k] < len(list) && list[at[k]].To().Less(from) {
				at[k]++
			}
			in[k] = absent
			if at[k] < len(list) && !from.Less(list[at[k]].From()) {
				in[k], to = at[k], list[at[k]].To()
			}
		}
		if in == [2]int{absent, absent} {
			continue
		}
		if i+1 < len(cuts) {
			to = cuts[i+1].Prev()
		}
		pieces = append(pieces, netipx.IPRangeFrom(from, to))
		of[0], of[1] = append(of[0], in[0]), append(of[1], in[1])
	}
	return pieces, of
}
