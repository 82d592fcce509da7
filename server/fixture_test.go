package server_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/server"
)

// counted is a database that counts transactions.
type counted struct {
	*nbdb.Client
	commits atomic.Int64
}

func (c *counted) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	c.commits.Add(1)
	return c.Client.Commit(ctx, p, bump)
}

// fixture is a server on a real database.
type fixture struct {
	t       testing.TB
	sandbox *lab.Sandbox
	nb      *counted
	engine  *engine.Engine
	url     string
	check   server.Checker
}

func newFixture(t testing.TB, o lab.SandboxOptions) *fixture {
	t.Helper()
	return serve(t, labtest.NewTestSandbox(t, o), server.Options{Insecure: true})
}

// serve starts a server beside others on the same database.
func serve(t testing.TB, s *lab.Sandbox, o server.Options) *fixture {
	t.Helper()
	client, err := nbdb.New(nbdb.Options{Remotes: s.NB()})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	nb := &counted{Client: client}
	e := engine.New(nb, "default", "server")
	if s.SB() != "" {
		sb, err := nbdb.Dial(t.Context(), nbdb.Options{Remotes: s.SB(), Database: nbdb.Southbound})
		require.NoError(t, err)
		t.Cleanup(sb.Close)
		e.SB = sb
	}
	var level slog.Level = slog.LevelError + 1
	if testing.Verbose() && os.Getenv("SERVER_LOG") != "" {
		level = slog.LevelInfo
	}
	o.Engine, o.Metrics, o.Version = e, prometheus.NewRegistry(), map[string]string{"version": "test"}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	o.Now, o.Rand = time.Now, rand.Uint64
	handler, err := server.New(o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- handler.Run(ctx) }()
	http := httptest.NewServer(handler)
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		http.Close()
	})
	return &fixture{t: t, sandbox: s, nb: nb, engine: e, url: http.URL, check: server.NewChecker(handler, o)}
}

// ready waits until the server follows the database.
func (f *fixture) ready() {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		r, err := f.try("GET", "/readyz", "")
		return err == nil && r.status == http.StatusOK
	}, time.Minute, 20*time.Millisecond)
}

// reply is an answer, read whole.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	text   string
}

// call sends a request. headers are name, value, name, value.
func (f *fixture) call(method, path, body string, headers ...string) reply {
	f.t.Helper()
	r, err := f.try(method, path, body, headers...)
	require.NoError(f.t, err)
	return r
}

// try is call for goroutines that may not end the test. An answer that is not as
// the OpenAPI document says is an error.
func (f *fixture) try(method, path, body string, headers ...string) (reply, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil {
		err = f.check(request, response, data)
	}
	return reply{f.t, response.StatusCode, response.Header, string(data)}, err
}

// is demands a status.
func (r reply) is(status int) reply {
	r.t.Helper()
	require.Equal(r.t, status, r.status, r.text)
	return r
}

// problem demands a problem of a kind.
func (r reply) problem(status int, slug string) server.Problem {
	r.t.Helper()
	r.is(status)
	require.Equal(r.t, "application/problem+json", r.header.Get("Content-Type"))
	var p server.Problem
	r.into(&p)
	require.Equal(r.t, "urn:ovn-vpc:problem:"+slug, p.Type, r.text)
	require.Equal(r.t, status, p.Status)
	require.Equal(r.t, r.header.Get("X-Request-Id"), p.Instance)
	return p
}

func (r reply) into(value any) {
	r.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.text))
	decoder.DisallowUnknownFields()
	require.NoError(r.t, decoder.Decode(value), r.text)
}

// document is a resource as a client sees it.
type document struct {
	APIVersion string          `json:"apiVersion"`
	Kind       model.Kind      `json:"kind"`
	Metadata   model.Metadata  `json:"metadata"`
	Spec       map[string]any  `json:"spec"`
	Status     map[string]any  `json:"status"`
	Pending    *engine.Pending `json:"pending"`
}

func (r reply) document() document {
	r.t.Helper()
	var d document
	r.into(&d)
	return d
}

type list struct {
	Items    []document `json:"items"`
	Continue string     `json:"continue"`
}

// names are those of a list's items.
func (r reply) names() []string {
	r.t.Helper()
	var l list
	r.into(&l)
	names := []string{}
	for _, d := range l.Items {
		names = append(names, d.Metadata.Name)
	}
	return names
}

// shop is a VPC with a tier and a list.
func (f *fixture) shop() {
	f.t.Helper()
	f.call("PUT", "/v1/vpcs/shop", `{"spec": {"cidrs": ["10.10.0.0/16"]}}`).is(201)
	f.call("PUT", "/v1/vpcs/shop/acls/open", `{"spec": {"rules": [{"protocol": "tcp", "ports": [80, "8000-9000"]}]}}`).is(201)
	f.call("PUT", "/v1/vpcs/shop/tiers/web", `{"spec": {"cidrs": ["10.10.1.0/24"], "acl": "open"}}`).is(201)
}

func (f *fixture) noDrift() {
	f.t.Helper()
	report, err := f.engine.Drift(f.t.Context(), "", false, engine.WaitNone)
	require.NoError(f.t, err)
	require.Empty(f.t, report.Faults)
}

// serveInsecure is a further server on the same database.
func serveInsecure(t *testing.T, s *lab.Sandbox) *fixture {
	t.Helper()
	return serve(t, s, server.Options{Insecure: true})
}

// parallel runs n of do at once and demands that none fails.
func parallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- do(i) }()
	}
	for range n {
		require.NoError(t, <-errs)
	}
}

// serveLocal is one that answers calls to localhost alone.
func serveLocal(t *testing.T, s *lab.Sandbox) *fixture {
	t.Helper()
	return serve(t, s, server.Options{Insecure: true, Local: true})
}
