package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

func (a *app) aclCommand() *cobra.Command {
	replace := &cobra.Command{
		Use: "replace VPC TIER NEWACL", Short: "Put another list in force at a tier's boundary",
		Long: `Put another list in force at a tier's boundary, in one transaction: there is no
moment without a list. NEWACL may be default-allow or default-deny.

With --confirm-opens it is refused (exit 3) where it opens traffic that no
--allow-open names, and always where an expectation of the VPC would hold no more,
unless --override-expectations is given: both as of apply.`,
		Example: `  ovn-vpc acl replace shop web maintenance
  ovn-vpc acl replace shop web public --confirm-opens --allow-open 'outside -> web tcp 443'`,
		Args: a.args(3, 3, "give VPC TIER NEWACL"), ValidArgsFunction: a.completeReplace,
	}
	read := openingFlags(replace)
	a.overrideFlag(replace)
	wait := waitFlag(replace)
	a.outputFlag(replace, outputText, outputJSON)
	replace.RunE = a.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
		o, err := read()
		if err != nil {
			return err
		}
		b, done, err := a.connect(ctx, false)
		if err != nil {
			return err
		}
		defer done()
		if o.confirm {
			return a.showResult(b.ReplaceACLConfirmed(ctx, args[0], args[1], args[2], o.named, engine.Wait(*wait)))
		}
		return a.showResult(b.ReplaceACL(ctx, args[0], args[1], args[2], engine.Wait(*wait)))
	})
	return a.group("acl", "Work with access lists", replace)
}
