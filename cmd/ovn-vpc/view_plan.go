package main

import (
	"fmt"
	"slices"
	"strings"

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
	for _, part := range p.VPCs {
		a.showOpening(part)
	}
}

// longReach is how many lines of what opens and closes are shown.
const longReach = 100

// showOpening shows what a part of a plan opens and closes between tiers.
func (a *app) showOpening(part engine.VPCPlan) {
	switch {
	case part.ReachSkipped != "":
		a.printf("What opens in VPC %s was not reckoned: %s. See ovn-vpc reach.\n", part.VPC, part.ReachSkipped)
		return
	case part.Reach == nil:
		return
	case part.Reach.Empty():
		a.printf("Nothing opens or closes in VPC %s.\n", part.VPC)
		return
	}
	a.printf("What opens (+) and closes (-) in VPC %s:\n", part.VPC)
	lines := slices.Collect(strings.Lines(part.Reach.String()))
	for _, line := range lines[:min(len(lines), longReach)] {
		color := map[byte]string{'+': green, '-': red, '~': yellow}[line[0]]
		a.printf("  %s%s", a.colored(color, line[:1]), line[1:])
	}
	if len(lines) > longReach {
		a.printf("  and %d more: -o json tells all\n", len(lines)-longReach)
	}
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
		old, _ := f.Old.([]any)
		fresh, _ := f.New.([]any)
		if max(len(old), len(fresh)) > longList {
			a.printf("      %s: %s\n", f.Field, elements(old, fresh))
			continue
		}
		a.printf("      %s: %s -> %s\n", f.Field, value(f.Old), value(f.New))
	}
}

// longList is from how many elements on a list is shown by what changes in it.
const longList = 8

// elements are those that a long list gains and loses, a few of them by name.
func elements(old, fresh []any) string {
	had, has := map[string]bool{}, map[string]bool{}
	for _, e := range old {
		had[value(e)] = true
	}
	for _, e := range fresh {
		has[value(e)] = true
	}
	var parts []string
	for _, side := range []struct {
		sign       string
		from, none map[string]bool
	}{{"+", has, had}, {"-", had, has}} {
		var only []string
		for e := range side.from {
			if !side.none[e] {
				only = append(only, e)
			}
		}
		slices.Sort(only)
		if n := len(only) - longList; n > 0 {
			only = append(only[:longList], fmt.Sprintf("and %d more", n))
		}
		if len(only) > 0 {
			parts = append(parts, side.sign+"["+strings.Join(only, ", ")+"]")
		}
	}
	if len(parts) == 0 {
		return "in another order"
	}
	return strings.Join(parts, " ")
}
