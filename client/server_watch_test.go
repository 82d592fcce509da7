package client_test

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/server"
)

// running is a server that follows the database until the test ends.
func (f *fixture) running() http.Handler {
	s, err := server.New(server.Options{Engine: f.engine, Insecure: true, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(f.t.Output(), nil)), Now: time.Now, Rand: rand.Uint64})
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil && ctx.Err() == nil {
			f.t.Error(err)
		}
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	return s
}

// A watch goes on where it was after its connection broke, and starts again
// where another server has taken over.
func TestWatchThroughServers(t *testing.T) {
	f := newFixture(t)
	_, err := f.engine.Apply(f.ctx, f.load("../examples/three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	var current atomic.Value
	current.Store(f.running())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().(http.Handler).ServeHTTP(w, r) }))
	defer web.Close()
	c, err := client.New(client.Options{URL: web.URL})
	require.NoError(t, err)
	defer c.Close()

	next, stop := iter.Pull2(c.Watch(f.ctx, client.WatchOptions{Filter: engine.Filter{Kind: model.KindAttachment, VPC: "shop", Tier: "web"}}))
	defer stop()
	want := func(kind client.EventType, name string) client.Event {
		t.Helper()
		e, err, ok := next()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, kind, e.Type)
		if name != "" {
			require.Equal(t, model.ID{Kind: model.KindAttachment, VPC: "shop", Name: name}, e.Object.Resource.ID())
			require.NotEmpty(t, e.Object.Status.(*engine.AttachmentStatus).Addresses)
		}
		return e
	}
	attach := func(name, tier string) {
		_, err := f.engine.Apply(f.ctx, f.text("apiVersion: ovn-vpc/v1\nkind: Attachment\nmetadata: {name: "+name+", vpc: shop}\nspec: {tier: "+tier+"}\n"), false, engine.WaitNone)
		require.NoError(t, err)
	}
	want(client.Added, "web-1")
	want(client.Added, "web-2")
	require.NotEmpty(t, want(client.Synced, "").ID)
	attach("elsewhere", "db")
	attach("web-3", "web")
	seen := want(client.Added, "web-3")

	web.CloseClientConnections()
	attach("web-4", "web")
	want(client.Added, "web-4")
	_, err = c.DeleteOne(f.ctx, model.ID{Kind: model.KindAttachment, VPC: "shop", Name: "web-3"}, client.WriteOptions{})
	require.NoError(t, err)
	want(client.Deleted, "web-3")

	for e, err := range c.Watch(f.ctx, client.WatchOptions{Filter: engine.Filter{VPC: "shop", Tier: "web"}, LastEventID: seen.ID}) {
		require.NoError(t, err)
		require.Equal(t, client.Added, e.Type, "what came after the event that was seen")
		require.Equal(t, "web-4", e.Object.Resource.Metadata.Name)
		break
	}

	current.Store(f.running())
	web.CloseClientConnections()
	require.NotEmpty(t, want(client.Reset, "").Reason)
	want(client.Added, "web-1")
	want(client.Added, "web-2")
	want(client.Added, "web-4")
	want(client.Synced, "")
}
