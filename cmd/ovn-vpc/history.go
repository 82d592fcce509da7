package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func (a *app) historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history VPC", Short: "Show what was changed in a VPC, by whom and when",
		Long: `Show the last 20 changes of a VPC's structure: of the VPC, its tiers, lists and
expectations. Attachments leave no trace. Each change has the number of the state
that it led to; --show prints the specs of one, as "apply -f -" takes them.`,
		Example: `  ovn-vpc history shop
  ovn-vpc history shop --show 12 > shop-12.yaml`,
		Args: a.args(1, 1, "give VPC"), ValidArgsFunction: a.completeVPC,
	}
	show := cmd.Flags().Int("show", 0, "print the specs as they were after the change of this number, as YAML")
	complete(cmd, "show", cobra.NoFileCompletions)
	a.outputFlag(cmd, outputTable, outputJSON, outputYAML)
	cmd.RunE = a.action(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		b, done, err := a.connect(ctx, false)
		if err != nil {
			return err
		}
		defer done()
		if !cmd.Flags().Changed("show") {
			h, err := b.History(ctx, args[0])
			if err != nil {
				return err
			}
			return a.showHistory(h)
		}
		state, err := b.HistoryState(ctx, args[0], *show)
		if err != nil {
			return err
		}
		documents := make([]model.Document, len(state))
		for i, r := range state {
			documents[i] = model.Envelope(r, nil)
		}
		return model.EncodeYAML(a.out, documents...)
	})
	return cmd
}

func (a *app) showHistory(h *engine.History) error {
	switch a.output {
	case outputJSON:
		a.printJSON(h)
		return nil
	case outputYAML:
		return model.EncodeYAML(a.out, h)
	}
	rows := [][]string{{"NUMBER", "TIME", "MANAGER", "THROUGH", "CHANGES"}}
	for _, x := range h.Entries {
		rows = append(rows, []string{strconv.Itoa(x.Number), x.Time.Format(time.RFC3339), x.Manager, through(x), changed(x)})
	}
	if err := a.align("", rows); err != nil {
		return err
	}
	if u := h.Unconfirmed; u != nil {
		a.printf("%s, as of the clock of who made it.\n", u)
	}
	return nil
}

// through says by what a VPC was changed.
func through(x engine.HistoryEntry) string {
	words := string(x.Through)
	if x.To != nil {
		words += " to " + strconv.Itoa(*x.To)
	}
	if x.Overridden {
		words += ", override"
	}
	return words
}

func changed(x engine.HistoryEntry) string {
	parts := []string{x.Summary}
	if x.Part > 0 {
		parts = append(parts, "(goes with the one before)")
	}
	if x.NotKept != "" {
		parts = append(parts, "(not kept: "+oneLine(x.NotKept)+")")
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

func (a *app) rollbackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rollback VPC", Short: "Bring a VPC back to what it was",
		Long: `Bring the VPC, its tiers, lists and expectations back to what they were: before the
newest change, or with --to as they were after the change of that number (see the
history command). It is one plan, as an apply makes it, with the same gates, and a
change in the history itself.

Attachments stay as they are. Where one stands in a tier that the older state lacks,
the rollback is refused (exit 3), or with --cascade the attachment goes too. Where
a change waits for its confirmation, that ends the waiting.`,
		Example: `  ovn-vpc rollback shop --dry-run
  ovn-vpc rollback shop
  ovn-vpc rollback shop --to 12 --wait hv`,
		Args: a.args(1, 1, "give VPC"), ValidArgsFunction: a.completeVPC,
	}
	var o engine.RollbackOptions
	cmd.Flags().IntVar(&o.To, "to", 0, "number of the state (default the one before the newest change)")
	complete(cmd, "to", cobra.NoFileCompletions)
	dry := cmd.Flags().Bool("dry-run", false, "show what would change, and write nothing")
	cmd.Flags().BoolVar(&o.Cascade, "cascade", false, "delete the attachments of tiers that the older state lacks")
	opens := a.gateFlags(cmd)
	wait := waitFlag(cmd)
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		gate, err := opens()
		switch {
		case err != nil:
			return err
		case cmd.Flags().Changed("to") && o.To < 1:
			return usagef("--to %d: states are numbered from 1", o.To)
		}
		o.ConfirmOpens, o.Openings = gate.confirm, gate.named
		b, done, err := a.connect(ctx, true)
		if err != nil {
			return err
		}
		defer done()
		if !*dry {
			return a.showResult(b.Rollback(ctx, args[0], o, engine.Wait(*wait)))
		}
		p, err := b.PlanRollback(ctx, args[0], o)
		if err != nil {
			return err
		}
		if a.output == outputJSON {
			a.printJSON(p)
			return nil
		}
		a.diagnose(p.Diagnostics)
		a.showPlan(p, false)
		return nil
	})
	return cmd
}
