package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// reading is a store that counts how often it is read.
type reading struct {
	engine.Store
	reads atomic.Int64
	fails bool          // the first time
	first chan struct{} // closed after that
}

func (r *reading) Read(ctx context.Context, queries ...nbdb.Query) (*nbdb.State, error) {
	if r.reads.Add(1) > 1 {
		return r.Store.Read(ctx, queries...)
	}
	defer close(r.first)
	if r.fails {
		return nil, errors.New("not yet")
	}
	return r.Store.Read(ctx, queries...)
}

// What is read ahead serves for one plan, if that needs just what was read. Beside
// it the names of all ports are read where some are new.
func TestReadAhead(t *testing.T) {
	network := vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24")
	many := network
	for i := range 40 {
		many += att("shop", fmt.Sprintf("a-%d", i), "web")
	}
	for name, c := range map[string]struct {
		like, text, meanwhile string
		fails                 bool
		reads                 int64
	}{
		"just that":                    {like: att("shop", "a-0", "web"), text: many, reads: 2},
		"another VPC":                  {like: vpc("lab", "10.0.0.0/8"), text: many, reads: 3},
		"one more VPC":                 {like: network, text: many + vpc("lab", "10.0.0.0/8"), reads: 3},
		"few names":                    {like: network, text: network + att("shop", "a-0", "web"), reads: 2},
		"it can't be read yet":         {like: network, text: many, fails: true, reads: 3},
		"somebody was faster, a name":  {like: network, text: many, meanwhile: att("shop", "a-7", "web"), reads: 5},
		"somebody was faster, nothing": {like: network, text: many, meanwhile: strings.ReplaceAll(network, "shop", "lab"), reads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(network)
			other := connect(t, f.sandbox, "default")
			store := &reading{Store: f.NB, first: make(chan struct{}), fails: c.fails}
			f.NB = store
			f.ReadAhead(f.ctx, load(t, c.like).Resources)
			<-store.first
			if c.meanwhile != "" {
				other.apply(c.meanwhile)
			}
			f.apply(c.text)
			require.Equal(t, c.reads, store.reads.Load())
			f.apply(c.text)
			require.Equal(t, c.reads+1, store.reads.Load())
			require.Empty(t, other.apply(c.text).VPCs)
			f.noDrift()
		})
	}
}
