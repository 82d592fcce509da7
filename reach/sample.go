package reach

import (
	"iter"
	"net/netip"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Sample is a packet of an expectation's traffic.
type Sample struct {
	Src, Dst netip.Addr
	Header   traffic.Packet
	Passes   bool // by the lists
}

// Samples are packets that stand for an expectation's traffic, between addresses
// outside and those that attachments have or, where free is wanted, could have. What
// the same rules decide between the same addresses has its first header sent from
// the lowest address to the highest, and its last one from the highest to the
// lowest. Of more than limit that many are taken, in even steps; all is how many
// there are.
func (p *Policy) Samples(expectation *model.Resource, free bool, limit int) (some []Sample, all int) {
	samples := p.samples(expectation.Spec.(*model.ExpectationSpec), free)
	for range samples {
		all++
	}
	i := 0
	for s := range samples {
		if i++; all <= limit || i*limit/all > (i-1)*limit/all {
			some = append(some, s)
		}
	}
	return some, all
}

func (p *Policy) samples(spec *model.ExpectationSpec, free bool) iter.Seq[Sample] {
	from, _ := p.meant(spec.From)
	to, _ := p.meant(spec.To)
	if from == nil || to == nil || from.tier == "" && to.tier == "" {
		return func(func(Sample) bool) {}
	}
	if from.tier == to.tier {
		from, to = from.unlisted(), to.unlisted()
	}
	senders, receivers := from.hosts, to.hosts
	if free {
		senders, receivers = from.free, to.free
	}
	askable := askable()
	rows, columns, replies := newJoiner(true).voices(from, to)
	return func(yield func(Sample) bool) {
		for f := range traffic.Family(2) {
			sources, targets := alike(rows.sheets[f], senders), alike(columns.sheets[f], receivers)
			for _, source := range sources {
				for _, target := range targets {
					both := traffic.Join(source.said, target.said, func(row, column said) [2]said { return [2]said{row, column} })
					cell := traffic.Join(both, replies.cases[f], func(s [2]said, number int) fate { return replies.fate(f, s[0], s[1], number) })
					if !corners(f, cell, spec.Traffic, askable, source.hosts, target.hosts, yield) {
						return
					}
				}
			}
		}
	}
}

// alikes are hosts of which the same is said.
type alikes struct {
	said  traffic.Map[said]
	hosts []netipx.IPRange
}

// alike are the hosts of a sheet by what is said of them.
func alike(s sheet[said], hosts *netipx.IPSet) (groups []alikes) {
	if len(s.pieces) == 0 {
		return nil
	}
	classes, examples := classify(s)
	for class, example := range examples {
		var spans []traffic.Span
		first := traffic.Point(0)
		for _, step := range classes {
			if step.Value == class {
				spans = append(spans, traffic.Span{First: first, Last: step.Last})
			}
			first = step.Last + 1
		}
		if here := intersect(rangeSet(s.ranges(spans)), hosts).Ranges(); len(here) > 0 {
			groups = append(groups, alikes{s.column(example), here})
		}
	}
	return groups
}

// unlisted is the place for traffic that stays in its tier.
func (p *place) unlisted() *place {
	inside := *p
	inside.list = nil
	return &inside
}

// askable is all but what can't be put to the test. Open vSwitch shows of later
// fragments of IPv6 no protocol of their own, and ovn-trace takes all that looks like
// a neighbour advertisement for a forged one, also what a router forwards.
func askable() traffic.Set {
	s := traffic.All()
	const ipv6Frag, advertisement = 44, 136
	for p := range 256 {
		if p != ipv6Frag {
			s = s.Minus(traffic.Fragments(uint8(p)).Only(traffic.IPv6))
		}
	}
	return s.Minus(traffic.ICMPTypes(traffic.IPv6, advertisement, advertisement))
}

// corners are the samples of a cell between the ends' hosts; false where no more
// are wanted.
func corners(f traffic.Family, cell traffic.Map[fate], wanted, askable traffic.Set, src, dst []netipx.IPRange, yield func(Sample) bool) bool {
	last := func(ranges []netipx.IPRange) netip.Addr { return ranges[len(ranges)-1].To() }
	at := traffic.Point(0)
	for _, step := range cell {
		here := traffic.OnLine(f, []traffic.Span{{First: at, Last: step.Last}}).Intersect(wanted)
		for _, span := range here.Spans(f) {
			tried := traffic.OnLine(f, []traffic.Span{span}).Intersect(askable).Spans(f)
			if len(tried) == 0 {
				continue
			}
			first := Sample{src[0].From(), last(dst), tried[0].First.Packet(f), step.Value.passes()}
			second := Sample{last(src), dst[0].From(), tried[len(tried)-1].Last.Packet(f), step.Value.passes()}
			if first.Src != first.Dst && !yield(first) || second != first && second.Src != second.Dst && !yield(second) {
				return false
			}
		}
		at = step.Last + 1
	}
	return true
}
