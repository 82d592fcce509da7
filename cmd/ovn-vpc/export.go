package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func (a *app) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Print specs that apply to the same state",
		Long: `Print all resources, or those of one VPC with the offering that it uses, as specs
that bring an empty database to the same state: allocated addresses and MACs
included, status and built-in lists left out.`,
		Example: `  ovn-vpc export > all.yaml
  ovn-vpc export --vpc shop | ovn-vpc --nb tcp:[2001:db8::1]:6641 apply -f -`,
		Args: a.noArgs(),
	}
	vpc := a.vpcFlag(cmd, "only this VPC")
	a.outputFlag(cmd, outputYAML, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		b, done, err := a.connect(ctx, false)
		if err != nil {
			return err
		}
		defer done()
		resources, err := b.Export(ctx, *vpc)
		if err != nil {
			return err
		}
		if *vpc != "" && len(resources) == 0 {
			return &engine.NotFoundError{ID: model.ID{Kind: model.KindVPC, Name: *vpc}}
		}
		documents := make([]model.Document, len(resources))
		for i, r := range resources {
			documents[i] = model.Envelope(r, nil)
		}
		return a.printDocuments(documents)
	})
	return cmd
}
