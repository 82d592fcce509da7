package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/negroni/v3"
)

// authority signs certificates of clients.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	c := a.sign("authority", true)
	a.certificate, a.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// sign makes a certificate; the first signs itself.
func (a *authority) sign(name string, ca bool) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Over TLS, and HTTP/2, a certificate counts if the listener's authority has
// signed it, and a watch is what it is elsewhere.
func TestWatchWithACertificate(t *testing.T) {
	trusted, other := newAuthority(t), newAuthority(t)
	hub := newTestHub(t)
	hub.write, hub.heartbeat = 200*time.Millisecond, 500*time.Millisecond
	auth, _ := tokens(t, "agents viewer shop cert:CN=agent")
	chain := negroni.New(auth)
	chain.UseHandler(hub)
	server := httptest.NewUnstartedServer(chain)
	roots := x509.NewCertPool()
	roots.AddCert(trusted.certificate)
	server.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: roots}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		hub.close()
		server.Close()
	})
	s := &watchServer{Server: server, hub: hub, auth: auth}
	with := func(certificates ...tls.Certificate) *http.Client {
		client := server.Client()
		transport := client.Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.Certificates = certificates
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	get := func(client *http.Client) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+watchPath, nil)
		require.NoError(t, err)
		response, err := client.Do(r)
		if err == nil {
			t.Cleanup(func() { _ = response.Body.Close() })
		}
		return response, err
	}
	for _, client := range []*http.Client{with(), with(trusted.sign("somebody", false))} {
		response, err := get(client)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	}
	_, err := get(with(other.sign("agent", false)))
	require.Error(t, err, "the listener refuses what another authority has signed")

	response, err := get(with(trusted.sign("agent", false)))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, 2, response.ProtoMajor)
	w := newWatch(t, response)
	w.expect("synced")
	// The stream outlives the time that a single write may take.
	for range 2 {
		line, err := w.lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, ":\n", line)
		_, err = w.lines.ReadString('\n')
		require.NoError(t, err)
	}
	s.put("other", "a", "h1", "1")
	s.put("shop", "a", "h1", "1")
	w.expect("added a 1")
	hub.close()
	w.expect("end")
}
