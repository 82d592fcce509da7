package reach

import (
	"net/netip"
	"strings"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Difference is what a change of a VPC opens and closes. What stays in a tier
// is no part of it: it always passes.
type Difference struct {
	Opens   []Change `json:"opens"`
	Closes  []Change `json:"closes"`
	Replies []Change `json:"replies"` // what passes as before, with other replies
}

// Change is traffic that passes now and didn't before, or the other way round.
type Change struct {
	FromEnd End        `json:"from"`
	ToEnd   End        `json:"to"`
	Traffic string     `json:"traffic"`
	From    *Addresses `json:"fromAddresses,omitempty"` // nil: all of the end
	To      *Addresses `json:"toAddresses,omitempty"`
	Outside bool       `json:"outside,omitempty"` // one end is outside the VPC
	// By are the rules, as they are after the change, of the lists that stood
	// against the traffic before, or do now. None where an end is gone.
	By []Decision `json:"by,omitempty"`
	// Replies is as in Part, as it is after the change.
	Replies string `json:"replies,omitempty"`

	set      traffic.Set
	possible traffic.Set // of which Traffic tells; empty where it comes from a file
	from, to *netipx.IPSet
}

// String is such as "app -> db tcp 3306   by db/rule 20 (db.yaml:14)".
func (c Change) String() string {
	text := c.What()
	var by []string
	for _, d := range c.By {
		by = append(by, d.String())
	}
	if len(by) > 0 {
		text += "   by " + strings.Join(by, ", ")
	}
	if c.Replies != "" {
		text += ", replies " + c.Replies
	}
	return text
}

// Set is the traffic, its addresses left out.
func (c Change) Set() traffic.Set { return c.set }

// Covers tells whether a packet from the one end to the other is among it.
func (c Change) Covers(src, dst netip.Addr, packet traffic.Packet) bool {
	return covers(c.set, c.from, c.to, src, dst, packet)
}

// change is what becomes of a packet's fate, and by which rules of the lists as
// they are after it.
type change struct {
	opens, closes   bool
	answers         bool // passes as before, with other replies
	egress, ingress int
	replies         string
}

// silent stands for a rule where the list has no part in a change.
const silent = Default - 1

// gone is the fate of packets from or to what isn't there.
func gone() fate { return fate{egress: newWord(silent, false), ingress: newWord(silent, false)} }

func changed(before, after fate) change {
	c := change{egress: silent, ingress: silent}
	c.opens, c.closes = !before.passes() && after.passes(), before.passes() && !after.passes()
	c.answers = before.passes() && after.passes() && before.replies != after.replies
	against := after
	if c.opens {
		against = before
	}
	if c.opens || c.answers {
		c.replies = after.replies
	}
	if c.opens || c.closes {
		if !against.egress.allow() {
			c.egress = after.egress.rule()
		}
		if !against.ingress.allow() {
			c.ingress = after.ingress.rule()
		}
	}
	return c
}

// Diff tells what a VPC's change opens and closes between tiers or attachments.
// A policy is nil where there was or will be no VPC.
func Diff(before, after *Policy, by Kind) *Difference {
	d := &differ{newJoiner(true), newJoiner(true), map[[2]*voice]*axis[[2]said]{}, map[[2]*voice]*axis[[2]said]{}, &Difference{[]Change{}, []Change{}, []Change{}}}
	ends := both(before.ends(by), after.ends(by))
	if before != nil && after != nil {
		// An address that moves between outside and a tier hasn't opened anything
		// outside: that is told of the tier.
		outside := *after.outside
		outside.sends = before.outside.sends.meet(after.outside.sends)
		outside.receives = outside.sends
		ends[len(ends)-1] = &pair{before: &outside, after: &outside}
	}
	for _, from := range ends {
		from.same = from.unchanged()
	}
	for _, from := range ends {
		d.before.forget()
		d.after.forget()
		clear(d.rows)
		for _, to := range ends {
			d.pair(from, to)
		}
	}
	return d.found
}

// ends are all of a kind, and outside.
func (p *Policy) ends(by Kind) []*place {
	switch {
	case p == nil:
		return nil
	case by == Attachment:
		return append(p.attachments[:len(p.attachments):len(p.attachments)], p.outside)
	}
	return append(p.tiers[:len(p.tiers):len(p.tiers)], p.outside)
}

// pair is an end before and after, nil where it isn't there.
type pair struct {
	before, after *place
	same          bool // nothing has changed that packets meet there
}

// both are the ends of two policies in the order of their names.
func both(before, after []*place) []*pair {
	var out []*pair
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && precedes(before[0], after[0]):
			out, before = append(out, &pair{before: before[0]}), before[1:]
		case len(before) == 0 || precedes(after[0], before[0]):
			out, after = append(out, &pair{after: after[0]}), after[1:]
		default:
			out, before, after = append(out, &pair{before: before[0], after: after[0]}), before[1:], after[1:]
		}
	}
	return out
}

func precedes(a, b *place) bool {
	if a.Kind == Outside || b.Kind == Outside {
		return a.Kind != Outside
	}
	return a.Name < b.Name
}

// any is the end as it is after the change, or else before.
func (p *pair) any() *place {
	if p.after != nil {
		return p.after
	}
	return p.before
}

type differ struct {
	before, after *joiner
	rows, columns map[[2]*voice]*axis[[2]said]
	found         *Difference
}

func (d *differ) pair(from, to *pair) {
	// What stays in a tier, or outside, is judged by no list.
	if from.any().tier == to.any().tier || from.same && to.same {
		return
	}
	g := d.grid(from, to)
	possible := g.possible()
	for _, f := range g.flows(func(c change) bool { return c.opens || c.closes || c.answers }) {
		c := Change{FromEnd: from.any().End, ToEnd: to.any().End, Traffic: f.traffic.Text(possible),
			Replies: f.value.replies, set: f.traffic, possible: possible, from: f.from.addresses(), to: f.to.addresses()}
		c.Outside = c.FromEnd.Kind == Outside || c.ToEnd.Kind == Outside
		c.From, c.To = f.from.named(), f.to.named()
		if f.value.egress != silent && from.after.list != nil {
			c.By = append(c.By, *from.after.list.decision(f.value.egress, model.Egress))
		}
		if f.value.ingress != silent && to.after.list != nil {
			c.By = append(c.By, *to.after.list.decision(f.value.ingress, model.Ingress))
		}
		switch {
		case f.value.opens:
			d.found.Opens = append(d.found.Opens, c)
		case f.value.closes:
			d.found.Closes = append(d.found.Closes, c)
		default:
			d.found.Replies = append(d.found.Replies, c)
		}
	}
}

// grid is what becomes of packets between two ends before and after.
func (d *differ) grid(from, to *pair) *grid[[2]said, change] {
	var rows, columns [2]*voice
	replies := [2]*replying{nowhere(), nowhere()}
	if from.before != nil && to.before != nil {
		rows[0], columns[0], replies[0] = d.before.voices(from.before, to.before)
	}
	if from.after != nil && to.after != nil {
		rows[1], columns[1], replies[1] = d.after.voices(from.after, to.after)
	}
	g := &grid[[2]said, change]{rows: joined(d.rows, rows, from.sends), columns: joined(d.columns, columns, to.receives)}
	var numbers [2][][2]int
	for f := range g.cases {
		g.cases[f] = traffic.Join(replies[0].cases[f], replies[1].cases[f], func(b, a int) int {
			numbers[f] = append(numbers[f], [2]int{b, a})
			return len(numbers[f]) - 1
		})
	}
	g.value = func(f traffic.Family, row, column [2]said, number int) change {
		var fates [2]fate
		for i, r := range replies {
			fates[i] = gone()
			if row[i].back >= 0 && column[i].back >= 0 {
				fates[i] = r.fate(f, row[i], column[i], numbers[f][number][i])
			}
		}
		return changed(fates[0], fates[1])
	}
	return g
}

// joined puts on one axis what lists say of an end before and after; nil is
// nothing.
func joined(axes map[[2]*voice]*axis[[2]said], voices [2]*voice, addresses func() space) *axis[[2]said] {
	if known := axes[voices]; known != nil {
		return known
	}
	none := said{back: absent}
	var sheets [2]sheet[[2]said]
	for f := range sheets {
		var both [2]sheet[said]
		for i, v := range voices {
			both[i] = sheet[said]{strips: []traffic.Map[said]{traffic.Constant(none)}, by: traffic.Constant(0)}
			if v != nil {
				both[i] = v.sheets[f]
			}
		}
		sheets[f] = overlay(both[0], both[1], none)
	}
	x := &axis[[2]said]{sheets: sheets, space: addresses()}
	axes[voices] = x
	return x
}

func (p *pair) sends() space {
	switch {
	case p.before == nil:
		return p.after.sends
	case p.after == nil:
		return p.before.sends
	}
	return p.before.sends.join(p.after.sends)
}

func (p *pair) receives() space {
	switch {
	case p.before == nil:
		return p.after.receives
	case p.after == nil:
		return p.before.receives
	}
	return p.before.receives.join(p.after.receives)
}
