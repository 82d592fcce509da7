package nbdb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Options say which database to connect to and how.
type Options struct {
	// Remotes are one or more servers, separated by commas, in OVSDB's
	// notation (ovsdb(7), «Active Connection Methods»): unix:FILE,
	// tcp:HOST:PORT or ssl:HOST:PORT, IPv6 addresses in brackets.
	Remotes string
	// Database is the database's name, default OVN_Northbound.
	Database string
	// PrivateKey, Certificate and CACert are PEM files for ssl remotes, as
	// ovn-nbctl's -p, -c and -C (ovs-ssl options). The server's certificate
	// must be signed by CACert; its name is not checked, as in OVS. The
	// CACert "none" switches the check off.
	PrivateKey, Certificate, CACert string
	// LeaderOnly makes a clustered server that isn't the leader count as
	// unreachable. With several remotes it is always on.
	LeaderOnly bool
	// Logger gets the connection's doings at debug level; nil for none.
	Logger *slog.Logger
}

const formHint = "a remote reads unix:FILE, tcp:HOST:PORT or ssl:HOST:PORT, IPv6 addresses in brackets; separate several by commas"

// parseRemotes splits and checks remotes. The result is in libovsdb's
// notation: as OVSDB's, but unix paths absolute and escaped as in a URL.
func parseRemotes(remotes string) ([]string, error) {
	var parsed []string
	for remote := range strings.SplitSeq(remotes, ",") {
		remote = strings.TrimSpace(remote)
		if remote == "" {
			continue
		}
		p, err := parseRemote(remote)
		if err != nil {
			return nil, &RemoteError{fmt.Errorf("remote %q: %w (%s)", remote, err, formHint)}
		}
		parsed = append(parsed, p)
	}
	if len(parsed) == 0 {
		return nil, &RemoteError{fmt.Errorf("no remote given (%s)", formHint)}
	}
	return parsed, nil
}

func parseRemote(remote string) (string, error) {
	method, rest, ok := strings.Cut(remote, ":")
	if !ok {
		return "", errors.New("no connection method")
	}
	switch method {
	case "unix":
		if rest == "" {
			return "", errors.New("no file")
		}
		path, err := filepath.Abs(rest)
		if err != nil {
			return "", err
		}
		return "unix:" + (&url.URL{Path: path}).EscapedPath(), nil
	case "tcp", "ssl":
		host, port, err := net.SplitHostPort(rest)
		if err != nil {
			if address, ok := err.(*net.AddrError); ok {
				return "", errors.New(address.Err)
			}
			return "", err
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("port %q is not in 1..65535", port)
		}
		if host == "" {
			return "", errors.New("no host")
		}
		return method + ":" + rest, nil
	case "punix", "ptcp", "pssl":
		return "", errors.New("this is a method to listen, not to connect")
	}
	return "", fmt.Errorf("unknown connection method %q", method)
}

// dialRemote opens a connection to a remote as parseRemotes returns it.
func dialRemote(ctx context.Context, remote string, config *tls.Config) (net.Conn, error) {
	method, address, _ := strings.Cut(remote, ":")
	var dialer net.Dialer
	switch method {
	case "unix":
		path, err := url.PathUnescape(address)
		if err != nil {
			return nil, err
		}
		return dialer.DialContext(ctx, "unix", path)
	case "ssl":
		secure := tls.Dialer{Config: config}
		return secure.DialContext(ctx, "tcp", address)
	}
	return dialer.DialContext(ctx, "tcp", address)
}

// tlsConfig is nil where no remote needs one.
func (o Options) tlsConfig(remotes []string) (*tls.Config, error) {
	needed := false
	for _, r := range remotes {
		needed = needed || strings.HasPrefix(r, "ssl:")
	}
	if !needed {
		return nil, nil
	}
	if o.PrivateKey == "" || o.Certificate == "" || o.CACert == "" {
		return nil, &RemoteError{errors.New("an ssl remote needs -p KEY, -c CERTIFICATE and -C CACERT (or -C none)")}
	}
	pair, err := tls.LoadX509KeyPair(o.Certificate, o.PrivateKey)
	if err != nil {
		return nil, &RemoteError{fmt.Errorf("reading certificate %s and its private key: %w", o.Certificate, err)}
	}
	// The host's name isn't checked, so Go's own verification is off and the
	// chain is verified by hand.
	config := &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	if o.CACert == "none" {
		return config, nil
	}
	pem, err := os.ReadFile(o.CACert)
	if err != nil {
		return nil, &RemoteError{fmt.Errorf("reading the CA certificate: %w", err)}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &RemoteError{fmt.Errorf("no certificate in %s", o.CACert)}
	}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		chain := x509.VerifyOptions{Roots: pool, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			chain.Intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(chain)
		if errors.As(err, new(x509.UnknownAuthorityError)) {
			err = fmt.Errorf("%w (give the certificate of its CA by -C)", err)
		}
		return err
	}
	return config, nil
}
