package reach

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table is the paths in columns: from, to, traffic.
func (r *Result) Table() string {
	rows := [][]string{{"FROM", "TO", "TRAFFIC"}}
	for _, p := range r.Paths {
		text := p.Traffic
		if p.InTier {
			text += " (in the tier, not filtered)"
		}
		rows = append(rows, []string{p.From.String(), p.To.String(), text})
	}
	return columns(rows)
}

// Rules is the table with a line for each part, and the rules that let it pass.
func (r *Result) Rules() string {
	rows := [][]string{{"FROM", "TO", "TRAFFIC", "OUT BY", "IN BY", "REPLIES"}}
	for _, p := range r.Paths {
		for _, part := range p.Parts {
			replies := part.Replies
			if replies == "" {
				replies = "pass"
			}
			rows = append(rows, []string{p.From.String(), p.To.String(), part.text(), by(part.Egress), by(part.Ingress), replies})
		}
	}
	return columns(rows)
}

func by(d *Decision) string {
	if d == nil {
		return "-"
	}
	return d.String()
}

func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush() // into a strings.Builder, which takes all
	return b.String()
}

// Mermaid is a flowchart (https://mermaid.js.org/syntax/flowchart.html), of several
// VPCs with a box for each. What stays in a tier is left out.
func Mermaid(results ...*Result) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, r := range results {
		if len(results) > 1 {
			fmt.Fprintf(&b, "  subgraph v%d[\"%s\"]\n", i, r.VPC)
		}
		names := r.nodes(prefix(i, results), func(id string, e End) { fmt.Fprintf(&b, "  %s[\"%s\"]\n", id, e) })
		for _, p := range r.Paths {
			if !p.InTier {
				fmt.Fprintf(&b, "  %s -->|\"%s\"| %s\n", names[p.From], p.Traffic, names[p.To])
			}
		}
		if len(results) > 1 {
			b.WriteString("  end\n")
		}
	}
	return b.String()
}

// DOT is a graph for Graphviz (https://graphviz.org/doc/info/lang.html), of several
// VPCs with a box for each. What stays in a tier is left out.
func DOT(results ...*Result) string {
	var b strings.Builder
	name := "VPCs"
	if len(results) == 1 {
		name = results[0].VPC
	}
	fmt.Fprintf(&b, "digraph %q {\n  rankdir=LR;\n", name)
	for i, r := range results {
		if len(results) > 1 {
			fmt.Fprintf(&b, "  subgraph %q {\n  label=%q;\n", "cluster_"+r.VPC, r.VPC)
		}
		names := r.nodes(prefix(i, results), func(id string, e End) { fmt.Fprintf(&b, "  %s [label=%q];\n", id, e) })
		for _, p := range r.Paths {
			if !p.InTier {
				fmt.Fprintf(&b, "  %s -> %s [label=%q];\n", names[p.From], names[p.To], p.Traffic)
			}
		}
		if len(results) > 1 {
			b.WriteString("  }\n")
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// prefix begins the names of a result's nodes.
func prefix(i int, results []*Result) string {
	if len(results) == 1 {
		return "n"
	}
	return fmt.Sprintf("v%dn", i)
}

// nodes gives each end an identifier, in the order in which they come up.
func (r *Result) nodes(prefix string, declare func(id string, e End)) map[End]string {
	names := map[End]string{}
	for _, p := range r.Paths {
		for _, e := range []End{p.From, p.To} {
			if names[e] == "" {
				names[e] = prefix + strconv.Itoa(len(names))
				declare(names[e], e)
			}
		}
	}
	return names
}

// Empty tells that nothing changes.
func (d *Difference) Empty() bool { return len(d.Opens)+len(d.Closes)+len(d.Replies) == 0 }

// String is a line for each change: + opens, - closes, ~ has other replies. What
// opens to or from outside is marked.
func (d *Difference) String() string {
	var b strings.Builder
	for _, list := range []struct {
		sign    string
		changes []Change
	}{{"+", d.Opens}, {"-", d.Closes}, {"~", d.Replies}} {
		for _, c := range list.changes {
			b.WriteString(list.sign + " " + c.String())
			if c.Outside && list.sign == "+" {
				b.WriteString("   OUTSIDE")
			}
			if list.sign == "~" && c.Replies == "" {
				b.WriteString(", replies pass")
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
