package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/negroni/v3"
)

const (
	// maxBody bounds the body of a request.
	maxBody = 8 << 20
	// callTimeout bounds a call, apart from what it was asked to wait.
	callTimeout = 30 * time.Second
	// writeTimeout bounds the writing of an answer after the call's deadline.
	writeTimeout = 30 * time.Second

	requestIDHeader = "X-Request-Id"
)

// front is the outermost handler: it gives the call an id, recovers from panics,
// and logs what became of it.
type front struct {
	log  *slog.Logger
	now  func() time.Time
	rand func() uint64
}

// ServeHTTP is a negroni.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	started := f.now()
	id := r.Header.Get(requestIDHeader)
	if !sane(id) {
		id = fmt.Sprintf("%016x", f.rand())
	}
	w.Header().Set(requestIDHeader, id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r, c := withCall(r)
	answer := negroni.NewResponseWriter(w)
	defer func() {
		if cause := recover(); cause != nil {
			f.recovered(answer, r, cause)
		}
		f.log.InfoContext(r.Context(), "call", "method", r.Method, "route", c.route, "status", answer.Status(), "bytes", answer.Size(),
			"duration", f.now().Sub(started), "caller", c.principal, "request", id)
	}()
	next(answer, r)
}

// recovered answers for a handler that panicked. Where it had begun to answer
// only the end of the connection tells that the answer is not whole.
func (f *front) recovered(w negroni.ResponseWriter, r *http.Request, cause any) {
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	f.log.ErrorContext(r.Context(), "a handler panicked", "cause", fmt.Sprint(cause), "request", requestID(w), "stack", string(debug.Stack()))
	if w.Written() {
		panic(http.ErrAbortHandler)
	}
	writeProblem(w, newProblem(slugInternal, "this is a fault of the server: its log tells more under the request's id"))
}

// requestID is the id of the call that is being answered.
func requestID(w http.ResponseWriter) string { return w.Header().Get(requestIDHeader) }

// sane tells whether a caller's request id may go into logs and answers.
func sane(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// gate limits a call's body and time, and keeps browsers from calling for pages
// of others.
type gate struct {
	local  bool // only calls by this machine's own names
	origin *http.CrossOriginProtection
}

// ServeHTTP is a negroni.Handler. It comes before the caller is known: also who is
// refused can't keep the server waiting for a body.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	if err := g.origin.Check(r); err != nil {
		writeProblem(w, newProblem(slugForbidden, "a browser calls for a page of another origin"))
		return
	}
	// A page's name may be made to lead here (DNS rebinding): its origin is then
	// the same as ours.
	if g.local && !loopback(r.Host) {
		writeProblem(w, newProblem(slugForbidden, "without authentication only calls to localhost are answered, not to %q", r.Host))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout+waitTimeout(r.URL.Query()))
	defer cancel()
	deadline, _ := ctx.Deadline()
	setDeadlines(http.NewResponseController(w), deadline, deadline.Add(writeTimeout))
	if r.URL.Path != watchPath { // a stream that begins frees itself from the rest
		r = r.WithContext(ctx)
	}
	next(w, r)
}

// setDeadlines bounds reading and writing where the connection can be bounded;
// in tests without a connection it can't.
func setDeadlines(control *http.ResponseController, read, write time.Time) {
	_ = control.SetReadDeadline(read)
	_ = control.SetWriteDeadline(write)
}

// loopback tells whether the host of a call is this machine by its own names.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.IsLoopback()
}
