package server

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// bounds are what a hub spends on those who watch.
type bounds struct {
	changes   int           // that are remembered for those who come back
	pending   int           // resources of which one who watches has not been told yet
	watches   int           // of one principal
	heartbeat time.Duration // between signs of life
	write     time.Duration // that a client may take to accept what is written
}

func defaultBounds() bounds {
	return bounds{changes: 4096, pending: 16384, watches: 1000, heartbeat: 15 * time.Second, write: 10 * time.Second}
}

// hub hands the changes that the engine finds on to those who watch. It holds
// the resources as they are now, and the last changes.
//
// Changes are numbered from 1 on; the numbers hold for one hub, whose epoch tells
// it from others.
type hub struct {
	bounds
	epoch   string
	metrics *metrics
	log     *slog.Logger
	now     func() time.Time
	done    chan struct{} // closed by close
	params  []*huma.Param // of the watch

	mu       sync.Mutex
	state    map[model.ID]*engine.Object
	sequence uint64   // number of the last change
	recent   []change // number n is at n modulo its length
	watchers map[*watcher]struct{}
	watching map[string]int // watches by the principal's name
	fault    error          // why the database is not followed
	closed   bool
}

// change is one change of one resource, from a state to the next; nil: not there.
type change struct {
	number        uint64
	before, after *engine.Object
}

func newHub(o Options, m *metrics) *hub {
	b := defaultBounds()
	h := &hub{bounds: b, epoch: fmt.Sprintf("%016x", o.Rand()), metrics: m, log: o.Log, now: o.Now, done: make(chan struct{}), params: watchParams(),
		state: map[model.ID]*engine.Object{}, recent: make([]change, b.changes), watchers: map[*watcher]struct{}{}, watching: map[string]int{},
		fault: errors.New("the northbound database has not been read yet")}
	m.levels.of(h, o.Engine)
	return h
}

// Reset is engine.Feed's. What differs from the state before is handed on as
// changes: so a lost connection to the database goes unnoticed by those who watch.
func (h *hub) Reset(all []engine.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gone := maps.Clone(h.state)
	for _, o := range all {
		id := o.Resource.ID()
		if before := h.state[id]; before == nil || !same(before, &o) {
			h.change(id, &o)
		}
		delete(gone, id)
	}
	for id := range gone {
		h.change(id, nil)
	}
	h.fault = nil
	h.metrics.connected.Set(1)
}

// same tells whether those who watch would see no difference.
func same(a, b *engine.Object) bool {
	return reflect.DeepEqual(a.Resource.Metadata, b.Resource.Metadata) && reflect.DeepEqual(a.Resource.Spec, b.Resource.Spec) &&
		reflect.DeepEqual(a.Status, b.Status)
}

// Change is engine.Feed's.
func (h *hub) Change(events []engine.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		if e.After != nil {
			h.change(e.After.Resource.ID(), e.After)
		} else if e.Before != nil {
			h.change(e.Before.Resource.ID(), nil)
		}
	}
}

// change notes what a resource is from now on. The caller holds the lock.
func (h *hub) change(id model.ID, after *engine.Object) {
	before := h.state[id]
	if after == nil {
		delete(h.state, id)
	} else {
		h.state[id] = after
	}
	if before == nil && after == nil {
		return
	}
	h.sequence++
	c := change{h.sequence, before, after}
	h.recent[c.number%uint64(len(h.recent))] = c
	for w := range h.watchers {
		w.offer(c)
	}
}

// Lost is engine.Feed's.
func (h *hub) Lost(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = fmt.Errorf("the northbound database is not followed: %w", err)
	h.metrics.connected.Set(0)
}

// ready tells why the database is not followed, nil if it is.
func (h *hub) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errStopping
	}
	return h.fault
}

// close ends all watches.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
}

var (
	errStopping = errors.New("the server is stopping")
	// errCrowded says that a principal watches as often as it may.
	errCrowded = errors.New("too many watches by the same name")
)

// place says how far one who watches has come: as a number, it has been told of
// all changes up to number. Within a batch, it has been told of those up to from,
// and of what the batch of those up to to says of resources whose last change is
// at most number.
type place struct {
	number, from, to uint64
}

// joined is how a watch begins.
type joined struct {
	*watcher
	state []*engine.Object // to be told first, in no order
	reset string           // why it can't go on where it was, "" if it can
	rest  []notice         // of the batch in which it was interrupted
}

// join begins a watch: with the state as it is now, or where one that was
// interrupted has been told enough. There is neither a gap nor an overlap between
// what it returns and what is offered to the watcher. It ends with leave.
func (h *hub) join(c criteria, initial bool, resume *resumption) (*joined, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errStopping
	}
	if h.fault != nil {
		return nil, h.fault
	}
	if h.watching[c.who.Name] >= h.watches {
		return nil, errCrowded
	}
	// What is replayed must not be too much at once: the client would come back to the same.
	j := &joined{watcher: newWatcher(c, max(h.pending, len(h.recent)), h.sequence)}
	if resume != nil {
		j.reset = h.gap(resume)
	}
	if resume != nil && j.reset == "" {
		j.rest = h.replay(j.watcher, resume.place)
	} else if initial {
		for _, o := range h.state {
			if c.sees(o) {
				j.state = append(j.state, o)
			}
		}
	}
	h.watchers[j.watcher] = struct{}{}
	h.watching[c.who.Name]++
	h.metrics.watchers.Inc()
	return j, nil
}

// gap tells why a watch can't be resumed, "" if it can.
func (h *hub) gap(r *resumption) string {
	switch {
	case r.epoch != h.epoch:
		return "the event is not one of this server's"
	case r.to > h.sequence || r.from > r.number || r.number > r.to:
		return "there was no such event"
	case h.sequence-r.from > uint64(len(h.recent)):
		return "too much has changed since that event"
	}
	return ""
}

// replay offers a watcher what it has missed, but for the rest of the batch in
// which it was interrupted: that it returns.
func (h *hub) replay(w *watcher, p place) []notice {
	interrupted := newWatcher(w.criteria, w.most, p.from)
	w.seen, w.told = p.to, p.to
	for n := p.from + 1; n <= h.sequence; n++ {
		c := h.recent[n%uint64(len(h.recent))]
		if n <= p.to {
			interrupted.offer(c)
		} else {
			w.offer(c)
		}
	}
	batch, _ := interrupted.take()
	return slices.DeleteFunc(batch, func(n notice) bool { return n.number <= p.number })
}

// leave ends a watch.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
	if h.watching[w.who.Name]--; h.watching[w.who.Name] == 0 {
		delete(h.watching, w.who.Name)
	}
	h.metrics.watchers.Dec()
}
