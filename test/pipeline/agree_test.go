package pipeline_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

const (
	asked    = "asked, " // marks the outcomes of questions in a tally
	verified = "to verify"
)

// agree asks three about a packet: trace, of what is stored and now and then of
// the plan for an empty database, which takes longer, reach by tier and by
// attachment, and OVN.
func (w *walker) agree(ctx context.Context, o *ovn, set *model.Set, q question, tally map[trace.Outcome]int) (*failure, error) {
	query := engine.TraceQuery{VPC: w.vpc, From: q.Src.String(), To: q.Dst.String(), Traffic: textOf(headerOf(q.probe))}
	e := o.engine
	if w.turn++; w.turn%8 == 0 {
		e, query.Set = engine.New(engine.Nowhere{}, "default", "cli"), set
	}
	r, err := e.Trace(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("tracing %+v: %w", query, err)
	}
	account := ""
	if err = r.AskOVN(func(flow string) (string, error) {
		account, err = w.tracer.summary(flow)
		return account, err
	}); err != nil {
		return nil, err
	}
	if len(r.Paths) != 1 {
		return nil, fmt.Errorf("tracing %+v: there are %d paths", query, len(r.Paths))
	}
	path := r.Paths[0]
	if path.From.Attachment != q.sender() {
		return nil, nil // another one may use the address too, and trace takes the first
	}
	tally[asked+path.Outcome]++
	said := w.reached(q, path)
	if path.OVN.Agrees && said == "" {
		return nil, nil
	}
	return &failure{question: &q, text: fmt.Sprintf("packet %s\n%+v\ntrace:     %+v\novn-trace: %+v\nreach:     %s\n%s", q, query, path, *path.OVN, said, account)}, nil
}

// reached says what reach tells otherwise than a trace.
func (w *walker) reached(q question, path engine.TracePath) string {
	from, to := path.From.Attachment, path.To.Attachment
	_, fromOwn := w.end(from)
	_, toOwn := w.end(to)
	header := onTheWire(headerOf(q.probe))
	byOwn, ownPasses := w.byOf.Find(fromOwn, toOwn).Part(q.Src, q.Dst, header)
	if ownPasses != path.Passes {
		return fmt.Sprintf("by attachment: %v", ownPasses)
	}
	if w.isDisabled(from) || w.isDisabled(to) {
		return "" // tiers know nothing of it
	}
	fromTier, _ := w.end(from)
	toTier, _ := w.end(to)
	byTier, tierPasses := w.byTier.Find(fromTier, toTier).Part(q.Src, q.Dst, header)
	if tierPasses != path.Passes {
		return fmt.Sprintf("by tier: %v", tierPasses)
	}
	if !path.Passes || fromTier == toTier {
		return ""
	}
	rules := ruling(byTier.Egress, byTier.Ingress)
	if own := ruling(byOwn.Egress, byOwn.Ingress); rules != own || rules != ruling(decisions(path.Hops)...) {
		return fmt.Sprintf("by tier: %s, by attachment: %s", rules, own)
	}
	// Nothing routes replies to an address that is only allowed.
	if path.Reply != nil && !w.isAllowed(from, q.Src) && path.Reply.Passes != answered(byOwn.Replies, 40000) {
		return fmt.Sprintf("replies: %q", byOwn.Replies)
	}
	return ""
}

// challenge has OVN asked about the traffic of the VPC's expectations.
func (w *walker) challenge(ctx context.Context, o *ovn, tally map[trace.Outcome]int) (*failure, error) {
	r, err := o.engine.Verify(ctx, nil, w.vpc)
	if err != nil {
		return nil, err
	}
	c, err := o.engine.Challenge(ctx, nil, r)
	if err != nil {
		return nil, err
	}
	if err := c.AskOVN(w.tracer.summary); err != nil {
		return nil, err
	}
	n, all := r.Otherwise()
	tally[verified] += all
	if n == 0 {
		return nil, nil
	}
	var otherwise []string
	for _, v := range r.Expectations {
		otherwise = append(otherwise, v.Otherwise()...)
	}
	return &failure{verify: true, text: strings.Join(otherwise, "\n")}, nil
}

func (w *walker) isDisabled(name string) bool {
	return name != outside && !w.specs.guests[name].Enabled
}

// onTheWire is a header as Open vSwitch sees it: of the later fragments of an
// IPv6 packet the protocol is not known, but that they are fragments
// (docs/packets.md). So trace sends such ones, and reach is asked about them:
// what it says of "ipv6 tcp fragments" no packet can put to the test.
func onTheWire(h traffic.Packet) traffic.Packet {
	if h.Family == traffic.IPv6 && h.Fragment {
		h.Protocol = 44
	}
	return h
}

// textOf names one header.
func textOf(h traffic.Packet) string {
	span := traffic.Span{First: h.Point(), Last: h.Point()}
	set := traffic.OnLine(h.Family, []traffic.Span{span})
	if icmp := map[traffic.Family]uint8{traffic.IPv4: traffic.ICMP, traffic.IPv6: traffic.ICMPv6}; !h.Fragment && !traffic.HasPorts(h.Protocol) && h.Protocol != icmp[h.Family] {
		set = traffic.Protocol(h.Protocol).Minus(traffic.Fragments(h.Protocol)).Only(h.Family)
	}
	return set.String()
}

func decisions(hops []engine.TraceHop) (out []*reach.Decision) {
	for _, h := range hops {
		out = append(out, h.Decision)
	}
	return out
}

// ruling are the decisions that there are, in one line.
func ruling(by ...*reach.Decision) string {
	var texts []string
	for _, d := range by {
		if d != nil {
			texts = append(texts, d.Named())
		}
	}
	return strings.Join(texts, ", ")
}
