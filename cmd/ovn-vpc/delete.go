package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func (a *app) deleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete {KIND NAME | -f FILE}", Short: "Delete resources",
		Long: `Delete one resource, or all that files name. What others use is refused and its
users are named; with --cascade they are deleted too.

A deletion after which an expectation of the VPC holds no more, and that doesn't
take it along, is refused (exit 3), unless --override-expectations is given.

A NAME that is not there is a failure; of files, what is not there is passed
over with a warning. What somebody has deleted by hand, and "ovn-vpc drift --repair"
would bring back, is deleted by its full NAME, such as shop/web-1. So is, with
--repair, what stores a spec that can't be read and has no second copy; without, it
is refused (exit 1), and the row named, also where it would go along with another.

Thousands of attachments take longer than the default of --timeout: give more,
such as --timeout 5m.`,
		Example: `  ovn-vpc delete attachment shop/web-1
  ovn-vpc delete vpc shop --cascade
  ovn-vpc delete -f examples/three-tier/`,
		Args: a.args(0, 2, "say what to delete: KIND NAME, or -f FILE"), ValidArgsFunction: a.completeResource(false),
	}
	paths := fileFlag(cmd)
	vpc := a.vpcFlag(cmd, "the VPC of the resource")
	cascade := cmd.Flags().Bool("cascade", false, "delete its users too")
	a.overrideFlag(cmd)
	a.repairFlag(cmd, "delete rows whose stored spec is damaged, too")
	wait := waitFlag(cmd)
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
		switch {
		case len(*paths) > 0 && len(args) > 0:
			return usagef("give KIND NAME or -f, not both")
		case len(*paths) > 0 && *vpc != "":
			return usagef("-f and --vpc exclude each other")
		case len(*paths) > 0:
			return a.deleteFiles(ctx, *paths, *cascade, engine.Wait(*wait))
		case len(args) == 0:
			return usagef("say what to delete: KIND NAME, or -f FILE")
		}
		f, err := named(args, *vpc)
		if err != nil {
			return err
		}
		return a.deleteOne(ctx, f, *cascade, engine.Wait(*wait))
	})
	return cmd
}

func (a *app) deleteOne(ctx context.Context, f engine.Filter, cascade bool, wait engine.Wait) error {
	b, done, err := a.connect(ctx, false)
	if err != nil {
		return err
	}
	defer done()
	id := wanted(f)
	var missing *engine.NotFoundError
	object, _, err := one(ctx, b, f)
	switch {
	case err == nil:
		id = object.Resource.ID()
	case !errors.As(err, &missing) || f.VPC == "" && !f.Kind.Global():
		return err
	}
	if id.Kind == model.KindACL && model.BuiltinName(id.Name) {
		return usagef("%s is built in and can't be deleted", id)
	}
	// What is not there may have a second copy, or a row that can't be read.
	result, failed := b.Delete(ctx, []model.ID{id}, cascade, wait)
	if err != nil && errors.As(failed, &missing) {
		return err // which tells what there is
	}
	return a.showResult(result, failed)
}

func (a *app) deleteFiles(ctx context.Context, paths []string, cascade bool, wait engine.Wait) error {
	set, found, err := a.load(paths, offline)
	if err != nil {
		return err
	}
	if len(set.Resources) == 0 {
		return a.showResult(&engine.Result{VPCs: []engine.VPCResult{}, Diagnostics: found}, nil)
	}
	b, done, err := a.connect(ctx, false)
	if err != nil {
		return err
	}
	defer done()
	there, err := b.Get(ctx, engine.Filter{})
	if err != nil {
		return err
	}
	var ids []model.ID
	for _, r := range set.Resources {
		damaged := slices.ContainsFunc(a.left, func(d model.Diagnostic) bool { return d.Resource == r.ID().String() })
		if damaged || slices.ContainsFunc(there, func(o engine.Object) bool { return o.Resource.ID() == r.ID() }) {
			ids = append(ids, r.ID())
		} else {
			found = append(found, r.Warning("metadata.name", "is not in the database", "nothing to delete"))
		}
	}
	result, err := b.Delete(ctx, ids, cascade, wait)
	if err == nil {
		result.Diagnostics = union(found, result.Diagnostics)
	}
	return a.showResult(result, joined(found, err))
}
