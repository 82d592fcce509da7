package server

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	pathpkg "path"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Checker holds an answer against the OpenAPI document: its status, its type and
// its body. Answers to what the document does not know are 404 and 405.
type Checker func(*http.Request, *http.Response, []byte) error

// NewChecker makes one for a server with these options.
func NewChecker(s *Server, o Options) Checker {
	rs := s.routes(o)
	return func(r *http.Request, response *http.Response, body []byte) error {
		_, pattern := rs.mux.Handler(&http.Request{Method: r.Method, URL: r.URL})
		_, path, _ := strings.Cut(pattern, " ")
		item := rs.doc.Paths[path]
		if item == nil || r.URL.EscapedPath() != pathpkg.Clean(r.URL.EscapedPath()) {
			if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusMethodNotAllowed {
				return nil
			}
			return fmt.Errorf("%s %s: %d from an undocumented route %q", r.Method, r.URL, response.StatusCode, pattern)
		}
		op := map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "PATCH": item.Patch, "POST": item.Post, "DELETE": item.Delete}[r.Method]
		if err := rs.doc.fits(op, response, body); err != nil {
			return fmt.Errorf("%s %s: %d: %w: %s", r.Method, r.URL, response.StatusCode, err, body)
		}
		return nil
	}
}

func (d *document) fits(op *huma.Operation, response *http.Response, body []byte) error {
	documented := op.Responses[strconv.Itoa(response.StatusCode)]
	if documented == nil {
		return fmt.Errorf("the status is not documented")
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	media := documented.Content[kind]
	if media == nil {
		return fmt.Errorf("the type %s is not documented", kind)
	}
	if kind != jsonType && kind != problemType {
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	found := &huma.ValidateResult{}
	huma.Validate(d.registry, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, found)
	if len(found.Errors) > 0 {
		return fmt.Errorf("the body does not fit: %v", found.Errors)
	}
	return nil
}
