package server

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
)

// bounded notes until when a request may be read.
type bounded struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (b *bounded) SetReadDeadline(t time.Time) error { b.read = t; return nil }
func (b *bounded) SetWriteDeadline(time.Time) error  { return nil }

// Nobody holds a connection by a body that never comes, least of all who is not
// known; a watch that has begun may last.
func TestReadingIsBounded(t *testing.T) {
	token, line := newToken(t, "all", Viewer, "*")
	file := filepath.Join(t.TempDir(), "tokens")
	writeTokens(t, file, line)
	s, err := New(Options{Engine: &engine.Engine{}, Tokens: file, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		Now: time.Now, Rand: func() uint64 { return 7 }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a watch that begins ends at once
	call := func(method, path, token string, status int) *bounded {
		w := &bounded{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(ctx, method, path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		s.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, "%s %s: %s", method, path, w.Body)
		return w
	}
	for path, status := range map[string]int{"/v1/vpcs/shop": 401, "/nowhere": 401, watchPath: 401} {
		require.NotZero(t, call("PUT", path, "", status).read, path)
	}
	require.NotZero(t, call("PUT", watchPath, token, 405).read)
	require.NotZero(t, call("GET", watchPath+"?vpc=-", token, 400).read)
	require.NotZero(t, call("GET", watchPath, token, 503).read)
	s.hub.Reset(nil)
	require.Zero(t, call("GET", watchPath, token, 200).read)

	probes := &bounded{ResponseRecorder: httptest.NewRecorder()}
	s.Probes().ServeHTTP(probes, httptest.NewRequestWithContext(ctx, "GET", "/healthz", nil))
	require.NotZero(t, probes.read)
}
