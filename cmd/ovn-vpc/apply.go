package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

const applyLong = `Bring the database to what specs say: one transaction per VPC, all or nothing.
Applying again what is there already changes nothing.

With --prune, what an earlier apply of the same --manager brought into the VPCs
of the input and the input no longer holds is removed. The VPCs themselves and
offerings are never pruned, and an input without a document changes nothing.

With --confirm-opens, a plan that opens traffic between tiers, or to or from
outside, is refused (exit 3) unless each opening is named by --allow-open, as the
plan command shows it: FROM -> TO TRAFFIC. Nothing is written then.

A change after which an expectation of the VPC holds no more is refused (exit 3),
and so is a new expectation that doesn't hold. --override-expectations lets it
pass, and notes with the VPC who did so, when, and with which expectations.

A change that would overwrite a row of ours whose stored spec is damaged is refused
(exit 1), and the row named: nothing of that VPC is written, other VPCs of the input
go on. --repair overwrites the row; "ovn-vpc drift --repair" restores what has a
second copy.

With --confirm-within, what changes of the structure of VPCs (all but attachments)
is taken back unless "ovn-vpc confirm" comes within that time. The command waits
for it: exit 0 when it has come, exit 1 when the change was taken back. SIGINT and
SIGTERM take it back at once. If the command is killed, a server on the database
takes it back in time, or else the next command that changes the VPC. Until it is
confirmed, other changes of the VPC's structure are refused (exit 4).`

func (a *app) applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "apply {-f FILE | --plan FILE}", Short: "Bring the database to what specs say",
		Long: applyLong,
		Example: `  ovn-vpc apply -f examples/three-tier/
  ovn-vpc apply -f shop/ --prune --wait sb      # return when ovn-northd has it
  ovn-vpc get tiers -o json | ovn-vpc apply -f -
  ovn-vpc apply --plan shop.plan                # exit 4 if it is stale
  ovn-vpc apply -f shop/ --confirm-opens --allow-open 'app -> db tcp 3306'
  ovn-vpc apply -f shop/ --confirm-within 60s   # in another shell: ovn-vpc confirm shop`,
		Args: a.filesOnly(),
	}
	paths := fileFlag(cmd)
	prune := cmd.Flags().Bool("prune", false, "also remove what an earlier apply brought into the VPCs of the input and the input lacks")
	file := cmd.Flags().String("plan", "", "carry out a plan kept by plan --out")
	a.repairFlag(cmd, "overwrite rows whose stored spec is damaged")
	opens := a.gateFlags(cmd)
	cmd.Flags().Var((*confirmTime)(&a.flags.within), "confirm-within", "take the change back unless it is confirmed within this time, such as 60s (default: it stays)")
	complete(cmd, "confirm-within", cobra.NoFileCompletions)
	wait := waitFlag(cmd)
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		o, err := opens()
		switch {
		case err != nil:
			return err
		case *file != "" && a.flags.within != 0:
			return usagef("--plan and --confirm-within exclude each other: apply the files with -f")
		case *file != "" && len(*paths) > 0:
			return usagef("--plan and -f exclude each other")
		case *file != "" && *prune:
			return usagef("--plan and --prune exclude each other: give --prune to the plan command")
		case *file != "" && a.flags.override:
			return usagef("--plan and --override-expectations exclude each other: apply the files with -f")
		case *file != "":
			return a.applyPlan(ctx, *file, o, engine.Wait(*wait))
		}
		return a.apply(ctx, cmd.Context(), *paths, *prune, o, engine.Wait(*wait))
	})
	return cmd
}

// openings are what an apply may open.
type openings struct {
	confirm bool // or else anything
	named   []reach.Opening
}

// openingFlags gives a command the flags about what it may open; read reads them.
func openingFlags(cmd *cobra.Command) (read func() (openings, error)) {
	confirm := cmd.Flags().Bool("confirm-opens", false, "refuse to open what no --allow-open names")
	allowed := cmd.Flags().StringArray("allow-open", nil, "what may be opened, such as 'app -> db tcp 3306' or 'outside -> web tcp 80, 443'; may be repeated")
	complete(cmd, "allow-open", cobra.NoFileCompletions)
	return func() (openings, error) { return newOpenings(*confirm, *allowed) }
}

func (a *app) overrideFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.flags.override, "override-expectations", false, "break expectations, and note it with the VPC")
}

func (a *app) repairFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVar(&a.flags.repair, "repair", false, usage)
}

func newOpenings(confirm bool, allowed []string) (openings, error) {
	o := openings{confirm: confirm}
	if len(allowed) > 0 && !confirm {
		return o, usagef("--allow-open is for --confirm-opens")
	}
	for _, text := range allowed {
		named, err := reach.ParseOpening(text)
		if err != nil {
			return o, usagef("--allow-open: %w", err)
		}
		o.named = append(o.named, named)
	}
	return o, nil
}

// gateFlags gives a command the flags about what it may open and break.
func (a *app) gateFlags(cmd *cobra.Command) (read func() (openings, error)) {
	a.overrideFlag(cmd)
	return openingFlags(cmd)
}

// apply applies files. unbounded is the context of what goes on when it is done:
// waiting for a confirmation.
func (a *app) apply(ctx, unbounded context.Context, paths []string, prune bool, o openings, wait engine.Wait) error {
	inputs, found, err := a.inputs(paths)
	if err != nil {
		return err
	}
	over, drop := a.lookAhead(ctx, inputs)
	defer drop()
	set, found, err := parse(over, inputs, found, a.online(ctx))
	if err != nil {
		return err
	}
	if len(set.Resources) == 0 {
		return a.showResult(&engine.Result{VPCs: []engine.VPCResult{}, Diagnostics: found}, nil)
	}
	b, done, err := a.connect(ctx, true)
	if err != nil {
		return err
	}
	defer done()
	var result *engine.Result
	if o.confirm {
		result, err = b.ApplyConfirmed(ctx, set, prune, o.named, wait)
	} else {
		result, err = b.Apply(ctx, set, prune, wait)
	}
	if result != nil {
		result.Diagnostics = union(found, result.Diagnostics)
	}
	waiting := unconfirmed(result)
	err = a.showResult(result, joined(found, err))
	if a.flags.within != 0 && (err == nil || len(waiting) > 0) {
		return cmp.Or(a.awaitConfirmation(unbounded, b, waiting), err)
	}
	return err
}

func (a *app) applyPlan(ctx context.Context, path string, o openings, wait engine.Wait) error {
	p, err := readPlan(path)
	if err == nil && o.confirm {
		err = p.Confirm(o.named)
	}
	if err != nil {
		return err
	}
	b, done, err := a.connect(ctx, false)
	if err != nil {
		return err
	}
	defer done()
	return a.showResult(b.ApplyPlan(ctx, p, wait))
}
