package main

import (
	"github.com/ovn-vpc/ovn-vpc/engine"
)

// showDrift shows each fault with its row, then the notes.
func (a *app) showDrift(r *engine.DriftReport) {
	for _, f := range r.Faults {
		a.showFault(string(f.Kind), red, f)
	}
	for _, f := range r.Notes {
		a.showFault("note: "+string(f.Kind), cyan, f)
	}
	switch n := len(r.Faults); {
	case n == 0:
		a.printf("No drift.\n")
	case r.Repaired:
		a.printf("Repaired: %s.\n", plural(n, "fault"))
	default:
		a.printf("Drift: %s.\n", plural(n, "fault"))
	}
}

func (a *app) showFault(word, color string, f engine.DriftFault) {
	a.printf("%s", a.colored(color, word))
	if f.Resource != "" {
		a.printf("  %s", f.Resource)
	}
	if f.Table != "" {
		a.printf("  %s %s", f.Table, rowName(f.Key, f.Name, f.Row))
	}
	a.printf(": %s", oneLine(f.Problem))
	if len(f.Columns) > 0 {
		a.printf("; to mend it:")
	}
	a.printf("\n")
	for _, c := range f.Columns {
		a.showColumn("    ", c, false, func(uuid string) string { return uuid })
	}
}
