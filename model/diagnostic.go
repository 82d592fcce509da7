package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Level tells how bad a Diagnostic is.
type Level string

// The levels: an error stops the input, a warning doesn't.
const (
	LevelError   Level = "error"
	LevelWarning Level = "warning"
)

// Diagnostic is a fault of the user's input: where it is, what is wrong, how
// to mend it. Line and Column count from 1, in characters; they are 0, and
// File is empty, for a resource that was read from the database.
type Diagnostic struct {
	Severity Level  `json:"severity"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Resource string `json:"resource,omitempty"` // as ID.String
	Field    string `json:"field,omitempty"`    // path such as spec.rules[2].ports[0]
	Problem  string `json:"problem"`
	Fix      string `json:"fix,omitempty"`
	Code     Code   `json:"code,omitempty"`
	// Against is another resource of the input without which there were no
	// fault, if it is one such.
	Against ID `json:"-"`
	// Reveals is another VPC that the problem names, "" for none: not everybody
	// may know of it.
	Reveals string `json:"-"`
}

// Discreet is the diagnostic without the name of the VPC that it reveals.
func (d Diagnostic) Discreet() Diagnostic {
	if d.Reveals != "" {
		d.Problem = strings.ReplaceAll(d.Problem, "VPC "+d.Reveals, "another VPC")
		d.Reveals = ""
	}
	return d
}

// Coded is the diagnostic with a code.
func (d Diagnostic) Coded(code Code) Diagnostic {
	d.Code = code
	return d
}

// With is the diagnostic of a fault that another resource has a part in.
func (d Diagnostic) With(other *Resource) Diagnostic {
	if other.Source != nil {
		d.Against = other.ID()
	}
	return d
}

// Code names those faults that are no fault of the input by itself.
type Code string

// The codes.
const (
	CodeInUse       Code = "in-use"      // others use what is to be removed or narrowed
	CodeTaken       Code = "taken"       // somebody else has the name, address or MAC
	CodeImmutable   Code = "immutable"   // the field can't be changed
	CodeExpectation Code = "expectation" // an expectation that would not hold
	CodeDamaged     Code = "damaged"     // a row stores what can't be read: a change overwrites it, or a list leaves it out
	CodeLimit       Code = "limit"       // an offering's limit, OVN's, or a tier without a free address
)

// String is one line: `file:line:col: error: Tier shop/web: spec.cidrs[0]:
// problem (fix)`, without the parts that are empty.
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.File != "" {
		b.WriteString(d.File + ":")
		if d.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", d.Line, d.Column)
		}
		b.WriteByte(' ')
	}
	b.WriteString(string(d.Severity))
	for _, part := range []string{d.Resource, d.Field, d.Problem} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	if d.Fix != "" {
		b.WriteString(" (" + d.Fix + ")")
	}
	return b.String()
}

// Error makes a single diagnostic usable as an error.
func (d Diagnostic) Error() string { return d.String() }

// Diagnostics are the faults of an input, all of them.
type Diagnostics []Diagnostic

// Errors are the diagnostics that stop the input.
func (ds Diagnostics) Errors() Diagnostics {
	var errors Diagnostics
	for _, d := range ds {
		if d.Severity == LevelError {
			errors = append(errors, d)
		}
	}
	return errors
}

// AsErrors are the diagnostics with the warnings among them made errors.
func (ds Diagnostics) AsErrors() Diagnostics {
	out := slices.Clone(ds)
	for i := range out {
		out[i].Severity = LevelError
	}
	return out
}

// HasErrors tells whether anything stops the input.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == LevelError })
}

// Sort brings them in the order of the text, files by name, those without a
// place first.
func (ds Diagnostics) Sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// String is one line for each.
func (ds Diagnostics) String() string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String() + "\n")
	}
	return b.String()
}

// Fault is an error about a field of the resource ("" for the whole), with
// its place when the resource was read from a document.
func (r *Resource) Fault(field, problem, fix string) Diagnostic {
	return r.diagnose(LevelError, field, problem, fix)
}

// Warning is the same, for what doesn't stop the input.
func (r *Resource) Warning(field, problem, fix string) Diagnostic {
	return r.diagnose(LevelWarning, field, problem, fix)
}

func (r *Resource) diagnose(level Level, field, problem, fix string) Diagnostic {
	d := Diagnostic{Severity: level, Resource: r.ID().String(), Field: field, Problem: problem, Fix: fix}
	if r.Source != nil {
		d.File = r.Source.File
		d.Field = r.Source.written(field)
		d.Line, d.Column = r.Source.Pos(field)
	}
	return d
}

// inInput is the place of a resource that was read from no file.
const inInput = "in the input"

// place is where a resource stands, for messages that name another one.
func (r *Resource) place() string {
	switch {
	case r.Source == nil:
		return "in the database"
	case r.Source.File == "":
		return inInput
	}
	line, column := r.Source.Pos("metadata.name")
	return fmt.Sprintf("%s:%d:%d", r.Source.File, line, column)
}

// Place gives a diagnostic about a resource of the set, made where only the
// resource was known and not its document, the place at which it was read. The
// field counts in the canonical order.
func (s *Set) Place(d Diagnostic) Diagnostic {
	d.File, d.Line, d.Column = "", 0, 0
	d.Problem = s.placed(d.Problem)
	if id, ok := ParseID(d.Resource); ok && s.byID[id] != nil && s.byID[id].Source != nil {
		source := s.byID[id].Source
		d.File = source.File
		d.Line, d.Column = source.Pos(d.Field)
		d.Field = source.written(d.Field)
	}
	return d
}

// placed is a problem with the place of the other resource that it names.
func (s *Set) placed(problem string) string {
	before, after, ok := strings.Cut(problem, " ("+inInput+")")
	words := strings.Fields(before)
	if !ok || len(words) < 2 {
		return problem
	}
	id, ok := ParseID(strings.Join(words[len(words)-2:], " "))
	if !ok || s.byID[id] == nil {
		return problem
	}
	return before + " (" + s.byID[id].place() + ")" + after
}

// checker collects the faults of one resource. It leaves out what only
// follows from a fault that is reported already.
type checker struct {
	resource *Resource
	faulty   []string // field paths that could not be read
	found    Diagnostics
}

func (c *checker) fault(field, problem, fix string) {
	c.add(c.resource.Fault(field, problem, fix))
}

func (c *checker) warn(field, problem, fix string) {
	c.add(c.resource.Warning(field, problem, fix))
}

func (c *checker) add(d Diagnostic) {
	for _, field := range c.faulty {
		if within(d.Field, field) || within(field, d.Field) {
			return
		}
	}
	c.found = append(c.found, d)
}

// within tells whether a field path is another one or lies below it.
func within(path, ancestor string) bool {
	rest, ok := strings.CutPrefix(path, ancestor)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
