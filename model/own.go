package model

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"sync"

	"gopkg.in/yaml.v3"
)

// readOwn reads a list that is written as this program writes it, spaces aside,
// and has no faults: nil else, and where that is not sure. It is for lists with
// many rules, of which nodes would cost several times as much. That nothing is
// passed over or taken for something else shows when it is written again.
func readOwn(input Input, id ID) *Resource {
	var given bytes.Buffer
	if id.Kind != KindACL || bytes.Count(input.Data, []byte(",")) > maxElements || json.Compact(&given, input.Data) != nil {
		return nil
	}
	spec := NewSpec(KindACL).(*ACLSpec)
	document := Document{Spec: spec}
	if json.Unmarshal(given.Bytes(), &document) != nil || document.APIVersion != APIVersion || document.Kind != KindACL || document.Spec == nil {
		return nil
	}
	again, err := compactJSON(document)
	if err != nil || !bytes.Equal(again, given.Bytes()) {
		return nil
	}
	for _, rule := range spec.Rules {
		if slices.ContainsFunc(rule.CIDRs, func(p netip.Prefix) bool { return !p.IsValid() || p.Masked() != p || p.Addr().Is4In6() }) {
			return nil
		}
	}
	nodes := sync.OnceValue(func() *yaml.Node {
		if documents, ok := jsonNodes(input.Data); ok {
			return documents[0].Content[0]
		}
		return nil
	})
	r := &Resource{Kind: KindACL, Metadata: document.Metadata, Spec: spec, Source: &Source{File: input.Name, read: nodes}}
	if spec.complete(r); len(r.Check()) > 0 {
		return nil
	}
	return r
}
