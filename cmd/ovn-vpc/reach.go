package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

func (a *app) reachCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reach", Short: "Tell who can reach whom",
		Long: `Tell exactly which traffic the access lists let pass between tiers, or between
attachments, and from and to outside: by what is stored, or with -f as it would
be when the files were applied; where no database is named and none is at the usual
place, the files are taken for all there is. What isn't listed doesn't pass.

It is about the first packets of connections; replies pass unless it says
otherwise. What is in no tier is outside: a VPC has no way there by itself.

--from and --to take outside, tier/NAME, attachment/NAME, or NAME alone. --port
takes traffic as the result shows it, such as tcp/22, udp/53, icmp, "tcp 80, 443"
or "tcp; icmp echo".`,
		Example: `  ovn-vpc reach --vpc shop
  ovn-vpc reach -f examples/three-tier/ --rules          # by which rules, with file and line
  ovn-vpc reach --port tcp/22                            # who reaches ssh?
  ovn-vpc reach --vpc shop --by attachment --to db-1
  ovn-vpc reach --vpc shop --from outside -o json
  ovn-vpc reach --vpc shop -o dot | dot -Tsvg > shop.svg`,
		Args: a.filesOnly(),
	}
	paths := fileFlag(cmd)
	vpc := a.vpcFlag(cmd, "only this VPC (default all, with -f those of the files)")
	by, allowed := string(reach.Tier), []string{string(reach.Tier), string(reach.Attachment)}
	cmd.Flags().Var(&choice{&by, allowed}, "by", "between what")
	complete(cmd, "by", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	from := cmd.Flags().StringSlice("from", nil, "only from this end; may be repeated")
	to := cmd.Flags().StringSlice("to", nil, "only to this end; may be repeated")
	port := cmd.Flags().String("port", "", "only this traffic, such as tcp/22")
	rules := cmd.Flags().Bool("rules", false, "show by which rules it passes too")
	for _, name := range []string{"from", "to", "port"} {
		complete(cmd, name, cobra.NoFileCompletions)
	}
	a.outputFlag(cmd, outputTable, outputJSON, outputMermaid, outputDOT)
	cmd.RunE = a.action(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		o := engine.ReachOptions{VPC: *vpc, By: reach.Kind(by), Rules: *rules}
		var err error
		if o.From, err = ends(cmd, "from", *from); err != nil {
			return err
		}
		if o.To, err = ends(cmd, "to", *to); err != nil {
			return err
		}
		if cmd.Flags().Changed("port") {
			set, err := traffic.Parse(*port)
			if err != nil {
				return usagef("--port: %w", err)
			}
			o.Traffic = &set
		}
		r, err := a.reach(ctx, *paths, o)
		if err != nil {
			return err
		}
		a.showReach(r, *rules)
		return nil
	})
	return cmd
}

func ends(cmd *cobra.Command, flag string, words []string) ([]reach.End, error) {
	if cmd.Flags().Changed(flag) && len(words) == 0 {
		return nil, usagef("--%s: name an end", flag)
	}
	var out []reach.End
	for _, w := range words {
		e, err := reach.ParseEnd(w)
		if err != nil {
			return nil, usagef("--%s: %w", flag, err)
		}
		out = append(out, e)
	}
	return out, nil
}

func (a *app) reach(ctx context.Context, paths []string, o engine.ReachOptions) (*engine.ReachReport, error) {
	set, found, err := a.loadIfAny(ctx, paths)
	if err != nil {
		return nil, err
	}
	b, done, err := a.connectOr(ctx, set != nil, false)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := b.Reach(ctx, set, o)
	if err != nil {
		return nil, joined(found, err)
	}
	r.Diagnostics = union(found, r.Diagnostics)
	return r, nil
}

// loadIfAny reads the files of a command that does without too: nil is none.
func (a *app) loadIfAny(ctx context.Context, paths []string) (*model.Set, model.Diagnostics, error) {
	if len(paths) == 0 {
		return nil, nil, nil
	}
	return a.load(paths, a.online(ctx))
}

// showReach shows the VPCs one after the other, each under its name where there
// are several, or all in one picture.
func (a *app) showReach(r *engine.ReachReport, rules bool) {
	if a.output == outputJSON {
		a.printJSON(r)
		return
	}
	a.diagnose(r.Diagnostics)
	if len(r.VPCs) == 0 {
		fmt.Fprintln(a.stderr, "No VPC found.")
	}
	switch a.output {
	case outputMermaid:
		a.printf("%s", reach.Mermaid(r.VPCs...))
		return
	case outputDOT:
		a.printf("%s", reach.DOT(r.VPCs...))
		return
	}
	for i, v := range r.VPCs {
		if len(r.VPCs) > 1 {
			a.printf("%sVPC %s:\n", strings.Repeat("\n", min(i, 1)), v.VPC)
		}
		a.showPaths(v, rules)
	}
}

func (a *app) showPaths(v *reach.Result, rules bool) {
	switch {
	case len(v.Paths) == 0:
		a.printf("Nothing passes.\n")
	case rules:
		a.printf("%s", v.Rules())
	default:
		a.printf("%s", v.Table())
	}
	for _, n := range v.Notes {
		a.printf("note: %s\n", n)
	}
}
