package model

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Input is a text with resources, in YAML or JSON.
type Input struct {
	Name string // for messages: a path, or <stdin>
	Data []byte
}

// Set is what Load has read.
type Set struct {
	// Resources stand in the order of the input. A resource with faults is
	// among them, so that checks across resources can go on.
	Resources []*Resource
	byID      map[ID]*Resource
}

// Get finds a resource, nil if there is none.
func (s *Set) Get(id ID) *Resource { return s.byID[id] }

// VPCs are the names of the VPCs concerned, sorted.
func (s *Set) VPCs() []string {
	names := make(map[string]bool)
	for _, r := range s.Resources {
		if scope := r.Scope(); scope != "" {
			names[scope] = true
		}
	}
	return sortedKeys(names)
}

// maxFaults bounds the diagnostics of one Load: what follows is not read.
const maxFaults = 1000

// loader collects what the inputs hold.
type loader struct {
	set   *Set
	found Diagnostics
	types map[reflect.Type][]property
	idle  <-chan struct{} // closed when all processors may be used
}

func newLoader() *loader {
	return &loader{set: &Set{byID: make(map[ID]*Resource)}, types: make(map[reflect.Type][]property)}
}

func (l *loader) report(d Diagnostic) {
	if !l.full() {
		l.found = append(l.found, d)
	}
}

func (l *loader) full() bool { return len(l.found) >= maxFaults }

// Load reads resources, fills in defaults and checks each by itself. It
// reports all faults, sorted by place; with an error among them the Set is
// good for further checks (Check) only.
func Load(inputs ...Input) (*Set, Diagnostics) {
	idle := make(chan struct{})
	close(idle)
	return LoadBeside(idle, inputs...)
}

// LoadBeside is Load, but leaves one of several processors alone until idle is
// closed.
func LoadBeside(idle <-chan struct{}, inputs ...Input) (*Set, Diagnostics) {
	l := newLoader()
	l.idle = idle
	for _, input := range inputs {
		l.input(input)
	}
	l.found.Sort()
	if l.full() {
		l.found = append(l.found, Diagnostic{Severity: LevelError, Problem: fmt.Sprintf("after %d faults the rest is not read", maxFaults), Fix: "mend those shown first"})
	}
	return l.set, l.found
}

func (l *loader) input(input Input) {
	if d := binary(input); d != nil {
		l.report(*d)
		return
	}
	documents := 0
	for parts := range slices.Chunk(split(input.Data), parsedAhead) {
		if l.full() {
			return
		}
		for _, parsed := range parseAll(input.Name, parts, l.idle) {
			if l.full() {
				return
			}
			documents += l.part(input.Name, parsed)
		}
	}
	if documents == 0 {
		l.report(Diagnostic{Severity: LevelWarning, File: input.Name, Line: 1, Column: 1, Problem: "holds no resource", Fix: "is it the right file?"})
	}
}

// part reads the documents of one part and says how many there were, good or
// bad.
func (l *loader) part(file string, part parsedPart) int {
	documents := 0
	for _, node := range part.nodes {
		if l.full() {
			return documents
		}
		if node.Kind != yaml.DocumentNode || len(node.Content) == 0 || isNull(node.Content[0]) {
			continue
		}
		documents++
		root := node.Content[0]
		d := &decoder{file: file, offset: part.line, report: l.report, types: l.types}
		if !d.bounded(root) {
			continue
		}
		l.document(d, target(root))
	}
	if part.fault != nil {
		documents++
		l.report(*part.fault)
	}
	return documents
}

// document reads an envelope, or {"items": [envelope, ...]} as a list is
// printed.
func (l *loader) document(d *decoder, root *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		d.mismatch(root, "", "a resource", "start with apiVersion: "+APIVersion)
		return
	}
	items := child(root, step{key: "items", index: -1})
	if items == nil || child(root, step{key: "kind", index: -1}) != nil {
		l.envelope(d, root)
		return
	}
	for _, e := range d.entries(root, "") {
		if name := target(e.key).Value; name != "items" {
			d.unknown(e.key, "", name, []string{"items"})
		}
	}
	if items = target(items); items.Kind != yaml.SequenceNode {
		d.mismatch(items, "items", "a list", "write [ ] around it")
		return
	}
	for i, item := range items.Content {
		if l.full() {
			return
		}
		item = target(item)
		d := &decoder{file: d.file, offset: d.offset, report: l.report, types: l.types}
		if item.Kind != yaml.MappingNode {
			d.mismatch(item, index("items", i), "a resource", "start with apiVersion: "+APIVersion)
			continue
		}
		l.envelope(d, item)
	}
}

func (l *loader) envelope(d *decoder, root *yaml.Node) {
	r := &Resource{Source: &Source{File: d.file, Node: root, offset: d.offset}}
	parts := make(map[string]*yaml.Node)
	known := []string{"apiVersion", "kind", "metadata", "spec", "status"}
	for _, e := range d.entries(root, "") {
		name := target(e.key).Value
		if !slices.Contains(known, name) {
			d.unknown(e.key, "", name, known)
			continue
		}
		if value := target(e.value); !isNull(value) {
			parts[name] = value
		}
	}
	d.kind(root, parts["kind"], r)
	if meta := parts["metadata"]; meta != nil {
		d.value(meta, "metadata", reflect.ValueOf(&r.Metadata).Elem())
	}
	if r.Kind != "" && r.Metadata.Name != "" {
		d.resource = r.ID().String()
	}
	if r.Kind.Global() && r.Metadata.VPC != "" {
		r.Metadata.VPC = ""
		d.resource = r.ID().String()
		d.fault(child(parts["metadata"], step{key: "vpc", index: -1}), "metadata.vpc", "is refused: a "+string(r.Kind)+" belongs to no VPC", "remove it")
	}
	d.version(root, parts["apiVersion"])
	if r.Kind == "" {
		return
	}
	if r.Spec = NewSpec(r.Kind); parts["spec"] != nil {
		d.value(parts["spec"], "spec", reflect.ValueOf(r.Spec).Elem())
	}
	l.finish(d, r)
}

// finish completes and checks a resource and adds it to the set.
func (l *loader) finish(d *decoder, r *Resource) {
	r.Spec.complete(r)
	c := &checker{resource: r, faulty: d.faulty}
	c.metadata()
	r.Spec.check(c)
	for _, fault := range c.found {
		l.report(fault)
	}
	r.Source.faulty = d.faulty
	for _, fault := range c.found.Errors() {
		r.Source.faulty = append(r.Source.faulty, fault.Field)
	}
	if r.Metadata.Name == "" {
		return
	}
	id := r.ID()
	if first := l.set.byID[id]; first != nil {
		l.report(r.Fault("metadata.name", fmt.Sprintf("%s is given twice, first in %s", id, first.place()), "remove one of them"))
		return
	}
	l.set.byID[id] = r
	l.set.Resources = append(l.set.Resources, r)
}

func (d *decoder) kind(root, n *yaml.Node, r *Resource) {
	var name string
	if n != nil {
		d.value(n, "kind", reflect.ValueOf(&name).Elem())
	}
	if _, ok := Kind(name).info(); ok {
		r.Kind = Kind(name)
		return
	}
	var names []string
	for _, kind := range Kinds() {
		names = append(names, string(kind))
	}
	fix := suggest(name, names, "one of "+strings.Join(names, ", "))
	if kind, ok := ParseKind(name); ok {
		fix = "write " + string(kind)
	}
	switch {
	case n == nil:
		d.fault(root, "kind", "is missing", fix)
	case name != "":
		d.fault(n, "kind", "there is no kind "+quote(name), fix)
	case n.Kind == yaml.ScalarNode && n.Value == "":
		d.fault(n, "kind", "is empty", fix)
	}
}

func (d *decoder) version(root, n *yaml.Node) {
	switch {
	case n == nil:
		d.fault(root, "apiVersion", "is missing", "write apiVersion: "+APIVersion)
	case n.Kind != yaml.ScalarNode || n.Value != APIVersion:
		d.fault(n, "apiVersion", describe(n)+" is not a version this program knows", "write "+APIVersion)
	}
}
