package server

import (
	"errors"
	"maps"
	"mime"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const managerPattern = `^[A-Za-z0-9][A-Za-z0-9._/@:-]{0,62}$`

// validationBody is what is found wrong, as it is answered.
type validationBody struct {
	Diagnostics model.Diagnostics `json:"diagnostics"`
}

// driftBody is a report of drift, as it is answered.
type driftBody struct {
	engine.DriftReport
	Pending *engine.Pending `json:"pending,omitempty"`
}

// reference names a resource.
type reference struct {
	Kind model.Kind `json:"kind"`
	VPC  string     `json:"vpc,omitempty"`
	Name string     `json:"name"`
}

type deleteRequest struct {
	Items []reference `json:"items"`
}

type replaceRequest struct {
	ACL string `json:"acl" doc:"name of the list that is to be in force"`
}

// bulkRoutes are those about many resources at once.
func (s *Server) bulkRoutes(rs *routes) {
	result := schemaOf[resultBody](rs.doc)
	changed := map[int]*huma.Schema{http.StatusOK: result, http.StatusAccepted: result}
	report := schemaOf[driftBody](rs.doc)
	documents := &huma.Schema{OneOf: []*huma.Schema{{Ref: schemaPrefix + "ResourceList"}, {Ref: schemaPrefix + "Resource"}}}
	inputs := map[string]*huma.Schema{jsonType: documents, yamlType: documents}
	withPlan := map[string]*huma.Schema{jsonType: documents, yamlType: documents, planType: schemaOf[engine.Plan](rs.doc)}
	planParams := []*huma.Param{
		query("prune", "also remove what the manager brought into the VPCs of the documents and they no longer hold", flag()),
		managerParam("who brings the documents"),
	}
	confirmParams := []*huma.Param{
		query("confirmWithin", "take the change of a VPC's structure back unless it is confirmed within this time, from 1s to 24h; not for plans",
			&huma.Schema{Type: huma.TypeString, Pattern: `^[0-9]{1,5}[smh]$`, Examples: []any{"60s"}}),
	}
	clash := bodyProblems(http.StatusNotFound, http.StatusConflict)
	for _, rt := range []route{
		{method: http.MethodPost, path: "/v1/validate", id: "validate", summary: "Check documents by themselves and beside what is stored",
			description: "Warnings tell of what is legal and most likely not meant, too.",
			params:      []*huma.Param{query("strict", "take for an error what is most likely not meant", flag())},
			body:        inputs, responses: map[int]*huma.Schema{http.StatusOK: schemaOf[validationBody](rs.doc)}, problems: problemStatuses(bodyProblems()...), handle: s.validate},
		{method: http.MethodPost, path: "/v1/plan", id: "plan", summary: "Show what applying documents would change", params: slices.Concat(planParams, []*huma.Param{repairParam()}),
			body: inputs, responses: map[int]*huma.Schema{http.StatusOK: schemaOf[engine.Plan](rs.doc)}, problems: problemStatuses(clash...), handle: s.plan},
		{method: http.MethodPost, path: "/v1/apply", id: "apply", summary: "Bring the database to what documents say, or carry out a plan",
			description: "One transaction for each VPC, all or nothing. A problem tells in vpcs how far it came.",
			params:      slices.Concat(planParams, confirmParams, gateParams(), waitParams()), body: withPlan, responses: changed, problems: problemStatuses(clash...), handle: s.apply},
		{method: http.MethodPost, path: "/v1/delete", id: "delete", summary: "Delete resources", params: slices.Concat(waitParams(), breakParams(), []*huma.Param{query("cascade", "delete their users too", flag())}),
			body: map[string]*huma.Schema{jsonType: schemaOf[deleteRequest](rs.doc)}, responses: changed, problems: problemStatuses(clash...), handle: s.delete},
		s.traceRoute(rs), s.explainRoute(rs),
		{method: http.MethodGet, path: "/v1/export", id: "export", summary: "The documents that bring an empty database to the same state",
			description: "As YAML it is a stream of documents.", params: []*huma.Param{vpcParam()},
			responses: map[int]*huma.Schema{http.StatusOK: {Ref: schemaPrefix + "ResourceList"}}, problems: problemStatuses(http.StatusNotFound), handle: s.export},
		{method: http.MethodGet, path: "/v1/drift", id: "drift", summary: "Compare the rows with the specs stored in them", params: []*huma.Param{vpcParam()},
			responses: map[int]*huma.Schema{http.StatusOK: report}, problems: problemStatuses(http.StatusNotFound), handle: s.drift},
		{method: http.MethodPost, path: "/v1/drift/repair", id: "repair-drift", summary: "Bring the rows back to what the specs say", params: append(waitParams(), vpcParam()),
			responses: map[int]*huma.Schema{http.StatusOK: report, http.StatusAccepted: report},
			problems:  problemStatuses(http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity), handle: s.repair},
		{method: http.MethodPost, path: "/v1/vpcs/{vpc}/tiers/{tier}/acl", id: "replace-acl", summary: "Exchange the list in force at a tier's boundary", role: Editor,
			params: append(waitParams(), gateParams()...), body: map[string]*huma.Schema{jsonType: schemaOf[replaceRequest](rs.doc)}, responses: changed,
			problems: problemStatuses(clash...), handle: s.replaceACL},
	} {
		rt.tag = "many"
		rs.add(rt)
	}
}

func managerParam(doc string) *huma.Param {
	return query("manager", doc+"; default the server's own, server", &huma.Schema{Type: huma.TypeString, Pattern: managerPattern})
}

// documents reads the body as documents, all of which the caller has to have a
// role for. With faults in them the set is good for further checks only.
func (c *exchange) documents(role Role) (*model.Set, model.Diagnostics, error) {
	data, _, err := c.body(jsonType, yamlType)
	if err != nil {
		return nil, nil, err
	}
	return c.set(role, data)
}

// set reads documents, all of which the caller has to have a role for.
func (c *exchange) set(role Role, data []byte) (*model.Set, model.Diagnostics, error) {
	set, found := model.Load(model.Input{Data: data})
	if slices.ContainsFunc(found, func(d model.Diagnostic) bool { return d.Code == model.CodeSyntax }) {
		return nil, nil, unread(found)
	}
	for _, r := range set.Resources {
		if !may(c, role, r.Scope()) {
			return nil, nil, newProblem(slugForbidden, "the role %s is needed in every VPC of the documents", role)
		}
		if err := mayClaim(c, role, nil, r); err != nil {
			return nil, nil, err
		}
	}
	return set, found, nil
}

// faults are what is wrong with documents, by themselves and beside what is stored.
func (s *Server) faults(c *exchange, set *model.Set, found model.Diagnostics) (model.Diagnostics, error) {
	stored, err := s.engine.Faults(c, set)
	if err != nil {
		return nil, err
	}
	if found.HasErrors() {
		stored = stored.Errors()
	}
	all := append(model.Diagnostics{}, append(found, stored...)...)
	all.Sort()
	return all, nil
}

func (s *Server) validate(c *exchange) (*answer, error) {
	set, found, err := c.documents(Viewer)
	if err != nil {
		return nil, err
	}
	if found, err = s.faults(c, set, found); err != nil {
		return nil, err
	}
	if !found.HasErrors() {
		doubts, err := s.engine.Lint(c, set)
		if err != nil {
			return nil, err
		}
		if c.flag("strict") {
			doubts = doubts.AsErrors()
		}
		found = append(found, doubts...)
		found.Sort()
	}
	return &answer{body: validationBody{found}}, nil
}

// managed is the engine with the manager of the query.
func (s *Server) managed(c *exchange) *engine.Engine {
	if manager := c.text("manager"); manager != "" {
		return s.engine.As(manager)
	}
	return s.engine
}

// sound reads documents without a fault; found are warnings. An error tells all
// faults at once.
func (s *Server) sound(c *exchange, role Role) (set *model.Set, found model.Diagnostics, err error) {
	set, found, err = c.documents(role)
	if err == nil && found.HasErrors() {
		if found, err = s.faults(c, set, found); err == nil {
			err = &engine.InvalidError{Diagnostics: found}
		}
	}
	return set, found, err
}

func (s *Server) plan(c *exchange) (*answer, error) {
	set, found, err := s.sound(c, Viewer)
	if err != nil {
		return nil, err
	}
	e := s.managed(c)
	if c.flag("repair") {
		e = e.Repairing()
	}
	p, err := e.Plan(c, set, c.flag("prune"))
	if err != nil {
		return nil, err
	}
	p.Diagnostics = append(found, p.Diagnostics...)
	return &answer{body: p}, nil
}

func (s *Server) apply(c *exchange) (*answer, error) {
	if err := c.has(Editor); err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(c.request.Header.Get("Content-Type")); kind == planType {
		return s.applyPlan(c)
	}
	e, err := c.gated(s.managed(c))
	if err != nil {
		return nil, err
	}
	within, err := c.confirmWithin()
	if err != nil {
		return nil, err
	}
	set, found, err := s.sound(c, Editor)
	if err != nil {
		return nil, err
	}
	result, err := e.Provisional(within).Apply(c, set, c.flag("prune"), engine.WaitNone)
	if result != nil {
		result.Diagnostics = append(found, result.Diagnostics...)
	}
	return s.result(c, result, err)
}

// applyPlan carries out a plan that was made before. It holds rows as they are
// to be, of any VPC.
func (s *Server) applyPlan(c *exchange) (*answer, error) {
	if !mayEverywhere(c, Admin) {
		return nil, lacking(Admin, "")
	}
	data, _, err := c.body(planType)
	if err != nil {
		return nil, err
	}
	var p engine.Plan
	if err := decodeStrictly(data, &p); err != nil {
		return nil, err
	}
	named, err := c.openings()
	if err == nil && c.text("confirmWithin") != "" {
		err = newProblem(slugMalformed, "confirmWithin is for documents, not for plans")
	}
	if err == nil && c.flag("confirmOpens") {
		err = p.Confirm(named)
	}
	if err != nil {
		return nil, err
	}
	e := s.engine
	if c.flag("repair") {
		e = e.Repairing()
	}
	result, err := e.ApplyPlan(c, &p, engine.WaitNone)
	if err != nil && problemOf(err).Status == http.StatusInternalServerError {
		// What the database does not take is a fault of the plan, which may have
		// been written by anybody.
		err = errors.Join(newProblem(slugInvalid, "the plan can't be carried out: %s", err), err)
	}
	return s.result(c, result, err)
}

// result is the answer to a change, or the problem with how far it came.
func (s *Server) result(c *exchange, result *engine.Result, err error) (*answer, error) {
	if err != nil {
		return nil, withResult(err, result)
	}
	pending := s.settle(c)
	return &answer{status: statusOf(pending, http.StatusOK), body: resultBody{*result, pending}}, nil
}

// withResult is an error that tells how far the change came.
func withResult(err error, result *engine.Result) error {
	if result == nil || len(result.VPCs) == 0 {
		return err
	}
	p := problemOf(err)
	p.VPCs = result.VPCs
	return errors.Join(p, err)
}

func (s *Server) delete(c *exchange) (*answer, error) {
	var request deleteRequest
	if err := c.has(Editor); err != nil {
		return nil, err
	}
	if err := c.decode(&request); err != nil {
		return nil, err
	}
	named := map[model.ID]bool{}
	for _, item := range request.Items {
		kind, ok := model.ParseKind(string(item.Kind))
		if !ok {
			return nil, newProblem(slugInvalid, "there is no kind %q", item.Kind)
		}
		r := model.Resource{Kind: kind, Metadata: model.Metadata{Name: item.Name, VPC: item.VPC}}
		if !may(c, Editor, r.Scope()) {
			return nil, newProblem(slugForbidden, "the role %s is needed in every VPC concerned", Editor)
		}
		if kind == model.KindACL && model.BuiltinName(item.Name) {
			return nil, newProblem(slugInvalid, "%s is built in and can't be deleted", r.ID())
		}
		named[r.ID()] = true
	}
	ids := slices.SortedFunc(maps.Keys(named), compareIDs)
	if len(ids) == 0 {
		return s.result(c, &engine.Result{VPCs: []engine.VPCResult{}}, nil)
	}
	e, err := c.gated(s.engine)
	if err != nil {
		return nil, err
	}
	result, err := e.Delete(c, ids, c.flag("cascade"), engine.WaitNone)
	return s.result(c, result, err)
}

// has is an error for a caller that has the role nowhere: even nothing to do may
// be waited for, which writes to the database.
func (c *exchange) has(role Role) error {
	if !principalOf(c).Role.has(role) {
		return newProblem(slugForbidden, "the role %s is needed", role)
	}
	return nil
}

// inScope tells whether the caller has the role in the VPC of the query, or
// without one in all.
func (c *exchange) inScope(role Role) error {
	if vpc := c.text("vpc"); vpc != "" && !may(c, role, vpc) || vpc == "" && !mayEverywhere(c, role) {
		return lacking(role, vpc)
	}
	return nil
}

func (s *Server) export(c *exchange) (*answer, error) {
	if err := c.inScope(Viewer); err != nil {
		return nil, err
	}
	list := listBody{Items: []model.Document{}}
	resources, err := s.telling(c, &list.Diagnostics).Export(c, c.text("vpc"))
	if err != nil {
		return nil, err
	}
	if vpc := c.text("vpc"); vpc != "" && len(resources) == 0 {
		return nil, &engine.NotFoundError{ID: model.ID{Kind: model.KindVPC, Name: vpc}}
	}
	for _, r := range resources {
		list.Items = append(list.Items, model.Envelope(r, nil))
	}
	return &answer{body: list, stream: list.Items}, nil
}

func (s *Server) drift(c *exchange) (*answer, error) { return s.driftReport(c, Viewer, false) }

func (s *Server) repair(c *exchange) (*answer, error) { return s.driftReport(c, Admin, true) }

func (s *Server) driftReport(c *exchange, role Role, repair bool) (*answer, error) {
	if err := c.inScope(role); err != nil {
		return nil, err
	}
	report, err := s.engine.Drift(c, c.text("vpc"), repair, engine.WaitNone)
	if err != nil {
		return nil, err
	}
	if vpc := c.text("vpc"); vpc != "" && len(report.Faults) == 0 {
		if err := s.exists(c, vpc); err != nil {
			return nil, err
		}
	}
	pending := s.settle(c)
	return &answer{status: statusOf(pending, http.StatusOK), body: driftBody{*report, pending}}, nil
}

func (s *Server) replaceACL(c *exchange) (*answer, error) {
	var request replaceRequest
	if err := c.decode(&request); err != nil {
		return nil, err
	}
	if request.ACL == "" {
		return nil, newProblem(slugInvalid, "acl is missing: name the list that is to be in force")
	}
	e, err := c.gated(s.engine)
	if err != nil {
		return nil, err
	}
	result, err := e.ReplaceACL(c, c.path("vpc"), c.path("tier"), request.ACL, engine.WaitNone)
	return s.result(c, result, err)
}
