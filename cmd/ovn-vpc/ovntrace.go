package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// keepCommand is the command, for this program alone, that keeps a scratch OVN.
const keepCommand = "keep"

// sandboxKeep is what lab.NewScratch starts: it ends with its standard input.
func (a *app) sandboxKeep() *cobra.Command {
	cmd := &cobra.Command{Use: keepCommand, Short: "Keep a scratch OVN as long as standard input is open", Hidden: true, Args: a.noArgs()}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.started = true
		// Where nobody listens any more there is still something to purge.
		signal.Ignore(syscall.SIGPIPE)
		return lab.KeepScratch(cmd.Context(), a.stdin, os.Stdout)
	}
	return cmd
}

// hereOnly refuses --ovn through a server.
func (a *app) hereOnly(ovn bool) error {
	if ovn && a.server() != "" {
		return usagef("--ovn and a server exclude each other: OVN is asked from here")
	}
	return nil
}

// question is what OVN is asked about: packets, and the resources that they are
// about.
type question interface {
	AskOVN(ask func(microflow string) (string, error)) error
	Resources() []*model.Resource
}

// askOVN lets ovn-trace judge packets: of a plan by a scratch OVN that has its
// resources alone, else by the southbound database.
func (a *app) askOVN(ctx context.Context, planned bool, q question) (err error) {
	var args []string
	switch {
	case planned:
		scratch, failed := a.scratch(ctx)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, scratch.Close()) }()
		if err = a.fill(ctx, scratch, q.Resources()); err != nil {
			return err
		}
		args = []string{"--db=" + scratch.SB}
	case a.southbound() == "":
		return usagef("--ovn asks the southbound database: name it with --sb, or give files with -f")
	default:
		args = []string{"--db=" + a.southbound()}
		for option, file := range map[string]string{"-p": a.flags.key, "-c": a.flags.certificate, "-C": a.flags.caCert} {
			if file != "" {
				args = append(args, option, file)
			}
		}
	}
	bin, err := lab.FindBinaries("", "", "ovn-trace")
	if err != nil {
		return err
	}
	// Each use of connection tracking takes one.
	args = append(args, slices.Repeat([]string{"--ct=new"}, manyStates)...)
	return q.AskOVN(func(flow string) (string, error) {
		cmd := bin.Command(ctx, "ovn-trace", append(slices.Clone(args), "--summary", flow)...)
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		first, _, _ := strings.Cut(strings.TrimSpace(complaints.String()), "\n")
		switch {
		case err != nil:
			return "", fmt.Errorf("ovn-trace: %w: %s", err, first)
		case first != "":
			fmt.Fprintf(a.stderr, "warning: ovn-trace complains (is it older than ovn-northd?): %s\n", first)
		}
		return string(out), nil
	})
}

// manyStates is more than the connection states that one packet goes through.
const manyStates = 32

func (a *app) scratch(ctx context.Context) (*lab.Scratch, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return lab.NewScratch(ctx, self, os.Args[0], "sandbox", keepCommand)
}

// fill brings resources into a scratch OVN and returns when its ovn-northd has
// them.
func (a *app) fill(ctx context.Context, s *lab.Scratch, resources []*model.Resource) error {
	nb, err := nbdb.Dial(ctx, nbdb.Options{Remotes: s.NB, Logger: a.logger()})
	if err != nil {
		return fmt.Errorf("filling the scratch OVN: %w", err)
	}
	defer nb.Close()
	e := engine.New(nb, a.flags.owner, a.flags.manager)
	e.OverrideExpectations = true
	if _, err = e.Apply(ctx, &model.Set{Resources: resources}, false, engine.WaitSB); err != nil {
		return fmt.Errorf("filling the scratch OVN: %w", err)
	}
	return nil
}

// differs is the failure where OVN judges otherwise about n of all packets. With
// -o json the object on stdout is the report, not the failure.
func (a *app) differs(n, all int, planned bool) error {
	a.output = ""
	where := "a fault of this program"
	if !planned {
		where = "ovn-northd has not caught up, somebody else's rows, or a fault of this program"
	}
	return fmt.Errorf("THEY DIFFER: OVN says otherwise about %d of %s: %s", n, plural(all, "packet"), where)
}
