package reach

import (
	"encoding/binary"
	"slices"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// grid is what becomes of traffic from the addresses of one end, the rows, to
// those of another, the columns.
type grid[A, V comparable] struct {
	rows, columns *axis[A]
	// What becomes of a header hangs besides on its number here.
	cases [2]traffic.Map[int]
	value func(f traffic.Family, row, column A, number int) V
}

// flow is traffic that fares alike. from and to are nil where they are all that
// there is.
type flow[V comparable] struct {
	value    V
	traffic  traffic.Set
	from, to *chosen
}

// set are the addresses, nil for all.
func (c *chosen) addresses() *netipx.IPSet {
	if c == nil {
		return nil
	}
	return c.set
}

// named is what they are called, nil for all.
func (c *chosen) named() *Addresses {
	if c == nil {
		return nil
	}
	return &c.names
}

// group is the traffic of a family that fares alike between the same ends.
type group[V comparable] struct {
	value V
	rects []rect
	spans []traffic.Span
}

// rect is all sources of one set of pieces and all destinations of another.
type rect struct{ from, to int }

// flows are those of the wanted values. Their form follows from what becomes of
// each packet, not from how the addresses are cut.
func (g *grid[A, V]) flows(wanted func(V) bool) []flow[V] {
	var groups [2][]*group[V]
	var order []V
	seen := map[V]bool{}
	for _, f := range traffic.Families() {
		groups[f] = g.groups(f, wanted)
		for _, of := range groups[f] {
			if !seen[of.value] {
				seen[of.value], order = true, append(order, of.value)
			}
		}
	}
	byValue := map[V]*[2][]*group[V]{}
	for f := range groups {
		for _, of := range groups[f] {
			if byValue[of.value] == nil {
				byValue[of.value] = &[2][]*group[V]{}
			}
			byValue[of.value][f] = append(byValue[of.value][f], of)
		}
	}
	var out []flow[V]
	for _, v := range order {
		out = append(out, g.merge(v, *byValue[v])...)
	}
	return out
}

// possible is the traffic of the families that both ends have.
func (g *grid[A, V]) possible() traffic.Set {
	var set traffic.Set
	for _, f := range traffic.Families() {
		if g.has(f) {
			set = set.Union(traffic.All().Only(f))
		}
	}
	return set
}

func (g *grid[A, V]) has(f traffic.Family) bool {
	return len(g.rows.sheets[f].pieces) > 0 && len(g.columns.sheets[f].pieces) > 0
}

// groups are those of a family in the order in which they come up.
func (g *grid[A, V]) groups(f traffic.Family, wanted func(V) bool) []*group[V] {
	if !g.has(f) {
		return nil
	}
	m := &meeting[A, V]{grid: g, family: f, wanted: wanted, values: map[V]int{}, known: map[string]*group[V]{},
		whole: map[V][]*group[V]{}, met: map[[3]int][]*group[V]{}}
	traffic.Together([]traffic.Map[int]{g.rows.sheets[f].by, g.columns.sheets[f].by, g.cases[f]}, func(s traffic.Span, numbers []int) {
		for _, of := range m.at(numbers[0], numbers[1], numbers[2]) {
			if n := len(of.spans); n > 0 && of.spans[n-1].Last+1 == s.First {
				of.spans[n-1].Last = s.Last
			} else {
				of.spans = append(of.spans, s)
			}
		}
	})
	return m.groups
}

// meeting puts together what is said of both ends of a family's traffic.
type meeting[A, V comparable] struct {
	grid   *grid[A, V]
	family traffic.Family
	wanted func(V) bool
	values map[V]int            // their numbers
	known  map[string]*group[V] // by the value's number and the rectangles
	whole  map[V][]*group[V]    // of packets that fare alike between all ends
	met    map[[3]int][]*group[V]
	groups []*group[V]
}

// at are the groups that a header belongs to, given its strips: its packets may
// fare in several ways.
func (m *meeting[A, V]) at(row, column, number int) []*group[V] {
	rows, columns := m.grid.rows.sheets[m.family].strips[row], m.grid.columns.sheets[m.family].strips[column]
	if len(rows) == 1 && len(columns) == 1 {
		v := m.grid.value(m.family, rows[0].Value, columns[0].Value, number)
		if !m.wanted(v) {
			return nil
		}
		if m.whole[v] == nil {
			m.whole[v] = []*group[V]{m.group(v, []rect{{whole, whole}})}
		}
		return m.whole[v]
	}
	key := [3]int{row, column, number}
	found, ok := m.met[key]
	if !ok {
		found = m.meet(m.grid.rows.sharesOf(m.family, row), m.grid.columns.sharesOf(m.family, column), number)
		m.met[key] = found
	}
	return found
}

// meet are the groups of what is said of some and what is said of others.
func (m *meeting[A, V]) meet(rows, columns []share[A], number int) []*group[V] {
	type part struct {
		columns []int // that fare so
		rows    [][]traffic.Span
	}
	var order []V
	parts := map[V][]*part{}
	for _, r := range rows {
		of := map[V][]int{}
		for k, c := range columns {
			v := m.grid.value(m.family, r.value, c.value, number)
			if !m.wanted(v) {
				continue
			}
			if parts[v] == nil && of[v] == nil {
				order = append(order, v)
			}
			of[v] = append(of[v], k)
		}
		for v, at := range of {
			i := slices.IndexFunc(parts[v], func(p *part) bool { return slices.Equal(p.columns, at) })
			if i < 0 {
				i = len(parts[v])
				parts[v] = append(parts[v], &part{columns: at})
			}
			parts[v][i].rows = append(parts[v][i].rows, r.pieces)
		}
	}
	var out []*group[V]
	for _, v := range order {
		var rects []rect
		for _, p := range parts[v] {
			to := make([][]traffic.Span, len(p.columns))
			for i, k := range p.columns {
				to[i] = columns[k].pieces
			}
			rects = append(rects, rect{m.grid.rows.sets[m.family].number(together(p.rows...)), m.grid.columns.sets[m.family].number(together(to...))})
		}
		out = append(out, m.group(v, rects))
	}
	return out
}

// group is the one of a value and rectangles.
func (m *meeting[A, V]) group(v V, rects []rect) *group[V] {
	number, ok := m.values[v]
	if !ok {
		number = len(m.values)
		m.values[v] = number
	}
	key := binary.AppendUvarint(nil, uint64(number))
	for _, r := range rects {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(r.from)), uint64(r.to))
	}
	if known := m.known[string(key)]; known != nil {
		return known
	}
	of := &group[V]{value: v, rects: rects}
	m.known[string(key)] = of
	m.groups = append(m.groups, of)
	return of
}

// limited is traffic of a family between some of the ends.
type limited struct {
	traffic traffic.Set
	rects   []rect
}

// merge makes flows of a value's groups. What goes between all ends is one flow;
// what is limited to one rectangle in both families is one, as far as it is
// alike.
func (g *grid[A, V]) merge(v V, groups [2][]*group[V]) []flow[V] {
	all := flow[V]{value: v}
	var some [2][]limited
	for _, f := range traffic.Families() {
		for _, of := range groups[f] {
			l := limited{traffic.OnLine(f, of.spans), of.rects}
			if l.rects[0] == (rect{whole, whole}) {
				if same := all.traffic.Swapped(); f == traffic.IPv6 && same.Equal(l.traffic) {
					l.traffic = same // in less memory
				}
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
			if len(a.rects) > 1 || len(b.rects) > 1 {
				continue
			}
			common := a.traffic.Intersect(b.traffic.Swapped())
			if common = common.Union(common.Swapped()); common.Empty() {
				continue
			}
			out = append(out, flow[V]{v, common,
				g.rows.find(pick{a.rects[0].from, b.rects[0].from}), g.columns.find(pick{a.rects[0].to, b.rects[0].to})})
			a.traffic, b.traffic = a.traffic.Minus(common), b.traffic.Minus(common)
		}
	}
	for f := range some {
		for _, l := range some[f] {
			if l.traffic.Empty() {
				continue
			}
			for _, r := range l.rects {
				from, to := pick{absent, absent}, pick{absent, absent}
				from[f], to[f] = r.from, r.to
				out = append(out, flow[V]{v, l.traffic, g.rows.find(from), g.columns.find(to)})
			}
		}
	}
	return out
}
