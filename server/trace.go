package server

import (
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// traceRequest asks what becomes of traffic, in the state after an apply of
// items where there are any.
type traceRequest struct {
	engine.TraceQuery
	Items json.RawMessage `json:"items,omitempty"`
}

func (s *Server) traceRoute(rs *routes) route {
	list := schemaOf[engine.TraceQuery](rs.doc)
	body := &huma.Schema{AllOf: []*huma.Schema{list, {Type: huma.TypeObject, Properties: map[string]*huma.Schema{
		"items": documentsSchema("documents: the state is traced as it would be after applying them"),
	}}}}
	return route{method: http.MethodPost, path: "/v1/trace", id: "trace", summary: "Tell what becomes of a packet, and which rules decide",
		description: "Ends are an attachment or a tier (attachment/NAME, tier/NAME where both have the name), an address, or outside. " +
			"Traffic is such as tcp/443; without it, ping. The VPC may be left away by those who may view all, where there is one.",
		body: map[string]*huma.Schema{jsonType: body}, responses: map[int]*huma.Schema{http.StatusOK: schemaOf[engine.TraceReport](rs.doc)},
		problems: problemStatuses(bodyProblems(http.StatusNotFound, http.StatusConflict)...), handle: s.trace}
}

func (s *Server) trace(c *exchange) (*answer, error) {
	var request traceRequest
	if err := c.decode(&request); err != nil {
		return nil, err
	}
	set, found, err := s.items(c, request.Items)
	if err != nil {
		return nil, err
	}
	switch q := request.TraceQuery; {
	case q.VPC == "" && set != nil && len(set.VPCs()) == 1:
		request.VPC = set.VPCs()[0]
	case q.VPC == "" && !mayEverywhere(c, Viewer), q.VPC != "" && !may(c, Viewer, q.VPC):
		return nil, newProblem(slugForbidden, "the role %s is needed in the VPC", Viewer)
	}
	request.Set = set
	r, err := s.engine.Trace(c, request.TraceQuery)
	if err != nil {
		return nil, err
	}
	r.Diagnostics = append(found, r.Diagnostics...)
	return &answer{body: r}, nil
}

// items reads the documents that go along with a question, all of which the
// caller has to be a viewer of; nil for none.
func (s *Server) items(c *exchange, items json.RawMessage) (*model.Set, model.Diagnostics, error) {
	if len(items) == 0 || string(items) == "null" || string(items) == "[]" {
		return nil, nil, nil
	}
	list, err := json.Marshal(map[string]json.RawMessage{"items": items})
	if err != nil {
		return nil, nil, newProblem(slugInvalid, "the items are not as they have to be: %s", err)
	}
	set, found, err := c.set(Viewer, list)
	if err == nil && found.HasErrors() {
		if found, err = s.faults(c, set, found); err == nil {
			err = &engine.InvalidError{Diagnostics: found}
		}
	}
	return set, found, err
}
