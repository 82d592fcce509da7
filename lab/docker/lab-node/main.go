// Command lab-node lets the guests of its container's hypervisor talk, which an
// agent has plugged. With the argument serve it does so, for as long as the
// container runs; without, it carries calls of lab/node from its standard input
// to the one that serves, and the answers to its standard output.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/node"
)

// socket is where the service listens.
const socket = "/run/lab-node.sock"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	run := carry
	if slices.Equal(os.Args[1:], []string{"serve"}) {
		run = serve
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab-node:", err)
		stop()
		os.Exit(1)
	}
}

// serve takes calls until a signal ends it.
func serve(ctx context.Context) error {
	l, err := lab.Here(lab.HereOptions{
		Name: os.Getenv("LAB_CHASSIS"), Encap: os.Getenv("LAB_ENCAP"), Port: os.Getenv("LAB_PORT"), Dir: os.Getenv("OVS_RUNDIR"),
	})
	if err != nil {
		return err
	}
	host := node.NewAdoptingHost(l.Hypervisors[0])
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a call: %w", err)
		}
		go func() {
			if err := host.Serve(ctx, conn); err != nil {
				fmt.Fprintln(os.Stderr, "lab-node:", err)
			}
		}()
	}
}

// carry ends with the input or with the service.
func carry(context.Context) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("call the service: %w", err)
	}
	defer conn.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, os.Stdin)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(os.Stdout, conn)
		ended <- err
	}()
	if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("carry calls: %w", err)
	}
	return nil
}
