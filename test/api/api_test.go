// Package api_test sends random requests, valid and not, to a server, and holds
// each answer against the server's OpenAPI document.
package api_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/test/program"
)

var (
	requests = flag.Int("requests", 3000, "number of random requests")
	seed     = flag.Uint64("seed", 1, "where chance begins, the same each time; 0: anew")
)

const (
	// callers send requests at the same time.
	callers = 4
	// patience bounds one call.
	patience = time.Minute
	// again is after how many requests a caller brings what others need.
	again = 30
	// persistence is how often a valid request may not succeed: it refers to what
	// may be there or not.
	persistence = 500
	// most is how many failures are told.
	most = 10
)

// run is one server that is called.
type run struct {
	t      *testing.T
	server *program.Server
	doc    *document
	client *http.Client
	seed   uint64

	mu       sync.Mutex
	statuses map[string]map[int]int // by operation
	failures atomic.Int64
}

func newRun(t *testing.T) *run {
	// Without an ovn-northd: what a call waits for never comes.
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	r := &run{t: t, server: program.Serve(t, program.Build(t, "../.."), "--nb", box.NB()), seed: cmp.Or(*seed, rand.Uint64()), statuses: map[string]map[int]int{},
		client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	data, err := r.server.Get(t.Context(), "/openapi.json")
	require.NoError(t, err)
	r.doc, err = parseDocument(data)
	require.NoError(t, err)
	return r
}

// Whatever is sent, each answer is one that the document tells of, and no fault
// of the server's. What is stored at the end is whole.
func TestRandomRequests(t *testing.T) {
	r := newRun(t)
	r.play(*requests, func(g *generator) *request {
		request := g.valid(one(g, r.doc.operations...))
		if g.chance(35) {
			g.spoil(request)
		}
		return request
	})
	r.insist()
	drift, err := r.server.Get(t.Context(), "/v1/drift")
	require.NoError(t, err)
	require.JSONEq(t, `{"faults": [], "repaired": false}`, string(drift), "seed %d", r.seed)
	r.finish()
}

// insist sends valid requests to operations that have never succeeded, until
// they do, and each time one that brings what they may be about.
func (r *run) insist() {
	g := r.generator(callers)
	for _, op := range r.doc.operations {
		for n := 0; !r.succeeded(op) && r.failures.Load() == 0; n++ {
			require.Less(r.t, n, persistence, "%s %s has never succeeded: %v (seed %d)", op.method, op.path, r.statuses[op.name()], r.seed)
			if n%again == 0 {
				if n > 0 { // what has grown by chance may be in the way of it
					for _, vpc := range names("VPC") {
						r.send(g, g.removal(vpc))
					}
				}
				r.send(g, g.base())
			}
			if put := r.doc.Paths[op.path]["put"]; put != nil {
				r.send(g, g.valid(put))
			}
			request := g.valid(op)
			if op.OperationID == "confirm" {
				r.send(g, g.provisional(path.Base(path.Dir(request.path))))
			}
			r.send(g, request)
		}
	}
}

func (r *run) succeeded(op *operation) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(r.statuses[op.name()])), func(status int) bool { return status < 300 })
}

// A plan holds rows, so one that somebody changes may do anything to the
// database, but not to the server.
func TestRandomPlans(t *testing.T) {
	r := newRun(t)
	apply, plan := r.doc.Paths["/v1/apply"]["post"], r.doc.Paths["/v1/plan"]["post"]
	r.play(*requests/5, func(g *generator) *request {
		request := &request{op: plan, method: http.MethodPost, path: plan.path, header: http.Header{}}
		if len(g.plans) == 0 || g.chance(20) {
			g.fill(request, "", nil)
			return request
		}
		request.op, request.path, request.body = apply, apply.path, []byte(one(g, g.plans...))
		if g.chance(80) {
			g.spoilTree(request)
		}
		request.header.Set("Content-Type", planType) // not before: a plan is left alone elsewhere
		return request
	})
	r.finish()
}

// play sends so many requests, by several callers at a time.
func (r *run) play(n int, next func(*generator) *request) {
	r.t.Logf("seed %d", r.seed)
	var callersLeft sync.WaitGroup
	for caller := range callers {
		g := r.generator(caller)
		callersLeft.Go(func() {
			for i := range n / callers {
				if r.failures.Load() >= most {
					return
				}
				if i%again == 0 {
					r.send(g, g.base())
				}
				r.send(g, next(g))
			}
		})
	}
	callersLeft.Wait()
}

func (r *run) generator(caller int) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(r.seed, uint64(caller))), doc: r.doc}
}

// finish demands that the server is well.
func (r *run) finish() {
	for _, op := range slices.Sorted(maps.Keys(r.statuses)) {
		r.t.Logf("%-50s %v", op, r.statuses[op])
	}
	require.Zero(r.t, r.failures.Load(), "failures; again with -seed %d", r.seed)
	_, err := r.server.Get(r.t.Context(), "/healthz")
	require.NoError(r.t, err)
	require.Empty(r.t, r.server.Complaints(), "the server's log, seed %d", r.seed)
}

// send sends a request and checks the answer.
func (r *run) send(g *generator, req *request) {
	a, err := r.call(req)
	if err == nil {
		r.note(req, a.StatusCode)
		g.learn(req, a)
		err = r.doc.check(req, a)
	}
	if err != nil && r.failures.Add(1) <= most {
		text := ""
		if a != nil {
			text = fmt.Sprintf("\n%d %s", a.StatusCode, a.body[:min(len(a.body), 2000)])
		}
		r.t.Errorf("%v (seed %d)\n%s%s", err, r.seed, req.curl(r.server.URL()), text)
	}
}

func (r *run) note(req *request, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := "none"
	if req.op != nil {
		name = req.op.name()
	}
	if r.statuses[name] == nil {
		r.statuses[name] = map[int]int{}
	}
	r.statuses[name][status]++
}

// call sends a request as it is. A watch is left when it has told what there is.
func (r *run) call(req *request) (*answer, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	target, err := url.Parse(r.server.URL())
	if err != nil {
		return nil, err
	}
	escaped, query, _ := strings.Cut(req.target(), "?")
	if target.Path, err = url.PathUnescape(escaped); err != nil {
		return nil, err
	}
	target.RawPath, target.RawQuery = escaped, query
	sent, err := http.NewRequestWithContext(ctx, req.method, target.String(), bytes.NewReader(req.body))
	if err != nil {
		return nil, err
	}
	sent.URL, sent.Header = target, req.header
	resp, err := r.client.Do(sent)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{Response: resp}
	if resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == eventType && req.method != http.MethodHead {
		a.body, err = untilSynced(resp.Body)
		return a, err
	}
	a.body, err = io.ReadAll(resp.Body)
	return a, err
}

func untilSynced(body io.Reader) ([]byte, error) {
	var read []byte
	for lines := bufio.NewReader(body); !bytes.HasSuffix(read, []byte("\n\n")) || !bytes.Contains(read, []byte("event: synced\n")); {
		line, err := lines.ReadBytes('\n')
		if read = append(read, line...); err != nil {
			return read, fmt.Errorf("a watch that never is complete: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
	}
	return read, nil
}

// curl is the command that sends the request again.
func (r *request) curl(base string) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	command := "curl -i --path-as-is -X " + quote(r.method) + " " + quote(base+r.target())
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		for _, value := range r.header[name] {
			command += " -H " + quote(name+": "+value)
		}
	}
	switch printable := !bytes.ContainsFunc(r.body, func(c rune) bool { return c < ' ' && c != '\n' || c == '\ufffd' }); {
	case len(r.body) == 0:
		return command
	case printable && len(r.body) < 4000:
		return command + " --data-binary " + quote(string(r.body))
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(r.body) // memory
	_ = w.Close()
	return "printf %s " + base64.StdEncoding.EncodeToString(packed.Bytes()) + " | base64 -d | gunzip | " + command + " --data-binary @-"
}
