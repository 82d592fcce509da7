package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/traffic"
	"github.com/ovn-vpc/ovn-vpc/translate"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

const (
	// sourcePort is the port that a packet of TCP, UDP or SCTP comes from.
	sourcePort  = 40000
	routerPlace = "router "
	// advertisement is the ICMPv6 type of neighbour advertisements (RFC 4861).
	advertisement = 136
	// manyWalks is how many packets are traced for one query.
	manyWalks = 4096
)

// run sends a packet for each pair of ends and each header, and keeps one of
// those that are judged alike.
func (t *tracing) run(ctx context.Context, q TraceQuery, headers []traffic.Packet) error {
	from, err := t.ends(q.From)
	if err != nil {
		return err
	}
	to, err := t.ends(q.To)
	if err != nil {
		return err
	}
	if n := len(from) * len(to) * len(headers); n > manyWalks {
		return refuse(fmt.Sprintf("the lists may judge %d packets from %s to %s differently, %d are traced at most", n, q.From, q.To, manyWalks),
			"name an attachment or an address; reach tells about all")
	}
	alike := map[string]int{}
	for _, s := range from {
		for _, d := range to {
			src, dst, n := pairs(s, d)
			for _, h := range headers {
				if n == 0 || s.addr.Is4() != d.addr.Is4() || s.addr.Is4() != (h.Family == traffic.IPv4) {
					continue
				}
				path, err := t.path(src, dst, h)
				if err = errors.Join(err, ctx.Err()); err != nil {
					return err
				}
				path.Alike = n
				key := path.signature()
				if i, ok := alike[key]; ok {
					t.report.Paths[i].Alike += path.Alike
					continue
				}
				alike[key] = len(t.report.Paths)
				t.report.Paths = append(t.report.Paths, path)
				t.report.Reachable = t.report.Reachable && path.Passes
			}
		}
	}
	if len(t.report.Paths) == 0 {
		fix := "name two ends that share a version of IP which has that traffic"
		if q.From == q.To {
			fix = "name two ends that differ"
		}
		return refuse(fmt.Sprintf("no packet of %s can go from %s to %s", t.report.Traffic, q.From, q.To), fix)
	}
	t.note(q, from, to)
	return nil
}

// note says what stands for what.
func (t *tracing) note(q TraceQuery, from, to []host) {
	add := func(text string) { t.report.Notes = append(t.report.Notes, text) }
	if q.Traffic == "" {
		add("no traffic is named: ping is traced")
	}
	for _, p := range t.report.Paths {
		if p.Alike > 1 {
			add("of what is judged alike one packet is traced")
			break
		}
	}
	for _, h := range to {
		if h.tier == "" {
			add("to outside passes what the lists let out: the VPC has no way out of its own")
			return
		}
	}
	for _, h := range from {
		if h.tier == "" {
			add("from outside is what would come in at the router: the VPC has no way in of its own")
			return
		}
	}
}

// signature is the same for packets that are judged alike.
func (p *TracePath) signature() string {
	text := fmt.Sprint(p.Packet, p.From.Tier, p.To.Tier, p.Outcome, p.Reason)
	hops := p.Hops
	if p.Reply != nil {
		text += fmt.Sprint(p.Reply.Passes)
		hops = append(hops[:len(hops):len(hops)], p.Reply.Hops...)
	}
	for _, h := range hops {
		text += fmt.Sprint(" ", h.Where, h.Verdict, h.Row)
	}
	return text
}

// path is the way of one packet and its reply.
func (t *tracing) path(s, d host, h traffic.Packet) (TracePath, error) {
	p := TracePath{From: s.end(), To: d.end(), Packet: headerText(h), Alike: 1}
	if s.tier == "" && d.tier == "" {
		return p, refuse("both ends are outside the VPC", "name an attachment or a tier of it")
	}
	if s.tier != "" && s.port == "" {
		return p, refuse(fmt.Sprintf("nobody in tier %s has the address %s to send from", s.tier, s.addr), "")
	}
	var err error
	p.frame = t.frame(s, d, h)
	if p.verdict, err = t.network.Walk(trace.Endpoint{Port: p.frame.Inport}, p.frame); err != nil {
		return p, &DamagedError{VPC: t.vpc, Err: fmt.Errorf("tracing: %w", err)}
	}
	p.Outcome, p.Reason = p.verdict.Outcome, p.verdict.Reason
	beyond := d.tier == "" && p.Outcome == trace.NoRoute
	p.Passes = p.Outcome == trace.Delivered || p.Outcome == trace.Answered || beyond
	p.Hops = t.hops(s, d, p.verdict)
	if p.Outcome == trace.Delivered && s.tier != d.tier || beyond {
		p.Reply, err = t.reply(s, d, h, p.verdict)
	}
	return p, err
}

// frame is a packet as its sender puts it on the wire.
func (t *tracing) frame(s, d host, h traffic.Packet) match.Packet {
	p := match.Packet{EthSrc: s.mac, EthDst: t.routerMAC(s.tier), EthType: 0x800, Src: s.addr, Dst: d.addr, TTL: 64,
		Proto: h.Protocol, ICMPType: h.Type, ICMPCode: h.Code, DstPort: h.Port, Frag: h.Fragment, Inport: s.port}
	if s.addr.Is6() {
		p.EthType = 0x86dd
	}
	if traffic.HasPorts(h.Protocol) && !h.Fragment {
		p.SrcPort = sourcePort
	}
	switch {
	case s.tier == "":
		// As if from a router beyond.
		p.Inport = translate.RouterPortName(t.vpc, d.tier)
		p.EthSrc, p.EthDst = [6]byte{2, 0, 0, 0, 0, 1}, t.routerMAC(d.tier)
	case s.tier == d.tier && !t.isGateway(d.addr):
		p.EthDst = d.mac
	}
	return p
}

// hops are the places on a packet's way.
func (t *tracing) hops(s, d host, v trace.Verdict) []TraceHop {
	if s.tier == d.tier && !t.isGateway(d.addr) {
		return []TraceHop{{Where: s.end().place(), Verdict: string(v.Outcome), Text: "in the tier: no list applies"}}
	}
	var hops []TraceHop
	stopped := false
	add := func(h TraceHop, found bool) {
		if found && !stopped {
			hops = append(hops, h)
			stopped = h.Verdict == string(model.Deny) || h.Verdict == string(model.Reject)
		}
	}
	if s.tier != "" {
		add(t.judged(s, "from-lport", v))
	}
	if v.Reason != "" && len(v.Steps) == 0 {
		return append(hops, TraceHop{Where: s.end().place(), Verdict: string(v.Outcome), Text: v.Reason})
	}
	add(t.routed(s, d, v), true)
	if d.tier != "" && d.port != "" {
		add(t.judged(d, "to-lport", v))
	}
	return hops
}

// judged is what decided about a packet at the boundary of a host's tier.
func (t *tracing) judged(h host, direction string, v trace.Verdict) (TraceHop, bool) {
	for _, s := range v.Steps {
		if s.Datapath != translate.SwitchName(t.vpc, h.tier) || s.Direction != direction {
			continue
		}
		hop := TraceHop{Where: h.end().place(), Verdict: verdictOf(s.Action), Row: s.Row, Match: s.Match}
		row, ok := translate.ListRowOf(s.Key)
		switch {
		case ok:
			hop.Decision = &reach.Decision{List: row.ACL, Direction: row.Direction, Rule: row.Number, Action: model.Action(hop.Verdict)}
		case s.Key == "":
			hop.Text = "a row that somebody else made"
		case strings.HasPrefix(s.Key, "tier-acl/"):
			hop.Text = "a row that every tier has"
		}
		return hop, true
	}
	return TraceHop{}, false
}

// verdictOf is an ACL row's action in the words of rules.
func verdictOf(action string) string {
	switch action {
	case "drop":
		return string(model.Deny)
	case "reject":
		return string(model.Reject)
	}
	return string(model.Allow)
}

// routed is what the router does with a packet.
func (t *tracing) routed(s, d host, v trace.Verdict) TraceHop {
	hop := TraceHop{Where: routerPlace + t.vpc, Verdict: "routed", Text: fmt.Sprintf("%s to %s", s.end().place(), d.end().place())}
	for _, step := range v.Steps {
		if step.Direction == "policy" && step.Action == "drop" {
			hop.Verdict, hop.Text, hop.Row, hop.Match = string(model.Deny), "a policy of the router", step.Row, step.Match
			return hop
		}
	}
	switch {
	case v.Outcome == trace.Answered:
		hop.Verdict, hop.Text = "answered", "by the router itself"
	case v.Outcome == trace.NoRoute:
		hop.Verdict, hop.Text = "no route", "to "+d.addr.String()
	case v.Outcome == trace.NoHost:
		hop.Verdict, hop.Text = "no host", "nobody has "+d.addr.String()
	case v.Reason != "":
		hop.Verdict, hop.Text = string(v.Outcome), v.Reason
	}
	return hop
}

// headerText is a header in words.
func headerText(h traffic.Packet) string {
	name := map[uint8]string{traffic.TCP: "tcp", traffic.UDP: "udp", traffic.SCTP: "sctp"}[h.Protocol]
	icmp := h.Protocol == traffic.ICMP && h.Family == traffic.IPv4 || h.Protocol == traffic.ICMPv6 && h.Family == traffic.IPv6
	switch {
	case h.Fragment:
		return fmt.Sprintf("%s, a fragment of protocol %d", h.Family, h.Protocol)
	case name != "":
		return fmt.Sprintf("%s %d from port %d", name, h.Port, sourcePort)
	case icmp && h.Family == traffic.IPv6:
		return fmt.Sprintf("icmpv6 %d/%d", h.Type, h.Code)
	case icmp:
		return fmt.Sprintf("icmp %d/%d", h.Type, h.Code)
	}
	return fmt.Sprintf("%s protocol %d", h.Family, h.Protocol)
}

// AskOVN asks OVN about every packet of the report: ask runs ovn-trace(8)
// --summary with a microflow. For a report that was made here, not by a server.
// Not asked about is what ovn-trace takes for a forged neighbour advertisement,
// whatever it is.
func (r *TraceReport) AskOVN(ask func(microflow string) (string, error)) error {
	for i := range r.Paths {
		p := &r.Paths[i]
		if p.From.Attachment != "" && p.frame.Proto == traffic.ICMPv6 && p.frame.ICMPType == advertisement && !p.frame.Frag {
			r.Notes = append(r.Notes, "OVN isn't asked about ICMPv6 136 of an attachment: ovn-trace drops that always")
			continue
		}
		flow := match.Microflow(p.frame)
		account, err := ask(flow)
		if err != nil {
			return fmt.Errorf("asking OVN about %s: %w", flow, err)
		}
		said := trace.ReadSummary(account, translate.RouterName(r.VPC), p.frame.Inport)
		p.OVN = &OVNVerdict{Outcome: said.Outcome, Routed: said.Routed, Agrees: p.verdict.Agrees(said)}
	}
	return nil
}
