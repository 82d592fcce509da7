// Package client calls the REST interface of `ovn-vpc serve`.
//
// The methods that engine.Engine has too do the same, with the same results
// and errors, but on the server. The others are for orchestrators: one call
// for one resource, with versions, idempotency keys and waiting, and Watch.
//
// Every method ends with its context, and may run at the same time as others.
// Errors are *engine.InvalidError (the input is refused, or what it wants is in
// use or taken), *engine.ConflictError (the database kept changing, or a plan
// is stale), *PreconditionError (another version is stored), *engine.NotFoundError,
// *UnknownOutcomeError (it may have been done, or not), *Error (whatever else
// the server answers, such as 401, 403 and 503), and those of the network.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// Options say which server to call, and as whom.
type Options struct {
	// URL is the server's, http or https, with a path where it stands behind one.
	URL string
	// Token is asked for the bearer token of each request; nil: none is sent.
	// TokenFile makes one.
	Token func() (string, error)
	// CACert is the PEM file with the certificates that the server's has to
	// come from; "": those that the system trusts.
	CACert string
	// Certificate and Key are the PEM files of the client's own certificate.
	Certificate, Key string
	// Insecure sends the token also over plain http to another machine.
	Insecure bool
	// Manager is who brings resources by Plan and Apply; "": the server's choice.
	Manager string
	// OverrideExpectations lets changes break expectations; the VPC keeps a note of it.
	OverrideExpectations bool
	// Repair lets Plan, Apply and ApplyPlan overwrite rows whose stored spec is
	// damaged, and Delete remove them.
	Repair bool
	// ConfirmWithin, if not 0, is the time, in whole seconds, in which what Apply
	// changes of a VPC's structure has to be confirmed, or else it is taken back.
	ConfirmWithin time.Duration
	// Timeout bounds each call, repetitions and waiting included; 0: its context
	// alone does. Watch is not bound.
	Timeout time.Duration
	// Attempts is how often a request that may be repeated is sent at most; 0: 4
	// times. Watch goes on until its context ends.
	Attempts int
	// LeftOut is told of what Get and Export leave out since what is stored of it is
	// damaged; nil for nobody.
	LeftOut func(model.Diagnostic)
	// UserAgent is what the server logs of the caller's program.
	UserAgent string
	// Log is told of repeated requests; nil: nobody.
	Log *slog.Logger
}

// Client calls one server. Make it with New.
type Client struct {
	options Options
	base    *url.URL
	http    *http.Client
	log     *slog.Logger
	rand    func() uint64 // spreads repetitions
	unit    time.Duration // of the pause between them
	silence time.Duration // after which a watch counts as broken
}

const (
	defaultUserAgent = "ovn-vpc-client"
	defaultAttempts  = 4
	retryUnit        = 200 * time.Millisecond
	// maxSilence is three heartbeats of a watch.
	maxSilence = 45 * time.Second
	// maxAnswer bounds an answer and an event, in bytes.
	maxAnswer = 64 << 20
)

// TokenFile reads the token from a file each time, so that it can be exchanged
// there. Space around it does not count.
func TokenFile(path string) func() (string, error) {
	return func() (string, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		token := strings.TrimSpace(string(data))
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return "", fmt.Errorf("reading the token: %s does not hold one token", path)
		}
		return token, nil
	}
}

// New prepares a client. It reads the files of the options, and sends nothing.
func New(o Options) (*Client, error) {
	base, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Token != nil {
		if base.Scheme == "http" && !loopback(base.Hostname()) && !o.Insecure {
			return nil, fmt.Errorf("a token is not sent over plain http to %s: use https", base.Host)
		}
		if _, err := o.Token(); err != nil {
			return nil, err
		}
	}
	secure, err := tlsConfig(o)
	if err != nil {
		return nil, err
	}
	if o.UserAgent == "" {
		o.UserAgent = defaultUserAgent
	}
	if o.Attempts == 0 {
		o.Attempts = defaultAttempts
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	return &Client{options: o, base: base, log: o.Log, rand: rand.Uint64, unit: retryUnit, silence: maxSilence,
		http: &http.Client{Transport: transport, CheckRedirect: noRedirect}}, nil
}

// noRedirect keeps the token with the server that it is meant for.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close gives up connections that are kept for further calls.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func parseURL(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the server's URL can't be read: write it like https://192.0.2.1:8443") // the error would repeat what may hold a password
	case base.User != nil:
		return nil, fmt.Errorf("the server's URL %s holds a user or password: give a token instead", base.Redacted())
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("%q is not a server's URL: it reads https://HOST:PORT", text)
	}
	return base, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || host == "localhost"
}

func tlsConfig(o Options) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CACert != "" {
		data, err := os.ReadFile(o.CACert)
		if err != nil {
			return nil, fmt.Errorf("reading the CA's certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("reading the CA's certificate: %s holds none in PEM", o.CACert)
		}
	}
	if o.Certificate == "" && o.Key == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(o.Certificate, o.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the client's certificate and key: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// errTooLarge is an answer or event that is not read to its end.
var errTooLarge = errors.New("the answer is larger than 64 MiB")

// unsent tells whether a request has certainly not reached the server.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// hopeless tells whether a request that failed would fail again.
func hopeless(err error) bool {
	var certificate *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	return errors.Is(err, errTooLarge) || errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &certificate) ||
		errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &op) && op.Op == "remote error" // an alert of TLS
}
