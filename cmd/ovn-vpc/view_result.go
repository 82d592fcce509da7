package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
)

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
		a.printJSON(r)
		return nil
	}
	a.diagnose(r.Diagnostics)
	a.showDone(r, err)
	if err != nil {
		return &partialError{err, r}
	}
	return nil
}

// showDone shows what was done and, with the failure that ended it, how far it
// came.
func (a *app) showDone(r *engine.Result, err error) {
	var unknown *client.UnknownOutcomeError
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
	case failed && (engine.UnknownOutcome(err) || errors.As(err, &unknown)):
		a.printf("It is not known whether the last transaction was committed. Run it again to complete it.\n")
	case failed && !r.Changed():
		a.printf("Nothing was changed.\n")
	case failed:
		a.printf("Incomplete: %s. Run it again to complete it.\n", tally(done, func(v verb) string { return v.result }))
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
		return a.colored(red, "partly done") + ", " + strconv.Itoa(v.Landed) + " of " + plural(v.Planned, "transaction") + ": " + oneLine(v.Error)
	}
	return a.colored(red, "not done") + ": " + oneLine(v.Error)
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }
