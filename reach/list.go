package reach

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Default stands for a list's default in the place of a rule's index.
const Default = -1

// Judgement is what a list says of traffic with the far addresses: the same of
// each of them.
type Judgement struct {
	Family traffic.Family
	Far    *netipx.IPSet
	// Rules gives each header the index of the rule that decides, or Default.
	Rules traffic.Map[int]
	// Back is the same for packets of the other direction, as replies are, and
	// nil for a stateful list, which lets replies pass.
	Back traffic.Map[int]
}

// list is a list with its rules read.
type list struct {
	name     string
	spec     *model.ACLSpec
	resource *model.Resource // nil for a built-in one
	rules    []rule
	known    map[question][]Judgement
	maps     map[string]traffic.Map[int] // one of each content
}

type rule struct {
	traffic traffic.Set
	far     []netipx.IPRange // where anywhere is false
	any     bool
}

type question struct {
	far       *netipx.IPSet
	direction model.Direction
}

func newList(name string, spec *model.ACLSpec, r *model.Resource, tier func(string) []netip.Prefix) (*list, error) {
	l := &list{name: name, spec: spec, resource: r, known: map[question][]Judgement{}, maps: map[string]traffic.Map[int]{}}
	for _, r := range spec.Rules {
		far, err := FarSide(r, tier)
		if err != nil {
			return nil, err
		}
		read := rule{traffic: Traffic(r), any: far == nil}
		if far != nil {
			read.far = far.Ranges()
		}
		l.rules = append(l.rules, read)
	}
	return l, nil
}

// FarSide is the union of a rule's prefixes and those of its tiers, nil for
// anywhere.
func FarSide(r model.Rule, tier func(string) []netip.Prefix) (*netipx.IPSet, error) {
	if len(r.CIDRs) == 0 && len(r.Tiers) == 0 {
		return nil, nil
	}
	prefixes := slices.Clone(r.CIDRs)
	for _, name := range r.Tiers {
		prefixes = append(prefixes, tier(name)...)
	}
	return prefixSet(prefixes)
}

// Traffic is what a rule matches, its far side left out. A fragment carries
// neither ports nor types: a deny or reject with them stops every fragment of
// its protocol, an allow lets none pass.
func Traffic(r model.Rule) traffic.Set {
	whole, detail := traffic.All(), traffic.Set{}
	detailed := false
	switch r.Protocol {
	case model.ProtoAll:
	case model.ProtoTCP:
		whole, detail, detailed = withPorts(traffic.TCP, r.Ports)
	case model.ProtoUDP:
		whole, detail, detailed = withPorts(traffic.UDP, r.Ports)
	case model.ProtoSCTP:
		whole, detail, detailed = withPorts(traffic.SCTP, r.Ports)
	case model.ProtoICMP:
		whole, detail, detailed = withType(traffic.IPv4, traffic.ICMP, r.ICMP)
	case model.ProtoICMPv6:
		whole, detail, detailed = withType(traffic.IPv6, traffic.ICMPv6, r.ICMP)
	default:
		number, err := strconv.ParseUint(string(r.Protocol), 10, 8)
		if err != nil {
			return traffic.Set{}
		}
		whole = traffic.Protocol(uint8(number))
	}
	switch {
	case !detailed:
		return whole
	case r.Action == model.Allow:
		return detail
	}
	return detail.Union(fragments(r.Protocol).Intersect(whole))
}

func withPorts(protocol uint8, ports []model.PortRange) (whole, detail traffic.Set, detailed bool) {
	for _, p := range ports {
		detail = detail.Union(traffic.Ports(protocol, p.First, p.Last))
	}
	return traffic.Protocol(protocol), detail, len(ports) > 0
}

func withType(f traffic.Family, protocol uint8, icmp *model.ICMP) (whole, detail traffic.Set, detailed bool) {
	whole = traffic.Protocol(protocol).Only(f)
	switch {
	case icmp == nil || icmp.Type < 0:
		return whole, traffic.Set{}, false
	case icmp.Code < 0:
		return whole, traffic.ICMPTypes(f, uint8(icmp.Type), uint8(icmp.Type)), true
	}
	return whole, traffic.ICMPCodes(f, uint8(icmp.Type), uint8(icmp.Code), uint8(icmp.Code)), true
}

func fragments(p model.Protocol) traffic.Set {
	switch p {
	case model.ProtoTCP:
		return traffic.Fragments(traffic.TCP)
	case model.ProtoUDP:
		return traffic.Fragments(traffic.UDP)
	case model.ProtoSCTP:
		return traffic.Fragments(traffic.SCTP)
	case model.ProtoICMP:
		return traffic.Fragments(traffic.ICMP)
	}
	return traffic.Fragments(traffic.ICMPv6)
}

// action is the word of a rule, or of the direction's default.
func (l *list) action(rule int, d model.Direction) model.Action {
	switch {
	case rule >= 0:
		return l.spec.Rules[rule].Action
	case d == model.Egress:
		return l.spec.Defaults.Egress
	}
	return l.spec.Defaults.Ingress
}

func opposite(d model.Direction) model.Direction {
	if d == model.Ingress {
		return model.Egress
	}
	return model.Ingress
}

// judge parts far addresses by what the list says of them, in the order of
// their first addresses. Judgements of equal content share their maps.
func (l *list) judge(far *netipx.IPSet, d model.Direction) []Judgement {
	q := question{far, d}
	if known, ok := l.known[q]; ok {
		return known
	}
	s := &sweep{list: l, direction: d, classes: map[[2]*traffic.Step[int]]int{}, byRules: map[string]int{}}
	events := l.events(far, d)
	for _, r := range far.Ranges() {
		events = s.over(r, events)
	}
	for i, ranges := range s.far {
		s.found[i].Far = rangeSet(ranges)
	}
	l.known[q] = s.found
	return s.found
}

// event is an address from which on a rule's far side is entered or left.
type event struct {
	at     netip.Addr
	rule   int
	enters bool
}

// events are those of the rules that are about some of the far addresses, in
// ascending order.
func (l *list) events(far *netipx.IPSet, d model.Direction) []event {
	var events []event
	ranges := far.Ranges()
	for i, r := range l.rules {
		if r.any || !l.spec.Stateless && l.spec.Rules[i].Direction != d {
			continue
		}
		for _, f := range r.far {
			// The first of the far ranges that doesn't end before this one begins.
			at, _ := slices.BinarySearchFunc(ranges, f.From(), func(r netipx.IPRange, a netip.Addr) int { return r.To().Compare(a) })
			if at == len(ranges) || f.To().Less(ranges[at].From()) {
				continue
			}
			events = append(events, event{f.From(), i, true})
			next := f.To().Next()
			if !next.IsValid() && f.To().Is4() {
				next = netip.IPv6Unspecified() // which follows in the order of addresses
			}
			if next.IsValid() {
				events = append(events, event{next, i, false})
			}
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	return events
}

// sweep goes over far addresses in ascending order.
type sweep struct {
	list      *list
	direction model.Direction
	active    []int // the rules whose far side has the address, ascending
	found     []Judgement
	far       [][]netipx.IPRange            // of each in found
	classes   map[[2]*traffic.Step[int]]int // indexes in found by the first steps of their maps
	byRules   map[string]int                // and by the family and the active rules
}

// over sweeps over a range and returns the events beyond it.
func (s *sweep) over(r netipx.IPRange, events []event) []event {
	for at := r.From(); ; {
		for len(events) > 0 && !at.Less(events[0].at) {
			s.pass(events[0])
			events = events[1:]
		}
		last := r.To()
		if len(events) > 0 && !last.Less(events[0].at) {
			last = events[0].at.Prev()
		}
		class := s.class(at)
		s.far[class] = append(s.far[class], netipx.IPRangeFrom(at, last))
		if last == r.To() {
			return events
		}
		at = last.Next()
	}
}

func (s *sweep) pass(e event) {
	i, in := slices.BinarySearch(s.active, e.rule)
	switch {
	case e.enters && !in:
		s.active = slices.Insert(s.active, i, e.rule)
	case !e.enters && in:
		s.active = slices.Delete(s.active, i, i+1)
	}
}

// class is the index of the judgement for an address with the active rules.
func (s *sweep) class(a netip.Addr) int {
	f := familyOf(a)
	key := binary.AppendVarint(nil, int64(f))
	for _, rule := range s.active {
		key = binary.AppendVarint(key, int64(rule))
	}
	if i, ok := s.byRules[string(key)]; ok {
		return i
	}
	j := Judgement{Family: f, Rules: s.paint(f, s.direction)}
	steps := [2]*traffic.Step[int]{&j.Rules[0]}
	if s.list.spec.Stateless {
		j.Back = s.paint(f, opposite(s.direction))
		steps[1] = &j.Back[0]
	}
	i, ok := s.classes[steps]
	if !ok {
		i = len(s.found)
		s.classes[steps] = i
		s.found, s.far = append(s.found, j), append(s.far, nil)
	}
	s.byRules[string(key)] = i
	return i
}

// paint gives each header the first rule of a direction that matches it.
func (s *sweep) paint(f traffic.Family, d model.Direction) traffic.Map[int] {
	var layers []traffic.Layer[int]
	for i, r := range s.list.rules {
		if s.list.spec.Rules[i].Direction != d {
			continue
		}
		if _, active := slices.BinarySearch(s.active, i); r.any || active {
			layers = append(layers, traffic.Layer[int]{Spans: r.traffic.Spans(f), Value: i})
		}
	}
	return intern(s.list.maps, f, traffic.Paint(layers, Default))
}
