package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

func (a *app) applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "apply {-f FILE | --plan FILE}", Short: "Bring the database to what specs say",
		Long: `Bring the database to what specs say: one transaction per VPC, all or nothing.
Applying again what is there already changes nothing.

With --prune, what an earlier apply of the same --manager brought into the VPCs
of the input and the input no longer holds is removed. The VPCs themselves and
offerings are never pruned, and an input without a document changes nothing.`,
		Example: `  ovn-vpc apply -f examples/three-tier/
  ovn-vpc apply -f shop/ --prune --wait sb      # return when ovn-northd has it
  ovn-vpc get tiers -o json | ovn-vpc apply -f -
  ovn-vpc apply --plan shop.plan                # exit 4 if it is stale`,
		Args: a.filesOnly(),
	}
	paths := fileFlag(cmd)
	prune := cmd.Flags().Bool("prune", false, "also remove what an earlier apply brought into the VPCs of the input and the input lacks")
	file := cmd.Flags().String("plan", "", "carry out a plan kept by plan --out")
	wait := waitFlag(cmd)
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		switch {
		case *file != "" && len(*paths) > 0:
			return usagef("--plan and -f exclude each other")
		case *file != "" && *prune:
			return usagef("--plan and --prune exclude each other: give --prune to the plan command")
		case *file != "":
			return a.applyPlan(ctx, *file, engine.Wait(*wait))
		}
		return a.apply(ctx, *paths, *prune, engine.Wait(*wait))
	})
	return cmd
}

func (a *app) apply(ctx context.Context, paths []string, prune bool, wait engine.Wait) error {
	set, found, err := a.load(paths, a.online(ctx))
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
	result, err := b.Apply(ctx, set, prune, wait)
	if result != nil {
		result.Diagnostics = union(found, result.Diagnostics)
	}
	return a.showResult(result, joined(found, err))
}

func (a *app) applyPlan(ctx context.Context, path string, wait engine.Wait) error {
	p, err := readPlan(path)
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
