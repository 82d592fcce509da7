package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// printf writes to the results. An error of the writer stays with it, and is
// reported when the program ends.
func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// printJSON writes a value as the result.
func (a *app) printJSON(v any) {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		fmt.Fprintln(a.stderr, "error: writing JSON:", err)
	}
}

// printDocuments writes resources as {"items": [...]} or as a YAML stream.
func (a *app) printDocuments(documents []model.Document) error {
	if a.output == outputYAML {
		if len(documents) == 0 {
			return nil // the encoder would write an empty document
		}
		return model.EncodeYAML(a.out, documents...)
	}
	a.printJSON(struct {
		Items []model.Document `json:"items"`
	}{documents})
	return nil
}

// diagnose writes diagnostics to stderr, one in a line, then how many they are.
func (a *app) diagnose(found model.Diagnostics) {
	if len(found) > 0 {
		fmt.Fprintf(a.stderr, "%s%s\n", found, counted(found))
	}
}

// leaveOut tells, once, that something is left out.
func (a *app) leaveOut(d model.Diagnostic) {
	if !slices.Contains(a.left, d) {
		a.left = append(a.left, d)
		fmt.Fprintln(a.stderr, d)
	}
}

// counted is how many errors and warnings there are.
func counted(found model.Diagnostics) string {
	errors := len(found.Errors())
	return plural(errors, "error") + ", " + plural(len(found)-errors, "warning")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

// inventory counts resources by kind: 1 VPC, 3 tiers.
func inventory(set *model.Set) string {
	count := map[model.Kind]int{}
	for _, r := range set.Resources {
		count[r.Kind]++
	}
	words := map[model.Kind]string{model.KindTier: "tier", model.KindAttachment: "attachment", model.KindVPCOffering: "offering",
		model.KindExpectation: "expectation"}
	var parts []string
	for _, k := range model.Kinds() {
		if n := count[k]; n > 0 {
			word := words[k]
			if word == "" {
				word = string(k)
			}
			parts = append(parts, plural(n, word))
		}
	}
	if len(parts) == 0 {
		return "no resource"
	}
	return strings.Join(parts, ", ")
}

// colored wraps a text in a colour (ECMA-48, SGR) where results may have one.
func (a *app) colored(color, text string) string {
	if !a.color || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// The colours.
const (
	red     = "31"
	green   = "32"
	yellow  = "33"
	magenta = "35"
	cyan    = "36"
)

// verb is how an action is shown.
type verb struct {
	mark, color  string
	plan, result string
}

func verbOf(action engine.Action) verb {
	switch action {
	case engine.Create:
		return verb{"+", green, "to create", "created"}
	case engine.Change:
		return verb{"~", yellow, "to update", "updated"}
	case engine.Remove:
		return verb{"-", red, "to delete", "deleted"}
	case engine.Repair:
		return verb{"!", magenta, "to repair", "repaired"}
	}
	return verb{">", cyan, "to follow", "followed"}
}

// tally counts changes by what is done: those of the first three actions
// always, the others where there are any.
func tally(changes []engine.ResourceChange, word func(verb) string) string {
	count := map[engine.Action]int{}
	for _, c := range changes {
		count[c.Action]++
	}
	actions := []engine.Action{engine.Create, engine.Change, engine.Remove, engine.Repair, engine.Follow}
	var parts []string
	for i, action := range actions {
		if n := count[action]; i < 3 || n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word(verbOf(action))))
		}
	}
	return strings.Join(parts, ", ")
}

// value is a field's value or a column's in one line.
func value(v any) string {
	switch x := v.(type) {
	case nil:
		return "(none)"
	case string:
		if x == "" || strings.ContainsAny(x, "\n\t") || strings.TrimSpace(x) != x {
			return strconv.Quote(x)
		}
		return x
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case []any:
		parts := make([]string, len(x))
		for i, e := range x {
			parts[i] = value(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []string:
		return "[" + strings.Join(x, ", ") + "]"
	case map[string]string:
		var parts []string
		for k, e := range x {
			parts = append(parts, k+"="+value(e))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case map[string]any:
		var parts []string
		for k, e := range x {
			parts = append(parts, k+": "+value(e))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}
