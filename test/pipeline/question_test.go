package pipeline_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// question is a packet from an attachment or outside to another or outside.
type question struct {
	probe
	To string
}

func (q question) String() string { return fmt.Sprintf("%s to %q", q.probe, q.To) }

func (q question) sender() string {
	if q.outside() {
		return outside
	}
	return q.From
}

// knows tells whether a question's ends are there.
func (w *walker) knows(q question) bool {
	is := func(end string, a netip.Addr) bool {
		if end == outside {
			return w.specs.tierOf(a) == ""
		}
		g := w.specs.guests[end]
		return g != nil && slices.Contains(g.Addresses, a)
	}
	return w.specs.knows(q.probe) && (is(q.sender(), q.Src) || w.isAllowed(q.sender(), q.Src)) && is(q.To, q.Dst)
}

// questions are some that can be asked.
func (w *walker) questions(n int) []question {
	beyond := append(w.borders(w.random.pool), parse("192.0.2.7", "198.51.100.1", "2001:db8::7", "2001:db8:1::1", "10.200.0.1", "fd00:ff::1")...)
	var out []question
	for len(out) < n {
		if q, ok := w.question(beyond); ok {
			out = append(out, q)
		}
	}
	return out
}

// borders are the addresses outside on either side of the prefixes' borders, as far
// as a host may have them.
func (w *walker) borders(prefixes []netip.Prefix) (out []netip.Addr) {
	inside := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/3"), netip.MustParsePrefix("::/8")}
	for _, g := range w.specs.guests {
		inside = append(inside, g.AllowedAddresses...)
	}
	for _, t := range w.specs.tiers {
		inside = append(inside, t.CIDRs...)
	}
	for _, p := range prefixes {
		last := netipx.PrefixLastIP(p)
		for _, a := range []netip.Addr{p.Addr(), p.Addr().Prev(), last, last.Next()} {
			if a.IsGlobalUnicast() && !within(inside, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

func (w *walker) question(beyond []netip.Addr) (q question, ok bool) {
	r := w.random
	names := append(sortedNames(w.specs.guests), outside)
	from, to := pick(r, names...), pick(r, names...)
	p := probe{From: from, Frame: toRouter, TTL: 64, linkLocals: w.names.linkLocals}
	if from == to || r.chance(10) && from != outside {
		to = outside
	}
	if from == outside && to == outside {
		return q, false
	}
	if p.Src = pick(r, beyond...); from == outside {
		p.From, p.Frame = pick(r, r.tiers...), fromOutside
	} else if g := w.specs.guests[from]; len(g.AllowedAddresses) > 0 && r.chance(30) {
		p.Src = pick(r, g.AllowedAddresses...).Addr()
	} else {
		p.Src = pick(r, g.Addresses...)
	}
	if p.Dst = pick(r, beyond...); to != outside {
		p.Dst = pick(r, w.specs.guests[to].Addresses...)
		if from != outside && w.tierOf[from] == w.tierOf[to] {
			p.Frame, p.Neighbour = toNeighbour, to
		}
	}
	r.load(&p)
	switch n := r.IntN(100); {
	case n < 10:
		p.Proto = uint8(r.IntN(256))
	case n < 20:
		p.Proto, p.Frag = 44, true
	case n < 70:
		w.atBorder(&p, from, to)
	}
	return question{p, to}, p.v4() == p.Dst.Is4() && (w.specs.tierOf(p.Src) == w.tierOf[from] || w.isAllowed(from, p.Src))
}

// atBorder brings a packet to the border of what a rule that is in force for it
// matches.
func (w *walker) atBorder(p *probe, from, to string) {
	r := w.random
	var rules []model.Rule
	add := func(end string, d model.Direction) {
		if end != outside {
			rules = append(rules, slices.DeleteFunc(slices.Clone(w.lists[w.tierOf[end]].Rules), func(x model.Rule) bool { return x.Direction != d })...)
		}
	}
	add(from, model.Egress)
	add(to, model.Ingress)
	if len(rules) == 0 {
		return
	}
	rule := pick(r, rules...)
	p.Frag = r.chance(10)
	if number, ok := protocols[rule.Protocol]; ok {
		p.Proto = number
	} else if number, err := strconv.ParseUint(string(rule.Protocol), 10, 8); err == nil {
		p.Proto = uint8(number)
	}
	if len(rule.Ports) > 0 {
		at := pick(r, rule.Ports...)
		p.DstPort = pick(r, at.First-1, at.First, at.Last, at.Last+1)
	}
	if rule.ICMP != nil {
		p.Type, p.Code = uint8(rule.ICMP.Type)+pick[uint8](r, 0, 0, 0, 1, 255), uint8(rule.ICMP.Code)+pick[uint8](r, 0, 0, 0, 1, 255)
	}
	if p.Proto == traffic.ICMPv6 && p.Type == 136 {
		// ovn-trace's port security takes it for a neighbour advertisement, whatever
		// its TTL and code. That of ovn-controller asks for a TTL of 255.
		p.Type++
	}
	far := slices.DeleteFunc(w.borders(rule.CIDRs), func(a netip.Addr) bool { return a.Is4() != p.v4() })
	switch {
	case len(far) == 0:
	case from == outside:
		p.Src = pick(r, far...)
	case to == outside:
		p.Dst = pick(r, far...)
	}
}

var protocols = map[model.Protocol]uint8{model.ProtoTCP: traffic.TCP, model.ProtoUDP: traffic.UDP, model.ProtoSCTP: traffic.SCTP,
	model.ProtoICMP: traffic.ICMP, model.ProtoICMPv6: traffic.ICMPv6}
