package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// collection is where the resources of a kind are.
type collection struct {
	kind   model.Kind
	word   string // in paths
	letter string // what names that the server chooses begin with
}

func collections() []collection {
	return []collection{
		{model.KindVPCOffering, "offerings", "o"}, {model.KindVPC, "vpcs", "v"}, {model.KindACL, "acls", "l"},
		{model.KindTier, "tiers", "t"}, {model.KindAttachment, "attachments", "a"},
		{model.KindExpectation, "expectations", "e"},
	}
}

func collectionOf(kind model.Kind) collection {
	for _, c := range collections() {
		if c.kind == kind {
			return c
		}
	}
	return collection{}
}

// pattern is the route of a collection.
func (c collection) pattern() string {
	if c.kind.Global() {
		return "/v1/" + c.word
	}
	return "/v1/vpcs/{vpc}/" + c.word
}

// one is the route of a single resource.
func (c collection) one() string {
	if c.kind == model.KindVPC {
		return c.pattern() + "/{vpc}"
	}
	return c.pattern() + "/{name}"
}

// location is the path of a resource.
func location(id model.ID) string {
	c := collectionOf(id.Kind)
	if c.kind.Global() {
		return "/v1/" + c.word + "/" + id.Name
	}
	return "/v1/vpcs/" + id.VPC + "/" + c.word + "/" + id.Name
}

// id is the resource that a call to a route of the collection is about, without
// a name where the route has none.
func (c collection) id(x *exchange) model.ID {
	if c.kind == model.KindVPC {
		return model.ID{Kind: c.kind, Name: x.path("vpc")}
	}
	return model.ID{Kind: c.kind, VPC: x.path("vpc"), Name: x.path("name")}
}

// resourceBody is a resource as it is answered.
type resourceBody struct {
	model.Document
	Pending *engine.Pending `json:"pending,omitempty"`
}

// resultBody is what was done, as it is answered.
type resultBody struct {
	engine.Result
	Pending *engine.Pending `json:"pending,omitempty"`
}

// resourceRoutes are those of a kind.
func (s *Server) resourceRoutes(rs *routes, col collection) {
	documents := map[string]*huma.Schema{jsonType: kindSchema(col.kind), yamlType: kindSchema(col.kind)}
	patch := &huma.Schema{Type: huma.TypeObject, Description: "a JSON merge patch (RFC 7396) of the resource: metadata.labels and spec"}
	found := map[int]*huma.Schema{http.StatusOK: kindSchema(col.kind)}
	changed := map[int]*huma.Schema{http.StatusOK: kindSchema(col.kind), http.StatusAccepted: kindSchema(col.kind)}
	put := map[int]*huma.Schema{http.StatusOK: kindSchema(col.kind), http.StatusCreated: kindSchema(col.kind), http.StatusAccepted: kindSchema(col.kind)}
	result := schemaOf[resultBody](rs.doc)
	name, kind := col.word, string(col.kind)
	clash := []int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed}
	rs.add(route{method: http.MethodGet, path: col.one(), id: "get-" + name, tag: name, summary: "Read one " + kind, role: Viewer,
		responses: found, headers: []string{"ETag"}, problems: problemStatuses(http.StatusNotFound, http.StatusConflict),
		handle: func(c *exchange) (*answer, error) { return s.get(c, col) }})
	rs.add(route{method: http.MethodPut, path: col.one(), id: "put-" + name, tag: name, summary: "Create or replace one " + kind, role: Editor,
		description: "What the path says may be left out of the document. The same again changes nothing.",
		params:      slices.Concat(matchParams(), []*huma.Param{header("If-None-Match", "*: 412 if the resource is there")}, gateParams(), waitParams()),
		body:        documents, responses: put, headers: []string{"ETag", "Location"}, problems: problemStatuses(bodyProblems(clash...)...),
		handle: func(c *exchange) (*answer, error) { return s.put(c, col) }})
	rs.add(route{method: http.MethodPatch, path: col.one(), id: "patch-" + name, tag: name, summary: "Change parts of one " + kind, role: Editor,
		params: slices.Concat(matchParams(), gateParams(), waitParams()), body: map[string]*huma.Schema{mergePatchType: patch, jsonType: patch},
		responses: changed, headers: []string{"ETag"}, problems: problemStatuses(bodyProblems(clash...)...),
		handle: func(c *exchange) (*answer, error) { return s.patch(c, col) }})
	rs.add(route{method: http.MethodDelete, path: col.one(), id: "delete-" + name, tag: name, summary: "Delete one " + kind, role: Editor,
		params:    slices.Concat(matchParams(), []*huma.Param{query("cascade", "delete its users too", flag())}, breakParams(), waitParams()),
		responses: map[int]*huma.Schema{http.StatusOK: result, http.StatusAccepted: result},
		problems:  problemStatuses(append(clash, http.StatusUnprocessableEntity)...),
		handle:    func(c *exchange) (*answer, error) { return s.remove(c, col) }})
	s.createRoute(rs, col)
}

// get answers with one resource.
func (s *Server) get(c *exchange, col collection) (*answer, error) {
	id := col.id(c)
	found, err := s.engine.Get(c, engine.Filter{Kind: id.Kind, VPC: c.path("vpc"), Name: id.Name})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &engine.NotFoundError{ID: id}
	}
	return s.resource(c, found[0], http.StatusOK, nil), nil
}

// shown is a resource as somebody may see it: of the VPCs that use an offering
// those alone that they may view.
func shown(who Principal, o *engine.Object) model.Document {
	status := o.Status
	if offering, ok := status.(*engine.OfferingStatus); ok {
		users := slices.DeleteFunc(slices.Clone(offering.UsedBy), func(vpc string) bool { return !who.may(Viewer, vpc) })
		status = &engine.OfferingStatus{UsedBy: users}
	}
	return model.Envelope(o.Resource, status)
}

// resource is the answer that shows a resource.
func (s *Server) resource(c *exchange, o engine.Object, status int, pending *engine.Pending) *answer {
	return &answer{status: statusOf(pending, status), header: map[string]string{"ETag": `"` + engine.Version(o.Resource) + `"`},
		body: resourceBody{shown(principalOf(c), &o), pending}}
}

// put creates or replaces a resource.
func (s *Server) put(c *exchange, col collection) (*answer, error) {
	id := col.id(c)
	conditions, err := preconditionsOf(c.request.Header)
	if err != nil {
		return nil, err
	}
	r, err := c.document(id)
	if err != nil {
		return nil, err
	}
	return s.write(c, engine.Edit{ID: id, Change: func(now *model.Resource) (*model.Resource, error) {
		if err := conditions.check(now); err != nil {
			return nil, err
		}
		return r, mayClaim(c, Editor, now, r)
	}})
}

// write carries out an edit that leaves a resource, and answers with it.
func (s *Server) write(c *exchange, e engine.Edit) (*answer, error) {
	edited, pending, err := s.edit(c, e)
	if err != nil {
		return nil, err
	}
	if edited.Existed || edited.Repaired() {
		return s.resource(c, edited.Object, http.StatusOK, pending), nil
	}
	a := s.resource(c, edited.Object, http.StatusCreated, pending)
	a.header["Location"] = location(e.ID)
	return a, nil
}

// refresh gives an attachment the status that it has after the wait. Where that
// can't be read it stays as it was when it was written.
func (s *Server) refresh(c *exchange, o *engine.Object) {
	id := o.Resource.ID()
	if id.Kind != model.KindAttachment {
		return
	}
	now, err := s.engine.Get(c, engine.Filter{Kind: id.Kind, VPC: id.VPC, Name: id.Name})
	if err != nil {
		s.log.InfoContext(c, "the status is that of before the wait", "request", c.id, "error", err)
		return
	}
	if len(now) == 1 && engine.Version(now[0].Resource) == engine.Version(o.Resource) {
		*o = now[0]
	}
}

// edit carries out an edit: those of attachments with others of their VPC, unless
// it says by itself what it may break or open.
func (s *Server) edit(c *exchange, e engine.Edit) (engine.Edited, *engine.Pending, error) {
	if e.ID.Kind == model.KindACL && model.BuiltinName(e.ID.Name) {
		r := &model.Resource{Kind: e.ID.Kind, Metadata: model.Metadata{Name: e.ID.Name, VPC: e.ID.VPC}}
		return engine.Edited{}, nil, &engine.InvalidError{Diagnostics: model.Diagnostics{
			r.Fault("metadata.name", "is built in and can't be changed", "choose another name")}}
	}
	by, err := c.gated(s.engine)
	if err != nil {
		return engine.Edited{}, nil, err
	}
	bump := c.wait() != engine.WaitNone
	var edited engine.Edited
	var nbCfg int
	if e.ID.Kind == model.KindAttachment && by == s.engine {
		edited, nbCfg, err = s.groups.edit(c, e.ID.VPC, e, bump)
	} else {
		var all []engine.Edited
		all, nbCfg, err = s.editInTurn(c, by, e, bump)
		if all != nil { // what became of the edit says more
			edited, err = all[0], nil
		}
	}
	if err == nil {
		err = edited.Err
	}
	if err != nil {
		return edited, nil, withResult(err, &edited.Result)
	}
	pending := s.await(c, nbCfg)
	if bump {
		s.refresh(c, &edited.Object)
	}
	return edited, pending, nil
}

// editInTurn commits an edit after those of the VPC that came before, unless it is of
// an attachment.
func (s *Server) editInTurn(c *exchange, by *engine.Engine, e engine.Edit, bump bool) ([]engine.Edited, int, error) {
	if e.ID.VPC != "" && e.ID.Kind != model.KindAttachment {
		waited, done, err := s.turns.take(c, e.ID.VPC)
		if err != nil {
			return nil, 0, err
		}
		defer done()
		e.Hasty = e.Hasty && !waited // the mirror may not have yet what those before it commit
	}
	return by.Edit(c, []engine.Edit{e}, bump)
}

// patch merges a patch into a resource.
func (s *Server) patch(c *exchange, col collection) (*answer, error) {
	id := col.id(c)
	conditions, err := preconditionsOf(c.request.Header)
	if err != nil {
		return nil, err
	}
	data, _, err := c.body(mergePatchType, jsonType)
	if err != nil {
		return nil, err
	}
	patch, err := decodeJSON(data)
	if _, object := patch.(map[string]any); err != nil || !object {
		return nil, newProblem(slugMalformed, "the patch is not a JSON object")
	}
	if err := unambiguous(data); err != nil {
		return nil, err
	}
	return s.write(c, engine.Edit{ID: id, Change: func(now *model.Resource) (*model.Resource, error) {
		if err := conditions.check(now); err != nil {
			return nil, err
		}
		if now == nil {
			return nil, &engine.NotFoundError{ID: id}
		}
		r, err := patched(now, patch)
		if err != nil {
			return nil, err
		}
		return r, mayClaim(c, Editor, now, r)
	}})
}

// patched is a resource with a patch merged into it.
func patched(now *model.Resource, patch any) (*model.Resource, error) {
	document, err := json.Marshal(model.Envelope(now, nil))
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", now.ID(), err)
	}
	target, err := decodeJSON(document)
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", now.ID(), err)
	}
	result, err := json.Marshal(model.MergePatch(target, patch))
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", now.ID(), err)
	}
	return parse(result, now.ID(), true)
}

// decodeJSON keeps numbers as they are written.
func decodeJSON(data []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// remove deletes a resource.
func (s *Server) remove(c *exchange, col collection) (*answer, error) {
	id := col.id(c)
	conditions, err := preconditionsOf(c.request.Header)
	if err != nil {
		return nil, err
	}
	edited, pending, err := s.edit(c, engine.Edit{ID: id, Hasty: id.Kind == model.KindAttachment, Cascade: c.flag("cascade"), Lost: true, Change: func(now *model.Resource) (*model.Resource, error) {
		if err := conditions.check(now); err != nil {
			return nil, err
		}
		if now == nil {
			return nil, &engine.NotFoundError{ID: id}
		}
		return nil, nil
	}})
	var missing *engine.NotFoundError
	if errors.As(err, &missing) && (col.kind != model.KindAttachment || c.flag("repair")) {
		return s.removeDamaged(c, id)
	}
	if err != nil {
		return nil, err
	}
	return &answer{status: statusOf(pending, http.StatusOK), body: resultBody{edited.Result, pending}}, nil
}

// removeDamaged deletes a resource that isn't known, because what is stored of it
// can't be read.
func (s *Server) removeDamaged(c *exchange, id model.ID) (*answer, error) {
	e, err := c.gated(s.engine)
	if err != nil {
		return nil, err
	}
	result, err := e.Delete(c, []model.ID{id}, c.flag("cascade"), engine.WaitNone)
	return s.result(c, result, err)
}

// document reads the body as the resource that the path names.
func (c *exchange) document(id model.ID) (*model.Resource, error) {
	data, _, err := c.body(jsonType, yamlType)
	if err != nil {
		return nil, err
	}
	return parse(data, id, true)
}

// parse reads one document, which has to be of this kind and VPC and, if that is
// fixed, have this name.
func parse(data []byte, id model.ID, fixed bool) (*model.Resource, error) {
	r, found := model.LoadOne(model.Input{Data: data}, id)
	if r == nil {
		return nil, unread(found)
	}
	field, given, known := "", "", ""
	switch {
	case r.Kind != id.Kind:
		field, given, known = "kind", string(r.Kind), string(id.Kind)
	case r.Metadata.VPC != id.VPC:
		field, given, known = "metadata.vpc", r.Metadata.VPC, id.VPC
	case fixed && r.Metadata.Name != id.Name:
		field, given, known = "metadata.name", r.Metadata.Name, id.Name
	}
	if field != "" {
		found = model.Diagnostics{r.Fault(field, fmt.Sprintf("is %q, and %q in the path", given, known), "leave it out")}
	}
	if found.HasErrors() {
		return nil, unread(found)
	}
	return r, nil
}

// unread is the error for documents with faults: a text that is no YAML at all
// is malformed, all else is invalid.
func unread(found model.Diagnostics) error {
	for _, d := range found {
		if d.Code == model.CodeSyntax {
			p := newProblem(slugMalformed, "%s", d.Problem)
			p.Diagnostics = found
			return p
		}
	}
	return &engine.InvalidError{Diagnostics: found}
}
