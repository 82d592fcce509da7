package main

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/server"
)

// TestScriptThroughServer runs the same scripts as TestScript, but the commands
// go to a server on the database: they say and do the same. Where a script
// gives --nb, --sb or --owner, that command goes to the database as before.
// Those named offline-* ask nobody.
func TestScriptThroughServer(t *testing.T) {
	for _, file := range scripts(t) {
		name := scriptName(file)
		if strings.HasPrefix(name, "offline-") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scriptSandbox(t, name)
			url, calls := serve(t, s)
			t.Cleanup(func() { require.Positive(t, calls.Load(), "no command has asked the server") })
			runScript(t, file, s, "OVN_VPC_SERVER="+url)
		})
	}
}

// serve is a server on a sandbox, with the number of calls that it has had.
func serve(t *testing.T, s *lab.Sandbox) (url string, calls *atomic.Int64) {
	nb, err := nbdb.Dial(t.Context(), nbdb.Options{Remotes: s.NB()})
	require.NoError(t, err)
	t.Cleanup(nb.Close)
	e := engine.New(nb, "default", "server")
	if s.SB() != "" {
		sb, err := nbdb.Dial(t.Context(), nbdb.Options{Remotes: s.SB(), Database: nbdb.Southbound})
		require.NoError(t, err)
		t.Cleanup(sb.Close)
		e.SB = sb
	}
	h, err := server.New(server.Options{Engine: e, Insecure: true, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: time.Now, Rand: rand.Uint64})
	require.NoError(t, err)
	calls = &atomic.Int64{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL, calls
}
