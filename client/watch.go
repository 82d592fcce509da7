package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// EventType is what an Event tells.
type EventType string

// The types. What enters the filter is added, what leaves it deleted.
const (
	Added    EventType = "added"
	Modified EventType = "modified"
	Deleted  EventType = "deleted" // with the resource as it was last
	Synced   EventType = "synced"  // all that there was has been told
	Reset    EventType = "reset"   // forget what was told: the whole state follows, then Synced
)

// Event is what a watch tells.
type Event struct {
	Type EventType
	// Object is the resource of Added, Modified and Deleted; attachments have a status.
	Object engine.Object
	// ID is for WatchOptions.LastEventID: what comes after this event. It is
	// empty while there is no such place, as in the middle of the first list.
	ID string
	// Reason is why there is a Reset.
	Reason string
}

// WatchOptions say what to watch.
type WatchOptions struct {
	// Filter chooses by Kind, VPC, Tier, Chassis and Labels.
	Filter engine.Filter
	// LastEventID goes on after an event that was seen before; "": the present
	// state comes first, as Added events.
	LastEventID string
}

// Watch tells of changes until the context ends, through broken connections:
// after one it goes on where it was, or says by Reset that it can't. The last
// element holds the error that ended it, the context's or one that would come
// again.
func (c *Client) Watch(ctx context.Context, o WatchOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := &watch{client: c, filter: o.Filter, last: o.LastEventID, settled: o.LastEventID != ""}
		w.yield = func(e Event) bool { return yield(e, nil) }
		for w.attempt = 1; ; w.attempt++ {
			err := w.follow(ctx)
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil:
				yield(Event{}, ctx.Err())
				return
			case final(err):
				yield(Event{}, err)
				return
			}
			c.log.Info("watching again", "error", err)
			if !c.pause(ctx, w.attempt, 0) {
				<-ctx.Done()
			}
		}
	}
}

var (
	// errStopped says that the caller wants no more events.
	errStopped = errors.New("stopped")
	errEvent   = errors.New("reading an event")
)

// final tells whether an error would come again.
func final(err error) bool {
	var answered *Error
	if errors.As(err, &answered) {
		return answered.Status < 500 && answered.Status != http.StatusTooManyRequests
	}
	var invalid *engine.InvalidError
	var missing *engine.NotFoundError
	return hopeless(err) || errors.Is(err, errEvent) || errors.As(err, &invalid) || errors.As(err, &missing)
}

// watch is one Watch.
type watch struct {
	client  *Client
	filter  engine.Filter
	yield   func(Event) bool
	attempt int
	last    string // the ID of the last event, from which to go on
	settled bool   // the first list is complete: IDs count
	told    bool   // of anything since the last Reset
}

// follow watches over one connection until it breaks.
func (w *watch) follow(ctx context.Context) error {
	if w.last == "" && w.told {
		w.settled, w.told = false, false // the whole state comes again
		if !w.yield(Event{Type: Reset, Reason: "the connection broke before there was an event to go on from"}) {
			return errStopped
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(w.client.silence, cancel)
	defer silence.Stop()
	body, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer body.Close() // there is nothing to lose in a stream that is given up
	events := newFrames(&heard{body, silence, w.client.silence})
	for {
		f, err := events.next()
		if err != nil {
			return w.client.broken(err)
		}
		if err := w.tell(f); err != nil {
			return err
		}
	}
}

// open asks for the events that come after the last one.
func (w *watch) open(ctx context.Context) (io.ReadCloser, error) {
	req := call{method: http.MethodGet, path: "/v1/watch", query: filterQuery(w.filter), header: http.Header{"Accept": {"text/event-stream"}}}
	if w.last != "" {
		req.header.Set("Last-Event-ID", w.last)
	}
	r, err := w.client.request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, err := w.client.http.Do(r)
	if err != nil {
		return nil, w.client.broken(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, w.client.broken(err)
	}
	return nil, failure(&answer{resp.StatusCode, resp.Header, body})
}

// tell hands an event on. One of a type that is not known is passed over.
func (w *watch) tell(f frame) error {
	e := Event{Type: EventType(f.event)}
	switch e.Type {
	case Added, Modified, Deleted:
		var d document
		err := json.Unmarshal([]byte(f.data), &d)
		if err == nil {
			e.Object, err = d.object()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errEvent, err)
		}
	case Synced:
		w.settled = true
	case Reset:
		w.settled, w.last = false, ""
		reason := struct{ Reason string }{}
		if err := json.Unmarshal([]byte(f.data), &reason); err != nil {
			return fmt.Errorf("%w: %w", errEvent, err)
		}
		e.Reason = reason.Reason
	default:
		return nil
	}
	if w.settled {
		e.ID = f.id
	}
	w.told, w.attempt = e.Type != Reset, 0
	if !w.yield(e) {
		return errStopped
	}
	if e.ID != "" {
		w.last = e.ID
	}
	return nil
}

// heard puts off the end of a silence with each read.
type heard struct {
	io.Reader
	silence *time.Timer
	most    time.Duration
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.silence.Reset(h.most)
	return n, err
}
