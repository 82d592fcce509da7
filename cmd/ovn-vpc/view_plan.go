package main

import (
	"github.com/ovn-vpc/ovn-vpc/engine"
)

// showPlan shows a plan by VPC and resource, with rows by row and column too.
func (a *app) showPlan(p *engine.Plan, rows bool) {
	if p.Empty() {
		a.printf("No changes.\n")
		return
	}
	var all []engine.ResourceChange
	for _, part := range p.VPCs {
		a.printf("%s:\n", scopeName(part.VPC))
		for _, c := range part.Changes {
			a.showChange(c, verbOf(c.Action).mark)
		}
		if n := len(part.Transactions); n > 1 && !rows {
			a.printf("  in %d transactions\n", n)
		}
		if rows {
			a.showTransactions(part.Transactions)
		}
		all = append(all, part.Changes...)
	}
	a.printf("Plan: %s.\n", tally(all, func(v verb) string { return v.plan }))
}

// scopeName heads the part of one VPC.
func scopeName(vpc string) string {
	if vpc == "" {
		return "Outside of VPCs"
	}
	return "VPC " + vpc
}

func (a *app) showChange(c engine.ResourceChange, word string) {
	a.printf("  %s %s\n", a.colored(verbOf(c.Action).color, word), c.ID())
	for _, f := range c.Fields {
		a.printf("      %s: %s -> %s\n", f.Field, value(f.Old), value(f.New))
	}
}
