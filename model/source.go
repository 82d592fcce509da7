package model

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Source is the document a resource was read from.
type Source struct {
	File string
	Node *yaml.Node // the envelope's mapping; nil where there is none, or read has it

	read   func() *yaml.Node // for a document of which nodes are made only where a place is asked for
	offset int               // lines before the text that Node counts from
	faulty []string          // paths of fields with faults, as written
	// order maps the canonical order of a list to the written one: the
	// element i of the list at a path was written at order[path][i], or
	// nowhere (-1).
	order map[string][]int
}

// Pos is the line and column of a field given by its path (spec.cidrs[0],
// metadata.labels["a/b"]), or of the closest parent that was written.
func (s *Source) Pos(field string) (line, column int) {
	node := s.Node
	if node == nil && s.read != nil {
		node = s.read()
	}
	if node == nil {
		return 0, 0
	}
	for _, step := range splitPath(s.written(field)) {
		next := child(node, step)
		if next == nil {
			break
		}
		node = next
	}
	return node.Line + s.offset, node.Column
}

// written translates a path from the canonical order of lists to the order in
// which they were written.
func (s *Source) written(field string) string {
	for path, order := range s.order {
		rest, ok := strings.CutPrefix(field, path+"[")
		if !ok {
			continue
		}
		digits, rest, _ := strings.Cut(rest, "]")
		i, err := strconv.Atoi(digits)
		if err != nil || i < 0 || i >= len(order) {
			return field
		}
		if order[i] < 0 {
			return path
		}
		return index(path, order[i]) + rest
	}
	return field
}

// reorder notes that the list at a path no longer stands as it was written.
func (r *Resource) reorder(path string, order []int) {
	if r.Source == nil {
		return
	}
	if r.Source.order == nil {
		r.Source.order = make(map[string][]int)
	}
	r.Source.order[path] = order
}

// step is one step of a path: into a mapping, or into a list.
type step struct {
	key   string
	index int // -1 for a key
}

func splitPath(path string) []step {
	var steps []step
	for path != "" {
		switch {
		case path[0] == '.':
			path = path[1:]
		case strings.HasPrefix(path, `["`):
			quoted, err := strconv.QuotedPrefix(path[1:])
			if err != nil {
				return steps
			}
			key, err := strconv.Unquote(quoted)
			if err != nil {
				return steps
			}
			steps = append(steps, step{key: key, index: -1})
			path = strings.TrimPrefix(path[1+len(quoted):], "]")
		case path[0] == '[':
			digits, rest, _ := strings.Cut(path[1:], "]")
			i, err := strconv.Atoi(digits)
			if err != nil {
				return steps
			}
			steps = append(steps, step{index: i})
			path = rest
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			steps = append(steps, step{key: path[:end], index: -1})
			path = path[end:]
		}
	}
	return steps
}

// index and member build paths.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func member(path, key string) string {
	switch {
	case key == "" || strings.ContainsAny(key, ".[]\"/ ") || len(key) > maxNameLen:
		return path + "[" + strconv.Quote(shorten(key)) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// child is the node one step below, nil where there is none.
func child(node *yaml.Node, s step) *yaml.Node {
	node = target(node)
	if s.index >= 0 {
		if node.Kind != yaml.SequenceNode || s.index >= len(node.Content) {
			return nil
		}
		return node.Content[s.index]
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	var merged *yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if target(key).Value == s.key && !isMerge(key) {
			return value
		}
		if isMerge(key) && merged == nil {
			for _, from := range mergeSources(value) {
				if merged = child(from, s); merged != nil {
					break
				}
			}
		}
	}
	return merged
}

// target follows an alias to what it stands for.
func target(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	return node
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge"
}

// mergeSources are the values of a merge key, the strongest first
// (https://yaml.org/type/merge.html).
func mergeSources(value *yaml.Node) []*yaml.Node {
	if value = target(value); value.Kind == yaml.SequenceNode {
		return value.Content
	}
	return []*yaml.Node{value}
}
