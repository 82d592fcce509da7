package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// app is one run of the program: its streams and what the flags say.
type app struct {
	stdin  io.Reader
	out    *bufio.Writer // results; keeps the first error of the writer below
	stderr io.Writer     // all else
	getenv func(string) string
	color  bool // results may be coloured
	tty    bool // stderr is a terminal: progress may be shown

	flags   globalFlags
	output  string            // -o of the command that runs
	help    string            // the command that runs, for a hint at its help
	started bool              // the command line was understood
	early   *ahead            // a connection that nobody has taken yet
	left    model.Diagnostics // tell what was left out since what is stored of it is damaged
}

const (
	defaultNB      = "unix:/var/run/ovn/ovnnb_db.sock"
	defaultTimeout = 30 * time.Second
	// sbPatience bounds the connection to the southbound database, which is
	// done without where it can't be had.
	sbPatience = 5 * time.Second
)

func newApp(stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) *app {
	none := globalFlags{given: func(string) bool { return false }} // until there is a command line
	return &app{stdin: stdin, out: bufio.NewWriter(stdout), stderr: stderr, getenv: getenv, flags: none,
		color: isTerminal(stdout) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb", tty: isTerminal(stderr)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const rootLong = `ovn-vpc turns specs of VPCs, tiers, access lists and attachments into rows of
OVN's northbound database: all changes of a VPC in one guarded transaction.

Specs are YAML or JSON documents. The database is the only store: get and
export read back from it. With --server, or $OVN_VPC_SERVER, a command works
through ovn-vpc serve on another machine, with the same output and exit codes.

Exit codes: 0 done, 1 failure, 2 changes pending (with --exit-code) or not
reachable (trace), 3 invalid input, 4 conflict.`

const rootExample = `  # A private OVN to try things on
  ovn-vpc sandbox up && eval "$(ovn-vpc sandbox env)"

  # What would change, then do it
  ovn-vpc plan -f examples/three-tier/
  ovn-vpc apply -f examples/three-tier/ --wait sb

  # What is there
  ovn-vpc get attachments -o wide

  # The same through a server
  ovn-vpc --server https://net.example:8443 --token-file token get attachments`

// root is the whole command line.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "ovn-vpc", Short: "Declarative VPCs on OVN", Long: rootLong, Example: rootExample,
		SilenceErrors: true, SilenceUsage: true, Version: build().String(),
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetHelpCommand(a.helpCommand())
	root.SetIn(a.stdin)
	root.SetOut(a.out)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		a.help = cmd.CommandPath()
		if cmd.HasSubCommands() { // the flag is of the command that was meant
			return cmp.Or(unknownCommand(cmd, cmd.Flags().Args()), err)
		}
		return err
	})
	a.help = "ovn-vpc"
	a.onlyGroups(root)
	a.globalFlags(root)
	root.AddCommand(a.validateCommand(), a.planCommand(), a.applyCommand(), a.reachCommand(), a.verifyCommand(), a.traceCommand(), a.explainCommand(),
		a.getCommand(), a.describeCommand(),
		a.deleteCommand(), a.historyCommand(), a.rollbackCommand(), a.confirmCommand(), a.exportCommand(), a.driftCommand(), a.aclCommand(), a.sandboxCommand(), a.agentCommand(), a.serveCommand(),
		a.tokenCommand(), a.versionCommand())
	return root
}

// addCompletion adds cobra's own command, which by itself takes a shell that it
// doesn't know for a call of its help.
func (a *app) addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if !cmd.Runnable() {
			a.onlyGroups(cmd)
		}
	}
}

// action wraps what a command does: it checks the common flags and bounds the
// time.
func (a *app) action(do func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.started, a.help = true, cmd.CommandPath()
		if err := a.flags.check(); err != nil {
			return err
		}
		a.collectSeldom()
		ctx, cancel := context.WithTimeout(cmd.Context(), a.flags.timeout)
		defer cancel()
		return do(ctx, cmd, args)
	}
}

// collectSeldom lets a command that is soon over leave its garbage alone until it
// has much memory, unless the environment says how much (Go's package runtime).
func (a *app) collectSeldom() {
	const never, limit = -1, 2 << 30
	if a.getenv("GOGC") == "" {
		debug.SetGCPercent(never)
	}
	if a.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// args refuses fewer than least and more than most arguments with the words
// of say.
func (a *app) args(least, most int, say string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		a.help = cmd.CommandPath()
		if len(args) < least || len(args) > most {
			return errors.New(say)
		}
		return nil
	}
}

// noArgs refuses arguments.
func (a *app) noArgs() cobra.PositionalArgs {
	return a.args(0, 0, "no argument is taken, only flags")
}

// filesOnly refuses arguments of a command that reads files by -f.
func (a *app) filesOnly() cobra.PositionalArgs { return a.args(0, 0, "give files with -f") }

// group is a command that has only subcommands.
func (a *app) group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	a.onlyGroups(cmd)
	cmd.AddCommand(subcommands...)
	return cmd
}

// onlyGroups makes a command one that only groups others: by itself it shows its
// help, and what is none of them is a fault.
func (a *app) onlyGroups(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2 // two letters that are changed over
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		a.help = cmd.CommandPath()
		return unknownCommand(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// helpCommand is cobra's, but for a command that isn't there being a fault.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if about, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range about.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if err := unknownCommand(about, rest); err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// unknownCommand refuses what is left of a command line after cmd.
func unknownCommand(cmd *cobra.Command, rest []string) error {
	if len(rest) == 0 {
		return nil
	}
	if alike := cmd.SuggestionsFor(rest[0]); len(alike) > 0 {
		return fmt.Errorf("unknown command %q for %q (did you mean %s?)", rest[0], cmd.CommandPath(), strings.Join(alike, " or "))
	}
	return fmt.Errorf("unknown command %q for %q", rest[0], cmd.CommandPath())
}

// logger writes to stderr: warnings always, more with -v.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn - slog.Level(4*min(a.flags.verbose, 2))
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// progress shows how far a plan of several transactions is, on a terminal.
func (a *app) progress() func(done, total int) {
	if !a.tty {
		return nil
	}
	return func(done, total int) {
		if total < 2 {
			return
		}
		fmt.Fprintf(a.stderr, "\r%d of %d transactions", done, total)
		if done == total {
			fmt.Fprintln(a.stderr)
		}
	}
}
