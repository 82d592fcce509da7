package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func (a *app) describeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe KIND NAME", Short: "Show one resource with all that belongs to it",
		Long: `Show one resource with its fields, its status and what belongs to it: the rules
of a list, the attachments of a tier, the tiers of a VPC.

NAME may be written VPC/NAME, which it has to where several VPCs have the name.`,
		Example: `  ovn-vpc describe vpc shop
  ovn-vpc describe tier shop/web
  ovn-vpc describe attachment web-1 --vpc shop`,
		Args: a.args(1, 2, "say what to describe: KIND NAME"), ValidArgsFunction: a.completeResource(false),
	}
	vpc := a.vpcFlag(cmd, "the VPC of the resource")
	a.outputFlag(cmd, outputText, outputJSON, outputYAML)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
		f, err := named(args, *vpc)
		if err != nil {
			return err
		}
		b, done, err := a.connect(ctx, true)
		if err != nil {
			return err
		}
		defer done()
		object, all, err := one(ctx, b, f)
		if err != nil {
			_, unread := b.Get(ctx, f) // what can't be read is not absent
			return cmp.Or(unread, err)
		}
		if object.Resource.Kind == model.KindVPC {
			// Read by itself, its status says which expectations hold.
			alone, err := b.Get(ctx, engine.Filter{Kind: f.Kind, Name: f.Name})
			if err != nil {
				return err
			}
			if len(alone) == 1 {
				object.Status = alone[0].Status
			}
		}
		if a.output == outputText {
			return a.showObject(object, all)
		}
		return a.printObjects([]engine.Object{*object}, f)
	})
	return cmd
}

// named is selection for a command that needs a name.
func named(args []string, vpc string) (engine.Filter, error) {
	f, err := selection(args, vpc, kindsUsage())
	if err == nil && f.Name == "" {
		err = usagef("say which %s: give its name", args[0])
	}
	return f, err
}
