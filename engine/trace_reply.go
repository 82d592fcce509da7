package engine

import (
	"fmt"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/traffic"
	"github.com/ovn-vpc/ovn-vpc/translate"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// reply is what becomes of the answer to a packet that has passed: where it was
// tracked, the answer passes; a stateless list judges it by itself.
func (t *tracing) reply(s, d host, h traffic.Packet, v trace.Verdict) (*TraceReply, error) {
	back, ok := answerTo(t.frame(s, d, h))
	if !ok {
		return nil, nil
	}
	r := &TraceReply{Passes: true, Hops: []TraceHop{}}
	add := func(h TraceHop) {
		if r.Passes {
			r.Hops = append(r.Hops, h)
			r.Passes = h.Verdict == string(model.Allow)
		}
	}
	if d.tier != "" {
		back.EthSrc, back.EthDst, back.Inport = d.mac, t.routerMAC(d.tier), d.port
		hop, err := t.answered(d, "to-lport", "from-lport", v, back)
		if err != nil {
			return nil, err
		}
		add(hop)
	}
	if s.tier != "" {
		back.EthSrc, back.EthDst, back.Inport = [6]byte{2, 0, 0, 0, 0, 1}, t.routerMAC(s.tier), translate.RouterPortName(t.vpc, s.tier)
		hop, err := t.answered(s, "from-lport", "to-lport", v, back)
		if err != nil {
			return nil, err
		}
		add(hop)
	}
	return r, nil
}

// answered is how a tier judges a reply, whose request was judged there in the
// direction there.
func (t *tracing) answered(h host, there, back string, v trace.Verdict, reply match.Packet) (TraceHop, error) {
	for _, s := range v.Steps {
		if s.Datapath == translate.SwitchName(t.vpc, h.tier) && s.Direction == there && s.Action == "allow-related" {
			return TraceHop{Where: h.end().place(), Verdict: string(model.Allow), Text: "a reply of its connection"}, nil
		}
	}
	judged, err := t.network.Walk(trace.Endpoint{Port: reply.Inport}, reply)
	if err != nil {
		return TraceHop{}, &DamagedError{VPC: t.vpc, Err: fmt.Errorf("tracing the reply: %w", err)}
	}
	if hop, ok := t.judged(h, back, judged); ok {
		return hop, nil
	}
	return TraceHop{Where: h.end().place(), Verdict: string(judged.Outcome), Text: judged.Reason}, nil
}

// answerTo is the usual answer to a packet; ok is false where none is known.
func answerTo(p match.Packet) (back match.Packet, ok bool) {
	back = p
	back.Src, back.Dst, back.SrcPort, back.DstPort = p.Dst, p.Src, p.DstPort, p.SrcPort
	v4 := p.Src.Is4()
	switch {
	case p.Frag:
		return back, false
	case p.Proto == traffic.ICMP && v4 && p.ICMPType == 8:
		back.ICMPType = 0
	case p.Proto == traffic.ICMPv6 && !v4 && p.ICMPType == 128:
		back.ICMPType = 129
	case p.Proto == traffic.ICMP && v4, p.Proto == traffic.ICMPv6 && !v4:
		return back, false
	}
	return back, true
}
