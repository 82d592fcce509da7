package model

import (
	"fmt"
	"reflect"

	"gopkg.in/yaml.v3"
)

// LoadOne reads a single resource of which is known what it is to be: what
// the document leaves out of apiVersion, kind, metadata.name and metadata.vpc
// is taken from id. What it gives stands, also if it differs. The resource is
// nil where the text holds none.
func LoadOne(input Input, id ID) (*Resource, Diagnostics) {
	l := newLoader()
	if r := readOwn(input, id); r != nil {
		return r, nil
	}
	root, offset, found := single(input)
	if root == nil {
		return nil, found
	}
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

// LoadRule reads a single rule for a list. One that has no number is left with 0.
func LoadRule(input Input, list ID) (*Rule, Diagnostics) {
	r := &Resource{Kind: list.Kind, Metadata: Metadata{Name: list.Name, VPC: list.VPC}}
	if rule, ok := ParseRule(string(input.Data)); ok { // as this program writes them, and most others: at once
		c := &checker{resource: r}
		if rule.check(c, ""); len(c.found) == 0 {
			return &rule, nil
		}
	}
	l := newLoader()
	root, offset, found := single(input)
	if root == nil {
		return nil, found
	}
	d := &decoder{file: input.Name, offset: offset, resource: list.String(), report: l.report, types: l.types}
	rule := &Rule{}
	rule.setDefaults()
	if d.bounded(root) {
		d.value(root, "", reflect.ValueOf(rule).Elem())
	}
	rule.complete()
	r.Source = &Source{File: input.Name, Node: root, offset: offset}
	c := &checker{resource: r, faulty: d.faulty}
	rule.check(c, "")
	for _, fault := range c.found {
		l.report(fault)
	}
	if rule.Number == unnumbered {
		rule.Number = 0
	}
	l.found.Sort()
	return rule, l.found
}

// single is the one document of a text, nil where that holds none or several, with
// the lines before the part in which it stands.
func single(input Input) (root *yaml.Node, offset int, found Diagnostics) {
	if d := binary(input); d != nil {
		return nil, 0, Diagnostics{*d}
	}
	var documents []*yaml.Node
	for _, part := range split(input.Data) {
		nodes, fault := parse(input.Name, part)
		if fault != nil {
			return nil, 0, Diagnostics{*fault}
		}
		for _, node := range nodes {
			if node.Kind == yaml.DocumentNode && len(node.Content) > 0 && !isNull(node.Content[0]) {
				documents = append(documents, target(node.Content[0]))
				offset = part.line
			}
		}
	}
	if len(documents) != 1 {
		return nil, 0, Diagnostics{{Severity: LevelError, File: input.Name, Problem: fmt.Sprintf("holds %d documents", len(documents)), Fix: "give one"}}
	}
	return documents[0], offset, nil
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
