package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/server"
)

const tokenLong = `Make a bearer token for ovn-vpc serve --tokens FILE. The token goes to standard
output, this once: it can't be found out again. The line for the file goes to
standard error, or with --append into the file; it holds the token's SHA-256 alone.

Each line of the file is

    NAME ROLE PATTERN[,PATTERN...] CREDENTIAL [EXPIRES]

A viewer reads, watches and plans; an editor changes VPCs and all that is in
them; an admin repairs drift and applies plan files too. Patterns choose VPCs by
their names, the last of these all:

    shop    shop-*    team[12]-?    *

Everybody may read offerings; it takes an admin of all to change them.

In place of a token's SHA-256 a line may have cert:CN=NAME or cert:sha256:FINGERPRINT,
which stands for a client certificate that the server's --client-ca has signed.

A running server reads the file again within seconds. To revoke a token, delete
its line. What a token holds open when its line goes or changes is closed.`

// newToken is what token new prints with -o json.
type newToken struct {
	Token string `json:"token"`
	Line  string `json:"line"` // for the file of tokens
}

func (a *app) tokenCommand() *cobra.Command {
	var name, role, file string
	var vpcs []string
	var validFor time.Duration
	cmd := &cobra.Command{
		Use: "new", Short: "Make a bearer token", Long: tokenLong,
		Example: `  ovn-vpc token new --name ci --role editor --vpc 'shop-*' --append tokens > ci.token
  ovn-vpc token new --name monitor --role viewer --vpc '*' --valid-for 2160h -o json`,
		Args: a.noArgs(),
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "who will call with it, as logs show it")
	allowed := []string{}
	for _, r := range server.Roles() {
		allowed = append(allowed, string(r))
	}
	flags.Var(&choice{&role, allowed}, "role", "what it permits")
	flags.StringArrayVar(&vpcs, "vpc", nil, "pattern of the names of VPCs in which; may be repeated")
	flags.DurationVar(&validFor, "valid-for", 0, "how long, such as 2160h; 0: for ever")
	flags.StringVar(&file, "append", "", "file of tokens to append the line to; made if it is not there")
	complete(cmd, "name", cobra.NoFileCompletions)
	complete(cmd, "role", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "vpc", a.completeVPCs)
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(context.Context, *cobra.Command, []string) error {
		grant := server.Grant{Principal: server.Principal{Name: name, Role: server.Role(role), VPCs: vpcs}}
		if validFor < 0 {
			return usagef("--valid-for %s: give more than 0, such as 2160h", validFor)
		}
		if validFor > 0 {
			grant.Expires = time.Now().Add(validFor)
		}
		token, credential, err := server.NewToken(rand.Reader)
		if err != nil {
			return err
		}
		grant.Credential = credential
		if err := grant.Check(); err != nil {
			return usagef("--name, --role, --vpc: %w", err)
		}
		return a.handOut(newToken{token, grant.String()}, file)
	})
	return a.group("token", "Tokens for the server", cmd)
}

// handOut shows a token once its line is where it is wanted.
func (a *app) handOut(t newToken, file string) error {
	if file != "" {
		if err := appendLine(file, t.Line); err != nil {
			return err
		}
	}
	if a.output == outputJSON {
		a.printJSON(t)
		return nil
	}
	a.printf("%s\n", t.Token)
	if file == "" {
		fmt.Fprintln(a.stderr, t.Line)
	}
	return nil
}

// appendLine adds a line to a file of tokens, in one write: a server that reads
// meanwhile, and others who append, find whole lines. The file keeps its mode
// and owner. One that is broken is left as it is: the server would not take the
// line over.
func appendLine(path, line string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening the file of tokens: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("reading the file of tokens: %w", err)
	}
	if _, err := server.ParseGrants(path, data); err != nil {
		return fmt.Errorf("nothing is appended to a broken file of tokens: %w", err)
	}
	if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		line = "\n" + line
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		return fmt.Errorf("appending to the file of tokens: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("appending to the file of tokens: %w", err)
	}
	return nil
}
