package server

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const maxLimit = 1000

// listBody is a list as it is answered.
type listBody struct {
	Items    []model.Document `json:"items"`
	Continue string           `json:"continue,omitempty"`
	Managers []string         `json:"managers,omitempty"` // of the items, in their order
	// Diagnostics are warnings: what is left out, on the first page.
	Diagnostics model.Diagnostics `json:"diagnostics,omitempty"`
}

func (s *Server) listRoutes(rs *routes) {
	for _, col := range collections() {
		params := pageParams()
		var role Role // VPCs are shown as far as each may be viewed
		if col.kind != model.KindVPC {
			role = Viewer
		}
		problems := problemStatuses()
		if !col.kind.Global() {
			problems = problemStatuses(http.StatusNotFound)
		}
		if col.kind == model.KindAttachment {
			params = append(params, attachmentParams()...)
		}
		rs.add(route{method: http.MethodGet, path: col.pattern(), id: "list-" + col.word, tag: col.word, summary: "List " + col.word, role: role,
			description: "Built-in lists are left out.", params: params, problems: problems,
			responses: map[int]*huma.Schema{http.StatusOK: listSchema(kindSchema(col.kind))},
			handle:    func(c *exchange) (*answer, error) { return s.list(c, col) }})
	}
	params := append(pageParams(), attachmentParams()...)
	resources := listSchema(&huma.Schema{Ref: schemaPrefix + "Resource"})
	resources.Properties["managers"] = &huma.Schema{Type: huma.TypeArray, Items: text(), Description: "who brought each of the items, where that was asked for"}
	rs.add(route{method: http.MethodGet, path: "/v1/resources", id: "list-resources", tag: "resources", summary: "List what the caller may see, of all kinds",
		params: append(params, query("kind", "only this kind, in singular or plural", text()), vpcParam(), query("name", "only this name", text()),
			query("builtins", "built-in lists too", flag()), query("managers", "also who brought each", flag())),
		responses: map[int]*huma.Schema{http.StatusOK: resources}, problems: problemStatuses(),
		handle: s.resources})
}

func pageParams() []*huma.Param {
	least, most := 1.0, float64(maxLimit)
	return []*huma.Param{
		query("labels", "only with these labels: key=value,key=value", text()),
		query("limit", "at most so many", &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most}),
		query("continue", "go on after a list that was cut off: what that one had as continue", text()),
	}
}

func attachmentParams() []*huma.Param {
	return []*huma.Param{
		query("tier", "only attachments of this tier", text()),
		query("chassis", "only attachments that ask for this chassis or are bound there", text()),
		query("up", "only attachments that are up, or that are not", flag()),
	}
}

func vpcParam() *huma.Param {
	return query("vpc", "only this VPC", &huma.Schema{Type: huma.TypeString, Pattern: label})
}

// filter is what the query of a list chooses.
func (c *exchange) filter() (engine.Filter, error) {
	f := engine.Filter{VPC: c.text("vpc"), Name: c.text("name"), Tier: c.text("tier"), Chassis: c.text("chassis")}
	if up, ok := c.query["up"].(bool); ok {
		f.Up = &up
	}
	if word := c.text("kind"); word != "" {
		kind, ok := model.ParseKind(word)
		if !ok {
			return f, newProblem(slugMalformed, "there is no kind %q", word)
		}
		f.Kind = kind
	}
	var err error
	f.Labels, err = c.labels()
	return f, err
}

// list answers with a collection.
func (s *Server) list(c *exchange, col collection) (*answer, error) {
	f, err := c.filter()
	if err != nil {
		return nil, err
	}
	f.Kind, f.VPC = col.kind, c.path("vpc")
	var found model.Diagnostics
	objects, err := s.telling(c, &found).Get(c, f)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 && f.VPC != "" {
		if err := s.exists(c, f.VPC); err != nil {
			return nil, err
		}
	}
	return s.page(c, objects, found, false)
}

// telling is the engine that adds to found what it leaves out and the caller may know of.
func (s *Server) telling(c *exchange, found *model.Diagnostics) *engine.Engine {
	e := *s.engine
	e.LeftOut = func(vpc string, d model.Diagnostic) {
		if may(c, Viewer, vpc) {
			*found = append(*found, d)
		}
	}
	return &e
}

// exists is nil if the VPC does.
func (s *Server) exists(c *exchange, vpc string) error {
	found, err := s.engine.Get(c, engine.Filter{Kind: model.KindVPC, VPC: vpc})
	if err == nil && len(found) == 0 {
		err = &engine.NotFoundError{ID: model.ID{Kind: model.KindVPC, Name: vpc}}
	}
	return err
}

// resources answers with all that the query chooses.
func (s *Server) resources(c *exchange) (*answer, error) {
	f, err := c.filter()
	if err != nil {
		return nil, err
	}
	if f.VPC != "" && !may(c, Viewer, f.VPC) {
		return nil, lacking(Viewer, f.VPC)
	}
	var found model.Diagnostics
	objects, err := s.telling(c, &found).Get(c, f)
	if err != nil {
		return nil, err
	}
	return s.page(c, objects, found, c.flag("builtins"))
}

// page is the part of a list that the caller may see and asks for.
func (s *Server) page(c *exchange, objects []engine.Object, found model.Diagnostics, builtins bool) (*answer, error) {
	after, err := c.after()
	if err != nil {
		return nil, err
	}
	list := listBody{Items: []model.Document{}}
	if after == nil {
		list.Diagnostics = found
	}
	limit := c.number("limit")
	for _, o := range objects {
		id := o.Resource.ID()
		hidden := id.Kind == model.KindACL && model.BuiltinName(id.Name) && !builtins
		if hidden || !may(c, Viewer, o.Resource.Scope()) || after != nil && compareIDs(id, *after) <= 0 {
			continue
		}
		if limit > 0 && len(list.Items) == limit {
			list.Continue = continuation(list.Items[limit-1])
			break
		}
		list.Items = append(list.Items, shown(principalOf(c), &o))
		if c.flag("managers") {
			list.Managers = append(list.Managers, o.Resource.Manager)
		}
	}
	return &answer{body: list}, nil
}

// continuation is what names the last resource of a page. The next one begins
// after it, whether it is still there or not.
func continuation(d model.Document) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(d.Kind) + "/" + d.Metadata.VPC + "/" + d.Metadata.Name))
}

// after is the resource that a list is to go on after, nil for the beginning.
func (c *exchange) after() (*model.ID, error) {
	token := c.text("continue")
	if token == "" {
		return nil, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.Split(string(data), "/")
	if err != nil || len(parts) != 3 || !slices.Contains(model.Kinds(), model.Kind(parts[0])) {
		return nil, newProblem(slugMalformed, "the query parameter continue is not one that a list has had")
	}
	return &model.ID{Kind: model.Kind(parts[0]), VPC: parts[1], Name: parts[2]}, nil
}
