package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"github.com/urfave/negroni/v3"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// scrape are the lines that a registry tells of the server's own metrics.
func scrape(t *testing.T, r *prometheus.Registry) []string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, space) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func TestRequestsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/vpcs/{vpc}", func(w http.ResponseWriter, r *http.Request) {
		require.Contains(t, scrape(t, registry), "ovn_vpc_http_requests_in_flight 1")
		if r.PathValue("vpc") == "gone" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	mux.HandleFunc("PUT /v1/vpcs/{vpc}", func(http.ResponseWriter, *http.Request) { panic("oh") })
	mux.HandleFunc("GET "+watchPath, func(http.ResponseWriter, *http.Request) {
		require.Contains(t, scrape(t, registry), "ovn_vpc_http_requests_in_flight 0")
	})
	replace := negroni.HandlerFunc(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{}))) // as inner handlers do
	})
	chain := negroni.New(&negroni.Recovery{Logger: negroni.NewLogger()}, m, replace, negroni.Wrap(routed(mux)))
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1/vpcs/shop"}, {"GET", "/v1/vpcs/other"}, {"GET", "/v1/vpcs/gone"}, {"PUT", "/v1/vpcs/shop"},
		{"DELETE", "/v1/vpcs/shop"}, {"BREW", "/v1/vpcs/shop"}, {"GET", "/some/secret/path"}, {"GET", watchPath},
	} {
		chain.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil))
	}
	lines := scrape(t, registry)
	for _, want := range []string{
		`ovn_vpc_http_requests_total{code="200",method="GET",route="/v1/vpcs/{vpc}"} 2`,
		`ovn_vpc_http_requests_total{code="404",method="GET",route="/v1/vpcs/{vpc}"} 1`,
		`ovn_vpc_http_requests_total{code="500",method="PUT",route="/v1/vpcs/{vpc}"} 1`,
		`ovn_vpc_http_requests_total{code="405",method="DELETE",route="none"} 1`,
		`ovn_vpc_http_requests_total{code="405",method="other",route="none"} 1`,
		`ovn_vpc_http_requests_total{code="404",method="GET",route="none"} 1`,
		`ovn_vpc_http_requests_total{code="200",method="GET",route="/v1/watch"} 1`,
		`ovn_vpc_http_request_duration_seconds_count{method="GET",route="/v1/vpcs/{vpc}"} 3`,
		`ovn_vpc_http_requests_in_flight 0`,
	} {
		require.Contains(t, lines, want)
	}
	all := strings.Join(lines, "\n")
	require.NotContains(t, all, "secret")
	require.NotContains(t, all, `duration_seconds_count{method="GET",route="/v1/watch"}`)
}

func TestWorkIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	require.NoError(t, err)
	var _ engine.Observer = m
	m.Planned(0)
	m.Planned(1)
	m.Committed(engine.Transaction{Result: engine.CommitConflict, Size: 3, Took: time.Second})
	m.Committed(engine.Transaction{Result: engine.CommitLanded, Size: 4, Took: time.Second})
	m.Realised(engine.WaitHV, time.Second)
	m.committed(7, time.Second)
	lines := scrape(t, registry)
	for _, want := range []string{
		"ovn_vpc_plans_total 2", "ovn_vpc_replans_total 1", "ovn_vpc_conflicts_total 1",
		`ovn_vpc_transactions_total{result="conflict"} 1`, `ovn_vpc_transactions_total{result="landed"} 1`, `ovn_vpc_transactions_total{result="failed"} 0`,
		"ovn_vpc_transaction_operations_sum 7", "ovn_vpc_transaction_duration_seconds_count 2",
		`ovn_vpc_realised_seconds_sum{stage="hv"} 1`, "ovn_vpc_group_commit_calls_sum 7", "ovn_vpc_nb_connected 0", "ovn_vpc_watch_subscribers 0",
	} {
		require.Contains(t, lines, want)
	}
	_, err = newMetrics(registry)
	require.Error(t, err, "one server to a registry")
}

func TestLevels(t *testing.T) {
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	client, err := nbdb.Dial(t.Context(), nbdb.Options{Remotes: s.NB()})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	registry, now := prometheus.NewRegistry(), time.Now()
	m, err := newMetrics(registry)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(scrape(t, registry), "\n"), "addresses_free")
	h := newHub(Options{Engine: engine.New(client, "default", "server"), Now: func() time.Time { return now }, Rand: func() uint64 { return 7 }}, m)
	require.NotContains(t, strings.Join(scrape(t, registry), "\n"), "addresses_free", "nothing is known yet")

	tier := &model.TierSpec{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")}, Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	web := attachment("shop", "a", "web", "", "")
	web.Resource.Spec.(*model.AttachmentSpec).Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	h.Reset([]engine.Object{{Resource: &model.Resource{Kind: model.KindTier, Metadata: model.Metadata{Name: "web", VPC: "shop"}, Spec: tier}}, *web})
	const free = `ovn_vpc_tier_addresses_free{cidr="10.0.0.0/29",tier="web",vpc="shop"} `
	lines := scrape(t, registry)
	for _, want := range []string{free + "4", "ovn_vpc_vxlan_datapaths_used 0", "ovn_vpc_vxlan_datapaths_limit 4095", "ovn_vpc_nb_connected 1"} {
		require.Contains(t, lines, want)
	}
	h.Change([]engine.Event{{Before: web}})
	require.Contains(t, scrape(t, registry), free+"4", "counted a moment ago")
	now = now.Add(levelsAge)
	require.Contains(t, scrape(t, registry), free+"5")
	h.Lost(io.ErrUnexpectedEOF)
	lines = scrape(t, registry)
	require.Contains(t, lines, "ovn_vpc_nb_connected 0")
	require.NotContains(t, lines, free+"5")
}

func TestHealth(t *testing.T) {
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	h := newHub(Options{Now: time.Now, Rand: func() uint64 { return 7 }}, m)
	get := func(handler http.HandlerFunc) (int, map[string]any) {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequest(http.MethodGet, "/", nil))
		var body map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		return w.Code, body
	}
	ready := func(status int, reason string) {
		t.Helper()
		code, body := get(h.readyz)
		require.Equal(t, status, code)
		if reason != "" {
			require.Contains(t, body["detail"], reason)
		}
	}
	ready(http.StatusServiceUnavailable, "has not been read yet")
	h.Reset(nil)
	ready(http.StatusOK, "")
	h.Lost(io.ErrUnexpectedEOF)
	ready(http.StatusServiceUnavailable, "is not followed: unexpected EOF")
	h.Reset(nil)
	ready(http.StatusOK, "")
	h.close()
	ready(http.StatusServiceUnavailable, "the server is stopping")
	code, body := get(healthz)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, map[string]any{"status": "ok"}, body)
	_, body = get(versionz(map[string]string{"version": "v1"}))
	require.Equal(t, map[string]any{"version": "v1"}, body)
}
