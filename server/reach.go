package server

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

func (s *Server) reachRoutes(rs *routes) {
	documents := &huma.Schema{OneOf: []*huma.Schema{{Ref: schemaPrefix + "ResourceList"}, {Ref: schemaPrefix + "Resource"}}}
	params := []*huma.Param{
		vpcParam(),
		query("by", "between what; default tier", oneOf(reach.Tier, reach.Attachment)),
		query("from", "only from these: NAME, tier/NAME, attachment/NAME or outside, with commas between them", text()),
		query("to", "only to these", text()),
		query("port", "only this traffic, such as tcp/22 or icmp", text()),
		query("rules", "by which rules too", flag()),
	}
	answers := map[int]*huma.Schema{http.StatusOK: schemaOf[engine.ReachReport](rs.doc)}
	rs.add(route{method: http.MethodGet, path: "/v1/reach", id: "reach", tag: "many", summary: "Tell who reaches whom by what is stored", params: params,
		responses: answers, problems: problemStatuses(http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity), handle: s.reach})
	rs.add(route{method: http.MethodPost, path: "/v1/reach", id: "reach-documents", tag: "many", summary: "Tell who would reach whom when documents were applied",
		params: params, body: map[string]*huma.Schema{jsonType: documents, yamlType: documents},
		responses: answers, problems: problemStatuses(bodyProblems(http.StatusNotFound, http.StatusConflict)...), handle: s.reach})
}

func (s *Server) reach(c *exchange) (*answer, error) {
	o, err := c.reachOptions()
	if err != nil {
		return nil, err
	}
	if c.request.Method != http.MethodPost || o.VPC != "" {
		if err := c.inScope(Viewer); err != nil {
			return nil, err
		}
	}
	var set *model.Set
	var found model.Diagnostics
	if c.request.Method == http.MethodPost {
		if set, found, err = s.sound(c, Viewer); err != nil {
			return nil, err
		}
	}
	report, err := s.engine.Reach(c, set, o)
	if err != nil {
		return nil, err
	}
	report.Diagnostics = append(found, report.Diagnostics...)
	return &answer{body: report}, nil
}

func (c *exchange) reachOptions() (engine.ReachOptions, error) {
	o := engine.ReachOptions{VPC: c.text("vpc"), By: reach.Kind(c.text("by")), Rules: c.flag("rules")}
	for name, ends := range map[string]*[]reach.End{"from": &o.From, "to": &o.To} {
		if c.text(name) == "" {
			continue
		}
		for word := range strings.SplitSeq(c.text(name), ",") {
			end, err := reach.ParseEnd(word)
			if err != nil {
				return o, newProblem(slugMalformed, "the query parameter %s: %s", name, err)
			}
			*ends = append(*ends, end)
		}
	}
	if port := c.text("port"); port != "" {
		set, err := traffic.Parse(port)
		if err != nil {
			return o, newProblem(slugMalformed, "the query parameter port: %s", err)
		}
		o.Traffic = &set
	}
	return o, nil
}

// openings are those that the query names.
func (c *exchange) openings() ([]reach.Opening, error) {
	var named []reach.Opening
	for line := range strings.Lines(c.text("allowOpen")) {
		o, err := reach.ParseOpening(strings.TrimSpace(line))
		if err != nil {
			return nil, newProblem(slugMalformed, "the query parameter allowOpen: %s", err)
		}
		named = append(named, o)
	}
	if len(named) > 0 && !c.flag("confirmOpens") {
		return nil, newProblem(slugMalformed, "allowOpen is for confirmOpens=true")
	}
	return named, nil
}

// gateParams say what a change may break, overwrite and open.
func gateParams() []*huma.Param {
	return append(breakParams(),
		query("confirmOpens", "refuse a change that opens traffic between tiers which allowOpen doesn't name", flag()),
		query("allowOpen", "what may be opened, such as `app -> db tcp 3306` or `outside -> web tcp 80, 443`, one in a line", text()))
}

// breakParams are those of a removal, which opens nothing.
func breakParams() []*huma.Param {
	return []*huma.Param{query("overrideExpectations", "break expectations, and note it with the VPC", flag()), repairParam()}
}

func repairParam() *huma.Param {
	return query("repair", "overwrite, or delete, rows whose stored spec is damaged, instead of a 409", flag())
}

// gated is an engine with what the query says that a change may break and open.
func (c *exchange) gated(e *engine.Engine) (*engine.Engine, error) {
	named, err := c.openings()
	if err != nil {
		return nil, err
	}
	if c.flag("overrideExpectations") {
		e = e.Overriding()
	}
	if c.flag("repair") {
		e = e.Repairing()
	}
	if c.flag("confirmOpens") {
		e = e.Confirming(named)
	}
	return e, nil
}
