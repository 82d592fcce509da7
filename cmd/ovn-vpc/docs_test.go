package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const (
	cliDoc   = "../../docs/cli.md"
	specsDoc = "../../docs/specs.md"
)

// generated is a part of a document between the marks
// `<!-- begin WHAT -->` and `<!-- end -->`.
var generated = regexp.MustCompile(`(?s)<!-- begin ([A-Za-z]+) -->\n.*?<!-- end -->`)

// TestDocs holds the generated parts of the documents against the program;
// with -update it writes them.
func TestDocs(t *testing.T) {
	for _, kind := range model.Kinds() {
		require.Contains(t, read(t, specsDoc), "<!-- begin "+string(kind)+" -->")
	}
	require.Contains(t, read(t, cliDoc), "<!-- begin commands -->")
	for _, path := range []string{cliDoc, specsDoc} {
		have := read(t, path)
		want := generated.ReplaceAllStringFunc(have, func(part string) string {
			what := generated.FindStringSubmatch(part)[1]
			return "<!-- begin " + what + " -->\n" + document(t, what) + "<!-- end -->"
		})
		if testflag.Update() {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
			continue
		}
		require.Equal(t, want, have, path)
	}
}

func read(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// document writes one generated part.
func document(t *testing.T, what string) string {
	var b strings.Builder
	switch what {
	case "commands":
		commands(&b, newApp(nil, io.Discard, io.Discard, func(string) string { return "" }).root())
	case "options":
		b.WriteString("\n| option | value |\n|---|---|\n")
		types := model.DHCPOptionTypes()
		for _, name := range slices.Sorted(maps.Keys(types)) {
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, types[name])
		}
		b.WriteString("\n")
	default:
		docs := model.FieldDocs(model.Kind(what))
		require.NotEmpty(t, docs, "there is no kind %s", what)
		b.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
		for _, d := range docs {
			require.NotEmpty(t, d.Doc, "%s %s", what, d.Path)
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Path, d.Type, d.Doc)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// commands writes every command with its flags, examples included.
func commands(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Runnable() && !cmd.HasSubCommands() && !cmd.Hidden {
		fmt.Fprintf(b, "\n### `%s`\n\n%s\n", cmd.UseLine(), cmd.Long)
		if cmd.Long == "" {
			fmt.Fprintf(b, "%s.\n", cmd.Short)
		}
		rows := ""
		for c := cmd; c.HasParent(); c = c.Parent() { // the flags of its groups too
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" && (c == cmd || c.PersistentFlags().Lookup(f.Name) != nil) {
					rows += fmt.Sprintf("| %s | %s |\n", flagWords(f), strings.ReplaceAll(f.Usage+defaultWords(f), "|", "\\|"))
				}
			})
		}
		if rows != "" {
			fmt.Fprintf(b, "\n| flag | meaning |\n|---|---|\n%s", rows)
		}
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	for _, sub := range cmd.Commands() {
		commands(b, sub)
	}
}

func flagWords(f *pflag.Flag) string {
	words := "`--" + f.Name
	if f.Shorthand != "" {
		words = "`-" + f.Shorthand + ", --" + f.Name
	}
	if value := f.Value.Type(); value != "bool" {
		words += " " + strings.ReplaceAll(strings.Replace(value, "stringArray", "string", 1), "|", "\\|")
	}
	return words + "`"
}

// defaultWords is a flag's default, where it has one that its usage doesn't
// say.
func defaultWords(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "[]":
		return ""
	}
	return " (default `" + f.DefValue + "`)"
}

// TestEveryCommandHasAnExample, and says what it does.
func TestEveryCommandHasAnExample(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		if !cmd.HasSubCommands() && !cmd.Hidden {
			require.NotEmpty(t, cmd.Example, cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newApp(nil, io.Discard, io.Discard, func(string) string { return "" }).root())
}

// TestDocumentedSpecsLoad reads every YAML block of the documents.
func TestDocumentedSpecsLoad(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	blocks := block.FindAllStringSubmatch(read(t, specsDoc), -1)
	require.NotEmpty(t, blocks)
	var all bytes.Buffer
	for _, b := range blocks {
		all.WriteString("---\n" + b[1])
	}
	set, found := model.Load(model.Input{Name: "docs/specs.md", Data: all.Bytes()})
	found = append(found, model.Check(set.Resources, func(model.ID) *model.Resource { return nil }, func(string) bool { return true })...)
	require.Empty(t, found, found.String())
	kinds := map[model.Kind]bool{}
	for _, r := range set.Resources {
		kinds[r.Kind] = true
	}
	require.Len(t, kinds, len(model.Kinds()), "every kind has an example")
}
