// Command demo shows the whole way of a spec: it starts an OVN with three
// hypervisors in network namespaces, applies the three-tier example with
// bin/ovn-vpc, plugs a guest for every attachment, and plays the scenes of
// lab/scene. It needs root, and removes all it made. With -compose it plays on
// the containers that docker-compose.yml has brought up, where the guests
// stay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/compose"
	"github.com/ovn-vpc/ovn-vpc/lab/scene"
)

func main() {
	containers := flag.Bool("compose", false, "play on the containers of docker-compose.yml")
	guests := flag.Bool("guests", false, "with -compose: apply the example and wait for the guests, no more")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	show := inNamespaces
	if *containers {
		show = func(ctx context.Context) error { return inContainers(ctx, *guests) }
	}
	if err := show(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func inNamespaces(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root; without it, try `bin/ovn-vpc sandbox up` and the commands of the README, or `make lab-up`")
	}
	fmt.Println("== An OVN with three hypervisors in network namespaces, tunnels by VXLAN")
	l, err := lab.Up(ctx, lab.Options{Hypervisors: 3, Encap: "vxlan"})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, l.Down(context.WithoutCancel(ctx)))
		if err == nil {
			fmt.Println("\nThe namespaces, their processes and databases: all removed.")
		}
	}()
	program, err := filepath.Abs("bin/ovn-vpc")
	if err != nil {
		return fmt.Errorf("find ovn-vpc: %w", err)
	}
	stage := scene.NewNamespaces(ctx, l, program, ".")
	defer func() { err = errors.Join(err, stage.Close()) }()
	_, err = scene.Run(ctx, stage, os.Stdout)
	return err
}

func inContainers(ctx context.Context, guests bool) (err error) {
	stage, err := compose.Open(ctx, ".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	if guests {
		return scene.Guests(ctx, stage, os.Stdout)
	}
	_, err = scene.Run(ctx, stage, os.Stdout)
	return err
}
