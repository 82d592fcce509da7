package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"sync"

	"gopkg.in/yaml.v3"
)

// MarshalDocument is a resource's document as compact JSON, without a name where it
// has none.
func MarshalDocument(r *Resource) ([]byte, error) {
	data, err := marshalSpec(r.Spec, func(spec Spec) any {
		if r.Metadata.Name == "" {
			return unnamed{APIVersion, r.Kind, unnamedMetadata{r.Metadata.VPC, r.Metadata.Labels}, spec}
		}
		return Document{APIVersion: APIVersion, Kind: r.Kind, Metadata: r.Metadata, Spec: spec}
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", r.ID(), err)
	}
	return data, nil
}

// unnamed is a Document of a resource whose name is to be chosen.
type unnamed struct {
	APIVersion string          `json:"apiVersion"`
	Kind       Kind            `json:"kind"`
	Metadata   unnamedMetadata `json:"metadata"`
	Spec       Spec            `json:"spec"`
}

type unnamedMetadata struct {
	VPC    string            `json:"vpc,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// readOwn reads a list, or an attachment that fixes no addresses, which is written as
// MarshalDocument does, spaces aside, and has no faults: nil else, and where that is
// not sure. It is for what is large or comes often: nodes would cost several times as
// much.
func readOwn(input Input, id ID) *Resource {
	if id.Kind != KindACL && id.Kind != KindAttachment || bytes.Count(input.Data, []byte(",")) > maxElements {
		return nil
	}
	r := parseOwn(id.Kind, input.Data)
	if r == nil {
		var b bytes.Buffer
		if json.Compact(&b, input.Data) != nil || b.Len() == len(input.Data) {
			return nil
		}
		if r = parseOwn(id.Kind, b.Bytes()); r == nil {
			return nil
		}
	}
	nodes := sync.OnceValue(func() *yaml.Node {
		if documents, ok := jsonNodes(input.Data); ok {
			root := documents[0].Content[0]
			identify(root, id)
			return root
		}
		return nil
	})
	r.Source = &Source{File: input.Name, read: nodes}
	r.Metadata.Name, r.Metadata.VPC = cmp.Or(r.Metadata.Name, id.Name), cmp.Or(r.Metadata.VPC, id.VPC)
	if r.Spec.complete(r); len(r.Check()) > 0 {
		return nil
	}
	return r
}

// parseOwn reads a document. That it passes nothing over and takes nothing for
// something else shows when it is written again.
func parseOwn(kind Kind, data []byte) *Resource {
	text, rules := string(data), []Rule(nil)
	spec := NewSpec(kind)
	list, ok := spec.(*ACLSpec)
	if ok {
		if text, rules, ok = splitList(text); !ok {
			return nil
		}
	}
	d := Document{Spec: spec}
	if json.Unmarshal([]byte(text), &d) != nil || d.APIVersion != APIVersion || d.Kind != kind || d.Spec == nil {
		return nil
	}
	if len(rules) > 0 {
		list.Rules = rules
	}
	if a, ok := spec.(*AttachmentSpec); ok && (len(a.Addresses)+len(a.AllowedAddresses) > 0 || a.MAC != "" || a.Plug != nil) {
		return nil // they have a syntax of their own
	}
	r := &Resource{Kind: kind, Metadata: d.Metadata, Spec: spec}
	if again, err := MarshalDocument(r); err != nil || !bytes.Equal(again, data) {
		return nil
	}
	return r
}
