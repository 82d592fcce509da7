package server

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// explainRequest asks what is behind a text of OVN's.
type explainRequest struct {
	Text  string          `json:"text"`
	Items json.RawMessage `json:"items,omitempty"`
}

// explainBody is what is behind it.
type explainBody struct {
	Items []engine.Explanation `json:"items"`
}

func (s *Server) explainRoute(rs *routes) route {
	body := &huma.Schema{Type: huma.TypeObject, Required: []string{"text"}, Properties: map[string]*huma.Schema{
		"text":  {Type: huma.TypeString, Description: "a row's UUID or the first 8 digits of one, an ACL's name, or lines of ovn-controller's log, of ovn-trace or of ovn-sbctl lflow-list"},
		"items": documentsSchema("documents: their rows are known too"),
	}}
	return route{method: http.MethodPost, path: "/v1/explain", id: "explain", summary: "Tell which resource and rule are behind what OVN shows",
		body: map[string]*huma.Schema{jsonType: body}, responses: map[int]*huma.Schema{http.StatusOK: schemaOf[explainBody](rs.doc)},
		problems: problemStatuses(bodyProblems(http.StatusNotFound, http.StatusConflict)...), handle: s.explain}
}

// documentsSchema is that of a list of documents.
func documentsSchema(description string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Ref: schemaPrefix + "Resource"}, Description: description}
}

// explain tells of rows of VPCs that the caller may view.
func (s *Server) explain(c *exchange) (*answer, error) {
	var request explainRequest
	if err := c.decode(&request); err != nil {
		return nil, err
	}
	set, _, err := s.items(c, request.Items)
	if err != nil {
		return nil, err
	}
	found, err := s.engine.Explain(c, request.Text, set)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(x engine.Explanation) bool { return !may(c, Viewer, x.VPC) })
	return &answer{body: explainBody{found}}, nil
}
