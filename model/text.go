package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// CodeSyntax marks the fault of a text that is no YAML or JSON at all.
const CodeSyntax Code = "syntax"

// part is a piece of an input: whole documents, most often one.
type part struct {
	line int // lines of the input before it
	at   int // bytes
	data []byte
}

// split cuts a text before each line that starts a document. Such a line
// always does, also within a scalar (YAML 1.2.2, 9.1.2 and 9.2), so that a
// document that can't be read doesn't hide the faults of the next. Parts
// without content are left out.
func split(data []byte) []part {
	data = unmarked(data)
	var parts []part
	start, startLine := 0, 0
	started, content := false, false // a document, something in it
	for at, line := 0, 0; at < len(data); line++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		text := data[at:end]
		trimmed := bytes.TrimSpace(text)
		marker := bytes.HasPrefix(text, []byte("---")) && (len(text) == 3 || bytes.IndexByte([]byte(" \t\r\n"), text[3]) >= 0)
		if marker && started {
			if content {
				parts = append(parts, part{startLine, start, data[start:at]})
			}
			start, startLine, content = at, line, false
		}
		// Comments and directives belong to the document that follows.
		bare := len(trimmed) == 0 || trimmed[0] == '#' || text[0] == '%'
		started = started || !bare
		content = content || !bare && !(marker && len(trimmed) == 3)
		at = end
	}
	if content {
		parts = append(parts, part{startLine, start, data[start:]})
	}
	return parts
}

// unmarked is a text without the byte order marks that begin its lines, as of
// files that were put together (YAML 1.2.2, 5.2): yaml.v3 knows the first alone.
func unmarked(data []byte) []byte {
	marked := []byte("\n\ufeff")
	if !bytes.Contains(data, marked) {
		return data
	}
	return bytes.ReplaceAll(data, marked, marked[:1])
}

// binary reports an input that is no text.
func binary(input Input) *Diagnostic {
	line, column := 1, 1
	for at := 0; at < len(input.Data); {
		r, size := utf8.DecodeRune(input.Data[at:])
		problem := ""
		switch {
		case r == utf8.RuneError && size == 1:
			problem = fmt.Sprintf("byte %#02x is not UTF-8", input.Data[at])
		case r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f:
			problem = fmt.Sprintf("control character %#02x", input.Data[at])
		}
		if problem != "" {
			return &Diagnostic{
				Severity: LevelError, File: input.Name, Line: line, Column: column,
				Problem: "is not a text: " + problem, Fix: "give YAML or JSON in UTF-8", Code: CodeSyntax,
			}
		}
		at, column = at+size, column+1
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return nil
}

// parsedAhead is how many parts are parsed before the first is looked at.
const parsedAhead = 1024

// parsedPart is what parse gives of a part.
type parsedPart struct {
	part
	nodes []*yaml.Node
	fault *Diagnostic
}

// parsedAtOnce is how many parts at most are parsed as one: to set a parser up
// takes about as long as a small document.
const parsedAtOnce = 32

// parseAll parses parts side by side, as many as there are processors, of which one
// is left alone until idle is closed.
func parseAll(file string, parts []part, idle <-chan struct{}) []parsedPart {
	runs := slices.Collect(slices.Chunk(parts, parsedAtOnce))
	parsed := make([][]parsedPart, len(runs))
	taken := make(chan struct{}) // closed when no run is left
	var next atomic.Int64
	work := func() {
		i := next.Add(1) - 1
		for ; i < int64(len(runs)); i = next.Add(1) - 1 {
			parsed[i] = parseRun(file, runs[i])
		}
		if i == int64(len(runs)) {
			close(taken)
		}
	}
	var all sync.WaitGroup
	for range max(1, min(runtime.GOMAXPROCS(0), len(runs))-1) {
		all.Go(work)
	}
	select {
	case <-idle:
		work()
	case <-taken:
	}
	all.Wait()
	return slices.Concat(parsed...)
}

// parseRun parses neighbouring parts: as one, if it is certain that each alone
// gives the same.
func parseRun(file string, parts []part) []parsedPart {
	if whole, ok := joined(parts); ok {
		if nodes, fault := parse(file, whole); fault == nil {
			return []parsedPart{{whole, nodes, nil}}
		}
	}
	parsed := make([]parsedPart, len(parts))
	for i, p := range parts {
		nodes, fault := parse(file, p)
		parsed[i] = parsedPart{p, nodes, fault}
	}
	return parsed
}

// joined makes neighbouring parts one. It is not for JSON, nor for anchors, which
// yaml.v3 carries over from one document to the next.
func joined(parts []part) (part, bool) {
	first, last := parts[0], parts[len(parts)-1]
	whole := part{first.line, first.at, first.data[:last.at+len(last.data)-first.at]} // they are parts of one text
	return whole, len(parts) > 1 && bytes.IndexByte(whole.data, '&') < 0 &&
		!slices.ContainsFunc(parts, func(p part) bool { return mayBeJSON(p.data) })
}

// parse reads the documents of a part up to the first that isn't YAML.
func parse(file string, p part) (nodes []*yaml.Node, fault *Diagnostic) {
	// yaml.v3 panics on some malformed texts that its scanner lets through.
	defer func() {
		if recovered := recover(); recovered != nil {
			fault = syntaxFault(file, p, fmt.Errorf("yaml: %v", recovered))
		}
	}()
	if nodes, ok := jsonNodes(p.data); ok {
		return nodes, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(p.data))
	for {
		node := new(yaml.Node)
		err := decoder.Decode(node)
		if errors.Is(err, io.EOF) {
			return nodes, nil
		}
		if err != nil {
			return nodes, syntaxFault(file, p, err)
		}
		nodes = append(nodes, node)
	}
}

// syntaxFault takes the line out of an error of yaml.v3, which says no column.
func syntaxFault(file string, p part, err error) *Diagnostic {
	line, problem := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if match := regexp.MustCompile(`(?s)^line (\d+): (.*)$`).FindStringSubmatch(problem); match != nil {
		if n, err := strconv.Atoi(match[1]); err == nil {
			line, problem = n, match[2]
		}
	}
	d := &Diagnostic{
		Severity: LevelError, File: file, Line: p.line + line, Column: 1,
		Problem: "is not YAML: " + shorten(problem), Fix: "check indentation, brackets and quotes near this line", Code: CodeSyntax,
	}
	if line, column, why := jsonFault(p.data); why != "" {
		d.Line, d.Column, d.Problem = p.line+line, column, "is not JSON: "+why
	} else if strings.Contains(problem, "cannot start any token") {
		if tabLine, column := indentingTab(p.data); tabLine > 0 {
			d.Line, d.Column = p.line+tabLine, column
			d.Problem, d.Fix = "is not YAML: a tab in the indentation", "indent with spaces"
		}
	}
	return d
}

// indentingTab finds the first tab before a line's text.
func indentingTab(data []byte) (line, column int) {
	for i, text := range bytes.Split(data, []byte("\n")) {
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if tab := bytes.IndexByte(indent, '\t'); tab >= 0 && len(indent) < len(text) {
			return i + 1, tab + 1
		}
	}
	return 0, 0
}

// Bounds of a document: levels of nesting, and nodes that aliases add to
// those written ("billion laughs").
const (
	maxDepth      = 100
	maxAliasNodes = 1_000_000
)

// extent is the size of a node with its aliases written out.
type extent struct{ written, nodes, depth int }

// bounded reports a document whose aliases lead back to themselves or grow
// beyond bounds, and one that is nested too deeply.
func (d *decoder) bounded(root *yaml.Node) bool {
	m := &measure{anchors: make(map[*yaml.Node]extent)}
	e := m.of(root)
	switch {
	case m.cycle != nil:
		d.fault(m.cycle, "", fmt.Sprintf("alias %s stands within what it stands for", quote(m.cycle.Value)), "write the value out")
	case m.bomb != nil:
		d.fault(m.bomb, "", fmt.Sprintf("aliases add more than %d values", maxAliasNodes), "write the values out, or use fewer aliases")
	case e.depth > maxDepth:
		d.fault(root, "", fmt.Sprintf("is nested more than %d levels deep", maxDepth), "check the brackets")
	default:
		return true
	}
	return false
}

// measure finds the extent of nodes; each anchor is measured once, so that it
// takes time by what is written, not by what it stands for.
type measure struct {
	anchors     map[*yaml.Node]extent // depth 0: not done yet
	cycle, bomb *yaml.Node
}

func (m *measure) of(n *yaml.Node) extent {
	if n.Kind == yaml.AliasNode {
		e, ok := m.anchors[n.Alias]
		if ok && e.depth == 0 && m.cycle == nil {
			m.cycle = n
		}
		return extent{1, e.nodes, e.depth}
	}
	if n.Anchor != "" {
		m.anchors[n] = extent{}
	}
	e := extent{1, 1, 0}
	for _, c := range n.Content {
		inner := m.of(c)
		e.written += inner.written
		e.nodes = min(e.nodes+inner.nodes, 1<<40)
		e.depth = max(e.depth, inner.depth)
	}
	e.depth++
	if e.nodes-e.written > maxAliasNodes && m.bomb == nil {
		m.bomb = n
	}
	if n.Anchor != "" {
		m.anchors[n] = e
	}
	return e
}
