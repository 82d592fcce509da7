// Command sweep removes what a test run that was cut short has left: labs
// whose process has ended, and the sandboxes below the folders given.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := lab.Sweep(ctx)
	for _, folder := range os.Args[1:] {
		err = errors.Join(err, lab.PurgeSandboxes(ctx, folder))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		cancel()
		os.Exit(1)
	}
}
