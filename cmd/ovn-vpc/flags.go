package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// globalFlags are the flags that all commands have.
type globalFlags struct {
	nb, sb                   string
	owner, manager           string
	override                 bool          // expectations
	repair                   bool          // rows whose stored spec is damaged
	within                   time.Duration // of apply: in which it has to be confirmed
	timeout                  time.Duration
	verbose                  int
	key, certificate, caCert string

	server, tokenFile, serverCA string
	given                       func(name string) bool // on the command line
}

func (a *app) globalFlags(cmd *cobra.Command) {
	f, set := &a.flags, cmd.PersistentFlags()
	set.StringVar(&f.nb, "nb", "", "northbound database, as of ovn-nbctl --db (default $OVN_NB_DB, else "+defaultNB+")")
	set.StringVar(&f.sb, "sb", "", "southbound database, to tell where attachments are (default $OVN_SB_DB, else not read)")
	set.StringVar(&f.owner, "owner", "default", "the installation whose rows are read and written")
	set.StringVar(&f.manager, "manager", "cli", "who brings resources: --prune removes only those of the same manager")
	set.DurationVar(&f.timeout, "timeout", defaultTimeout, "the longest that the command may take")
	set.CountVarP(&f.verbose, "verbose", "v", "log to stderr; twice: debug")
	set.StringVarP(&f.key, "private-key", "p", "", "PEM file with the private key, for ssl: and a server that wants one")
	set.StringVarP(&f.certificate, "certificate", "c", "", "PEM file with the certificate, for ssl: and a server that wants one")
	set.StringVarP(&f.caCert, "ca-cert", "C", "", `PEM file with the CA's certificate, for ssl: ("none": don't check)`)
	set.StringVar(&f.server, "server", "", "URL of ovn-vpc serve, to work through it instead of with the databases (default $OVN_VPC_SERVER, unless --nb, --sb or --owner is given)")
	set.StringVar(&f.tokenFile, "token-file", "", "file with the bearer token for the server (default $OVN_VPC_TOKEN_FILE)")
	set.StringVar(&f.serverCA, "cacert", "", "PEM file with the CA's certificate of the server (default those of the system)")
	f.given = set.Changed
	for _, name := range []string{"server", "nb", "sb", "owner", "manager", "timeout"} {
		complete(cmd, name, cobra.NoFileCompletions)
	}
}

// direct are the flags that ask for work with the databases themselves.
var direct = [...]string{"nb", "sb", "owner"}

const identity = `[A-Za-z0-9][A-Za-z0-9._/@:-]{0,62}`

func (f *globalFlags) check() error {
	word := regexp.MustCompile("^" + identity + "$")
	for name, value := range map[string]string{"owner": f.owner, "manager": f.manager} {
		if !word.MatchString(value) {
			return usagef("--%s %q: use 1 to 63 letters, digits and . _ / @ : -, a letter or digit first", name, value)
		}
	}
	for name, value := range map[string]string{"nb": f.nb, "token-file": f.tokenFile, "cacert": f.serverCA} {
		if f.given(name) && value == "" {
			return usagef("--%s is empty: leave it away for the default", name)
		}
	}
	for _, name := range direct {
		if f.given("server") && f.given(name) {
			return usagef("--server and --%s exclude each other: the server has its own databases and owner", name)
		}
	}
	if f.timeout <= 0 {
		return usagef("--timeout %s: give more than 0, such as 30s", f.timeout)
	}
	return nil
}

// complete registers completion for a flag that was just defined.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(fmt.Sprintf("flag --%s of %s: %v", flag, cmd.Name(), err)) // it is not defined: a mistake in this program
	}
}

// choice is a flag with a closed set of values.
type choice struct {
	value   *string
	allowed []string
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

func (c *choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("one of %s", strings.Join(c.allowed, ", "))
	}
	*c.value = value
	return nil
}

// The formats of -o.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
	outputText  = "text"

	outputMermaid = "mermaid"
	outputDOT     = "dot"
	outputJUnit   = "junit"
)

// outputFlag gives a command -o with these formats, the first the default.
func (a *app) outputFlag(cmd *cobra.Command, formats ...string) {
	output := formats[0]
	cmd.Flags().VarP(&choice{&output, formats}, "output", "o", "format of the result")
	complete(cmd, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRun = func(*cobra.Command, []string) { a.output = output }
}

// waitFlag gives a command --wait.
func waitFlag(cmd *cobra.Command) *string {
	wait, allowed := string(engine.WaitNone), []string{string(engine.WaitNone), string(engine.WaitSB), string(engine.WaitHV)}
	cmd.Flags().Var(&choice{&wait, allowed}, "wait", "return when ovn-northd (sb) or every hypervisor (hv) has the change")
	complete(cmd, "wait", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return &wait
}

// fileFlag gives a command -f.
func fileFlag(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringArrayP("filename", "f", nil, "file, folder (read recursively), or - for standard input; may be repeated")
}

// vpcFlag gives a command --vpc.
func (a *app) vpcFlag(cmd *cobra.Command, usage string) *string {
	vpc := cmd.Flags().String("vpc", "", usage)
	complete(cmd, "vpc", a.completeVPCs)
	return vpc
}
