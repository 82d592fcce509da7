package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// historyRoutes are those about what was changed in a VPC, and the way back.
func (s *Server) historyRoutes(rs *routes) {
	result := schemaOf[resultBody](rs.doc)
	least := 1.0
	number := func(name, doc string) *huma.Param {
		return query(name, doc, &huma.Schema{Type: huma.TypeInteger, Minimum: &least})
	}
	back := []*huma.Param{
		number("to", "number of the state; default the one before the newest change"),
		query("cascade", "delete the attachments of tiers that the older state lacks", flag()),
	}
	clash := problemStatuses(http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity)
	for _, rt := range []route{
		{method: http.MethodGet, path: "/v1/vpcs/{vpc}/history", id: "history", summary: "The last changes of a VPC's structure", role: Viewer,
			description: "The VPC, its tiers, lists and expectations; attachments leave no trace.",
			responses:   map[int]*huma.Schema{http.StatusOK: schemaOf[engine.History](rs.doc)}, problems: problemStatuses(http.StatusNotFound), handle: s.history},
		{method: http.MethodGet, path: "/v1/vpcs/{vpc}/history/{number}", id: "history-state", summary: "The documents of a VPC's structure as they were after a change", role: Viewer,
			description: "As YAML it is a stream of documents. 404 where the history doesn't hold it, or not any more.", responses: map[int]*huma.Schema{http.StatusOK: {Ref: schemaPrefix + "ResourceList"}},
			problems: problemStatuses(http.StatusNotFound), handle: s.historyState},
		{method: http.MethodGet, path: "/v1/vpcs/{vpc}/rollback", id: "plan-rollback", summary: "Show what a rollback would change", role: Viewer, params: back,
			responses: map[int]*huma.Schema{http.StatusOK: schemaOf[engine.Plan](rs.doc)}, problems: clash, handle: s.planRollback},
		{method: http.MethodPost, path: "/v1/vpcs/{vpc}/rollback", id: "rollback", summary: "Bring a VPC's structure back to what it was", role: Editor,
			description: "Attachments stay as they are. Where a change waits for its confirmation, that ends the waiting.",
			params: append(append(append(back, number("unconfirmed", "409 unless the change of this number waits for its confirmation"),
				managerParam("who does it")), gateParams()...), waitParams()...),
			responses: map[int]*huma.Schema{http.StatusOK: result, http.StatusAccepted: result}, problems: clash, handle: s.rollback},
		{method: http.MethodPost, path: "/v1/vpcs/{vpc}/confirm", id: "confirm", summary: "Let the change stand that waits for its confirmation", role: Editor,
			description: "409 where none does, or where it comes too late: the change is taken back then.",
			responses:   map[int]*huma.Schema{http.StatusOK: schemaOf[engine.Unconfirmed](rs.doc)}, problems: clash, handle: s.confirm},
	} {
		rt.tag = "history"
		rs.add(rt)
	}
}

func (s *Server) history(c *exchange) (*answer, error) {
	h, err := s.engine.History(c, c.path("vpc"))
	if err != nil {
		return nil, err
	}
	return &answer{body: h}, nil
}

func (s *Server) historyState(c *exchange) (*answer, error) {
	number, err := strconv.Atoi(c.path("number"))
	if err != nil {
		return nil, newProblem(slugNotFound, "%q is no number of a state", c.path("number"))
	}
	state, err := s.engine.HistoryState(c, c.path("vpc"), number)
	var unheld *engine.InvalidError
	if errors.As(err, &unheld) {
		p := newProblem(slugNotFound, "%s", unheld)
		p.Diagnostics = unheld.Diagnostics
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	list := listBody{Items: []model.Document{}}
	for _, r := range state {
		list.Items = append(list.Items, model.Envelope(r, nil))
	}
	return &answer{body: list, stream: list.Items}, nil
}

func (s *Server) planRollback(c *exchange) (*answer, error) {
	p, err := s.engine.PlanRollback(c, c.path("vpc"), engine.RollbackOptions{To: c.number("to"), Cascade: c.flag("cascade")})
	if err != nil {
		return nil, err
	}
	return &answer{body: p}, nil
}

func (s *Server) rollback(c *exchange) (*answer, error) {
	e, err := c.gated(s.managed(c))
	if err != nil {
		return nil, err
	}
	o := engine.RollbackOptions{To: c.number("to"), Cascade: c.flag("cascade"), Unconfirmed: c.number("unconfirmed")}
	result, err := e.Rollback(c, c.path("vpc"), o, engine.WaitNone)
	return s.result(c, result, err)
}

func (s *Server) confirm(c *exchange) (*answer, error) {
	confirmed, err := s.engine.Confirm(c, c.path("vpc"))
	if err != nil {
		return nil, err
	}
	return &answer{body: confirmed}, nil
}

// confirmWithin is the time in which a change has to be confirmed, 0 for none.
func (c *exchange) confirmWithin() (time.Duration, error) {
	text := c.text("confirmWithin")
	if text == "" {
		return 0, nil
	}
	within, err := time.ParseDuration(text)
	if err != nil || within < engine.MinConfirm || within > engine.MaxConfirm {
		return 0, newProblem(slugMalformed, "confirmWithin can't be %q: give a time from %s to %s", text, engine.MinConfirm, engine.MaxConfirm)
	}
	return within, nil
}
