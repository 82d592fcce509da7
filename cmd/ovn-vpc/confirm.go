package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// confirmPause is how often a waiting command looks whether it is confirmed.
const confirmPause = 500 * time.Millisecond

// confirmTime is a flag with the time in which a change has to be confirmed, 0 for
// none.
type confirmTime time.Duration

func (t *confirmTime) Type() string { return "duration" }

func (t *confirmTime) String() string {
	if *t == 0 {
		return ""
	}
	return time.Duration(*t).String()
}

func (t *confirmTime) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < engine.MinConfirm || d > engine.MaxConfirm || d%time.Second != 0 {
		return fmt.Errorf("give whole seconds, from %s to %s", engine.MinConfirm, engine.MaxConfirm)
	}
	*t = confirmTime(d)
	return nil
}

func (a *app) confirmCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "confirm VPC", Short: "Let a change stand that was applied with --confirm-within",
		Long: `Let the change of a VPC stand that was applied with --confirm-within and waits for
its confirmation. Where none does, or the time is over, that is a conflict (exit 4).`,
		Example: `  ovn-vpc confirm shop`,
		Args:    a.args(1, 1, "give VPC"), ValidArgsFunction: a.completeVPC,
	}
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
		b, done, err := a.connect(ctx, false)
		if err != nil {
			return err
		}
		defer done()
		u, err := b.Confirm(ctx, args[0])
		if err != nil {
			return err
		}
		if a.output == outputJSON {
			a.printJSON(u)
			return nil
		}
		a.printf("VPC %s: the change %d is confirmed.\n", u.VPC, u.Number)
		return nil
	})
	return cmd
}

func (a *app) completeVPC(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeVPCs(cmd, args, typed)
}

// unconfirmed are the changes of a result that have to be confirmed.
func unconfirmed(r *engine.Result) []engine.Unconfirmed {
	if r == nil {
		return nil
	}
	return r.Unconfirmed
}

// awaitConfirmation waits until changes are confirmed, and takes them back when
// their time is over or ctx ends. What was taken back is an error.
func (a *app) awaitConfirmation(ctx context.Context, b backend, waiting []engine.Unconfirmed) error {
	if len(waiting) == 0 {
		fmt.Fprintln(a.stderr, "Nothing waits for a confirmation: no VPC's structure has changed.")
		return nil
	}
	if err := a.out.Flush(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	for _, u := range waiting {
		fmt.Fprintf(a.stderr, "VPC %s: the change %d is taken back in %s, unless somebody runs: ovn-vpc confirm %s\n", u.VPC, u.Number, a.flags.within, u.VPC)
	}
	bounded, cancel := context.WithTimeout(ctx, a.flags.within)
	defer cancel()
	var errs []error
	for _, u := range waiting {
		errs = append(errs, a.awaitOne(bounded, b, u))
	}
	return errors.Join(errs...)
}

// awaitOne waits for one confirmation until ctx ends.
func (a *app) awaitOne(ctx context.Context, b backend, u engine.Unconfirmed) error {
	ticker := time.NewTicker(confirmPause)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			if settled, err := a.settled(ctx, b, u); settled {
				return err
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.flags.timeout)
	defer cancel()
	_, err := b.Rollback(last, u.VPC, engine.RollbackOptions{Unconfirmed: u.Number}, engine.WaitNone)
	if err == nil {
		return takenBack(u)
	}
	// Somebody else may have confirmed it or taken it back in this moment.
	if settled, outcome := a.settled(last, b, u); settled {
		return outcome
	}
	return fmt.Errorf("VPC %s: the change %d is not taken back yet, a server or the next command that changes the VPC will do it: %w", u.VPC, u.Number, err)
}

// settled tells whether a change waits no more, and with an error that it was
// taken back. Where that can't be read it counts as waiting.
func (a *app) settled(ctx context.Context, b backend, u engine.Unconfirmed) (bool, error) {
	h, err := b.History(ctx, u.VPC)
	var missing *engine.NotFoundError
	switch {
	case errors.As(err, &missing):
		return true, takenBack(u) // with the VPC, which was new
	case err != nil:
		a.logger().Info("whether the change is confirmed can't be read", "vpc", u.VPC, "error", err)
		return false, nil
	case h.Unconfirmed != nil && h.Unconfirmed.ID == u.ID:
		return false, nil
	case h.TakenBack(&u):
		return true, takenBack(u)
	}
	fmt.Fprintf(a.stderr, "VPC %s: the change %d is confirmed.\n", u.VPC, u.Number)
	return true, nil
}

func takenBack(u engine.Unconfirmed) error {
	return fmt.Errorf("VPC %s: the change %d was not confirmed and is taken back", u.VPC, u.Number)
}
