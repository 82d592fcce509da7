package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// logged collects a log.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newToken makes a token and its line for the file.
func newToken(t *testing.T, name string, role Role, vpcs ...string) (token, line string) {
	token, credential, err := NewToken(rand.Reader)
	require.NoError(t, err)
	return token, Grant{Principal: Principal{Name: name, Role: role, VPCs: vpcs}, Credential: credential}.String()
}

// writeTokens replaces a file of tokens.
func writeTokens(t *testing.T, path string, lines ...string) {
	require.NoError(t, os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// tokens are an authenticator over a file with these lines, and its log.
func tokens(t *testing.T, lines ...string) (*authenticator, *logged) {
	log := &logged{}
	path := filepath.Join(t.TempDir(), "tokens")
	writeTokens(t, path, lines...)
	a, err := newAuthenticator(Options{Tokens: path, Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now})
	require.NoError(t, err)
	return a, log
}

// ask sends a request with a header Authorization through the middleware, and
// tells the status and who it is.
func ask(a *authenticator, path, authorization string, certificates ...*x509.Certificate) (*httptest.ResponseRecorder, Principal) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	if len(certificates) > 0 {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{certificates}}
	}
	w := httptest.NewRecorder()
	var who Principal
	a.ServeHTTP(w, r, func(w http.ResponseWriter, r *http.Request) { who = principalOf(r.Context()) })
	return w, who
}

// classes are what routes ask for: a role in a VPC, in none, or in all.
func classes() map[string]func(context.Context) bool {
	in := func(role Role, vpc string) func(context.Context) bool {
		return func(ctx context.Context) bool { return may(ctx, role, vpc) }
	}
	all := func(role Role) func(context.Context) bool {
		return func(ctx context.Context) bool { return mayEverywhere(ctx, role) }
	}
	return map[string]func(context.Context) bool{
		"read shop": in(Viewer, "shop"), "change shop": in(Editor, "shop"), "repair shop": in(Admin, "shop"),
		"read shop-2": in(Viewer, "shop-2"), "change shop-2": in(Editor, "shop-2"), "repair shop-2": in(Admin, "shop-2"),
		"read offerings": in(Viewer, ""), "change offerings": in(Editor, ""), "administer offerings": in(Admin, ""),
		"export all": all(Viewer), "apply plan files": all(Admin),
		"nonsense": in("nonsense", "shop"),
	}
}

func TestMay(t *testing.T) {
	const none = "read offerings"
	for _, c := range []struct {
		role Role
		vpcs string
		may  []string
	}{
		{"", "*", nil},
		{"nonsense", "*", nil},
		{Viewer, "other", []string{none}},
		{Editor, "other", []string{none}},
		{Admin, "other", []string{none}},
		{Viewer, "shop", []string{none, "read shop"}},
		{Editor, "shop", []string{none, "read shop", "change shop"}},
		{Admin, "shop", []string{none, "read shop", "change shop", "repair shop"}},
		{Viewer, "shop-*", []string{none, "read shop-2"}},
		{Editor, "other,shop-?", []string{none, "read shop-2", "change shop-2"}},
		{Admin, "shop*", []string{none, "read shop", "change shop", "repair shop", "read shop-2", "change shop-2", "repair shop-2"}},
		{Admin, "?*", []string{none, "read shop", "change shop", "repair shop", "read shop-2", "change shop-2", "repair shop-2"}},
		{Viewer, "*", []string{none, "read shop", "read shop-2", "export all"}},
		{Editor, "*", []string{none, "read shop", "change shop", "read shop-2", "change shop-2", "export all"}},
		{Admin, "other,*", []string{none, "read shop", "change shop", "repair shop", "read shop-2", "change shop-2", "repair shop-2",
			"change offerings", "administer offerings", "export all", "apply plan files"}},
	} {
		ctx := withCaller(t.Context(), caller{Principal: Principal{Name: "x", Role: c.role, VPCs: strings.Split(c.vpcs, ",")}})
		var got []string
		for class, allowed := range classes() {
			if allowed(ctx) {
				got = append(got, class)
			}
		}
		require.ElementsMatch(t, c.may, got, "%s of %s", c.role, c.vpcs)
	}
	for class, allowed := range classes() {
		require.False(t, allowed(t.Context()), "%s without a caller", class)
	}
}

func TestTokensAreKnown(t *testing.T) {
	alice, aliceLine := newToken(t, "alice", Viewer, "shop", "team-*")
	bob, bobLine := newToken(t, "bob", Admin, "*")
	old, oldLine := newToken(t, "old", Admin, "*")
	a, log := tokens(t, "# who may what", aliceLine, "", "  "+bobLine+"  ", oldLine+" 2020-01-01T00:00:00Z")
	for name, token := range map[string]string{"alice": alice, "bob": bob} {
		for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
			w, who := ask(a, "/v1/vpcs", scheme+token)
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, name, who.Name)
		}
	}
	_, who := ask(a, "/v1/vpcs", "Bearer "+alice)
	require.Equal(t, Principal{Name: "alice", Role: Viewer, VPCs: []string{"shop", "team-*"}}, who)

	other, _ := newToken(t, "other", Admin, "*")
	var answer string
	for what, authorization := range map[string]string{
		"none": "", "unknown": "Bearer " + other, "expired": "Bearer " + old, "malformed": "Bearer", "empty": "Bearer ", "other scheme": "Basic " + alice,
		"without scheme": alice, "cut": "Bearer " + alice[:len(alice)-1], "longer": "Bearer " + alice + "A", "case": "Bearer " + strings.ToUpper(alice),
		"hash": "Bearer " + strings.Fields(aliceLine)[3], "huge": "Bearer " + strings.Repeat("x", 1<<20),
	} {
		w, who := ask(a, "/v1/vpcs", authorization)
		require.Equal(t, http.StatusUnauthorized, w.Code, what)
		require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Empty(t, who)
		if answer == "" {
			answer = w.Body.String()
		}
		require.Equal(t, answer, w.Body.String(), "%s: the answers differ", what)
	}
	for _, path := range []string{"/healthz", "/readyz", "/version", "/openapi.json", "/docs"} {
		w, who := ask(a, path, "")
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Empty(t, who)
	}
	for _, path := range []string{"/", "/metrics", "/v1/vpcs/shop", "/nosuch", "/healthz/", "/docs/../v1/vpcs", "//healthz"} {
		w, _ := ask(a, path, "")
		require.Equal(t, http.StatusUnauthorized, w.Code, path)
	}
	for _, secret := range []string{alice, bob, old, other} {
		require.NotContains(t, log.String(), secret)
		require.NotContains(t, log.String(), secret[len(tokenPrefix):])
	}
}

func TestCertificatesAreKnown(t *testing.T) {
	certificate := func(raw, name string) *x509.Certificate {
		return &x509.Certificate{Raw: []byte(raw), Subject: pkix.Name{CommonName: name}}
	}
	alice, aliceLine := newToken(t, "alice", Viewer, "shop")
	a, _ := tokens(t, aliceLine,
		"agents editor * cert:CN=agent",
		// Of the text "pinned", as openssl prints fingerprints.
		"pinned admin * cert:sha256:3F:AB:5C:18:1B:D2:8A:09:B6:43:97:DF:76:AE:2B:FA:F1:EA:C1:82:97:9B:5F:DB:7A:34:28:58:00:4F:36:AF")
	for _, c := range []struct {
		raw, name, who string
	}{{"x", "agent", "agents"}, {"pinned", "anything", "pinned"}, {"pinned", "agent", "pinned"}, {"x", "other", ""}, {"x", "", ""}} {
		w, who := ask(a, "/v1/vpcs", "", certificate(c.raw, c.name))
		require.Equal(t, c.who, who.Name)
		require.Equal(t, c.who == "", w.Code == http.StatusUnauthorized)
	}
	_, who := ask(a, "/v1/vpcs", "Bearer "+alice, certificate("x", "agent"))
	require.Equal(t, "alice", who.Name, "a token decides before a certificate")
	w, _ := ask(a, "/v1/vpcs", "Bearer nonsense", certificate("x", "agent"))
	require.Equal(t, http.StatusUnauthorized, w.Code, "a wrong token is not made good by a certificate")

	r := httptest.NewRequest(http.MethodGet, "/v1/vpcs", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate("x", "agent")}}
	_, ok := a.identify(r)
	require.False(t, ok, "a certificate that nobody has verified")
}

func TestInsecure(t *testing.T) {
	a, err := newAuthenticator(Options{Insecure: true})
	require.NoError(t, err)
	_, who := ask(a, "/v1/vpcs", "Bearer whatever")
	require.True(t, who.may(Admin, "shop"))
	require.True(t, who.may(Admin, ""))

	_, err = newAuthenticator(Options{})
	require.ErrorContains(t, err, "nobody could call")

	_, line := newToken(t, "alice", Viewer, "*")
	path := filepath.Join(t.TempDir(), "tokens")
	writeTokens(t, path, line)
	a, err = newAuthenticator(Options{Tokens: path, Insecure: true, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	w, _ := ask(a, "/v1/vpcs", "")
	require.Equal(t, http.StatusUnauthorized, w.Code, "a file of tokens holds all the same")
}

func TestBrokenTokens(t *testing.T) {
	token, good := newToken(t, "alice", Viewer, "*")
	hash := strings.Fields(good)[3]
	for _, c := range []struct{ line, fault string }{
		{"alice viewer *", "3 fields"},
		{token, "1 fields"},
		{"alice viewer * " + hash + " 2030-01-01T00:00:00Z more", "6 fields"},
		{"alice viewer * " + token, "a token itself"},
		{"alice viewer * " + hash[1:], "the credential can't be read"},
		{"alice viewer * " + hash + "ab", "the credential can't be read"},
		{"alice viewer * cert:sha256:" + hash[2:], "the credential can't be read"},
		{"alice viewer * cert:CN=", "the common name is empty"},
		{"alice root * " + hash, "there is no such role"},
		{token + "/x viewer * " + hash, "the name can't be used"},
		{"alice viewer shop,, " + hash, "a pattern of VPC names can't be used"},
		{"alice viewer [a " + hash, "a pattern of VPC names can't be used"},
		{"alice viewer Shop " + hash, "a pattern of VPC names can't be used"},
		{"alice viewer * " + hash + " tomorrow", "the fifth field is no time"},
		{good + "\nbob admin * " + strings.ToUpper(hash), "line 2 has the same credential"},
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		writeTokens(t, path, "# a comment", c.line)
		_, err := newAuthenticator(Options{Tokens: path, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		require.ErrorContains(t, err, c.fault, c.line)
		require.ErrorContains(t, err, fmt.Sprintf("%s:%d: ", path, 2+strings.Count(c.line, "\n")))
		require.NotContains(t, err.Error(), hash[2:20])
		require.NotContains(t, err.Error(), token[len(tokenPrefix):])
	}
	_, err := newAuthenticator(Options{Tokens: filepath.Join(t.TempDir(), "nosuch")})
	require.ErrorContains(t, err, "reading the file of tokens")
}

func TestTokensAreReadAgain(t *testing.T) {
	alice, aliceLine := newToken(t, "alice", Viewer, "shop")
	bob, bobLine := newToken(t, "bob", Editor, "*")
	a, log := tokens(t, aliceLine, bobLine)
	status := func(token string) int {
		w, _ := ask(a, "/v1/vpcs", "Bearer "+token)
		return w.Code
	}
	revoked := func(token string) <-chan struct{} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		c, ok := a.identify(r)
		require.True(t, ok)
		return c.revoked
	}
	aliceGone, bobGone := revoked(alice), revoked(bob)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(done); a.run(ctx) }()

	writeTokens(t, a.path, bobLine, "alice nonsense")
	require.Eventually(t, func() bool { return strings.Contains(log.String(), a.path+":2: 2 fields") }, patience, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, status(alice), "a broken file changes nothing")
	require.NotContains(t, log.String(), "nonsense")

	require.NoError(t, os.Remove(a.path))
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "no such file") }, patience, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, status(alice))

	writeTokens(t, a.path, "# alice is gone", bobLine)
	require.Eventually(t, func() bool { return status(alice) == http.StatusUnauthorized }, patience, 10*time.Millisecond)
	ended(t, aliceGone)
	require.Equal(t, http.StatusOK, status(bob))
	open(t, bobGone)

	// The same token with other permissions: what it holds under the old ones ends.
	writeTokens(t, a.path, strings.Replace(bobLine, "editor", "viewer", 1))
	ended(t, bobGone)
	bobGone = revoked(bob)

	writeTokens(t, a.path)
	ended(t, bobGone)
	require.Equal(t, http.StatusUnauthorized, status(bob), "an empty file lets nobody in")
	cancel()
	ended(t, done)
	require.Equal(t, 1, strings.Count(log.String(), "2 fields"), "said once, not each second")
}

func TestExpiryRevokes(t *testing.T) {
	alice, line := newToken(t, "alice", Viewer, "*")
	a, _ := tokens(t, line+" 2030-01-01T00:00:00Z")
	now := time.Date(2029, 12, 31, 23, 59, 59, 0, time.UTC)
	a.now = func() time.Time { return now }
	gone := (*a.entries.Load())[0].revoked
	a.refresh()
	open(t, gone)
	w, _ := ask(a, "/v1/vpcs", "Bearer "+alice)
	require.Equal(t, http.StatusOK, w.Code)
	now = now.Add(time.Second)
	w, _ = ask(a, "/v1/vpcs", "Bearer "+alice)
	require.Equal(t, http.StatusUnauthorized, w.Code)
	a.refresh()
	a.refresh()
	ended(t, gone)
}

func ended(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(t, "it does not end")
	}
}

func open(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		require.FailNow(t, "it has ended")
	default:
	}
}
