package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

const (
	jsonType    = "application/json"
	yamlType    = "application/yaml"
	eventType   = "text/event-stream"
	problemType = "application/problem+json"
	planType    = "application/vnd.ovn-vpc.plan+json"
)

// document is what is used of an OpenAPI document.
type document struct {
	Paths      map[string]map[string]*operation
	Components struct{ Schemas map[string]*schema }
	operations []*operation // in an order that stays
	resource   *jsonschema.Schema
}

// operation is one that the document lists.
type operation struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Schema   *schema
	}
	RequestBody struct {
		Content map[string]struct{ Schema *schema }
	}
	Responses map[string]struct {
		Headers map[string]any
		Content map[string]any
	}

	method, path string
	valid        map[string]*jsonschema.Schema // by status and type
}

func (op *operation) name() string { return op.method + " " + op.path }

// rules tells whether an operation is about the rules of a list.
func (op *operation) rules() bool { return strings.Contains(op.path, "/rules") }

// schema is what generating a value needs.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Properties map[string]*schema
	Required   []string
	Items      *schema
	OneOf      []*schema
	AllOf      []*schema
}

// component is the name of the component that a schema refers to.
func (s *schema) component() string { return s.Ref[strings.LastIndex(s.Ref, "/")+1:] }

// is tells whether values of a type are valid.
func (s *schema) is(kind string) bool {
	types, ok := s.Type.([]any)
	return s.Type == kind || ok && slices.Contains(types, any(kind))
}

func parseDocument(data []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(data, d); err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource("openapi.json", whole); err != nil {
		return nil, err
	}
	compile := func(path ...string) (*jsonschema.Schema, error) {
		var pointer strings.Builder
		for _, part := range path {
			pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
		}
		return compiler.Compile("openapi.json#" + (&url.URL{Fragment: pointer.String()}).EscapedFragment())
	}
	for path, item := range d.Paths {
		for method, op := range item {
			op.method, op.path, op.valid = strings.ToUpper(method), path, map[string]*jsonschema.Schema{}
			for status, response := range op.Responses {
				for kind := range response.Content {
					if op.valid[status+kind], err = compile("paths", path, method, "responses", status, "content", kind, "schema"); err != nil {
						return nil, err
					}
				}
			}
			d.operations = append(d.operations, op)
		}
	}
	slices.SortFunc(d.operations, func(a, b *operation) int { return strings.Compare(a.OperationID+a.path, b.OperationID+b.path) })
	d.resource, err = compile("components", "schemas", "Resource")
	return d, err
}

// kind is the kind of the resources at the operation's path, "" for none.
func (d *document) kind(op *operation) string {
	for _, method := range []string{"put", "post"} {
		other := d.Paths[op.path][method]
		if other == nil || other.RequestBody.Content[jsonType].Schema == nil {
			continue
		}
		name := other.RequestBody.Content[jsonType].Schema.component()
		if s := d.Components.Schemas[name]; s != nil && s.Properties["spec"] != nil {
			return name
		}
	}
	return ""
}

// answer is what came to a request.
type answer struct {
	*http.Response
	body []byte
}

// check tells what about an answer is not as the document says, or as HTTP and
// RFC 9457 do.
func (d *document) check(r *request, a *answer) error {
	if a.StatusCode >= http.StatusInternalServerError {
		return errors.New("the server has failed")
	}
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the Content-Type %q: %w", a.Header.Get("Content-Type"), err)
	}
	if id := r.header.Get("X-Request-Id"); a.Header.Get("X-Request-Id") == "" || r.known && a.Header.Get("X-Request-Id") != id {
		return fmt.Errorf("the X-Request-Id is %q", a.Header.Get("X-Request-Id"))
	}
	if r.op == nil {
		if a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMethodNotAllowed {
			return errors.New("nothing like this is documented")
		}
		if a.StatusCode == http.StatusMethodNotAllowed && a.Header.Get("Allow") == "" {
			return errors.New("no Allow")
		}
		return d.checkProblem(a, kind, r.method == http.MethodHead)
	}
	response, ok := r.op.Responses[strconv.Itoa(a.StatusCode)]
	if !ok {
		return errors.New("the status is not documented")
	}
	valid := r.op.valid[strconv.Itoa(a.StatusCode)+kind]
	if valid == nil {
		return fmt.Errorf("the type %s is not documented", kind)
	}
	if a.StatusCode >= http.StatusBadRequest {
		if err := d.checkProblem(a, kind, r.method == http.MethodHead); err != nil || r.method == http.MethodHead {
			return err
		}
	} else {
		for name := range response.Headers {
			// Location comes with what is new, the other with what was replayed.
			if a.Header.Get(name) == "" && name != "Idempotency-Replayed" && (name != "Location" || a.StatusCode == http.StatusCreated) {
				return fmt.Errorf("no header %s", name)
			}
		}
	}
	if r.method == http.MethodHead {
		return nil
	}
	return d.checkBody(r, a, kind, valid)
}

func (d *document) checkBody(r *request, a *answer, kind string, valid *jsonschema.Schema) error {
	switch {
	case kind == eventType:
		return d.checkEvents(a.body)
	case kind == yamlType:
		documents, err := readYAML(a.body)
		if err != nil {
			return fmt.Errorf("the answer is no YAML: %w", err)
		}
		if r.op.OperationID == "export" || r.op.OperationID == "history-state" { // a stream of what is a list in JSON
			return valid.Validate(map[string]any{"items": documents})
		}
		if len(documents) != 1 {
			return fmt.Errorf("%d documents", len(documents))
		}
		return valid.Validate(documents[0])
	case strings.HasSuffix(kind, "json"):
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
		if err != nil {
			return fmt.Errorf("the answer is no JSON: %w", err)
		}
		return valid.Validate(value)
	}
	return valid.Validate(string(a.body))
}

// readYAML reads documents as JSON values.
func readYAML(data []byte) ([]any, error) {
	documents := []any{}
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(text)); err != nil {
			return nil, err
		}
		documents = append(documents, value)
	}
}

// checkEvents holds the data of events about resources against their schema.
func (d *document) checkEvents(body []byte) error {
	for block := range strings.SplitSeq(string(body), "\n\n") {
		name, data := "", ""
		for line := range strings.SplitSeq(block, "\n") {
			if value, ok := strings.CutPrefix(line, "event: "); ok {
				name = value
			} else if value, ok := strings.CutPrefix(line, "data: "); ok {
				data = value
			}
		}
		switch name {
		case "added", "modified", "deleted":
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(data))
			if err != nil {
				return fmt.Errorf("an event's data are no JSON: %w", err)
			}
			if err := d.resource.Validate(value); err != nil {
				return err
			}
		case "", "synced", "reset":
		default:
			return fmt.Errorf("an event %q", name)
		}
	}
	return nil
}

// checkProblem demands all that a problem has to tell; of an answer to HEAD that
// is its head.
func (d *document) checkProblem(a *answer, kind string, head bool) error {
	if kind != problemType {
		return fmt.Errorf("a problem of the type %s", kind)
	}
	if head {
		return nil
	}
	var p struct {
		Type, Title, Detail, Instance string
		Status                        int
		Diagnostics                   []struct{ Severity, Problem string }
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		return fmt.Errorf("the problem is no JSON: %w", err)
	}
	slug, ok := strings.CutPrefix(p.Type, "urn:ovn-vpc:problem:")
	switch {
	case !ok || slug == "":
		return fmt.Errorf("a problem of the type %q", p.Type)
	case p.Status != a.StatusCode:
		return fmt.Errorf("a problem with the status %d", p.Status)
	case p.Title == "" || p.Detail == "":
		return errors.New("a problem without a title or a detail")
	case p.Instance != a.Header.Get("X-Request-Id"):
		return fmt.Errorf("a problem of the request %q", p.Instance)
	case (slug == "in-use" || slug == "taken") && len(p.Diagnostics) == 0:
		return errors.New("a problem without diagnostics")
	}
	for _, found := range p.Diagnostics {
		if found.Severity == "" || found.Problem == "" {
			return errors.New("a diagnostic without a severity or a problem")
		}
	}
	return nil
}
