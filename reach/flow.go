package reach

import (
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// grid is what becomes of a family's traffic from sources, the rows, to
// destinations, the columns. Sources, like destinations, are disjoint.
type grid[V comparable] struct {
	from, to []*netipx.IPSet
	cells    []traffic.Map[V] // row by row
}

// flow is traffic that fares alike. from and to are nil where they are all that
// there is.
type flow[V comparable] struct {
	value    V
	traffic  traffic.Set
	from, to *netipx.IPSet
}

// group is the traffic of a family that fares alike between the same ends.
type group[V comparable] struct {
	value V
	rel   string // for each cell 1 or 0
	spans []traffic.Span
}

// flows are those of the wanted values. Their form follows from what becomes of
// each packet, not from how the grids are cut.
func flows[V comparable](grids [2]grid[V], wanted func(V) bool) []flow[V] {
	var groups [2][]*group[V]
	var order []V
	for _, f := range traffic.Families() {
		groups[f] = grids[f].groups(wanted)
		for _, g := range groups[f] {
			if !slices.Contains(order, g.value) {
				order = append(order, g.value)
			}
		}
	}
	var out []flow[V]
	for _, v := range order {
		out = append(out, merge(grids, groups, v)...)
	}
	return out
}

func (g grid[V]) groups(wanted func(V) bool) []*group[V] {
	type key struct {
		value V
		rel   string
	}
	known := map[key]*group[V]{}
	var out []*group[V]
	rel := make([]byte, len(g.cells))
	seen := map[V]bool{}
	traffic.Together(g.cells, func(s traffic.Span, values []V) {
		clear(seen)
		for _, v := range values {
			if seen[v] || !wanted(v) {
				continue
			}
			seen[v] = true
			for k, other := range values {
				rel[k] = '0'
				if other == v {
					rel[k] = '1'
				}
			}
			at := known[key{v, string(rel)}]
			if at == nil {
				at = &group[V]{value: v, rel: string(rel)}
				known[key{v, at.rel}] = at
				out = append(out, at)
			}
			at.spans = append(at.spans, s)
		}
	})
	return out
}

// limited is traffic of a family between some of the ends.
type limited struct {
	traffic traffic.Set
	rects   []rect
}

// rect is all sources of one set and all destinations of another, nil being all
// that there are.
type rect struct{ from, to *netipx.IPSet }

// merge makes flows of a value's groups. What goes between all ends is one flow;
// what is limited to one rectangle in both families is one, as far as it is
// alike.
func merge[V comparable](grids [2]grid[V], groups [2][]*group[V], v V) []flow[V] {
	all := flow[V]{value: v}
	var some [2][]limited
	for _, f := range traffic.Families() {
		for _, g := range groups[f] {
			if g.value != v {
				continue
			}
			l := limited{traffic.OnLine(f, g.spans), grids[f].rects(g.rel)}
			if l.rects[0] == (rect{}) {
				all.traffic = all.traffic.Union(l.traffic)
				continue
			}
			some[f] = append(some[f], l)
		}
	}
	var out []flow[V]
	if !all.traffic.Empty() {
		out = append(out, all)
	}
	for i := range some[traffic.IPv4] {
		for k := range some[traffic.IPv6] {
			a, b := &some[traffic.IPv4][i], &some[traffic.IPv6][k]
			common := a.traffic.Intersect(b.traffic.Swapped())
			if common = common.Union(common.Swapped()); common.Empty() || len(a.rects) > 1 || len(b.rects) > 1 {
				continue
			}
			out = append(out, flow[V]{v, common,
				either(a.rects[0].from, grids[0].from, b.rects[0].from, grids[1].from),
				either(a.rects[0].to, grids[0].to, b.rects[0].to, grids[1].to)})
			a.traffic, b.traffic = a.traffic.Minus(common), b.traffic.Minus(common)
		}
	}
	for _, l := range slices.Concat(some[traffic.IPv4], some[traffic.IPv6]) {
		for _, r := range l.rects {
			if !l.traffic.Empty() {
				out = append(out, flow[V]{v, l.traffic, r.from, r.to})
			}
		}
	}
	return out
}

// either joins some of the ends of both families, nil being all.
func either(a *netipx.IPSet, allA []*netipx.IPSet, b *netipx.IPSet, allB []*netipx.IPSet) *netipx.IPSet {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil:
		a = union(allA...)
	case b == nil:
		b = union(allB...)
	}
	return union(a, b)
}

// rects are the rectangles of a relation: rows with the same columns are one.
func (g grid[V]) rects(rel string) []rect {
	width := len(g.to)
	var patterns []string
	rows := map[string][]*netipx.IPSet{}
	for i, from := range g.from {
		pattern := rel[i*width : (i+1)*width]
		if !strings.Contains(pattern, "1") {
			continue
		}
		if rows[pattern] == nil {
			patterns = append(patterns, pattern)
		}
		rows[pattern] = append(rows[pattern], from)
	}
	var out []rect
	for _, pattern := range patterns {
		var r rect
		if len(rows[pattern]) < len(g.from) {
			r.from = union(rows[pattern]...)
		}
		if strings.Contains(pattern, "0") {
			var to []*netipx.IPSet
			for k, in := range pattern {
				if in == '1' {
					to = append(to, g.to[k])
				}
			}
			r.to = union(to...)
		}
		out = append(out, r)
	}
	return out
}
