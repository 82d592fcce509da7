// Command ovn-vpc turns specs of VPCs, tiers, lists and attachments into rows
// of OVN's northbound database.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// wantsJSON tells whether a command line that could not be understood asks for
// JSON.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == outputJSON
		}
	}
	return false
}

// run is the program with its arguments, without its name; it returns the exit
// code. The first SIGINT or SIGTERM cancels what is under way, a second one
// kills the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := newApp(stdin, stdout, stderr, os.Getenv)
	root := a.root()
	a.addCompletion(root)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started {
		err = &usageError{err}
		if wantsJSON(args) {
			a.output = outputJSON
		}
	}
	if err != nil && ctx.Err() != nil {
		err = errors.Join(errInterrupted, err)
	}
	return a.finish(err)
}
