package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"gopkg.in/yaml.v3"
)

// stored is the form of a resource in the database.
type stored struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`
}

// MarshalStored is the resource's metadata and spec as compact JSON: equal
// for equal resources, byte for byte.
func MarshalStored(r *Resource) ([]byte, error) {
	data, err := marshalSpec(r.Spec, func(spec Spec) any { return stored{r.Metadata, spec} })
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", r.ID(), err)
	}
	return data, nil
}

// ParseStored reads what MarshalStored has written. It refuses unknown fields
// and values that can't be read, but does not check the whole; Resource.Check
// does.
func ParseStored(kind Kind, data []byte) (*Resource, error) {
	var r *Resource
	switch kind {
	case KindACL:
		r = parseList(data)
	case KindAttachment:
		r = parseAttachment(string(data))
	}
	if r != nil {
		return r, nil
	}
	spec := NewSpec(kind)
	if spec == nil {
		return nil, fmt.Errorf("decode stored resource: there is no kind %s", quote(string(kind)))
	}
	document := stored{Spec: spec}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", kind, err)
	}
	if document.Metadata.Name == "" || document.Spec == nil {
		return nil, fmt.Errorf("decode stored %s: no name or no spec", kind)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("decode stored %s: more follows the document", kind)
	}
	r = &Resource{Kind: kind, Metadata: document.Metadata, Spec: document.Spec}
	r.Spec.complete(r)
	return r, nil
}

// parseList is ParseStored of a list of which the rules are written as by
// MarshalStored, nil else: it is written again to be sure.
func parseList(data []byte) *Resource {
	bare, rules, ok := splitList(string(data))
	if !ok || len(rules) == 0 {
		return nil
	}
	r, err := ParseStored(KindACL, []byte(bare))
	if err != nil {
		return nil
	}
	spec := r.Spec.(*ACLSpec)
	spec.Rules = rules
	if again, err := MarshalStored(r); err != nil || !bytes.Equal(again, data) {
		return nil
	}
	spec.complete(r)
	return r
}

// parseAttachment is ParseStored of an attachment as most are, of which there are
// many: as MarshalStored writes one that has nothing but a tier, addresses and an
// interface. It is nil for another.
func parseAttachment(text string) *Resource {
	t := &storedText{rest: text}
	r := &Resource{Kind: KindAttachment}
	spec := NewSpec(KindAttachment).(*AttachmentSpec)
	r.Spec = spec
	r.Metadata.Name = t.after(`{"metadata":{"name":"`)
	r.Metadata.VPC = t.after(`,"vpc":"`)
	spec.Tier = t.after(`},"spec":{"tier":"`)
	for first := `,"addresses":["`; strings.HasPrefix(t.rest, first); first = `,"` {
		addr, err := netip.ParseAddr(t.after(first))
		if err != nil {
			return nil
		}
		spec.Addresses = append(spec.Addresses, addr)
	}
	mac, err := ParseMAC(t.after(`],"mac":"`))
	spec.MAC, spec.InterfaceID = mac, t.after(`,"interfaceID":"`)
	if err != nil || len(spec.Addresses) == 0 || r.Metadata.Name == "" || t.rest != `,"portSecurity":true,"enabled":true}}` {
		return nil
	}
	spec.complete(r)
	return r
}

// storedText is what is left of a text that is read from front to back, nothing
// after the first part that is not as it is expected.
type storedText struct{ rest string }

// after is the text in quotes that follows what ends with the first of them.
func (t *storedText) after(head string) (text string) {
	rest, ok := strings.CutPrefix(t.rest, head)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
	if !ok || end < 0 || rest[end] != '"' {
		t.rest = ""
		return ""
	}
	t.rest = rest[end+1:]
	return rest[:end]
}

// Document is a resource as it is printed, and read by Load.
type Document struct {
	APIVersion string   `json:"apiVersion"`
	Kind       Kind     `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
	Status     any      `json:"status,omitempty"`
}

// Envelope is the resource as a document; a nil status is left out.
func Envelope(r *Resource, status any) Document {
	return Document{APIVersion: APIVersion, Kind: r.Kind, Metadata: r.Metadata, Spec: r.Spec, Status: status}
}

// EncodeYAML writes documents, or other values that json.Marshal takes, as one
// YAML stream, fields in the order of JSON. Load reads the same resources from it.
func EncodeYAML[T any](w io.Writer, documents ...T) error {
	if len(documents) == 0 {
		return nil // yaml.v3 can't close a stream without a document
	}
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	for _, document := range documents {
		data, err := compactJSON(document)
		if err != nil {
			return fmt.Errorf("encode YAML: %w", err)
		}
		node, err := newJSONReader(data).value()
		if err != nil {
			return fmt.Errorf("encode YAML: %w", err)
		}
		if err := encoder.Encode(node); err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
	}
	if err := encoder.Close(); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return nil
}

func compactJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
