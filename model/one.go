package model

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// LoadOne reads a single resource of which is known what it is to be: what
// the document leaves out of apiVersion, kind, metadata.name and metadata.vpc
// is taken from id. What it gives stands, also if it differs. The resource is
// nil where the text holds none.
func LoadOne(input Input, id ID) (*Resource, Diagnostics) {
	l := newLoader()
	if d := binary(input); d != nil {
		return nil, Diagnostics{*d}
	}
	if r := readOwn(input, id); r != nil {
		return r, nil
	}
	var documents []*yaml.Node
	offset := 0
	for _, part := range split(input.Data) {
		nodes, fault := parse(input.Name, part)
		if fault != nil {
			return nil, Diagnostics{*fault}
		}
		for _, node := range nodes {
			if node.Kind == yaml.DocumentNode && len(node.Content) > 0 && !isNull(node.Content[0]) {
				documents = append(documents, target(node.Content[0]))
				offset = part.line
			}
		}
	}
	if len(documents) != 1 {
		return nil, Diagnostics{{Severity: LevelError, File: input.Name, Problem: fmt.Sprintf("holds %d documents", len(documents)), Fix: "give one"}}
	}
	root := documents[0]
	d := &decoder{file: input.Name, offset: offset, report: l.report, types: l.types}
	if d.bounded(root) {
		if root.Kind == yaml.MappingNode {
			identify(root, id)
			l.envelope(d, root)
		} else {
			d.mismatch(root, "", "a resource", "start with apiVersion: "+APIVersion)
		}
	}
	l.found.Sort()
	if len(l.set.Resources) == 0 {
		return nil, l.found
	}
	return l.set.Resources[0], l.found
}

// identify adds to an envelope what it leaves out.
func identify(root *yaml.Node, id ID) {
	supply(root, "apiVersion", APIVersion)
	supply(root, "kind", string(id.Kind))
	meta := child(root, step{key: "metadata", index: -1})
	if meta == nil || isNull(target(meta)) {
		meta = &yaml.Node{Kind: yaml.MappingNode, Line: root.Line, Column: root.Column}
		put(root, "metadata", meta)
	}
	if meta = target(meta); meta.Kind == yaml.MappingNode {
		supply(meta, "name", id.Name)
		supply(meta, "vpc", id.VPC)
	}
}

// supply gives a mapping a text under a key that it lacks.
func supply(mapping *yaml.Node, key, text string) {
	if have := child(mapping, step{key: key, index: -1}); text != "" && (have == nil || isNull(target(have))) {
		put(mapping, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: mapping.Line, Column: mapping.Column})
	}
}

// put sets a key of a mapping that has none, or null.
func put(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if target(mapping.Content[i]).Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: mapping.Line, Column: mapping.Column}
	mapping.Content = append(mapping.Content, name, value)
}
