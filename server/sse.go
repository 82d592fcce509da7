package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// ServeHTTP is GET /v1/watch: server-sent events (HTML Living Standard, 9.2).
//
// The state comes first, as events added, without IDs since they can't be resumed
// from; then synced, whose ID is the first. From then on each event has an ID of
// its own, opaque to clients. Of a resource that changes faster than the client
// reads, states are left out, never the last. With an ID that can't be resumed
// from comes reset, and then all as at the beginning.
//
// It answers 400 to a parameter that makes no sense, 403, 429 to a principal that
// watches as often as it may, and 503 while the database is not followed.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	criteria, initial, resume, err := h.watchParameters(r)
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	if criteria.vpc != "" && !may(r.Context(), Viewer, criteria.vpc) {
		writeProblem(w, lacking(Viewer, criteria.vpc))
		return
	}
	j, err := h.join(criteria, initial, resume)
	if err != nil {
		kind := slugUnavailable
		if errors.Is(err, errCrowded) {
			kind = slugTooManyWatches
		}
		writeProblem(w, newProblem(kind, "%s", err))
		return
	}
	defer h.leave(j.watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx, as a proxy, would hold events back
	if r.Method == http.MethodHead {
		return
	}
	s := &stream{ctx: r.Context(), w: w, control: http.NewResponseController(w), hub: h, who: criteria.who, revoked: callerOf(r.Context()).revoked}
	_ = s.control.SetReadDeadline(time.Time{}) // in tests without a connection there is none
	if err := s.follow(j, resume != nil && j.reset == ""); !errors.Is(err, errGone) {
		h.log.Info("a watch has ended", "principal", criteria.who.Name, "reason", err)
	}
}

// resumption is what a client knows of the last event that it has seen.
type resumption struct {
	epoch string
	place
}

// watchParameters are what a request to watch asks for.
func (h *hub) watchParameters(r *http.Request) (c criteria, initial bool, resume *resumption, err error) {
	call := &exchange{Context: r.Context(), request: r}
	if call.query, err = readQuery(r.URL.RawQuery, h.params); err != nil {
		return c, false, nil, err
	}
	f, err := call.filter()
	if err != nil {
		return c, false, nil, err
	}
	if id := cmp.Or(r.Header.Get("Last-Event-ID"), call.text("lastEventId")); id != "" {
		resume = parseEventID(id)
	}
	_, given := call.query["initial"]
	c = criteria{who: principalOf(r.Context()), kind: f.Kind, vpc: f.VPC, labels: f.Labels, tier: f.Tier, chassis: f.Chassis}
	return c, !given || call.flag("initial"), resume, nil
}

// eventID is EPOCH-NUMBER, or within a batch EPOCH-NUMBER.FROM.TO.
func eventID(epoch string, p place) string {
	if p.from == p.to {
		return fmt.Sprintf("%s-%d", epoch, p.number)
	}
	return fmt.Sprintf("%s-%d.%d.%d", epoch, p.number, p.from, p.to)
}

// parseEventID reads what eventID writes; anything else is of no server's epoch.
func parseEventID(id string) *resumption {
	epoch, rest, _ := strings.Cut(id, "-")
	var numbers []uint64
	for part := range strings.SplitSeq(rest, ".") {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return &resumption{}
		}
		numbers = append(numbers, n)
	}
	switch len(numbers) {
	case 1:
		return &resumption{epoch, place{numbers[0], numbers[0], numbers[0]}}
	case 3:
		return &resumption{epoch, place{numbers[0], numbers[1], numbers[2]}}
	}
	return &resumption{}
}

// stream writes events to one client.
type stream struct {
	ctx     context.Context
	w       http.ResponseWriter
	control *http.ResponseController
	hub     *hub
	who     Principal
	revoked <-chan struct{}
	buffer  bytes.Buffer
}

// chunk is how much is written at once; the client has the time of bounds.write
// for each.
const chunk = 32 << 10

// Why a watch ends.
var (
	errGone    = errors.New("the client has gone")
	errSlow    = errors.New("the client reads too slowly")
	errRevoked = errors.New("the token or certificate is no longer good")
)

// follow writes the beginning, and then what the watcher is offered, until the
// watch has to end.
func (s *stream) follow(j *joined, resumed bool) error {
	if err := s.begin(j, resumed); err != nil {
		return err
	}
	heartbeat := time.NewTicker(s.hub.heartbeat)
	defer heartbeat.Stop()
	for {
		batch, ok := j.take()
		if !ok {
			return errSlow
		}
		if err := s.notices(batch); err != nil {
			return err
		}
		select {
		case <-j.wake:
			continue
		case <-heartbeat.C:
			s.buffer.WriteString(":\n\n")
		case <-s.revoked:
		case <-s.hub.done:
		case <-s.ctx.Done():
			return errGone
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
}

// begin writes what comes before changes.
func (s *stream) begin(j *joined, resumed bool) error {
	s.buffer.WriteString(":\n\n") // so that the client hears at once that it is served
	if resumed {
		return s.notices(j.rest)
	}
	start := j.told
	if j.reset != "" {
		if err := s.event("reset", "", map[string]string{"reason": j.reset}); err != nil {
			return err
		}
	}
	slices.SortFunc(j.state, func(a, b *engine.Object) int { return compareIDs(a.Resource.ID(), b.Resource.ID()) })
	for _, o := range j.state {
		if err := s.event(added, "", shown(j.who, o)); err != nil {
			return err
		}
	}
	j.state = nil
	if err := s.event("synced", eventID(s.hub.epoch, place{start, start, start}), struct{}{}); err != nil {
		return err
	}
	return s.flush()
}

// compareIDs orders resources so that none comes before one it may refer to.
func compareIDs(a, b model.ID) int {
	return cmp.Or(cmp.Compare(slices.Index(model.Kinds(), a.Kind), slices.Index(model.Kinds(), b.Kind)), cmp.Compare(a.VPC, b.VPC), cmp.Compare(a.Name, b.Name))
}

func (s *stream) notices(batch []notice) error {
	for _, n := range batch {
		if err := s.event(n.event, eventID(s.hub.epoch, n.place), shown(s.who, n.object)); err != nil {
			return err
		}
	}
	return s.flush()
}

// event writes one event; "" is no ID.
func (s *stream) event(name, id string, data any) error {
	s.buffer.WriteString("event: " + name + "\n")
	if id != "" {
		s.buffer.WriteString("id: " + id + "\n")
	}
	s.buffer.WriteString("data: ")
	encoder := json.NewEncoder(&s.buffer) // ends the line
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(data); err != nil {
		return fmt.Errorf("writing the event %s: %w", name, err)
	}
	s.buffer.WriteByte('\n')
	if s.buffer.Len() < chunk {
		return nil
	}
	return s.flush()
}

// flush sends what was written, and tells when the watch has to end.
func (s *stream) flush() error {
	select {
	case <-s.revoked:
		return errRevoked
	case <-s.hub.done:
		return errStopping
	default:
	}
	if s.buffer.Len() == 0 {
		return nil
	}
	defer s.buffer.Reset()
	if err := s.control.SetWriteDeadline(s.hub.now().Add(s.hub.write)); err != nil {
		return fmt.Errorf("bounding the time to write: %w", err)
	}
	if _, err := s.w.Write(s.buffer.Bytes()); err != nil {
		return unwritten(err)
	}
	if err := s.control.Flush(); err != nil {
		return unwritten(err)
	}
	// A deadline that passes while nothing is written ends an HTTP/2 stream too.
	if err := s.control.SetWriteDeadline(time.Time{}); err != nil {
		return fmt.Errorf("lifting the bound of the time to write: %w", err)
	}
	return nil
}

// unwritten is what a failure to write means, nil for none.
func unwritten(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSlow
	}
	return fmt.Errorf("%w: %w", errGone, err)
}
