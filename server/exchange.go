package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/munnerz/goautoneg"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// The media types that are read and written.
const (
	jsonType       = "application/json"
	yamlType       = "application/yaml"
	mergePatchType = "application/merge-patch+json"
	planType       = "application/vnd.ovn-vpc.plan+json"
	problemType    = "application/problem+json"
	// formType is what curl -d says if it isn't told otherwise: read as JSON.
	formType = "application/x-www-form-urlencoded"
)

// exchange is one call of a route, its query read.
type exchange struct {
	context.Context
	request *http.Request
	id      string         // of the request, for logs
	query   map[string]any // the parameters that were given, in their types
	yaml    bool           // the answer's type
	compact bool           // JSON for a program: without spaces
}

// answer is what a route answers.
type answer struct {
	status int // 0: 200
	header map[string]string
	body   any
	stream []model.Document // a YAML answer is these instead, each a document
}

func (c *exchange) path(name string) string { return c.request.PathValue(name) }

func (c *exchange) text(name string) string {
	text, _ := c.query[name].(string)
	return text
}

func (c *exchange) flag(name string) bool {
	set, _ := c.query[name].(bool)
	return set
}

func (c *exchange) number(name string) int {
	n, _ := c.query[name].(int64)
	return int(n)
}

// labels is the selector of the query.
func (c *exchange) labels() (map[string]string, error) {
	labels, err := engine.ParseLabels(c.text("labels"))
	if err != nil {
		return nil, newProblem(slugMalformed, "%s", err)
	}
	return labels, nil
}

// read reads the query of a request and what type it accepts.
func (rt *route) read(r *http.Request, id string) (*exchange, error) {
	c := &exchange{Context: r.Context(), request: r, id: id}
	if accept := r.Header.Get("Accept"); accept != "" {
		c.compact = strings.Contains(accept, jsonType) // curl and browsers don't say so
		switch goautoneg.Negotiate(accept, []string{jsonType, yamlType, problemType}) {
		case yamlType:
			c.yaml = true
		case "":
			return nil, newProblem(slugNotAcceptable, "answers are %s or %s", jsonType, yamlType)
		}
	}
	var err error
	if c.query, err = readQuery(r.URL.RawQuery, rt.params); err != nil {
		return nil, err
	}
	if timeout, err := time.ParseDuration(c.text("timeout")); err == nil && timeout > maxWait {
		return nil, newProblem(slugMalformed, "the timeout can't be more than %s", maxWait)
	}
	return c, nil
}

// readQuery are the parameters of a query, in their types.
func readQuery(raw string, params []*huma.Param) (map[string]any, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, newProblem(slugMalformed, "the query can't be read: %s", err)
	}
	query := map[string]any{}
	for name, given := range values {
		i := slices.IndexFunc(params, func(p *huma.Param) bool { return p.In == "query" && p.Name == name })
		if i < 0 {
			return nil, newProblem(slugMalformed, "there is no query parameter %q here", name)
		}
		if len(given) > 1 {
			return nil, newProblem(slugMalformed, "the query parameter %s is given %d times", name, len(given))
		}
		if query[name], err = parameter(params[i], given[0]); err != nil {
			return nil, err
		}
	}
	return query, nil
}

// parameter is a query parameter's value in the type that it is documented with.
func parameter(p *huma.Param, text string) (value any, err error) {
	switch p.Schema.Type {
	case huma.TypeInteger:
		if value, err = strconv.ParseInt(text, 10, 64); err != nil {
			err = errors.New("write a whole number")
		}
	case huma.TypeBoolean:
		if value = text == "true"; text != "true" && text != "false" {
			err = errors.New("write true or false")
		}
	default:
		value = text
	}
	if err != nil {
		return nil, newProblem(slugMalformed, "the query parameter %s can't be %q: %s", p.Name, text, err)
	}
	found := &huma.ValidateResult{}
	huma.Validate(nil, p.Schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, value, found)
	var fault *huma.ErrorDetail
	if errors.As(errors.Join(found.Errors...), &fault) {
		return nil, newProblem(slugMalformed, "the query parameter %s can't be %q: %s", p.Name, text, fault.Message)
	}
	return value, nil
}

// write encodes an answer whole before it sends anything.
func (c *exchange) write(w http.ResponseWriter, a *answer) error {
	var body bytes.Buffer
	var err error
	kind := jsonType
	switch {
	case c.yaml && a.stream != nil:
		kind, err = yamlType, model.EncodeYAML(&body, a.stream...)
	case c.yaml:
		kind, err = yamlType, model.EncodeYAML(&body, a.body)
	default:
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false)
		if !c.compact {
			encoder.SetIndent("", "  ") // as the command line prints
		}
		err = encoder.Encode(a.body)
	}
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	header := w.Header()
	for name, value := range a.header {
		header.Set(name, value)
	}
	header.Set("Content-Type", kind)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(max(a.status, http.StatusOK))
	_, _ = body.WriteTo(w) // the caller has gone: nobody is left to tell
	return nil
}

// body reads the body, which has to be of one of the types.
func (c *exchange) body(types ...string) (data []byte, kind string, err error) {
	kind = jsonType
	if header := c.request.Header.Get("Content-Type"); header != "" {
		if kind, _, err = mime.ParseMediaType(header); err != nil {
			return nil, "", newProblem(slugUnsupportedMedia, "the Content-Type %q can't be read: %s", header, err)
		}
	}
	if kind == formType {
		kind = jsonType
	}
	if !slices.Contains(types, kind) {
		return nil, "", newProblem(slugUnsupportedMedia, "the body is %s; what is read here is %s", kind, strings.Join(types, " or "))
	}
	if c.request.Header.Get("Content-Encoding") != "" {
		return nil, "", newProblem(slugUnsupportedMedia, "a body with a Content-Encoding is not read")
	}
	var b bytes.Buffer
	b.Grow(int(min(max(c.request.ContentLength, 0), 64<<10)) + bytes.MinRead)
	_, err = b.ReadFrom(c.request.Body)
	data = b.Bytes()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, "", newProblem(slugTooLarge, "the body has more than %d bytes", large.Limit)
	case err != nil:
		return nil, "", newProblem(slugMalformed, "the body did not come whole: %s", err)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, "", newProblem(slugMalformed, "the body is empty")
	}
	if kind != yamlType {
		if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
			return nil, "", newProblem(slugMalformed, "the body is not JSON: %s%s", placeOf(err, data), err)
		}
	}
	return data, kind, nil
}

// placeOf says where in a text JSON ends to be any, where that is known.
func placeOf(err error, text []byte) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return ""
	}
	read := text[:min(int(syntax.Offset), len(text))]
	column := utf8.RuneCount(read[bytes.LastIndexByte(read, '\n')+1:])
	return fmt.Sprintf("line %d, column %d: ", 1+bytes.Count(read, []byte("\n")), column)
}

// decode reads a body of JSON that is no document into a value.
func (c *exchange) decode(value any) error {
	data, _, err := c.body(jsonType)
	if err != nil {
		return err
	}
	return decodeStrictly(data, value)
}

func decodeStrictly(data []byte, value any) error {
	if err := unambiguous(data); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return newProblem(slugInvalid, "the body is not as it has to be: %s", err)
	}
	return nil
}

// unambiguous refuses JSON with a key twice in one object: decoders would take
// the last one without a word.
func unambiguous(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // no number is too large to be passed over
	return distinct(decoder)
}

// distinct reads one value.
func distinct(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil || token != json.Delim('{') && token != json.Delim('[') {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		if token == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			if seen[name] {
				return newProblem(slugInvalid, "the key %q is given twice in one object", name)
			}
			seen[name] = true
		}
		if err := distinct(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end
	return err
}

const (
	defaultWait = 10 * time.Second
	maxWait     = 60 * time.Second
)

// wait is how far the caller wants a change to have come.
func (c *exchange) wait() engine.Wait {
	if wait := engine.Wait(c.text("wait")); wait != "" {
		return wait
	}
	return engine.WaitNone
}

// waitTimeout is how long a call was asked to wait for its change, as far as the
// query can be read.
func waitTimeout(query url.Values) time.Duration {
	if wait := query.Get("wait"); wait == "" || wait == string(engine.WaitNone) {
		return 0
	}
	timeout, err := time.ParseDuration(query.Get("timeout"))
	if err != nil {
		return defaultWait
	}
	return min(max(timeout, 0), maxWait)
}
