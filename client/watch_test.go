package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func event(kind EventType, id string) string {
	data := strings.ReplaceAll(strings.Join(strings.Fields(nicBody), " "), "web-1", "nic-"+id)
	switch kind {
	case Reset:
		data = `{"reason":"too long ago"}`
	case Synced:
		data = "{}"
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Sprintf(": comment\nevent: %s\n%sdata: %s\n\n", kind, id, data)
}

// script answers each connection with the next part, and ends it; after the
// last it is silent. It keeps the Last-Event-ID of each, "-" for none.
func script(t *testing.T, parts ...string) (c *Client, asked func() []string) {
	var mu sync.Mutex
	var ids []string
	c = serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		id := r.Header.Get("Last-Event-ID")
		if id == "" {
			id = "-"
		}
		ids = append(ids, id)
		n := len(ids)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		if n <= len(parts) {
			if parts[n-1] == "503" {
				answerWith(w, http.StatusServiceUnavailable, "{}")
				return
			}
			if _, err := io.WriteString(w, parts[n-1]); err != nil {
				t.Error(err)
			}
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	})
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return ids
	}
}

// watched is what a watch tells, until it has told n events.
func watched(t *testing.T, c *Client, o WatchOptions, n int) []string {
	var out []string
	for e, err := range c.Watch(ctx(t), o) {
		require.NoError(t, err)
		line := string(e.Type) + " " + e.ID
		if e.Object.Resource != nil {
			line += " " + e.Object.Resource.Metadata.Name
		}
		if out = append(out, line); len(out) == n {
			break
		}
	}
	return out
}

func TestWatchGoesOn(t *testing.T) {
	c, asked := script(t,
		event(Added, "1")+event(Synced, "2")+event(Modified, "3")+"event: added\ndata: {cut short",
		"503", "",
		"event: later\ndata: {}\n\n"+event(Deleted, "4"),
		event(Reset, "")+event(Added, "8")+event(Synced, "9"),
		event(Added, "10"))
	got := watched(t, c, WatchOptions{Filter: engine.Filter{Kind: model.KindAttachment}}, 8)
	require.Equal(t, []string{"added  nic-1", "synced 2", "modified 3 nic-3", "deleted 4 nic-4", "reset ", "added  nic-8", "synced 9", "added 10 nic-10"}, got)
	require.Equal(t, []string{"-", "3", "3", "3", "4", "9"}, asked())
}

// IDs from the middle of a list are none to go on from: it comes again whole.
func TestWatchBreaksInTheList(t *testing.T) {
	c, asked := script(t, "", event(Added, "1"), "", event(Added, "1")+event(Added, "2")+event(Synced, ""), event(Added, "5"))
	got := watched(t, c, WatchOptions{}, 6)
	require.Equal(t, []string{"added  nic-1", "reset ", "added  nic-1", "added  nic-2", "synced ", "reset "}, got)
	require.Equal(t, []string{"-", "-", "-", "-"}, asked()[:4])
}

// Nor is there one after a reset.
func TestWatchBreaksAfterReset(t *testing.T) {
	c, asked := script(t, event(Synced, "2"), event(Reset, ""), event(Added, "")+event(Synced, "3"))
	got := watched(t, c, WatchOptions{}, 4)
	require.Equal(t, []string{"synced 2", "reset ", "added  nic-", "synced 3"}, got)
	require.Equal(t, []string{"-", "2", "-"}, asked())
}

func TestWatchFromAnEvent(t *testing.T) {
	c, asked := script(t, event(Added, "8"), event(Added, "9"))
	require.Equal(t, []string{"added 8 nic-8", "added 9 nic-9"}, watched(t, c, WatchOptions{LastEventID: "7"}, 2))
	require.Equal(t, []string{"7", "8"}, asked())
}

// A connection that is silent for too long is given up.
func TestWatchSilence(t *testing.T) {
	silent := make(chan struct{})
	defer close(silent)
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") == "1" {
			fmt.Fprint(w, event(Added, "2"))
			return
		}
		fmt.Fprint(w, event(Added, "1"))
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-silent
	})
	c.silence = 50 * time.Millisecond
	require.Equal(t, []string{"added 1 nic-1", "added 2 nic-2"}, watched(t, c, WatchOptions{LastEventID: "0"}, 2))
}

func TestSilenceIsPutOff(t *testing.T) {
	timer := time.AfterFunc(time.Hour, func() {})
	require.True(t, timer.Stop())
	_, err := io.ReadAll(&heard{strings.NewReader(": heartbeat"), timer, time.Hour})
	require.NoError(t, err)
	require.True(t, timer.Stop(), "a read starts it again")
}

func TestWatchEnds(t *testing.T) {
	for _, body := range []string{"event: added\ndata: {\n\n", "event: added\ndata: {\"kind\":\"X\"}\n\n", "event: reset\ndata: x\n\n"} {
		c, asked := script(t, body)
		for _, err := range c.Watch(ctx(t), WatchOptions{}) {
			require.ErrorIs(t, err, errEvent)
		}
		require.Len(t, asked(), 1)
	}
	c := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { answerWith(w, http.StatusForbidden, "{}") })
	for _, err := range c.Watch(ctx(t), WatchOptions{}) {
		var refused *Error
		require.ErrorAs(t, err, &refused)
	}
	stopped, cancel := context.WithCancel(ctx(t))
	c, _ = script(t, event(Synced, "1"))
	var last error
	for e, err := range c.Watch(stopped, WatchOptions{}) {
		if e.Type == Synced {
			cancel()
		}
		last = err
	}
	require.ErrorIs(t, last, context.Canceled)
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c, _ = script(t, "503", "503", "503")
	c.unit = time.Hour
	for _, err := range c.Watch(brief, WatchOptions{}) {
		last = err
	}
	require.ErrorIs(t, last, context.DeadlineExceeded)
}

// Whatever way the bytes come, the same events are read.
func TestFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z:{} é]{0,20}`)
		var text strings.Builder
		var want []frame
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
			f := frame{event: word.Draw(t, "event"), id: word.Draw(t, "id")}
			lines := rapid.SliceOfN(word, 1, 3).Draw(t, "data")
			f.data = strings.Join(lines, "\n")
			text.WriteString(": heartbeat" + end + end + "event: " + f.event + end + "id: " + f.id + end + "retry: 5" + end)
			for _, line := range lines {
				text.WriteString("data: " + line + end)
			}
			text.WriteString(end)
			want = append(want, f)
		}
		var r io.Reader = strings.NewReader(text.String() + "event: cut\ndata: short")
		if rapid.Bool().Draw(t, "slowly") {
			r = iotest.OneByteReader(r)
		}
		events := newFrames(r)
		for _, f := range want {
			got, err := events.next()
			require.NoError(t, err)
			require.Equal(t, f, got)
		}
		_, err := events.next()
		require.True(t, errors.Is(err, io.EOF))
	})
}
