package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func (s *Server) verifyRoutes(rs *routes) {
	documents := &huma.Schema{OneOf: []*huma.Schema{{Ref: schemaPrefix + "ResourceList"}, {Ref: schemaPrefix + "Resource"}}}
	params := []*huma.Param{vpcParam()}
	answers := map[int]*huma.Schema{http.StatusOK: schemaOf[engine.VerifyReport](rs.doc)}
	rs.add(route{method: http.MethodGet, path: "/v1/verify", id: "verify", tag: "many", summary: "Tell which expectations hold by what is stored", params: params,
		responses: answers, problems: problemStatuses(http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity), handle: s.verify})
	rs.add(route{method: http.MethodPost, path: "/v1/verify", id: "verify-documents", tag: "many", summary: "Tell which expectations would hold when documents were applied",
		params: params, body: map[string]*huma.Schema{jsonType: documents, yamlType: documents},
		responses: answers, problems: problemStatuses(bodyProblems(http.StatusNotFound, http.StatusConflict)...), handle: s.verify})
}

func (s *Server) verify(c *exchange) (*answer, error) {
	if c.request.Method != http.MethodPost || c.text("vpc") != "" {
		if err := c.inScope(Viewer); err != nil {
			return nil, err
		}
	}
	var set *model.Set
	var found model.Diagnostics
	if c.request.Method == http.MethodPost {
		var err error
		if set, found, err = s.sound(c, Viewer); err != nil {
			return nil, err
		}
	}
	report, err := s.engine.Verify(c, set, c.text("vpc"))
	if err != nil {
		return nil, err
	}
	report.Diagnostics = append(found, report.Diagnostics...)
	return &answer{body: report}, nil
}
