package engine

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Event is a change of one resource. Before is nil for one that is new, After
// for one that is gone. The status is that of an attachment, as far as the
// northbound database tells it: no chassis; others have none. What is pointed
// to never changes and must not be altered.
type Event struct {
	Before, After *Object
}

// Feed receives what Watch finds. Its methods are called one at a time, in the
// order of commits, and must not block: nothing is read meanwhile.
type Feed interface {
	// Reset gives the whole state, sorted as by Get, without the built-in lists:
	// at the beginning, and again after a connection was lost.
	Reset(all []Object)
	// Change gives the changes of one transaction, or of several together, at
	// most one of each resource.
	Change(events []Event)
	// Lost says that the state is not followed, or still not; Reset comes next.
	Lost(err error)
}

const (
	// watchUnit and watchPause are the shortest and the longest time by which a
	// lost connection is made anew, but for chance.
	watchUnit  = 200 * time.Millisecond
	watchPause = 5 * time.Second
)

// Watch follows all resources until ctx ends, through lost connections. A
// resource is as its row stores it: one that was edited by hand too, and one
// whose row can't be read is not there.
func (e *Engine) Watch(ctx context.Context, feed Feed) error {
	queries := watchQueries(e.Owner)
	if e.Mirror != nil {
		queries = mirrorQueries(e.Owner)
		defer e.Mirror.clear()
	}
	unread := map[nbdb.UUID]bool{}
	for most := watchUnit; ; most = min(2*most, watchPause) {
		w := &watcher{engine: e, feed: feed, unread: unread, objects: map[string]*Object{},
			places: map[model.ID][]string{}, before: map[model.ID]*Object{}}
		var sink nbdb.Sink = w
		if e.Mirror != nil {
			e.Mirror.clear()
			sink = &mirroring{w, e.Mirror}
		}
		err := e.NB.Follow(ctx, sink, queries...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e.Mirror != nil {
			e.Mirror.clear()
		}
		feed.Lost(err)
		if w.loaded {
			most = watchUnit
		}
		if err := sleep(ctx, most/2+time.Duration(e.Rand()%uint64(most/2))); err != nil {
			return err
		}
	}
}

// watchQueries are the rows that store resources.
func watchQueries(owner string) []nbdb.Query {
	owned := map[string]string{translate.KeyOwner: owner}
	ids := []string{"external_ids"}
	return []nbdb.Query{
		{Table: nbdb.TableNBGlobal, Columns: ids},
		{Table: nbdb.TableLogicalRouter, Columns: ids, Includes: owned},
		{Table: nbdb.TableLogicalSwitch, Columns: ids, Includes: owned},
		{Table: nbdb.TablePortGroup, Columns: ids, Includes: owned},
		{Table: nbdb.TableLogicalSwitchPort, Columns: []string{"name", "up", "external_ids"}, Includes: owned},
	}
}

// mirroring keeps a mirror, and hands on the rows that store resources.
type mirroring struct {
	*watcher
	mirror *Mirror
}

// Row is nbdb.Sink's.
func (m *mirroring) Row(old, now nbdb.Row) bool {
	m.mirror.Row(old, now)
	m.pass(old, now)
	return true
}

// Amend is nbdb.Amender's.
func (m *mirroring) Amend(old nbdb.Row, d nbdb.Difference) nbdb.Row {
	now := m.mirror.Amend(old, d)
	m.pass(old, now)
	return now
}

// Done is nbdb.Sink's.
func (m *mirroring) Done() {
	m.mirror.Done()
	m.watcher.Done()
}

// Synced is nbdb.Syncer's.
func (m *mirroring) Synced(ask func() func(context.Context) error) { m.mirror.Synced(ask) }

func (m *mirroring) pass(old, now nbdb.Row) {
	table := tableOf(old, now)
	wanted := func(r nbdb.Row) bool {
		return r != nil && (table == nbdb.TableNBGlobal || m.mirror.owns(r) && principalTable(table) && !registry(r))
	}
	if !wanted(old) {
		old = nil
	}
	if !wanted(now) {
		now = nil
	}
	if old != nil || now != nil {
		m.watcher.Row(old, now)
	}
}

func principalTable(table string) bool {
	switch table {
	case nbdb.TableLogicalRouter, nbdb.TableLogicalSwitch, nbdb.TablePortGroup, nbdb.TableLogicalSwitchPort:
		return true
	}
	return false
}

// watcher turns rows into resources.
type watcher struct {
	engine *Engine
	feed   Feed
	unread map[nbdb.UUID]bool // rows that were reported
	loaded bool

	// A place is where a resource is stored: a row's UUID, or that of NB_Global or a
	// router with the key of an offering or an expectation. There may be two of one resource, where somebody copied a row;
	// as in Get the first is the one that counts.
	objects map[string]*Object
	places  map[model.ID][]string // sorted
	before  map[model.ID]*Object  // what has been touched since the feed was last told, as it was
}

// Row is nbdb.Sink's.
func (w *watcher) Row(old, now nbdb.Row) bool {
	table := tableOf(old, now)
	if table == nbdb.TableNBGlobal || table == nbdb.TableLogicalRouter {
		w.entries(old, now)
	}
	switch {
	case table == nbdb.TableNBGlobal:
	case now == nil:
		w.store(string(old.ID()), nil)
	case registry(now):
		return false
	case old == nil || !sameStored(old, now):
		w.store(string(now.ID()), w.read(now))
	}
	return true
}

// tableOf is the table of a row, which is new or gone or neither.
func tableOf(old, now nbdb.Row) string {
	if now != nil {
		return now.Table()
	}
	return old.Table()
}

// Done is nbdb.Sink's.
func (w *watcher) Done() {
	if !w.loaded {
		w.loaded = true
		all := make([]Object, 0, len(w.places))
		for _, id := range slices.SortedFunc(maps.Keys(w.places), compareIDs) {
			all = append(all, *w.now(id))
		}
		w.feed.Reset(all)
		return
	}
	var events []Event
	for _, id := range slices.SortedFunc(maps.Keys(w.before), compareIDs) {
		e := Event{Before: w.before[id], After: w.now(id)}
		if !reflect.DeepEqual(e.Before, e.After) {
			events = append(events, e)
		}
	}
	clear(w.before)
	if len(events) > 0 {
		w.feed.Change(events)
	}
}

// entries looks at the external_ids of a row that hold resources: NB_Global, which
// has the offerings of all installations, or a router.
func (w *watcher) entries(old, now nbdb.Row) {
	had, has := map[string]string{}, map[string]string{}
	place := ""
	if old != nil {
		had, place = old.IDs(), string(old.ID())
	}
	if now != nil {
		has, place = now.IDs(), string(now.ID())
	}
	for key := range had {
		if _, ok := has[key]; !ok {
			w.store(place+" "+key, nil)
		}
	}
	for key, value := range has {
		if before, ok := had[key]; ok && before == value {
			continue
		}
		var o *Object
		if r := w.entry(now, key, value); r != nil {
			o = &Object{Resource: r}
		}
		w.store(place+" "+key, o)
	}
}

// entry is the resource that an entry of a row stores, nil if it stores none or
// can't be read.
func (w *watcher) entry(r nbdb.Row, key, value string) *model.Resource {
	find := offering
	if r.Table() != nbdb.TableNBGlobal {
		find = func(owner, key, value string) (*model.Resource, error) {
			_, res, err := expectation(owner, r, key, value)
			return res, err
		}
	}
	res, err := find(w.engine.Owner, key, value)
	if err != nil {
		w.engine.Log.Warn("a stored resource can't be read", "table", r.Table(), "row", r.ID(), "error", err)
	}
	return res
}

// read is the resource that a row stores, nil if it stores none or can't be read.
func (w *watcher) read(r nbdb.Row) *Object {
	res, err := w.stored(r)
	if err != nil {
		if !w.unread[r.ID()] {
			w.unread[r.ID()] = true
			w.engine.Log.Warn("a stored resource can't be read", "table", r.Table(), "row", r.ID(), "error", err)
		}
		return nil
	}
	if res == nil {
		return nil
	}
	o := &Object{Resource: res}
	if spec, ok := res.Spec.(*model.AttachmentSpec); ok {
		port := r.(*nbdb.LogicalSwitchPort)
		st := &statuses{ports: map[string]*nbdb.LogicalSwitchPort{port.Name: port}}
		o.Status = st.attachment(spec)
	}
	return o
}

// stored is the resource that a row stores.
func (w *watcher) stored(r nbdb.Row) (*model.Resource, error) {
	if w.engine.Mirror == nil {
		s := readStored(r)
		return s.resource, s.err
	}
	s := w.engine.Mirror.storedOf(r)
	return s.resource, s.err
}

// registry tells whether a row is a tier's registry, which grows with the tier
// and stores no resource of its own.
func registry(r nbdb.Row) bool {
	id, ok := translate.ResourceOf(r.IDs()[translate.KeyKey])
	return ok && r.Table() == nbdb.TablePortGroup && id.Kind == model.KindTier
}

// sameStored tells whether two states of a row give the same object.
func sameStored(a, b nbdb.Row) bool {
	if a.IDs()[translate.KeyDigest] != b.IDs()[translate.KeyDigest] || a.IDs()[translate.KeyManager] != b.IDs()[translate.KeyManager] ||
		translate.StoredSpec(a.IDs()) != translate.StoredSpec(b.IDs()) {
		return false
	}
	p, ok := a.(*nbdb.LogicalSwitchPort)
	if !ok {
		return true
	}
	q := b.(*nbdb.LogicalSwitchPort)
	return p.Name == q.Name && reflect.DeepEqual(p.Up, q.Up)
}

// store notes what a place holds, nil for nothing.
func (w *watcher) store(place string, o *Object) {
	if had := w.objects[place]; had != nil {
		id := had.Resource.ID()
		w.touch(id)
		delete(w.objects, place)
		places := slices.DeleteFunc(w.places[id], func(p string) bool { return p == place })
		if w.places[id] = places; len(places) == 0 {
			delete(w.places, id)
		}
	}
	if o != nil {
		id := o.Resource.ID()
		w.touch(id)
		w.objects[place] = o
		at, _ := slices.BinarySearch(w.places[id], place)
		w.places[id] = slices.Insert(w.places[id], at, place)
	}
}

// touch remembers a resource as the feed knows it.
func (w *watcher) touch(id model.ID) {
	if _, ok := w.before[id]; !ok && w.loaded {
		w.before[id] = w.now(id)
	}
}

// now is a resource as it is, nil for none.
func (w *watcher) now(id model.ID) *Object {
	if places := w.places[id]; len(places) > 0 {
		return w.objects[places[0]]
	}
	return nil
}
