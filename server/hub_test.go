package server

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// newTestHub is a hub that has read an empty database.
func newTestHub(t require.TestingT) *hub {
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	h := newHub(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: func() uint64 { return 7 }}, m)
	require.ErrorContains(t, h.ready(), "not been read yet")
	h.Reset(nil)
	require.NoError(t, h.ready())
	return h
}

// attachment is an object to watch.
func attachment(vpc, name, tier, chassis, label string) *engine.Object {
	return &engine.Object{
		Resource: &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: vpc, Name: name, Labels: map[string]string{"l": label}},
			Spec: &model.AttachmentSpec{Tier: tier, Chassis: chassis}},
		Status: &engine.AttachmentStatus{InterfaceID: vpc + "/" + name},
	}
}

func everybody() Principal { return Principal{Name: "x", Role: Viewer, VPCs: []string{everywhere}} }

// client keeps what it is told, and holds the hub to what it may be told.
type client struct {
	t     require.TestingT
	hub   *hub
	c     criteria
	j     *joined
	queue []notice // sent, and not received yet
	view  map[model.ID]*engine.Object
	id    string // of the last event
	last  uint64 // its number, in the hub's life
	whole int    // times that it had to take the whole state again
}

// connect begins or resumes.
func (c *client) connect() {
	var resume *resumption
	if c.id != "" {
		resume = parseEventID(c.id)
	}
	j, err := c.hub.join(c.c, true, resume)
	require.NoError(c.t, err)
	c.j, c.queue = j, j.rest
	if resume != nil && j.reset == "" {
		require.Empty(c.t, j.state)
		return
	}
	c.whole++
	c.view = map[model.ID]*engine.Object{}
	for _, o := range j.state {
		c.view[o.Resource.ID()] = o
	}
	c.id, c.last = eventID(c.hub.epoch, place{j.told, j.told, j.told}), j.told
}

// disconnect loses what was sent.
func (c *client) disconnect() {
	c.hub.leave(c.j.watcher)
	c.j, c.queue = nil, nil
}

// send takes what waits. A client that is too slow is disconnected.
func (c *client) send() {
	batch, ok := c.j.take()
	if !ok {
		c.disconnect()
		c.connect()
		return
	}
	c.queue = append(c.queue, batch...)
}

// receive reads at most n events.
func (c *client) receive(n int) {
	for ; n > 0 && len(c.queue) > 0; n-- {
		e := c.queue[0]
		c.queue = c.queue[1:]
		id := e.object.Resource.ID()
		known := c.view[id] != nil
		require.Equal(c.t, e.event != added, known, "%s of %s", e.event, id)
		require.True(c.t, c.c.sees(e.object))
		if e.event == deleted {
			delete(c.view, id)
		} else {
			c.view[id] = e.object
		}
		require.Greater(c.t, e.number, c.last, "IDs in order, none twice")
		c.id, c.last = eventID(c.hub.epoch, e.place), e.number
	}
}

// settled receives all, and compares.
func (c *client) settled() {
	for range 3 { // it may have been too slow, and has to come back first
		c.receive(len(c.queue))
		c.send()
	}
	c.receive(len(c.queue))
	want := map[model.ID]*engine.Object{}
	for id, o := range c.hub.state {
		if c.c.sees(o) {
			want[id] = o
		}
	}
	require.Equal(c.t, want, c.view)
}

func TestWatchersSeeTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newTestHub(t)
		h.pending = rapid.SampledFrom([]int{2, 1000}).Draw(t, "pending")
		h.recent = make([]change, rapid.SampledFrom([]int{1, 12, 1000}).Draw(t, "recent"))
		var clients []*client
		for _, c := range []criteria{
			{who: everybody()},
			{who: Principal{Name: "a", Role: Viewer, VPCs: []string{"a"}}},
			{who: everybody(), chassis: "h1"},
			{who: everybody(), vpc: "a", tier: "t1"},
			{who: everybody(), labels: map[string]string{"l": "x"}},
			{who: everybody(), kind: model.KindTier},
		} {
			clients = append(clients, &client{t: t, hub: h, c: c})
			clients[len(clients)-1].connect()
		}
		one := func(t *rapid.T) *engine.Object {
			pick := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(t, what) }
			o := attachment(pick("vpc", "a", "b"), pick("name", "n1", "n2", "n3"), pick("tier", "t1", "t2"), pick("chassis", "", "h1", "h2"), pick("label", "x", "y"))
			o.Resource.Spec.(*model.AttachmentSpec).MigratingTo = pick("to", "", "h1")
			return o
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				var events []engine.Event
				for range rapid.IntRange(1, 4).Draw(t, "changes") {
					o := one(t)
					if rapid.Bool().Draw(t, "goes") {
						events = append(events, engine.Event{Before: o})
					} else {
						events = append(events, engine.Event{After: o})
					}
				}
				h.Change(events)
			},
			"reset": func(t *rapid.T) {
				h.Lost(errors.New("cut off"))
				require.Error(t, h.ready())
				state := maps.Clone(h.state)
				for range rapid.IntRange(0, 3).Draw(t, "missed") {
					o := one(t)
					state[o.Resource.ID()] = o
				}
				if len(state) > 0 && rapid.Bool().Draw(t, "goes") {
					delete(state, slices.SortedFunc(maps.Keys(state), compareIDs)[0])
				}
				before := h.sequence
				var all []engine.Object
				for _, o := range state {
					all = append(all, *o)
				}
				h.Reset(all)
				require.LessOrEqual(t, h.sequence, before+4, "only what differs is a change")
			},
			"send": func(t *rapid.T) { rapid.SampledFrom(clients).Draw(t, "client").send() },
			"receive": func(t *rapid.T) {
				rapid.SampledFrom(clients).Draw(t, "client").receive(rapid.IntRange(1, 3).Draw(t, "n"))
			},
			"reconnect": func(t *rapid.T) {
				c := rapid.SampledFrom(clients).Draw(t, "client")
				c.disconnect()
				c.connect()
			},
		})
		for _, c := range clients {
			c.settled()
			if h.pending == 1000 && len(h.recent) == 1000 {
				require.Equal(t, 1, c.whole, "nobody has to begin anew")
			}
			c.disconnect()
		}
		require.Empty(t, h.watchers)
		require.Empty(t, h.watching)
	})
}

// words are what a watcher is told now.
func words(t *testing.T, w *watcher) []string {
	batch, ok := w.take()
	require.True(t, ok)
	var out []string
	for _, n := range batch {
		out = append(out, n.event+" "+n.object.Resource.Metadata.Name+" "+n.object.Resource.Metadata.Labels["l"])
	}
	return out
}

func TestOnlyTheNewestStateWaits(t *testing.T) {
	h := newTestHub(t)
	j, err := h.join(criteria{who: everybody(), chassis: "h1"}, true, nil)
	require.NoError(t, err)
	put := func(name, chassis, label string) {
		h.Change([]engine.Event{{After: attachment("a", name, "t", chassis, label)}})
	}
	remove := func(name string) { h.Change([]engine.Event{{Before: attachment("a", name, "t", "", "")}}) }

	for i := range 1000 {
		put("one", "h1", strconv.Itoa(i))
		put("two", "h1", "x")
		remove("two")
	}
	require.Equal(t, []string{"added one 999"}, words(t, j.watcher))
	require.Empty(t, words(t, j.watcher))

	put("one", "h1", "new")
	remove("one")
	require.Equal(t, []string{"deleted one new"}, words(t, j.watcher))

	put("one", "h1", "1")
	words(t, j.watcher)
	remove("one")
	put("one", "h1", "2")
	require.Equal(t, []string{"modified one 2"}, words(t, j.watcher))
	put("one", "h2", "3")
	require.Equal(t, []string{"deleted one 2"}, words(t, j.watcher), "it has left the filter")
	put("one", "h2", "4")
	require.Empty(t, words(t, j.watcher))
	put("one", "h1", "5")
	require.Equal(t, []string{"added one 5"}, words(t, j.watcher))

	put("first", "h1", "")
	put("second", "h1", "")
	put("first", "h1", "again")
	require.Equal(t, []string{"added second ", "added first again"}, words(t, j.watcher), "in the order of the last changes")
}

func TestTooMuchWaits(t *testing.T) {
	h := newTestHub(t)
	h.pending, h.recent = 2, make([]change, 1)
	j, err := h.join(criteria{who: everybody()}, true, nil)
	require.NoError(t, err)
	for range 3 {
		_, ok := j.take()
		require.True(t, ok)
		h.Change([]engine.Event{{After: attachment("a", "x", "t", "", "")}, {After: attachment("a", "y", "t", "", "")}})
	}
	h.Change([]engine.Event{{After: attachment("a", "z", "t", "", "")}})
	_, ok := j.take()
	require.False(t, ok)
	h.Change([]engine.Event{{After: attachment("a", "z", "t", "", "")}})
	require.Nil(t, j.waiting, "nothing is kept for it any more")
}

func TestWatchesOfAPrincipalAreBounded(t *testing.T) {
	h := newTestHub(t)
	h.watches = 2
	c := criteria{who: everybody()}
	first, err := h.join(c, true, nil)
	require.NoError(t, err)
	_, err = h.join(c, true, nil)
	require.NoError(t, err)
	_, err = h.join(c, true, nil)
	require.ErrorIs(t, err, errCrowded)
	_, err = h.join(criteria{who: Principal{Name: "other", Role: Viewer, VPCs: []string{"*"}}}, true, nil)
	require.NoError(t, err, "others may still")
	h.leave(first.watcher)
	_, err = h.join(c, true, nil)
	require.NoError(t, err)
}

func TestResumptions(t *testing.T) {
	h := newTestHub(t)
	h.recent = make([]change, 3)
	for i := range 10 {
		h.Change([]engine.Event{{After: attachment("a", "n"+strconv.Itoa(i), "t", "", "")}})
	}
	for id, reset := range map[string]string{
		"0000000000000007-10": "", "0000000000000007-7": "", "0000000000000007-8.7.9": "",
		"0000000000000007-6": "too much", "0000000000000007-7.6.9": "too much",
		"0000000000000007-11": "no such event", "0000000000000007-9.10.8": "no such event", "0000000000000007-18446744073709551615": "no such event",
		"0000000000000008-10": "not one of this server's", "": "not one", "-": "not one", "-1": "not one", "0000000000000007": "not one",
		"0000000000000007-x": "not one", "0000000000000007-1.2": "not one", "0000000000000007-1.2.3.4": "not one", "0000000000000007--1": "not one",
	} {
		j, err := h.join(criteria{who: everybody()}, true, parseEventID(id))
		require.NoError(t, err)
		if reset == "" {
			require.Empty(t, j.reset, id)
			require.Empty(t, j.state)
		} else {
			require.Contains(t, j.reset, reset, id)
			require.Len(t, j.state, 10)
		}
		h.leave(j.watcher)
	}
	for _, p := range []place{{3, 3, 3}, {4, 3, 9}} {
		require.Equal(t, &resumption{"e", p}, parseEventID(eventID("e", p)))
	}
}
