package traffic

import (
	"cmp"
	"slices"
)

// Map gives each point of a family's line a value. Its steps are ascending, the
// last one ends at End, and neighbours differ, so that equal maps have equal
// steps.
type Map[V comparable] []Step[V]

// Step is a value and the last point that has it.
type Step[V comparable] struct {
	Last  Point
	Value V
}

// Constant gives each point the value.
func Constant[V comparable](v V) Map[V] { return Map[V]{{End, v}} }

// Layer is the points that a value claims.
type Layer[V comparable] struct {
	Spans []Span
	Value V
}

// Paint gives each point the value of the first layer that claims it, and rest
// where none does.
func Paint[V comparable](layers []Layer[V], rest V) Map[V] {
	starts := []Point{0}
	for _, l := range layers {
		for _, s := range l.Spans {
			starts = append(starts, s.First, s.Last+1)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	colours := make([]V, len(starts))
	for i := range colours {
		colours[i] = rest
	}
	// next leads from a painted piece towards the next one that isn't.
	next := make([]int, len(starts)+1)
	for i := range next {
		next[i] = i
	}
	free := func(i int) int {
		for next[i] != i {
			next[i] = next[next[i]]
			i = next[i]
		}
		return i
	}
	for _, l := range layers {
		for _, s := range l.Spans {
			from, _ := slices.BinarySearch(starts, s.First)
			for i := free(from); i < len(starts) && starts[i] <= s.Last; i = free(i) {
				colours[i], next[i] = l.Value, i+1
			}
		}
	}
	var m Map[V]
	for i, colour := range colours {
		last := End
		if i+1 < len(starts) {
			last = starts[i+1] - 1
		}
		if starts[i] <= End {
			m = m.Extend(last, colour)
		}
	}
	return m
}

// Extend adds a step, or prolongs the last one.
func (m Map[V]) Extend(last Point, v V) Map[V] {
	if n := len(m); n > 0 && m[n-1].Value == v {
		m[n-1].Last = last
		return m
	}
	return append(m, Step[V]{last, v})
}

// Join combines the values of two maps.
func Join[A, B, V comparable](a Map[A], b Map[B], combine func(A, B) V) Map[V] {
	m := make(Map[V], 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		last := min(a[0].Last, b[0].Last)
		m = m.Extend(last, combine(a[0].Value, b[0].Value))
		if a[0].Last == last {
			a = a[1:]
		}
		if b[0].Last == last {
			b = b[1:]
		}
	}
	return m
}

// Spans are the points whose values are wanted.
func (m Map[V]) Spans(wanted func(V) bool) []Span {
	var out []Span
	first := Point(0)
	for _, s := range m {
		if wanted(s.Value) {
			if n := len(out); n > 0 && out[n-1].Last+1 == first {
				out[n-1].Last = s.Last
			} else {
				out = append(out, Span{first, s.Last})
			}
		}
		first = s.Last + 1
	}
	return out
}

// At is the value of a point.
func (m Map[V]) At(p Point) V {
	i, _ := slices.BinarySearchFunc(m, p, func(s Step[V], p Point) int { return cmp.Compare(s.Last, p) })
	return m[i].Value
}

// Together visits the line in ascending spans over which none of the maps
// changes, with the value of each. The values are the visitor's only until it
// returns.
func Together[V comparable](maps []Map[V], visit func(s Span, values []V)) {
	at := make([]int, len(maps))
	values := make([]V, len(maps))
	for first := Point(0); first <= End && len(maps) > 0; {
		last := End
		for i, m := range maps {
			values[i] = m[at[i]].Value
			last = min(last, m[at[i]].Last)
		}
		visit(Span{first, last}, values)
		for i, m := range maps {
			if m[at[i]].Last == last {
				at[i]++
			}
		}
		first = last + 1
	}
}
