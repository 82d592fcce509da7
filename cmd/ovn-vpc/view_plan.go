package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
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

func (a *app) showTransactions(transactions []nbdb.Plan) {
	for i, tx := range transactions {
		a.printf("  Transaction %d of %d: %s, %s\n", i+1, len(transactions),
			plural(len(tx.Rows)+len(tx.Edges)+len(tx.Entries), "change"), plural(len(tx.Guards), "precondition"))
		a.showRows(tx)
	}
}

// showRows shows every row, reference and key that a transaction changes.
func (a *app) showRows(tx nbdb.Plan) {
	names := map[nbdb.UUID]string{}
	for _, r := range tx.Rows {
		names[r.UUID] = rowName(r.Key, r.Name, r.UUID)
	}
	name := func(u nbdb.UUID) string {
		if n := names[u]; n != "" {
			return n
		}
		return string(u)
	}
	for _, r := range tx.Rows {
		v := verbOf(map[nbdb.Op]engine.Action{nbdb.Insert: engine.Create, nbdb.Update: engine.Change, nbdb.Delete: engine.Remove}[r.Op])
		a.printf("    %s %s %s\n", a.colored(v.color, v.mark), r.Table, name(r.UUID))
		for _, c := range r.Columns {
			a.showColumn(c, r.Op, "        ")
		}
	}
	update := a.colored(yellow, "~")
	for _, x := range tx.Edges {
		a.printf("    %s %s %s\n", update, x.Table, name(x.From))
		for _, u := range x.Add {
			a.printf("        %s: %s %s\n", x.Column, a.colored(green, "+"), name(u))
		}
		for _, u := range x.Remove {
			a.printf("        %s: %s %s\n", x.Column, a.colored(red, "-"), name(u))
		}
	}
	for _, x := range tx.Entries {
		a.printf("    %s %s %s\n        external_ids:%s: %s -> %s\n", update, x.Table, name(x.Row), x.Key, text(x.Old), text(x.New))
	}
}

func text(s *string) string {
	if s == nil {
		return value(nil)
	}
	return value(*s)
}

// rowName is what a row realises, and its name where it has one.
func rowName(key, name string, uuid nbdb.UUID) string {
	switch {
	case key == "" && name == "":
		return string(uuid)
	case key == "":
		return name
	case name == "" || name == key:
		return key
	}
	return name + " (" + key + ")"
}

// showColumn shows a column's value, the old and the new one, or what comes
// into a set or map and what leaves it.
func (a *app) showColumn(c nbdb.ColumnChange, op nbdb.Op, indent string) {
	switch {
	case op == nbdb.Delete:
		return // the row's name says enough
	case op == nbdb.Insert:
		a.printf("%s%s: %s\n", indent, c.Column, value(c.New))
		return
	}
	plus, minus := a.colored(green, "+"), a.colored(red, "-")
	switch old := c.Old.(type) {
	case []string:
		fresh, _ := c.New.([]string)
		for _, e := range fresh {
			if !slices.Contains(old, e) {
				a.printf("%s%s: %s %s\n", indent, c.Column, plus, value(e))
			}
		}
		for _, e := range old {
			if !slices.Contains(fresh, e) {
				a.printf("%s%s: %s %s\n", indent, c.Column, minus, value(e))
			}
		}
	case map[string]string:
		fresh, _ := c.New.(map[string]string)
		for _, k := range slices.Sorted(maps.Keys(joinKeys(old, fresh))) {
			was, had := old[k]
			is, has := fresh[k]
			switch {
			case had && has && was != is:
				a.printf("%s%s:%s: %s -> %s\n", indent, c.Column, k, value(was), value(is))
			case !had:
				a.printf("%s%s: %s %s=%s\n", indent, c.Column, plus, k, value(is))
			case !has:
				a.printf("%s%s: %s %s=%s\n", indent, c.Column, minus, k, value(was))
			}
		}
	default:
		a.printf("%s%s: %s -> %s\n", indent, c.Column, value(c.Old), value(c.New))
	}
}

func joinKeys(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		return b
	}
	maps.Copy(all, b)
	return all
}

// showResult shows what was done, also where it failed on the way, and
// returns the failure.
func (a *app) showResult(r *engine.Result, err error) error {
	if err != nil && (r == nil || len(r.VPCs) == 0) {
		return err
	}
	if a.output == outputJSON {
		if err != nil {
			return &partialError{err, r}
		}
		if r.VPCs == nil {
			r.VPCs = []engine.VPCResult{}
		}
		a.printJSON(r)
		return nil
	}
	a.diagnose(r.Diagnostics)
	a.showDone(r)
	if err != nil {
		return &partialError{err, r}
	}
	return nil
}

func (a *app) showDone(r *engine.Result) {
	var done []engine.ResourceChange
	failed := false
	for _, v := range r.VPCs {
		a.printf("%s: %s\n", scopeName(v.VPC), a.outcome(v))
		failed = failed || !v.Done
		if !v.Done && v.Landed == 0 {
			continue
		}
		for _, c := range v.Changes {
			word := verbOf(c.Action).result
			if !v.Done {
				word = verbOf(c.Action).plan // which of them is in the part that landed is not known
			}
			a.showChange(c, word)
		}
		if v.Done {
			done = append(done, v.Changes...)
		}
	}
	switch {
	case failed:
		a.printf("Incomplete: %s. Apply again to complete it.\n", tally(done, func(v verb) string { return v.result }))
	case len(r.VPCs) == 0:
		a.printf("No changes.\n")
	default:
		a.printf("Done: %s.\n", tally(done, func(v verb) string { return v.result }))
	}
}

// outcome is what became of a VPC's part.
func (a *app) outcome(v engine.VPCResult) string {
	switch {
	case v.Done:
		return a.colored(green, "done")
	case v.Landed > 0:
		return a.colored(red, "partly done") + ", " + plural(v.Landed, "transaction") + " of " + plural(v.Planned, "transaction") + ": " + oneLine(v.Error)
	}
	return a.colored(red, "not done") + ": " + oneLine(v.Error)
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }
