// Package mirror keeps what somebody knows of a server's resources who watches
// it all the time, for tests.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Mirror is what somebody knows who watches all the time.
type Mirror struct {
	mu     sync.Mutex
	known  map[model.ID]string // versions
	counts Counts
	fault  error // an event that doesn't follow from those before
}

// Counts are those of events, of watches that went on from where they were, and
// of those that had to begin anew.
type Counts struct{ Events, Resumed, Resets int }

// Counts are the counts so far.
func (m *Mirror) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// every is after how many events a mirror hangs up, to go on after the last one.
const every = 40

// Follow watches a server through broken connections, some of them its own
// doing, until the context ends.
func (m *Mirror) Follow(ctx context.Context, c *client.Client) error {
	last := ""
	for ctx.Err() == nil {
		for event, err := range c.Watch(ctx, client.WatchOptions{LastEventID: last}) {
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return fmt.Errorf("watching: %w", err)
			}
			last = event.ID
			if m.take(event) && last != "" {
				break
			}
		}
	}
	return nil
}

// take notes an event, and tells whether it is time to hang up.
func (m *Mirror) take(e client.Event) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Type {
	case client.Reset:
		m.counts.Resets++
		m.known = nil
		return false
	case client.Synced:
		return false
	}
	if m.known == nil {
		m.known = map[model.ID]string{}
	}
	id := e.Object.Resource.ID()
	if _, known := m.known[id]; known == (e.Type == client.Added) {
		m.fault = errors.Join(m.fault, fmt.Errorf("event %s: %s %s, known: %t", e.ID, e.Type, id, known))
	}
	m.known[id] = engine.Version(e.Object.Resource)
	if e.Type == client.Deleted {
		delete(m.known, id)
	}
	if m.counts.Events++; m.counts.Events%every > 0 {
		return false
	}
	m.counts.Resumed++
	return true
}

// Differs tells how what is known differs from what a server lists.
func (m *Mirror) Differs(listed map[model.ID]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return m.fault
	}
	if maps.Equal(m.known, listed) {
		return nil
	}
	var errs []error
	for id, version := range listed {
		if m.known[id] != version {
			errs = append(errs, fmt.Errorf("%s is %q, not %q", id, m.known[id], version))
		}
	}
	for id := range m.known {
		if listed[id] == "" {
			errs = append(errs, fmt.Errorf("%s is not there", id))
		}
	}
	return errors.Join(errs...)
}

// List is all that a server has, by versions.
func List(ctx context.Context, c *client.Client) (map[model.ID]string, error) {
	objects, err := c.Get(ctx, engine.Filter{})
	if err != nil {
		return nil, err
	}
	listed := map[model.ID]string{}
	for _, o := range objects {
		if id := o.Resource.ID(); id.Kind != model.KindACL || !model.BuiltinName(id.Name) {
			listed[id] = engine.Version(o.Resource)
		}
	}
	return listed, nil
}
