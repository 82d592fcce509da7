package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/agent"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

const (
	agentLong = `Run on a hypervisor, beside ovn-controller: make the interfaces of attachments
that ask for it with spec.plug, plug them into Open vSwitch, and remove them
when the attachment goes or moves. It runs until SIGTERM and leaves everything
in place when it ends.

It reads the southbound database: --sb, else $OVN_SB_DB, else ovn-controller's
own (external_ids:ovn-remote of Open vSwitch). The server sends it only the
ports that are requested for its chassis. --timeout bounds each exchange with a
database.

Hooks (spec.plug.postCreateExec and postDeleteExec) run only programs that
--allowed-programs names, and run as the agent's user.`

	defaultOVS         = "unix:/var/run/openvswitch/db.sock"
	defaultNetnsDir    = "/run/netns"
	defaultHookTimeout = 30 * time.Second
	// metricsPatience bounds the reading of a request for metrics.
	metricsPatience = 10 * time.Second
)

func (a *app) agentCommand() *cobra.Command {
	var o agent.Options
	var metrics string
	cmd := &cobra.Command{
		Use: "agent", Short: "Make the interfaces of a hypervisor's attachments", Long: agentLong,
		Example: `  ovn-vpc agent
  ovn-vpc agent --allowed-programs /usr/local/bin/guest-up,/usr/local/bin/guest-down
  ovn-vpc agent --sb ssl:[2001:db8::1]:6642 -p key.pem -c cert.pem -C ca.pem --metrics-listen 127.0.0.1:9476`,
		Args: a.noArgs(),
	}
	cmd.AddCommand(a.agentStatus())
	ovs := ovsFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.Bridge, "bridge", "", "integration bridge (default external_ids:ovn-bridge of Open vSwitch, else br-int)")
	flags.StringVar(&o.Chassis, "chassis", "", "name of this hypervisor in OVN (default external_ids:system-id of Open vSwitch)")
	flags.StringVar(&o.NetnsDir, "netns-dir", defaultNetnsDir, "folder of named network namespaces")
	flags.StringSliceVar(&o.AllowedPrograms, "allowed-programs", nil, "absolute paths of programs that hooks may run, separated by commas; may be repeated")
	flags.DurationVar(&o.HookTimeout, "hook-timeout", defaultHookTimeout, "how long a hook may run before it is killed")
	flags.StringVar(&metrics, "metrics-listen", "", "address for Prometheus metrics, such as 127.0.0.1:9476, path /metrics (default none)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.started, a.help, o.OVS = true, cmd.CommandPath(), *ovs
		if err := errors.Join(a.flags.check(), checkAgent(o)); err != nil {
			return err
		}
		return a.runAgent(cmd.Context(), o, metrics)
	}
	return cmd
}

func checkAgent(o agent.Options) error {
	for _, program := range o.AllowedPrograms {
		if !filepath.IsAbs(program) || filepath.Clean(program) != program {
			return usagef("--allowed-programs %q: give the absolute path, without . and ..", program)
		}
	}
	if o.HookTimeout <= 0 {
		return usagef("--hook-timeout %s: give more than 0, such as 30s", o.HookTimeout)
	}
	if !filepath.IsAbs(o.NetnsDir) {
		return usagef("--netns-dir %q: give an absolute path", o.NetnsDir)
	}
	return nil
}

func (a *app) runAgent(ctx context.Context, o agent.Options, metrics string) error {
	registry := prometheus.NewRegistry()
	o.Southbound = nbdb.Options{Remotes: a.southbound(), PrivateKey: a.flags.key, Certificate: a.flags.certificate, CACert: a.flags.caCert}
	o.Owner, o.Timeout, o.Registerer, o.Now = a.flags.owner, a.flags.timeout, registry, time.Now
	// One level more than of commands: nobody looks over a service's shoulder.
	o.Log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelInfo - slog.Level(4*min(a.flags.verbose, 1))}))
	service, err := agent.New(o)
	if err != nil {
		return err
	}
	if metrics == "" {
		return service.Run(ctx)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", metrics)
	if err != nil {
		return fmt.Errorf("listening for requests for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: metricsPatience}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		cancel() // without metrics nobody would know how the agent does
		served <- err
	}()
	err = service.Run(ctx)
	closed := server.Close()
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving metrics: %w", failed))
	}
	return errors.Join(err, closed)
}
