package server

import (
	"context"
	"errors"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// route is one operation: what is documented of it is what is checked.
type route struct {
	method, path string
	id, summary  string
	description  string
	tag          string
	// role is what the caller needs in the VPC of the path, without one in it
	// as an offering needs it; "": the handler looks at that.
	role      Role
	names     []*huma.Param // in the path; add finds them
	params    []*huma.Param
	body      map[string]*huma.Schema // by media type
	responses map[int]*huma.Schema
	media     []string // of good answers; none: JSON and YAML
	open      bool     // to everybody
	headers   []string // of a good answer
	problems  []int
	handle    func(*exchange) (*answer, error)
}

// routes are all routes of a server.
type routes struct {
	mux     *http.ServeMux
	adapter huma.Adapter
	doc     *document
	fail    func(http.ResponseWriter, *http.Request, error)
}

func (s *Server) routes(o Options) *routes {
	mux := http.NewServeMux()
	rs := &routes{mux: mux, adapter: humago.NewAdapter(mux, ""), doc: newDocument(), fail: s.fail}
	for _, c := range collections() {
		s.resourceRoutes(rs, c)
	}
	s.ruleRoutes(rs)
	s.listRoutes(rs)
	s.bulkRoutes(rs)
	s.reachRoutes(rs)
	s.verifyRoutes(rs)
	s.historyRoutes(rs)
	s.otherRoutes(rs, o)
	return rs
}

// add registers a route and documents it.
func (rs *routes) add(rt route) {
	rt.names = pathParams(rt.path)
	op := rs.doc.add(rt)
	rs.adapter.Handle(op, func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		if err := rt.serve(w, r); err != nil {
			rs.fail(w, r, err)
		}
	})
}

func (rt *route) serve(w http.ResponseWriter, r *http.Request) error {
	if err := rt.nameable(r); err != nil {
		return err
	}
	if vpc := r.PathValue("vpc"); rt.role != "" && !may(r.Context(), rt.role, vpc) {
		if vpc == "" && rt.role == Editor {
			return lacking(Admin, "") // an offering
		}
		return lacking(rt.role, vpc)
	}
	c, err := rt.read(r, requestID(w))
	if err != nil {
		return err
	}
	a, err := rt.handle(c)
	if err != nil {
		return err
	}
	return c.write(w, a)
}

// label is what names of resources look like (RFC 1123).
const label = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`

var labels = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(label) })

// nameable refuses a path with what can't be a name: nothing has it, and the
// database is not to be asked for it.
func (rt *route) nameable(r *http.Request) error {
	for _, p := range rt.names {
		switch name := r.PathValue(p.Name); {
		case labels().MatchString(name):
		case rt.method == http.MethodPut:
			return newProblem(slugInvalid, "%q is not a DNS label (RFC 1123): use 1 to 63 lower-case letters, digits and hyphens", name)
		default:
			return newProblem(slugNotFound, "there is no resource with a name such as %q", name)
		}
	}
	return nil
}

// ServeHTTP is the mux, but for its own answers, which are problems too: no
// such path, no such method, and what it would redirect.
func (rs *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	escaped := r.URL.EscapedPath()
	handler, pattern := rs.mux.Handler(r)
	switch {
	case path.Clean(escaped) != escaped:
		writeProblem(w, newProblem(slugNotFound, "there is no such path"))
	case pattern != "":
		rs.mux.ServeHTTP(w, r)
	default:
		own := discarded{header: http.Header{}}
		handler.ServeHTTP(&own, r)
		if own.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", own.header.Get("Allow"))
			writeProblem(w, newProblem(slugMethodNotAllowed, "%s is not among %s", r.Method, own.header.Get("Allow")))
			return
		}
		writeProblem(w, newProblem(slugNotFound, "there is no such path"))
	}
}

// discarded is an answer of which only the head is looked at.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) WriteHeader(status int)      { d.status = status }

// fail answers an error, and logs those that are not the caller's. Nobody hears
// the answer to a caller who has gone.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	p.discreet(func(vpc string) bool { return may(r.Context(), Viewer, vpc) })
	if p.Status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
		s.log.ErrorContext(r.Context(), "a call failed", "request", requestID(w), "status", p.Status, "error", err)
	}
	writeProblem(w, p)
}

// problemStatuses are those that all routes below /v1 may answer.
func problemStatuses(more ...int) []int {
	all := append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotAcceptable,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, more...)
	slices.Sort(all)
	return slices.Compact(all)
}

// bodyProblems are those of routes that read a body.
func bodyProblems(more ...int) []int {
	return append(more, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
}

// pathParams are the parameters in a path, documented.
func pathParams(pattern string) []*huma.Param {
	docs := map[string]string{"vpc": "name of the VPC", "name": "name of the resource", "tier": "name of the tier", "number": "number of a state in the history, or of a rule"}
	var out []*huma.Param
	for part := range strings.SplitSeq(pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			out = append(out, &huma.Param{Name: name, In: "path", Required: true, Description: docs[name], Schema: &huma.Schema{Type: huma.TypeString, Pattern: label}})
		}
	}
	return out
}
