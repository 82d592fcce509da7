package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/server"
)

const (
	serveLong = `Serve the REST interface: the same as the commands do, for programs. It runs
until SIGTERM; calls that are under way then have 10 seconds to end.

The northbound database is the only store, so any number of servers may run on
one. A server starts without it, and /readyz says no until it is there. A call
may take 30 seconds, besides what it asks to wait; --timeout has no effect.

The file of --tokens says who may do what; a line for it is made by
"ovn-vpc token new". Another address than loopback needs TLS and --tokens, or
--insecure. On a loopback address without --tokens everybody on the machine is
an admin.`

	defaultListen = "127.0.0.1:8443"
	// stopPatience is how long calls may go on after SIGTERM.
	stopPatience = 10 * time.Second
	// headerPatience bounds the reading of a request's head, idlePatience the
	// time that a connection is kept for the next one.
	headerPatience = 10 * time.Second
	idlePatience   = 2 * time.Minute

	logText = "text"
	logJSON = "json"
)

// serveFlags are serve's own.
type serveFlags struct {
	listen, metrics     string
	cert, key, clientCA string
	tokens              string
	insecure            bool
	logFormat           string
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the REST interface", Long: serveLong,
		Example: `  ovn-vpc serve
  ovn-vpc serve --listen [::]:8443 --tls-cert cert.pem --tls-key key.pem --tokens tokens
  ovn-vpc serve --listen 192.0.2.1:8080 --insecure    # everybody who reaches it is an admin`,
		Args: a.noArgs(),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", defaultListen, "address and port to listen on")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file with the server's certificate and those between it and its CA; read anew for each connection")
	flags.StringVar(&f.key, "tls-key", "", "PEM file with its private key")
	flags.StringVar(&f.clientCA, "client-ca", "", "PEM file with the CAs of clients' certificates; whom they stand for says the file of --tokens")
	flags.StringVar(&f.tokens, "tokens", "", "file that says who may do what; read again when it changes")
	flags.BoolVar(&f.insecure, "insecure", false, "listen on any address without TLS or --tokens; without --tokens everybody is an admin")
	flags.StringVar(&f.metrics, "metrics-listen", "", "a second address, for /metrics, /healthz, /readyz and /version without authentication (default none)")
	f.logFormat = logText
	formats := []string{logText, logJSON}
	flags.Var(&choice{&f.logFormat, formats}, "log-format", "format of the log on stderr")
	complete(cmd, "log-format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.started, a.help = true, cmd.CommandPath()
		if err := errors.Join(a.flags.check(), f.check()); err != nil {
			return err
		}
		if !cmd.Flags().Changed("manager") {
			a.flags.manager = "server"
		}
		return a.serve(cmd.Context(), f)
	}
	return cmd
}

// local tells whether an address can be reached from this machine alone.
func local(address string) bool {
	host, _, err := net.SplitHostPort(address)
	addr, bad := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || bad == nil && addr.IsLoopback())
}

func (f *serveFlags) check() error {
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return usagef("--listen %q: give ADDRESS:PORT, such as %s: %w", f.listen, defaultListen, err)
	}
	switch {
	case (f.cert == "") != (f.key == ""):
		return usagef("--tls-cert and --tls-key need each other")
	case f.clientCA != "" && (f.cert == "" || f.tokens == ""):
		return usagef("--client-ca needs --tls-cert, and --tokens to say whom a certificate stands for")
	case local(f.listen) || f.insecure:
		return nil
	case f.cert == "" || f.tokens == "":
		return usagef("--listen %s can be reached from other machines: give --tls-cert, --tls-key and --tokens, or say --insecure", f.listen)
	}
	return nil
}

// tlsConfig is nil without a certificate. The certificate is read for each
// connection, so that a new one needs no restart.
func (f *serveFlags) tlsConfig() (*tls.Config, error) {
	if f.cert == "" {
		return nil, nil
	}
	load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("reading the server's certificate: %w", err)
		}
		return &c, nil
	}
	if _, err := load(nil); err != nil {
		return nil, &usageError{err}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: load}
	if f.clientCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, usagef("reading the clients' CAs: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, usagef("--client-ca %s holds no certificate", f.clientCA)
	}
	return config, nil
}

// serviceLog is the log of a service: one level more than of commands, since nobody
// looks over its shoulder.
func (a *app) serviceLog(format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo - slog.Level(4*min(a.flags.verbose, 1))}
	if format == logJSON {
		return slog.New(slog.NewJSONHandler(a.stderr, options))
	}
	return slog.New(slog.NewTextHandler(a.stderr, options))
}

// late is an engine on databases that need not be there yet.
func (a *app) late(log *slog.Logger) (e *engine.Engine, close func(), err error) {
	options := a.northbound(log)
	nb, err := nbdb.New(options)
	if err != nil {
		return nil, nil, err
	}
	e = engine.New(nb, a.flags.owner, a.flags.manager)
	e.Log, e.SchemaVersion = log, func() string { return nb.Schema().Version() }
	options.Remotes, options.Database = a.southbound(), nbdb.Southbound
	if options.Remotes == "" {
		return e, nb.Close, nil
	}
	sb, err := nbdb.New(options)
	if err != nil {
		return nil, nil, err
	}
	e.SB = sb
	return e, func() { nb.Close(); sb.Close() }, nil
}

func (a *app) serve(ctx context.Context, f serveFlags) error {
	log := a.serviceLog(f.logFormat)
	config, err := f.tlsConfig()
	if err != nil {
		return err
	}
	e, done, err := a.late(log)
	if err != nil {
		return err
	}
	defer done()
	open := f.tokens == ""
	s, err := server.New(server.Options{Engine: e, Tokens: f.tokens, Insecure: open, Local: open && !f.insecure,
		Metrics: prometheus.NewRegistry(), Version: build(), Log: log, Now: time.Now, Rand: rand.Uint64})
	if err != nil {
		return &usageError{err} // the file of tokens can't be read
	}
	if open {
		log.Warn("without --tokens everybody who reaches the server is an admin", "listen", f.listen)
	}
	main, err := listen(ctx, f.listen, s, config, log)
	if err != nil {
		return err
	}
	services := []*service{main}
	if f.metrics != "" {
		probes, err := listen(ctx, f.metrics, s.Probes(), nil, log)
		if err != nil {
			return errors.Join(err, main.listener.Close())
		}
		services = append(services, probes)
	}
	defer runtime.KeepAlive(a.ballast())
	log.Info("listening", "address", main.listener.Addr().String(), "tls", config != nil)
	return runServices(ctx, s.Run, services)
}

// ballast is memory that is never touched, and so is none. The garbage collector
// takes it for use, and so runs every 64 MB where a server holds little, instead of
// every few calls, unless the environment says how often (Go's package runtime).
func (a *app) ballast() []byte {
	if a.getenv("GOGC") != "" || a.getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, 64<<20)
}

// service is an HTTP server on a listener.
type service struct {
	*http.Server
	listener net.Listener
}

func listen(ctx context.Context, address string, handler http.Handler, config *tls.Config, log *slog.Logger) (*service, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	// No WriteTimeout: a watch has no end. The handlers bound all else.
	return &service{listener: listener, Server: &http.Server{Handler: handler, TLSConfig: config, ReadHeaderTimeout: headerPatience,
		IdleTimeout: idlePatience, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}}, nil
}

func (s *service) serve() error {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(s.listener, "", "")
	} else {
		err = s.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving %s: %w", s.listener.Addr(), err)
}

// runServices serves, with work beside it, until ctx ends or a part fails. It
// then lets calls end, for a while.
func runServices(ctx context.Context, work func(context.Context) error, services []*service) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(services)+1)
	start := func(do func() error) {
		go func() {
			err := do()
			cancel() // without one part the others are of no use
			ended <- err
		}()
	}
	start(func() error {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})
	for _, s := range services {
		start(s.serve)
	}
	<-ctx.Done()
	patience, stop := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer stop()
	var errs []error
	for _, s := range services {
		if s.Shutdown(patience) != nil {
			errs = append(errs, s.Close())
		}
	}
	for range len(services) + 1 {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}
