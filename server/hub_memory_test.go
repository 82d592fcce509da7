package server

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// What a hub remembers takes memory until as many changes have been made as it
// remembers, and no more after that.
func TestRememberedChangesAreBounded(t *testing.T) {
	h := newTestHub(t)
	live := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	n := 0
	fill := func() (grown int) {
		before := live()
		for range h.changes {
			after := attachment("shop", fmt.Sprintf("a%d", n%200), "web", "hv1", fmt.Sprint(n))
			if n++; n%3 == 0 {
				h.Change([]engine.Event{{Before: after}})
			} else {
				h.Change([]engine.Event{{After: after}})
			}
		}
		return live() - before
	}
	first := fill()
	require.Greater(t, first, 200*h.changes, "a change takes that many bytes at least")
	for range 3 {
		require.Less(t, fill(), first/10)
	}
	runtime.KeepAlive(h)
}
