package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func (a *app) getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get KIND [NAME]", Short: "List resources with their status",
		Long: `List resources as they are stored in the database, with their status.

KIND is ` + kindsUsage() + `, in singular or plural and any
case, or all. NAME may be written VPC/NAME. What -o json and -o yaml print can be
applied again. The built-in lists default-allow and default-deny are shown
where they are asked for by name.`,
		Example: `  ovn-vpc get tiers
  ovn-vpc get attachments --vpc shop -l env=prod -o wide
  ovn-vpc get acl shop/web -o yaml
  ovn-vpc get all -o name`,
		Args: a.args(1, 2, "say what to list: KIND [NAME]"), ValidArgsFunction: a.completeResource(true),
	}
	vpc := a.vpcFlag(cmd, "only this VPC")
	labels := cmd.Flags().StringP("selector", "l", "", "only with these labels: key=value,key=value")
	a.outputFlag(cmd, outputTable, outputWide, outputJSON, outputYAML, outputName)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
		f, err := selection(args, *vpc, kindsUsage(), kindAll)
		if err != nil {
			return err
		}
		if f.Labels, err = engine.ParseLabels(*labels); err != nil {
			return &usageError{err}
		}
		b, done, err := a.connect(ctx, true)
		if err != nil {
			return err
		}
		defer done()
		return a.get(ctx, b, f)
	})
	return cmd
}

// get prints what a filter chooses.
func (a *app) get(ctx context.Context, b backend, f engine.Filter) error {
	objects, err := b.Get(ctx, f)
	if err != nil {
		return err
	}
	if f.Name == "" {
		objects = withoutBuiltins(objects)
	} else if len(objects) == 0 {
		all, err := b.Get(ctx, engine.Filter{Kind: f.Kind})
		if err != nil {
			return err
		}
		return missing(f, all)
	}
	return a.printObjects(objects, f)
}

func withoutBuiltins(objects []engine.Object) []engine.Object {
	var out []engine.Object
	for _, o := range objects {
		if o.Resource.Kind != model.KindACL || !model.BuiltinName(o.Resource.Metadata.Name) {
			out = append(out, o)
		}
	}
	return out
}

// printObjects prints resources in the format of -o: a single one that was
// named as a document, others as a list.
func (a *app) printObjects(objects []engine.Object, f engine.Filter) error {
	switch a.output {
	case outputJSON, outputYAML:
		documents := make([]model.Document, len(objects))
		for i, o := range objects {
			documents[i] = model.Envelope(o.Resource, o.Status)
		}
		if a.output == outputJSON && f.Name != "" && len(documents) == 1 {
			a.printJSON(documents[0])
			return nil
		}
		return a.printDocuments(documents)
	case outputName:
		for _, o := range objects {
			a.printf("%s\n", reference(o.Resource.ID()))
		}
		return nil
	}
	return a.showTables(objects, a.output == outputWide, f.Kind == "")
}
