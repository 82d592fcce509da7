package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

func (a *app) planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan -f FILE", Short: "Show what apply would change",
		Long: `Show what apply would change, resource by resource; nothing is written.

A plan kept with --out can be carried out with apply --plan, as long as the
database stays as it was. Where it would overwrite a row whose stored spec is
damaged it warns, and apply --plan refuses it, unless --repair is given to either.`,
		Example: `  ovn-vpc plan -f examples/three-tier/
  ovn-vpc plan -f shop.yaml --rows               # every row and column too
  ovn-vpc plan -f shop.yaml --exit-code          # 0: nothing to do, 2: changes
  ovn-vpc plan -f shop.yaml --prune --out shop.plan && ovn-vpc apply --plan shop.plan`,
		Args: a.filesOnly(),
	}
	paths := fileFlag(cmd)
	prune := cmd.Flags().Bool("prune", false, "also remove what an earlier apply brought into the VPCs of the input and the input lacks")
	out := cmd.Flags().String("out", "", "keep the plan in this file, for apply --plan")
	pending := cmd.Flags().Bool("exit-code", false, "exit with 2 when there are changes")
	a.repairFlag(cmd, "plan to overwrite rows whose stored spec is damaged, as apply --repair does")
	rows := cmd.Flags().Bool("rows", false, "show the database's rows and columns too")
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		p, err := a.plan(ctx, *paths, *prune)
		if err != nil {
			return err
		}
		if *out != "" {
			if err := writePlan(*out, p); err != nil {
				return err
			}
		}
		if a.output == outputJSON {
			a.printJSON(p)
		} else {
			a.diagnose(p.Diagnostics)
			a.showPlan(p, *rows)
		}
		if *pending && !p.Empty() {
			return errPending
		}
		return nil
	})
	return cmd
}

// plan is the plan for files; without a document in them, one that changes
// nothing.
func (a *app) plan(ctx context.Context, paths []string, prune bool) (*engine.Plan, error) {
	inputs, found, err := a.inputs(paths)
	if err != nil {
		return nil, err
	}
	over, drop := a.lookAhead(ctx, inputs)
	defer drop()
	set, found, err := parse(over, inputs, found, a.online(ctx))
	if err != nil {
		return nil, err
	}
	b, done, err := a.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := b.Plan(ctx, set, prune)
	if err != nil {
		return nil, joined(found, err)
	}
	p.Diagnostics = union(found, p.Diagnostics)
	return p, nil
}

// writePlan keeps a plan in a file, for its owner's eyes.
func writePlan(path string, p *engine.Plan) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding the plan: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("keeping the plan: %w", err)
	}
	return nil
}

// readPlan reads what writePlan has written.
func readPlan(path string) (*engine.Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("reading the plan: %w", err)
	}
	if nbdb.HoldsNUL(data) {
		return nil, usagef("%s is not a plan: a text in it holds the character U+0000", path)
	}
	p := &engine.Plan{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(p); err != nil {
		return nil, usagef("%s is not a plan of this version of ovn-vpc: %w", path, err)
	}
	if _, err := decoder.Token(); err != io.EOF || p.Database == "" {
		return nil, usagef("%s is not a plan", path)
	}
	return p, nil
}
