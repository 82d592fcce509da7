package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const traceLong = `Tell what becomes of a packet, and which rules decide.

FROM and TO are an attachment or a tier (attachment/NAME, tier/NAME where both
have the name), an address, or the word outside. A tier stands for all its
attachments, outside for all addresses in no tier: of what is judged alike, by
the same rules, one packet is traced. TRAFFIC is such as tcp/443, udp/53,
icmp/3, "protocol 47"; without it, ping.

With -f the state is traced as it would be after applying the files. Where no
database is named and none is at the usual place, the files are taken for all
there is.

What the lists let out to outside passes, as in reach: a VPC has no way out of
its own.

With --ovn ovn-trace(8) judges each packet too: by the flows of the southbound
database of --sb, with -f by those that an ovn-northd makes in a scratch OVN of
its own, of which nothing is left.

Exit code 0: it is reachable, 2: it is not, or not all of it, 1 where OVN says
otherwise.`

func (a *app) traceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trace FROM TO [TRAFFIC]", Short: "Tell what becomes of a packet, and which rules decide", Long: traceLong,
		Example: `  ovn-vpc trace web-1 db-1 tcp/5432
  ovn-vpc trace web-1 db-1 tcp/5432 -f examples/three-tier/   # as it would be
  ovn-vpc trace web-1 db-1 tcp/5432 -f examples/three-tier/ --ovn
  ovn-vpc trace tier/web 198.51.100.7 udp/53 --vpc shop -o json`,
		Args: a.args(2, 3, "give FROM TO, and perhaps TRAFFIC such as tcp/443"), ValidArgsFunction: a.completeEnds,
	}
	paths := fileFlag(cmd)
	vpc := a.vpcFlag(cmd, "the VPC; may be left away where there is one")
	ovn := cmd.Flags().Bool("ovn", false, "let OVN itself judge too, and fail where it says otherwise")
	a.outputFlag(cmd, outputTable, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
		q := engine.TraceQuery{VPC: *vpc, From: args[0], To: args[1]}
		if len(args) > 2 {
			q.Traffic = args[2]
		}
		if err := a.hereOnly(*ovn); err != nil {
			return err
		}
		r, err := a.trace(ctx, q, *paths)
		if err == nil && *ovn {
			err = a.askOVN(ctx, r.Planned, r)
		}
		if err != nil {
			return err
		}
		if a.output == outputJSON {
			a.printJSON(r)
		} else {
			a.diagnose(r.Diagnostics)
			if err := a.showTrace(r); err != nil {
				return err
			}
		}
		agreed := func(p engine.TracePath) bool { return p.OVN == nil || p.OVN.Agrees }
		switch otherwise := slices.DeleteFunc(slices.Clone(r.Paths), agreed); {
		case len(otherwise) > 0:
			return a.differs(len(otherwise), len(r.Paths), r.Planned)
		case !r.Reachable:
			return errUnreachable
		}
		return nil
	})
	return cmd
}

func (a *app) trace(ctx context.Context, q engine.TraceQuery, paths []string) (*engine.TraceReport, error) {
	var found model.Diagnostics
	if len(paths) > 0 {
		var err error
		if q.Set, found, err = a.load(paths, a.online(ctx)); err != nil {
			return nil, err
		}
	}
	b, done, err := a.connectOr(ctx, q.Set != nil, true)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := b.Trace(ctx, q)
	if err != nil {
		return nil, joined(found, err)
	}
	r.Diagnostics = union(found, r.Diagnostics)
	return r, nil
}

// completeEnds completes FROM and TO.
func (a *app) completeEnds(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	vpc, err := cmd.Flags().GetString("vpc")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := append(a.names(cmd, model.KindAttachment, vpc), a.names(cmd, model.KindTier, vpc)...)
	return append(names, "outside"), cobra.ShellCompDirectiveNoFileComp
}
