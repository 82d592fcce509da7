package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/server"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", nil, nil)
	return a
}

// issue makes NAME.pem and NAME.key.
func (a *authority) issue(name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(a.t, err)
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(a.t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	for ending, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		require.NoError(a.t, os.WriteFile(filepath.Join(a.dir, name+ending), pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// client is one that trusts the authority, with a certificate of its own if named.
func (a *authority) client(name string) *http.Client {
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.cert)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key"))
		require.NoError(a.t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: time.Minute}
}

func TestServeTLS(t *testing.T) {
	ca := newAuthority(t)
	ca.issue("server", ca.cert, ca.key)
	ca.issue("robot", ca.cert, ca.key)
	ca.issue("stranger", ca.cert, ca.key)
	token, credential, err := server.NewToken(rand.Reader)
	require.NoError(t, err)
	tokens := "one viewer * " + credential + "\ntwo viewer * cert:CN=robot\n"
	require.NoError(t, os.WriteFile(ca.file("tokens"), []byte(tokens), 0o600))
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := probe.Addr().String()
	require.NoError(t, probe.Close())

	var out, log bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &log, func(string) string { return "" })
	a.flags.nb, a.flags.owner = "unix:"+ca.file("none.sock"), "default"
	f := serveFlags{listen: address, cert: ca.file("server.pem"), key: ca.file("server.key"), clientCA: ca.file("ca.pem"), tokens: ca.file("tokens")}
	require.NoError(t, f.check())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.serve(ctx, f) }()

	get := func(client *http.Client, headers ...string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/v1/vpcs", nil)
		require.NoError(t, err)
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := client.Do(request)
		if err == nil {
			require.NoError(t, response.Body.Close())
		}
		return response, err
	}
	require.Eventually(t, func() bool {
		_, err := get(ca.client(""))
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	for _, c := range []struct {
		client  string
		headers []string
		status  int // 503: let in, and there is no database
	}{
		{"", nil, 401}, {"", []string{"Authorization", "Bearer " + token}, 503}, {"", []string{"Authorization", "Bearer x"}, 401},
		{"robot", nil, 503}, {"stranger", nil, 401},
	} {
		response, err := get(ca.client(c.client), c.headers...)
		require.NoError(t, err)
		require.Equal(t, c.status, response.StatusCode, "%+v", c)
	}
	old, err := get(ca.client(""))
	require.NoError(t, err)
	ca.issue("server", ca.cert, ca.key)
	renewed, err := get(ca.client(""))
	require.NoError(t, err)
	require.NotEqual(t, old.TLS.PeerCertificates[0].SerialNumber, renewed.TLS.PeerCertificates[0].SerialNumber, "a new certificate needs no restart")

	stop()
	require.NoError(t, <-ended)
	require.NotContains(t, log.String(), token)
}

// Calls that are under way when the service is to stop come to their end; new
// ones are not taken.
func TestServicesEndWithTheirCalls(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun, end := make(chan struct{}), make(chan struct{})
	s, err := listen(ctx, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-end
		_, _ = io.WriteString(w, "whole")
	}), nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := "http://" + s.listener.Addr().String()
	var stopped atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- runServices(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			stopped.Store(true)
			return ctx.Err()
		}, []*service{s})
	}()
	text := make(chan string, 1)
	go func() {
		response, err := http.Get(url)
		if err != nil {
			text <- err.Error()
			return
		}
		defer response.Body.Close()
		data, _ := io.ReadAll(response.Body)
		text <- string(data)
	}()
	<-begun
	stop()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", s.listener.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil && stopped.Load()
	}, 10*time.Second, time.Millisecond)
	close(end)
	require.Equal(t, "whole", <-text)
	require.NoError(t, <-ended)
}

// A service whose work fails ends, and says why.
func TestServicesEndWithTheirWork(t *testing.T) {
	s, err := listen(t.Context(), "127.0.0.1:0", http.NotFoundHandler(), nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.ErrorIs(t, runServices(t.Context(), func(context.Context) error { return io.ErrUnexpectedEOF }, []*service{s}), io.ErrUnexpectedEOF)
}
