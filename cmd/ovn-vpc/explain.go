package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const explainLong = `Tell which resource and rule are behind something that OVN shows: a row's UUID in
the northbound database, the first 8 digits of one (the stage-hint of a logical
flow, an ACL's label), or an ACL's name. With - standard input is read: lines of
ovn-controller's log, of ovn-trace or of ovn-sbctl lflow-list.

With -f it is told in which file and line they stand. Where no database is named
and none is at the usual place, the files are taken for all there is.`

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain {UUID | HINT | ACL-NAME | -}", Short: "Tell which resource and rule are behind what OVN shows", Long: explainLong,
		Example: `  ovn-vpc explain shop/db/ingress/20
  ovn-vpc explain f196ca85 -f examples/three-tier/
  grep acl_log /var/log/ovn/ovn-controller.log | tail | ovn-vpc explain -
  ovn-trace "$MICROFLOW" | ovn-vpc explain -`,
		Args: a.args(1, 1, "give a UUID, the first 8 digits of one, an ACL's name, or - for standard input"),
	}
	paths := fileFlag(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
		text := args[0]
		if text == "-" {
			data, err := io.ReadAll(a.stdin)
			if err != nil {
				return fmt.Errorf("reading standard input: %w", err)
			}
			text = string(data)
		}
		found, err := a.explain(ctx, text, *paths)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("nothing of this installation is behind it")
		}
		return a.showExplanations(found)
	})
	return cmd
}

func (a *app) explain(ctx context.Context, text string, paths []string) ([]engine.Explanation, error) {
	var set *model.Set
	if len(paths) > 0 {
		loaded, found, err := a.load(paths, a.online(ctx))
		if err != nil {
			return nil, err
		}
		a.diagnose(found)
		set = loaded
	}
	b, done, err := a.connectOr(ctx, set != nil, true)
	if err != nil {
		return nil, err
	}
	defer done()
	return b.Explain(ctx, text, set)
}

func (a *app) showExplanations(found []engine.Explanation) error {
	if a.output == outputJSON {
		a.printJSON(found)
		return nil
	}
	rows := [][]string{{"ROW", "TABLE", "RESOURCE", "WHAT", "PLACE"}}
	for _, x := range found {
		what, place := x.Name, ""
		if what == "" {
			what = x.Key
		}
		if x.Decision != nil {
			what = x.Decision.Named() + ": " + string(x.Decision.Action)
		}
		if x.File != "" {
			place = fmt.Sprintf("%s:%d", x.File, x.Line)
		}
		rows = append(rows, []string{string(x.Row), x.Table, x.Resource, what, place})
	}
	return a.align("", rows)
}
