package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

const openAPIType = "application/openapi+json"

const schemaPrefix = "#/components/schemas/"

// document is the OpenAPI document as it is put together.
type document struct {
	*huma.OpenAPI
	registry huma.Registry
}

func newDocument() *document {
	registry := huma.NewMapRegistry(schemaPrefix, schemaName)
	for plain, documented := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[model.PortRange](): reflect.TypeFor[numberOrText](),
		reflect.TypeFor[model.Protocol]():  reflect.TypeFor[numberOrText](),
		reflect.TypeFor[model.Severity]():  reflect.TypeFor[flagOrText](),
		reflect.TypeFor[uint64]():          reflect.TypeFor[count](),
		reflect.TypeFor[traffic.Set]():     reflect.TypeFor[string](),
	} {
		registry.RegisterTypeAlias(plain, documented)
	}
	d := &document{registry: registry, OpenAPI: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "ovn-vpc", Version: "v1",
			Description: "Declarative VPCs on OVN. Every error is a problem (RFC 9457) whose diagnostics are those of the command line."},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			"bearer":      {Type: "http", Scheme: "bearer", Description: "a token that ovn-vpc token new made"},
			"certificate": {Type: "mutualTLS", Description: "a client certificate"},
		}},
	}}
	d.addKinds()
	return d
}

// schemaName is the name of a type's component. Those of the rows' package and of
// reach are marked: others have the same names.
func schemaName(t reflect.Type, hint string) string {
	name := strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "Body")
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch path.Base(t.PkgPath()) {
	case "nbdb":
		return "Row" + name
	case "reach":
		return "Reach" + name
	}
	return name
}

// Types of which JSON knows more than Go's types tell.
type (
	numberOrText struct{}
	flagOrText   struct{}
	count        struct{}
)

// Schema is a huma.SchemaProvider.
func (numberOrText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeInteger}, {Type: huma.TypeString}}}
}

// Schema is a huma.SchemaProvider.
func (flagOrText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeBoolean}, {Type: huma.TypeString}}}
}

// Schema is a huma.SchemaProvider.
func (count) Schema(huma.Registry) *huma.Schema {
	least := 0.0
	return &huma.Schema{Type: huma.TypeInteger, Minimum: &least}
}

// of is the schema of a type; that of a struct is a reference to a component.
func (d *document) of(t reflect.Type) *huma.Schema { return d.registry.Schema(t, true, "") }

func schemaOf[T any](d *document) *huma.Schema { return d.of(reflect.TypeFor[T]()) }

// addKinds makes a component for each kind's document, and one for any. Specs
// have no required fields but those without a default, since they are input too.
func (d *document) addKinds() {
	schemas := d.registry.Map()
	d.of(reflect.TypeFor[model.Metadata]())
	var specs []*huma.Schema
	for _, kind := range model.Kinds() {
		specs = append(specs, d.of(reflect.TypeOf(model.NewSpec(kind)).Elem()))
	}
	for _, s := range schemas {
		s.Required = nil
	}
	statuses := map[model.Kind]*huma.Schema{
		model.KindVPC: schemaOf[engine.VPCStatus](d), model.KindVPCOffering: schemaOf[engine.OfferingStatus](d),
		model.KindTier: schemaOf[engine.TierStatus](d), model.KindACL: schemaOf[engine.ACLStatus](d),
		model.KindAttachment: schemaOf[engine.AttachmentStatus](d),
	}
	pending := schemaOf[engine.Pending](d)
	var all []*huma.Schema
	for i, kind := range model.Kinds() {
		d.registry.SchemaFromRef(specs[i].Ref).Required = required(kind)
		schemas[string(kind)] = &huma.Schema{
			Type: huma.TypeObject, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{
				"apiVersion": {Type: huma.TypeString, Enum: []any{model.APIVersion}},
				"kind":       {Type: huma.TypeString, Enum: []any{string(kind)}},
				"metadata":   schemaOf[model.Metadata](d),
				"spec":       specs[i],
				"pending":    pending,
			},
		}
		if status := statuses[kind]; status != nil {
			schemas[string(kind)].Properties["status"] = status
		}
		all = append(all, kindSchema(kind))
	}
	schemas["Resource"] = &huma.Schema{OneOf: all}
	schemas["ResourceList"] = listSchema(&huma.Schema{Ref: schemaPrefix + "Resource"})
}

func kindSchema(kind model.Kind) *huma.Schema { return &huma.Schema{Ref: schemaPrefix + string(kind)} }

func listSchema(item *huma.Schema) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"items"}, Properties: map[string]*huma.Schema{
		"items":       {Type: huma.TypeArray, Items: item},
		"continue":    {Type: huma.TypeString, Description: "what the query parameter continue has to be for those that follow; absent: none do"},
		"diagnostics": {Type: huma.TypeArray, Items: &huma.Schema{Ref: schemaPrefix + "Diagnostic"}, Description: "warnings: what is left out since what is stored of it is damaged, on the first page"},
	}}
}

// required are the fields of a spec that its kind can't do without.
func required(kind model.Kind) []string {
	text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": "x", "vpc": "x"}}`, model.APIVersion, kind)
	_, found := model.Load(model.Input{Data: []byte(text)})
	var out []string
	for _, f := range found {
		if field, ok := strings.CutPrefix(f.Field, "spec."); ok {
			out = append(out, field)
		}
	}
	return out
}

// add documents a route. Its path parameters join those that it names.
func (d *document) add(rt route) *huma.Operation {
	op := &huma.Operation{Method: rt.method, Path: rt.path, OperationID: rt.id, Summary: rt.summary, Description: rt.description,
		Tags: []string{rt.tag}, Parameters: slices.Concat(rt.names, rt.params), Responses: map[string]*huma.Response{},
		Security: []map[string][]string{{"bearer": {}}, {"certificate": {}}}}
	if rt.open {
		op.Security = []map[string][]string{}
	}
	for _, p := range rt.params {
		p.Schema.PrecomputeMessages()
	}
	if len(rt.body) > 0 {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
		for kind, schema := range rt.body {
			op.RequestBody.Content[kind] = &huma.MediaType{Schema: schema}
		}
	}
	for _, status := range slices.Sorted(maps.Keys(rt.responses)) {
		r := &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{},
			Headers: map[string]*huma.Param{requestIDHeader: textHeader("the id of the request")}}
		media := rt.media
		if media == nil {
			media = []string{jsonType, yamlType}
		}
		for _, kind := range media {
			r.Content[kind] = &huma.MediaType{Schema: rt.responses[status]}
		}
		for _, name := range rt.headers {
			r.Headers[name] = textHeader(headerDocs(name))
		}
		op.Responses[strconv.Itoa(status)] = r
	}
	for _, status := range rt.problems {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status),
			Content: map[string]*huma.MediaType{problemType: {Schema: schemaOf[Problem](d)}}}
	}
	d.AddOperation(op)
	return op
}

func textHeader(doc string) *huma.Param {
	return &huma.Param{Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
}

func headerDocs(name string) string {
	switch name {
	case "ETag":
		return "changes with the resource's metadata and spec, and with nothing else"
	case "Location":
		return "where the resource is"
	}
	return "true: this key was used before, the resource is as it is now"
}

// serve answers with the document, encoded at the first request.
func (d *document) serve() http.HandlerFunc {
	encoded := sync.OnceValues(func() ([]byte, error) { return json.Marshal(d.OpenAPI) })
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := encoded()
		if err != nil {
			panic(fmt.Errorf("encoding the OpenAPI document: %w", err))
		}
		w.Header().Set("Content-Type", openAPIType)
		_, _ = w.Write(data)
	}
}

// query is a parameter in the query.
func query(name, doc string, schema *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: schema}
}

func header(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
}

func text() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }
func flag() *huma.Schema { return &huma.Schema{Type: huma.TypeBoolean} }

func oneOf[T ~string](values ...T) *huma.Schema {
	s := text()
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// waitParams are those of every changing route.
func waitParams() []*huma.Param {
	timeout := text()
	timeout.Pattern, timeout.Examples = `^[0-9]{1,5}(ms|s|m)$`, []any{"10s"}
	return []*huma.Param{
		query("wait", "answer when ovn-northd (sb) or every hypervisor (hv) has the change; 202 where that takes longer than timeout",
			oneOf(engine.WaitNone, engine.WaitSB, engine.WaitHV)),
		query("timeout", "how long to wait, at most 60s; default 10s", timeout),
	}
}
