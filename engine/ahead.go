package engine

import (
	"context"
	"reflect"
	"sync/atomic"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// ReadAhead begins to read what plans of many resources of the same VPCs need,
// while who wants them made still finds out which. If they need just that, it is
// what they are made from. What it returns is closed when the database has answered.
func (e *Engine) ReadAhead(ctx context.Context, like []*model.Resource) (answered <-chan struct{}) {
	s := e.scopeOf(wish{put: like})
	s.noStatus = true
	queries := e.queries(s, everyName(false))
	a := &ahead{Store: e.NB, queries: queries, done: make(chan struct{})}
	e.NB = a
	go func() {
		defer close(a.done)
		a.state, a.err = a.Store.Read(ctx, queries...)
	}()
	return a.done
}

// ahead is a store of which something has been read ahead, for its first reader.
type ahead struct {
	Store
	queries []nbdb.Query
	used    atomic.Bool

	done  chan struct{} // closed when there is what follows
	state *nbdb.State
	err   error
}

// Read gives what was read ahead, if it is that.
func (a *ahead) Read(ctx context.Context, queries ...nbdb.Query) (*nbdb.State, error) {
	if !a.used.Swap(true) && reflect.DeepEqual(queries, a.queries) {
		select {
		case <-a.done:
			if a.err == nil {
				return a.state, nil
			}
		case <-ctx.Done():
		}
	}
	return a.Store.Read(ctx, queries...)
}
