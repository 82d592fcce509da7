package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// counter is a feed that only waits for the first state.
type counter struct {
	all    []engine.Object
	resets int
	come   chan struct{} // closed with the first
}

func (c *counter) Reset(all []engine.Object) {
	if c.all = all; c.resets == 0 {
		close(c.come)
	}
	c.resets++
}
func (*counter) Change([]engine.Event) {}
func (*counter) Lost(error)            {}

// BenchmarkWatch10000Attachments loads them, and counts the memory that stays
// while they are watched.
func BenchmarkWatch10000Attachments(b *testing.B) {
	const tiers, attachments = 5, 10000
	s := labtest.NewTestSandbox(b, lab.SandboxOptions{NoNorthd: true})
	c, err := nbdb.Dial(b.Context(), nbdb.Options{Remotes: s.NB()})
	require.NoError(b, err)
	defer c.Close()
	e := engine.New(c, "default", "cli")
	var text strings.Builder
	text.WriteString(vpc("shop", "10.0.0.0/16"))
	for i := range tiers {
		text.WriteString(tier("shop", fmt.Sprintf("t-%d", i), fmt.Sprintf("10.0.%d.0/20", i*16)))
	}
	for i := range attachments {
		text.WriteString(att("shop", fmt.Sprintf("a-%d", i), fmt.Sprintf("t-%d", i%tiers)))
	}
	set, ds := model.Load(model.Input{Name: "spec.yaml", Data: []byte(text.String())})
	require.False(b, ds.HasErrors(), ds.String())
	_, err = e.Apply(b.Context(), set, false, engine.WaitNone)
	require.NoError(b, err)
	set = nil

	for b.Loop() {
		before := heap()
		ctx, cancel := context.WithCancel(b.Context())
		feed, ended := &counter{come: make(chan struct{})}, make(chan error, 1)
		go func() { ended <- e.Watch(ctx, feed) }()
		<-feed.come
		b.ReportMetric(float64(heap()-before)/attachments, "B/attachment")
		require.Len(b, feed.all, 1+tiers+attachments)
		cancel()
		<-ended
	}
}

// heap is the memory in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
