package model

import (
	"bytes"
	"encoding/json"
	"sync"

	"gopkg.in/yaml.v3"
)

// readOwn reads a list that is written as this program writes it, spaces aside,
// and has no faults: nil else, and where that is not sure. It is for lists with
// many rules, of which nodes would cost several times as much.
func readOwn(input Input, id ID) *Resource {
	if id.Kind != KindACL || bytes.Count(input.Data, []byte(",")) > maxElements {
		return nil
	}
	r := parseOwn(input.Data)
	if r == nil {
		var b bytes.Buffer
		if json.Compact(&b, input.Data) != nil || b.Len() == len(input.Data) {
			return nil
		}
		if r = parseOwn(b.Bytes()); r == nil {
			return nil
		}
	}
	nodes := sync.OnceValue(func() *yaml.Node {
		if documents, ok := jsonNodes(input.Data); ok {
			return documents[0].Content[0]
		}
		return nil
	})
	r.Source = &Source{File: input.Name, read: nodes}
	if r.Spec.complete(r); len(r.Check()) > 0 {
		return nil
	}
	return r
}

// parseOwn reads a list's document. That it passes nothing over and takes nothing
// for something else shows when it is written again.
func parseOwn(data []byte) *Resource {
	bare, rules, ok := splitList(string(data))
	if !ok {
		return nil
	}
	spec := NewSpec(KindACL).(*ACLSpec)
	d := Document{Spec: spec}
	if json.Unmarshal([]byte(bare), &d) != nil || d.APIVersion != APIVersion || d.Kind != KindACL || d.Spec == nil {
		return nil
	}
	if len(rules) > 0 {
		spec.Rules = rules
	}
	again, err := marshalSpec(spec, func(spec Spec) any {
		return Document{APIVersion: d.APIVersion, Kind: d.Kind, Metadata: d.Metadata, Spec: spec}
	})
	if err != nil || !bytes.Equal(again, data) {
		return nil
	}
	return &Resource{Kind: KindACL, Metadata: d.Metadata, Spec: spec}
}
