package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/agent"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

const agentStatusLong = `List the attachments that this hypervisor's agent has plugged, is plugging or
unplugging, failed at, or has unplugged lately, as it has noted in the
hypervisor's Open vSwitch. No other database is read, and the agent need not
run.

-o json and -o yaml say more: leases, and of hooks the end of their output.`

func (a *app) agentStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "List what the agent of this hypervisor has plugged, or failed at", Long: agentStatusLong,
		Example: `  ovn-vpc agent status
  ovn-vpc agent status -o json`,
		Args: a.noArgs(),
	}
	ovs := ovsFlag(cmd)
	a.outputFlag(cmd, outputTable, outputJSON, outputYAML)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := nbdb.Dial(ctx, nbdb.Options{Remotes: *ovs, Database: nbdb.OpenVSwitch, Logger: a.logger()})
		if err != nil {
			return err
		}
		defer c.Close()
		vs, err := c.ReadVSwitch(ctx)
		if err != nil {
			return err
		}
		return a.showStatus(agent.StatusOf(vs, a.flags.owner))
	})
	return cmd
}

func ovsFlag(cmd *cobra.Command) *string {
	ovs := cmd.Flags().String("ovs", defaultOVS, "the hypervisor's Open vSwitch database")
	complete(cmd, "ovs", cobra.NoFileCompletions)
	return ovs
}

// showStatus prints in the format of -o.
func (a *app) showStatus(all []agent.Status) error {
	switch {
	case a.output == outputJSON:
		a.printJSON(struct {
			Items []agent.Status `json:"items"`
		}{all})
		return nil
	case a.output == outputYAML:
		return model.EncodeYAML(a.out, all...)
	case len(all) == 0:
		fmt.Fprintln(a.stderr, "No attachment found.")
		return nil
	}
	return a.statusTable(all)
}
