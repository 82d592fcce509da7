package main

import (
	"fmt"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/trace"
)

// showTrace shows the verdict, then each packet's way.
func (a *app) showTrace(r *engine.TraceReport) error {
	passing := 0
	for _, p := range r.Paths {
		if p.Passes {
			passing++
		}
	}
	word, color := "reachable", green
	switch {
	case passing == 0:
		word, color = "not reachable", red
	case passing < len(r.Paths):
		word, color = "partly reachable", yellow
	}
	a.printf("%s -> %s  %s: %s\n", r.From, r.To, r.Traffic, a.colored(color, word))
	for _, p := range r.Paths {
		if err := a.showPath(p); err != nil {
			return err
		}
	}
	for _, n := range r.Notes {
		a.printf("\nnote: %s", n)
	}
	if len(r.Notes) > 0 {
		a.printf("\n")
	}
	return nil
}

func (a *app) showPath(p engine.TracePath) error {
	color := red
	if p.Passes {
		color = green
	}
	a.printf("\n%s -> %s  %s: %s", endText(p.From), endText(p.To), p.Packet, a.colored(color, outcomeText(p)))
	if p.Alike > 1 {
		a.printf(", one of %d alike", p.Alike)
	}
	a.printf("\n")
	rows := [][]string{{"", "WHERE", "HYPERVISOR", "VERDICT", "BY"}}
	add := func(way string, hops []engine.TraceHop) {
		for _, h := range hops {
			by := h.Text
			if h.Decision != nil {
				by = h.Decision.String()
			}
			rows = append(rows, []string{way, h.Where, h.Chassis, h.Verdict, by})
		}
	}
	add("there", p.Hops)
	if p.Reply != nil {
		add("back", p.Reply.Hops)
	}
	rows[0][0] = "WAY"
	if err := a.align("  ", rows); err != nil || p.OVN == nil {
		return err
	}
	said := string(p.OVN.Outcome)
	switch {
	case p.OVN.Agrees && p.Passes && p.Outcome == trace.NoRoute:
		said = "it comes to the router"
	case p.OVN.Outcome == trace.Dropped && p.OVN.Routed:
		said += " by the router or beyond it"
	}
	if !p.OVN.Agrees {
		a.printf("  %s\n", a.colored(red, "OVN says otherwise: "+said))
		return nil
	}
	a.printf("  OVN says the same: %s\n", said)
	return nil
}

// outcomeText is what became of a packet; what passes beyond the router is told
// with its reply.
func outcomeText(p engine.TracePath) string {
	text := string(p.Outcome)
	if p.Passes && p.Outcome == trace.NoRoute {
		text = "let out"
	}
	if p.Reply != nil && !p.Reply.Passes {
		text += ", but its reply is not"
	}
	return text
}

func endText(e engine.TraceEnd) string {
	switch {
	case e.Attachment != "":
		return fmt.Sprintf("%s %s", e.Attachment, e.Address)
	case e.Tier == "":
		return "outside " + e.Address
	}
	return e.Address
}
