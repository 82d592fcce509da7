package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func (a *app) driftCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "drift", Short: "Compare the rows with the specs stored in them, and repair",
		Long: `Compare the rows of the database with the specs that are stored with them, in
both directions: rows that are missing, that were changed, and that no spec
explains. Rows that somebody else put on ours are noted, and never touched.

With --repair the rows are mended in one transaction; what can't be mended is a
failure (exit 1). Where somebody else's row has the name of one that is gone, nothing
is mended, and the error says whose it is (exit 3).`,
		Example: `  ovn-vpc drift
  ovn-vpc drift --exit-code                  # 0: none, 2: drift
  ovn-vpc drift --vpc shop --repair --wait sb`,
		Args: a.noArgs(),
	}
	vpc := a.vpcFlag(cmd, "only this VPC")
	repair := cmd.Flags().Bool("repair", false, "mend the rows")
	pending := cmd.Flags().Bool("exit-code", false, "exit with 2 when there is drift that is not repaired")
	wait := waitFlag(cmd)
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		b, done, err := a.connect(ctx, false)
		if err != nil {
			return err
		}
		defer done()
		report, err := b.Drift(ctx, *vpc, *repair, engine.Wait(*wait))
		if err != nil {
			return err
		}
		if *vpc != "" && len(report.Faults) == 0 {
			if err := exists(ctx, b, model.ID{Kind: model.KindVPC, Name: *vpc}); err != nil {
				return err
			}
		}
		return a.drift(report, *repair, *pending)
	})
	return cmd
}

// drift prints a report and says what it comes to.
func (a *app) drift(report *engine.DriftReport, repair, pending bool) error {
	if a.output != outputJSON {
		a.showDrift(report)
	}
	faults := len(report.Faults)
	switch {
	case repair && faults > 0 && !report.Repaired:
		// With -o json the object on stdout is the report, not the failure.
		err := fmt.Errorf("not all of it could be repaired: see what drift says now, and apply the specs again")
		if a.output == outputJSON {
			a.printJSON(report)
			a.output = ""
		}
		return err
	case a.output == outputJSON:
		a.printJSON(report)
	}
	if pending && faults > 0 && !report.Repaired {
		return errPending
	}
	return nil
}

// exists is nil if the resource does, and else a NotFoundError.
func exists(ctx context.Context, b backend, id model.ID) error {
	found, err := b.Get(ctx, engine.Filter{Kind: id.Kind, VPC: id.VPC, Name: id.Name})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return &engine.NotFoundError{ID: id}
	}
	return nil
}
