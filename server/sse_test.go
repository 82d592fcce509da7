package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/negroni/v3"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// watchServer serves a hub behind tokens.
type watchServer struct {
	*httptest.Server
	hub   *hub
	auth  *authenticator
	token string // of a viewer of all
	line  string
}

func newWatchServer(t *testing.T, lines ...string) *watchServer {
	s := &watchServer{hub: newTestHub(t)}
	s.token, s.line = newToken(t, "all", Viewer, "*")
	s.auth, _ = tokens(t, append(lines, s.line)...)
	mux := http.NewServeMux()
	mux.Handle("GET "+watchPath, s.hub)
	chain := negroni.New(s.hub.metrics, s.auth)
	chain.UseHandler(routed(mux))
	s.Server = httptest.NewServer(chain)
	t.Cleanup(func() {
		s.hub.close()
		s.Close()
	})
	return s
}

// open is how many watches there are.
func (h *hub) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers)
}

// put and remove change the state.
func (s *watchServer) put(vpc, name, chassis, label string) {
	s.hub.Change([]engine.Event{{After: attachment(vpc, name, "t", chassis, label)}})
}

func (s *watchServer) remove(vpc, name string) {
	s.hub.Change([]engine.Event{{Before: attachment(vpc, name, "t", "", "")}})
}

// event is one that a client reads.
type event struct{ name, id, data string }

// String is the event with the name and the label of its resource.
func (e event) String() string {
	var d struct {
		Metadata model.Metadata
		Reason   string
	}
	if json.Unmarshal([]byte(e.data), &d) != nil {
		return e.name + " with data that is no JSON"
	}
	return strings.Join(strings.Fields(strings.Join([]string{e.name, d.Metadata.Name, d.Metadata.Labels["l"], d.Reason}, " ")), " ")
}

// watch is a client's end of a watch.
type watch struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Reader
	cancel   context.CancelFunc
}

func (s *watchServer) open(t *testing.T, token, query, lastID string) *watch {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+watchPath+"?"+query, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	response, err := s.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	w := newWatch(t, response)
	w.cancel = cancel
	return w
}

func newWatch(t *testing.T, response *http.Response) *watch {
	return &watch{t: t, response: response, lines: bufio.NewReader(response.Body)}
}

// next is the next event; the end of the stream has the name "end".
func (w *watch) next() event {
	var e event
	for {
		line, err := w.lines.ReadString('\n')
		if err != nil {
			return event{name: "end", data: "{}"}
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e != (event{}) {
				return e
			}
		}
	}
}

func (w *watch) expect(events ...string) event {
	w.t.Helper()
	var e event
	for _, want := range events {
		e = w.next()
		require.Equal(w.t, want, e.String())
	}
	return e
}

func TestWatch(t *testing.T) {
	shop, shopLine := newToken(t, "shop", Viewer, "shop")
	s := newWatchServer(t, shopLine)
	s.put("shop", "b", "h1", "1")
	s.put("shop", "a", "h2", "1")
	s.put("other", "c", "h1", "1")

	w := s.open(t, shop, "", "")
	require.Equal(t, http.StatusOK, w.response.StatusCode)
	require.Equal(t, "text/event-stream", w.response.Header.Get("Content-Type"))
	first := w.next()
	require.Equal(t, "added a 1", first.String())
	require.Empty(t, first.id)
	require.JSONEq(t, `{"apiVersion": "ovn-vpc/v1", "kind": "Attachment", "metadata": {"vpc": "shop", "name": "a", "labels": {"l": "1"}},
		"status": {"interfaceID": "shop/a", "addresses": null, "mac": ""}}`, withoutSpec(t, first.data))
	synced := w.expect("added b 1", "synced")
	require.Equal(t, s.hub.epoch+"-3", synced.id)

	h1 := s.open(t, s.token, "chassis=h1&kind=attachments&labels=l=1", "")
	h1.expect("added c 1", "added b 1", "synced")
	none := s.open(t, s.token, "vpc=shop&tier=nosuch&initial=false", "")
	none.expect("synced")

	s.put("other", "c", "h1", "2")
	s.put("shop", "a", "h1", "1")
	s.put("shop", "b", "h1", "1")
	s.remove("shop", "b")
	w.expect("modified a 1")
	last := w.next()
	for last.name == modified { // b may have been told of before it went, or not
		last = w.next()
	}
	require.Equal(t, "deleted b 1", last.String())
	h1.expect("deleted c 1", "added a 1")

	// Another chassis' client comes back, and misses nothing.
	w.cancel()
	s.put("shop", "a", "h1", "3")
	s.put("shop", "d", "h1", "1")
	w = s.open(t, shop, "", last.id)
	w.expect("modified a 3", "added d 1")
	s.remove("shop", "d")
	w.expect("deleted d 1")
	w = s.open(t, shop, "lastEventId="+last.id, "")
	w.expect("modified a 3")

	w = s.open(t, shop, "", "0-1")
	w.expect("reset the event is not one of this server's", "added a 3", "synced")
}

// withoutSpec leaves the spec out of a document.
func withoutSpec(t *testing.T, document string) string {
	var d map[string]any
	require.NoError(t, json.Unmarshal([]byte(document), &d))
	require.NotEmpty(t, d["spec"])
	delete(d, "spec")
	data, err := json.Marshal(d)
	require.NoError(t, err)
	return string(data)
}

func TestWatchIsRefused(t *testing.T) {
	shop, shopLine := newToken(t, "shop", Viewer, "shop")
	s := newWatchServer(t, shopLine)
	for query, status := range map[string]int{
		"vpc=other": http.StatusForbidden, "vpc=nosuch": http.StatusForbidden, "kind=nonsense": http.StatusBadRequest,
		"labels=x": http.StatusBadRequest, "initial=perhaps": http.StatusBadRequest, "vpc=%zz": http.StatusBadRequest,
		"chasis=hv1": http.StatusBadRequest, "chassis=hv1&chassis=hv2": http.StatusBadRequest, "vpc=SHOP": http.StatusBadRequest,
	} {
		w := s.open(t, shop, query, "")
		require.Equal(t, status, w.response.StatusCode, query)
		require.Equal(t, "application/problem+json", w.response.Header.Get("Content-Type"))
	}
	require.Equal(t, http.StatusUnauthorized, s.open(t, "nonsense", "", "").response.StatusCode)

	head, err := http.NewRequestWithContext(t.Context(), http.MethodHead, s.URL+watchPath, nil)
	require.NoError(t, err)
	head.Header.Set("Authorization", "Bearer "+shop)
	response, err := s.Client().Do(head)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)

	s.hub.watches = 1
	s.open(t, s.token, "", "").expect("synced")
	w := s.open(t, s.token, "", "")
	require.Equal(t, http.StatusTooManyRequests, w.response.StatusCode)
	require.Equal(t, "5", w.response.Header.Get("Retry-After"))

	s.hub.Lost(io.ErrUnexpectedEOF)
	require.Equal(t, http.StatusServiceUnavailable, s.open(t, shop, "", "").response.StatusCode)
	s.hub.Reset(nil)
	require.Equal(t, http.StatusOK, s.open(t, shop, "", "").response.StatusCode)
}

func TestWatchLivesThroughALostDatabase(t *testing.T) {
	s := newWatchServer(t)
	s.put("shop", "a", "h1", "1")
	s.put("shop", "b", "h1", "1")
	w := s.open(t, s.token, "", "")
	w.expect("added a 1", "added b 1", "synced")
	s.hub.Lost(io.ErrUnexpectedEOF)
	s.hub.Reset([]engine.Object{*attachment("shop", "a", "t", "h1", "1"), *attachment("shop", "c", "t", "h1", "1")})
	w.expect("added c 1", "deleted b 1")
}

func TestHeartbeats(t *testing.T) {
	s := newWatchServer(t)
	s.hub.heartbeat = time.Millisecond
	w := s.open(t, s.token, "", "")
	w.expect("synced")
	for range 3 {
		line, err := w.lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, ":\n", line)
		_, err = w.lines.ReadString('\n')
		require.NoError(t, err)
	}
}

func TestWatchesEnd(t *testing.T) {
	s := newWatchServer(t)
	w := s.open(t, s.token, "", "")
	w.expect("synced")
	go s.auth.run(t.Context())

	other, line := newToken(t, "other", Viewer, "*")
	writeTokens(t, s.auth.path, line, s.line)
	require.Eventually(t, func() bool {
		_, who := ask(s.auth, watchPath, "Bearer "+other)
		return who.Name == "other"
	}, patience, 10*time.Millisecond)
	s.put("shop", "a", "h1", "1")
	w.expect("added a 1") // what changed is another's line
	writeTokens(t, s.auth.path, line)
	w.expect("end")
	require.Equal(t, http.StatusUnauthorized, s.open(t, s.token, "", "").response.StatusCode)

	writeTokens(t, s.auth.path, s.line)
	require.Eventually(t, func() bool {
		_, who := ask(s.auth, watchPath, "Bearer "+s.token)
		return who.Name == "all"
	}, patience, 10*time.Millisecond)
	w = s.open(t, s.token, "", "")
	w.expect("added a 1", "synced")
	s.hub.close()
	s.hub.close()
	w.expect("end")
	require.EqualError(t, s.hub.ready(), "the server is stopping")
	require.Equal(t, http.StatusServiceUnavailable, s.open(t, s.token, "", "").response.StatusCode)
}

// A client that stops reading is disconnected, whether it is the state that it
// doesn't read or changes, and holds nobody else up.
func TestSlowReadersAreDisconnected(t *testing.T) {
	s := newWatchServer(t)
	s.hub.write = 100 * time.Millisecond
	log := &logged{}
	s.hub.log = slog.New(slog.NewTextHandler(log, nil))
	label := strings.Repeat("x", 60<<10)
	for i := range 300 {
		s.put("shop", fmt.Sprintf("a%03d", i), "h1", label)
	}
	dial := func(query string) net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		_, err = fmt.Fprintf(conn, "GET %s?%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", watchPath, query, s.token)
		require.NoError(t, err)
		return conn
	}
	gone := func() bool { return s.hub.open() == 0 }
	dial("") // doesn't read the state
	require.Eventually(t, func() bool { return strings.Contains(log.String(), errSlow.Error()) && gone() }, patience, time.Millisecond)

	conn := dial("initial=false") // doesn't read changes
	buffered := bufio.NewReader(conn)
	for line := ""; line != "event: synced\n"; {
		var err error
		line, err = buffered.ReadString('\n')
		require.NoError(t, err)
	}
	quick := s.open(t, s.token, "initial=false", "")
	quick.expect("synced")
	for i := 0; strings.Count(log.String(), errSlow.Error()) < 2; i++ {
		s.put("shop", fmt.Sprintf("a%03d", i%300), "h1", label+fmt.Sprint(i))
		require.True(t, strings.HasPrefix(quick.next().String(), modified))
		require.Less(t, i, 100_000)
	}
	quick.cancel()
	require.Eventually(t, gone, patience, time.Millisecond)
}

// After many watches nothing is left of them.
func TestWatchesLeaveNothing(t *testing.T) {
	s := newWatchServer(t)
	for i := range 20 {
		s.put("shop", fmt.Sprintf("a%02d", i), "h1", "1")
	}
	level := func() (goroutines int, bytes uint64) {
		s.Client().CloseIdleConnections()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	round := func(n int) {
		for i := range n {
			ctx, cancel := context.WithCancel(t.Context())
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, watchPath, nil)
			r = r.WithContext(withCaller(r.Context(), caller{Principal: everybody()}))
			w := &recorder{ResponseRecorder: httptest.NewRecorder(), written: make(chan struct{}, 1)}
			done := make(chan struct{})
			go func() { defer close(done); s.hub.ServeHTTP(w, r) }()
			<-w.written
			s.put("shop", fmt.Sprintf("a%02d", i%20), "h1", fmt.Sprint(i))
			cancel()
			<-done
			require.Contains(t, w.Body.String(), "event: synced")
		}
	}
	round(100)
	goroutines, heap := level()
	round(10_000)
	require.Eventually(t, func() bool {
		g, b := level()
		// The last changes are remembered, which takes some.
		return g <= goroutines+3 && b < heap+16<<20
	}, patience, 10*time.Millisecond)
	require.Zero(t, s.hub.open())
	require.Empty(t, s.hub.watching)
}

// recorder is a ResponseRecorder for which http.ResponseController works.
type recorder struct {
	*httptest.ResponseRecorder
	written chan struct{}
}

func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

func (r *recorder) Write(p []byte) (int, error) {
	defer func() {
		if bytes.Contains(p, []byte("event: synced")) {
			r.written <- struct{}{}
		}
	}()
	return r.ResponseRecorder.Write(p)
}

func TestConnectionsLeaveNothing(t *testing.T) {
	s := newWatchServer(t)
	s.open(t, s.token, "", "").expect("synced")
	before := runtime.NumGoroutine()
	for range 300 {
		w := s.open(t, s.token, "", "")
		w.expect("synced")
		w.cancel()
	}
	require.Eventually(t, func() bool {
		s.Client().CloseIdleConnections()
		return s.hub.open() == 1 && runtime.NumGoroutine() <= before+5
	}, patience, 10*time.Millisecond)
}
