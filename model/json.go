package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// jsonNodes reads a text as a stream of JSON values into YAML documents, with
// the order of keys and every place kept; false if it is no JSON. YAML is not
// quite a superset of JSON in yaml.v3: it lacks `\/` and surrogate pairs.
func jsonNodes(data []byte) ([]*yaml.Node, bool) {
	if !mayBeJSON(data) {
		return nil, false
	}
	r := newJSONReader(data)
	var documents []*yaml.Node
	for {
		node, err := r.value()
		if errors.Is(err, io.EOF) {
			return documents, true
		}
		if err != nil {
			return nil, false
		}
		documents = append(documents, &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{node}, Line: node.Line, Column: node.Column})
	}
}

func mayBeJSON(data []byte) bool {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
}

// jsonFault finds what is wrong with a text that looks like JSON, its first key in
// quotes: yaml.v3 knows no column, and the line of the bracket at most. The problem
// is "" for other texts.
func jsonFault(data []byte) (line, column int, problem string) {
	if !regexp.MustCompile(`^\s*(\[\s*)?\{\s*"`).Match(data) {
		return 0, 0, ""
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for decoder.Decode(new(json.RawMessage)) == nil {
		continue // one value after another
	}
	good := int(decoder.InputOffset())
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal(data[good:], new(json.RawMessage)), &syntax) {
		return 0, 0, ""
	}
	r := newJSONReader(data)
	r.advance(max(good+int(syntax.Offset)-1, 0))
	return r.line, r.column, syntax.Error()
}

// maxJSONDepth keeps the reader's recursion small; bounded refuses far less.
const maxJSONDepth = 1000

type jsonReader struct {
	decoder      *json.Decoder
	data         []byte
	depth        int
	at           int // of line and column
	line, column int
}

func newJSONReader(data []byte) *jsonReader {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return &jsonReader{decoder: decoder, data: data, line: 1, column: 1}
}

// value reads the next value.
func (r *jsonReader) value() (*yaml.Node, error) {
	from := int(r.decoder.InputOffset())
	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}
	for bytes.IndexByte([]byte(" \t\r\n:,"), r.data[from]) >= 0 {
		from++
	}
	r.advance(from)
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line, Column: r.column}
	switch value := token.(type) {
	case json.Delim:
		return node, r.collection(node, value)
	case string:
		if node.Tag, node.Value = "!!str", value; value == "<<" {
			node.Style = yaml.DoubleQuotedStyle // plain it is YAML's sign to merge
		}
	case json.Number:
		node.Value = value.String()
	case bool:
		node.Tag, node.Value = "!!bool", fmt.Sprint(value)
	default:
		node.Tag, node.Value = "!!null", "null"
	}
	return node, nil
}

// collection reads the rest of an object or array. Lists of scalars are
// written on one line.
func (r *jsonReader) collection(node *yaml.Node, open json.Delim) error {
	if r.depth++; r.depth > maxJSONDepth {
		return errors.New("nested too deeply")
	}
	defer func() { r.depth-- }()
	node.Kind = yaml.MappingNode
	if open == '[' {
		node.Kind = yaml.SequenceNode
	}
	scalars := true
	for r.decoder.More() {
		element, err := r.value()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		scalars = scalars && element.Kind == yaml.ScalarNode
		node.Content = append(node.Content, element)
	}
	if node.Kind == yaml.SequenceNode && scalars || len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	_, err := r.decoder.Token() // the closing bracket
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// advance moves line and column on to an offset.
func (r *jsonReader) advance(to int) {
	passed := r.data[r.at:to]
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		r.line += bytes.Count(passed, []byte("\n"))
		r.column, passed = 1, passed[last+1:]
	}
	r.column += utf8.RuneCount(passed)
	r.at = to
}
