package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// The exit codes.
const (
	exitDone     = 0
	exitFailure  = 1
	exitPending  = 2 // changes or drift, with --exit-code; not reachable; an expectation that doesn't hold
	exitInvalid  = 3 // the input or the command line
	exitConflict = 4 // the database kept changing, or the plan is stale
)

var (
	// errPending is no failure: it makes the exit code tell that something is
	// to be done.
	errPending = errors.New("changes are pending")
	// errUnreachable is no failure either: it is what trace has found.
	errUnreachable = errors.New("not reachable")
	// errBroken is what verify has found.
	errBroken      = errors.New("an expectation doesn't hold")
	errInterrupted = errors.New("interrupted")
)

// usageError is a fault of the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// partialError is a failure of what may have come a part of the way.
type partialError struct {
	error
	result *engine.Result
}

func (e *partialError) Unwrap() error { return e.error }

// exitCode is what an error comes to.
func exitCode(err error) int {
	var invalid *engine.InvalidError
	var usage *usageError
	var conflict *engine.ConflictError
	var remote *nbdb.RemoteError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errPending), errors.Is(err, errUnreachable), errors.Is(err, errBroken):
		return exitPending
	case errors.As(err, &invalid), errors.As(err, &usage), errors.As(err, &remote):
		return exitInvalid
	case errors.As(err, &conflict):
		return exitConflict
	}
	return exitFailure
}

// failure is what -o json prints of a command that failed.
type failure struct {
	Error       string             `json:"error"`
	Diagnostics model.Diagnostics  `json:"diagnostics"`
	VPCs        []engine.VPCResult `json:"vpcs,omitempty"` // how far it came
}

// finish reports an error, flushes the output and returns the exit code.
func (a *app) finish(err error) int {
	code := exitCode(err)
	if code != exitDone && code != exitPending {
		a.fail(err)
	}
	if flushed := a.out.Flush(); flushed != nil && code != exitFailure {
		fmt.Fprintln(a.stderr, "error: writing the output:", flushed)
		return exitFailure
	}
	return code
}

func (a *app) fail(err error) {
	var invalid *engine.InvalidError
	var partial *partialError
	message := a.message(err)
	f := failure{Error: message, Diagnostics: model.Diagnostics{}}
	if errors.As(err, &invalid) {
		f.Diagnostics = invalid.Diagnostics
	}
	if errors.As(err, &partial) {
		f.VPCs = partial.result.VPCs
	}
	if a.output == outputJSON {
		a.printJSON(f)
	} else if len(f.Diagnostics) > 0 {
		a.diagnose(f.Diagnostics)
		return
	}
	fmt.Fprintln(a.stderr, "error:", message)
	var usage *usageError
	if errors.As(err, &usage) && a.help != "" {
		fmt.Fprintf(a.stderr, "Run '%s --help' for usage.\n", a.help)
	}
}

// message is an error in one line.
func (a *app) message(err error) string {
	var invalid *engine.InvalidError
	if errors.As(err, &invalid) {
		return "the input is invalid: " + counted(invalid.Diagnostics)
	}
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ") + remedy(err)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errInterrupted) {
		text += fmt.Sprintf(" (--timeout is %s)", a.flags.timeout)
		// As nbdb words it: what --wait waits for didn't come.
		if strings.Contains(text, "_cfg to reach ") {
			text += " (is ovn-northd running?)"
		}
	}
	return text
}

// remedy names the flags that mend what a server refuses, or is refused for.
func remedy(err error) string {
	var answer *client.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusUnauthorized:
		return " (give a valid token by --token-file or $OVN_VPC_TOKEN_FILE, or a certificate by -c and -p)"
	case errors.As(err, &certificate) && errors.As(err, new(x509.UnknownAuthorityError)):
		return " (give the certificate of its CA by --cacert)"
	}
	return ""
}
