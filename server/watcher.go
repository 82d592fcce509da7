package server

import (
	"cmp"
	"slices"
	"sync"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// criteria say which resources a watch is about; empty fields choose all.
type criteria struct {
	who    Principal // sees only what it may view
	kind   model.Kind
	vpc    string
	labels map[string]string
	// Of attachments, and nothing else matches if one is set:
	tier    string
	chassis string // spec.chassis or spec.migratingTo
}

// sees tells whether a watch is about a resource in this state.
func (c *criteria) sees(o *engine.Object) bool {
	if o == nil {
		return false
	}
	r := o.Resource
	if c.kind != "" && r.Kind != c.kind || c.vpc != "" && r.Scope() != c.vpc {
		return false
	}
	if c.tier != "" || c.chassis != "" {
		spec, ok := r.Spec.(*model.AttachmentSpec)
		if !ok || c.tier != "" && spec.Tier != c.tier || c.chassis != "" && spec.Chassis != c.chassis && spec.MigratingTo != c.chassis {
			return false
		}
	}
	for k, v := range c.labels {
		if got, ok := r.Metadata.Labels[k]; !ok || got != v {
			return false
		}
	}
	return c.who.may(Viewer, r.Scope())
}

// What became of a resource, as one who watches sees it.
const (
	added    = "added"
	modified = "modified"
	deleted  = "deleted"
)

// notice is what a client is told of a resource.
type notice struct {
	event  string
	object *engine.Object // as it is; of a deleted one, as the client should have known it last
	place
}

// watcher collects what one client is to be told. Of each resource it keeps the
// newest state alone.
type watcher struct {
	criteria
	most int           // resources that may wait
	wake chan struct{} // has an element when something may wait

	mu      sync.Mutex
	waiting map[model.ID]*waiting // nil once there were too many
	seen    uint64                // number of the last change that was offered
	told    uint64                // up to which take has given all
}

// waiting is what a client is to be told of one resource.
type waiting struct {
	known  bool           // the client has been told that it is there
	last   *engine.Object // as the client saw it, or would have seen it, last
	after  *engine.Object // nil: out of its sight
	number uint64         // of the last change
}

func newWatcher(c criteria, most int, seen uint64) *watcher {
	return &watcher{criteria: c, most: most, wake: make(chan struct{}, 1), waiting: map[model.ID]*waiting{}, seen: seen, told: seen}
}

// offer takes the next change. Coming into the client's sight is being added,
// leaving it is being deleted, whatever became of the resource itself.
func (w *watcher) offer(c change) {
	before, after := w.sees(c.before), w.sees(c.after)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = c.number
	if !before && !after || w.waiting == nil {
		return
	}
	o := c.after
	if o == nil {
		o = c.before
	}
	id := o.Resource.ID()
	n := w.waiting[id]
	if n == nil {
		n = &waiting{known: before}
		w.waiting[id] = n
	}
	n.number, n.after = c.number, nil
	if before {
		n.last = c.before
	}
	if after {
		n.after = c.after
	}
	switch {
	case !n.known && n.after == nil:
		delete(w.waiting, id) // it came and went unseen
	case len(w.waiting) > w.most:
		w.waiting = nil
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take gives what waits, in the order of the last changes, and whether the client
// is still served: one for which too much has waited is not.
func (w *watcher) take() ([]notice, bool) {
	taken, from, to := w.swap()
	if taken == nil {
		return nil, false
	}
	batch := make([]notice, 0, len(taken))
	for _, n := range taken {
		event, object := modified, n.after
		switch {
		case !n.known:
			event = added
		case n.after == nil:
			event, object = deleted, n.last
		}
		batch = append(batch, notice{event, object, place{n.number, from, to}})
	}
	slices.SortFunc(batch, func(a, b notice) int { return cmp.Compare(a.number, b.number) })
	if len(batch) > 0 {
		batch[len(batch)-1].place = place{to, to, to}
	}
	return batch, true
}

// swap gives what waits, to be kept by the caller, and the changes that it stands
// for: those after from up to to.
func (w *watcher) swap() (taken map[model.ID]*waiting, from, to uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if taken = w.waiting; taken != nil {
		w.waiting = map[model.ID]*waiting{}
	}
	from, w.told = w.told, w.seen
	return taken, from, w.seen
}
