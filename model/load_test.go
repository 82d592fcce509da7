package model_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/model"
)

func load(t testing.TB, text string) *model.Set {
	t.Helper()
	set, found := model.Load(model.Input{Name: "test.yaml", Data: []byte(text)})
	require.False(t, found.HasErrors(), found.String())
	return set
}

// attachments is a tier of a /16 with n attachments in it.
func attachments(n int) []byte {
	var b bytes.Buffer
	b.WriteString("apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: shop}\nspec: {cidrs: [10.0.0.0/8]}\n")
	b.WriteString("---\napiVersion: ovn-vpc/v1\nkind: Tier\nmetadata: {name: web, vpc: shop}\nspec: {cidrs: [10.1.0.0/16]}\n")
	addr := netip.MustParseAddr("10.1.0.2")
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: ovn-vpc/v1\nkind: Attachment\nmetadata:\n  name: web-%d\n  vpc: shop\nspec:\n  tier: web\n  addresses: [%s]\n  chassis: h%d\n", i, addr, i%9)
		addr = addr.Next()
	}
	return b.Bytes()
}

func BenchmarkLoad10000Attachments(b *testing.B) {
	data := attachments(10000)
	b.ReportAllocs()
	for b.Loop() {
		_, found := model.Load(model.Input{Name: "a.yaml", Data: data})
		require.Empty(b, found)
	}
}

func BenchmarkCheck10000Attachments(b *testing.B) {
	set, _ := model.Load(model.Input{Name: "a.yaml", Data: attachments(10000)})
	for b.Loop() {
		found := model.Check(set.Resources, set.Get, func(string) bool { return true })
		require.Empty(b, found)
	}
}

// TestNonsense gives texts of 10 MB that are no input: each is refused with a
// few clear lines, quickly.
func TestNonsense(t *testing.T) {
	const size = 10 << 20
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(alphabet string) []byte {
		data := make([]byte, size)
		for i := range data {
			data[i] = alphabet[random.IntN(len(alphabet))]
		}
		return data
	}
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = byte(random.IntN(256))
	}
	texts := map[string][]byte{
		"binary":     raw,
		"zeros":      make([]byte, size),
		"letters":    noise("abcdefghijklmnopqrstuvwxyz"),
		"words":      noise("abcde "),
		"lines":      noise("abcdefghijklmnopqrs \n"),
		"signs":      noise("{}[]:,-&*!|>'\"#%@`?ab \n"),
		"documents":  bytes.Repeat([]byte("---\n"), size/4),
		"texts":      bytes.Repeat([]byte("--- x\n"), size/6),
		"keys":       bytes.Repeat([]byte("a: b\n"), size/5),
		"numbered":   numbered(size),
		"pairs":      bytes.Repeat([]byte("a: "), size/3),
		"anchors":    bytes.Repeat([]byte("&a "), size/3),
		"aliases":    append([]byte("a: &a 1\nb: ["), bytes.Repeat([]byte("*a,"), size/3)...),
		"questions":  bytes.Repeat([]byte("? "), size/2),
		"comments":   bytes.Repeat([]byte("# x\n"), size/4),
		"quotes":     bytes.Repeat([]byte("\""), size),
		"directives": bytes.Repeat([]byte("%YAML 1.2\n"), size/10),
	}
	for _, c := range "[{-(!&*" {
		texts["all "+string(c)] = bytes.Repeat([]byte(string(c)), size)
		texts["spaced "+string(c)] = bytes.Repeat([]byte(string(c)+" "), size/2)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		data := texts[name]
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			set, found := model.Load(model.Input{Name: "x", Data: data})
			require.Empty(t, set.Resources)
			require.NotEmpty(t, found)
			require.Less(t, len(found.String()), 1<<20)
			require.Less(t, time.Since(start), 60*time.Second)
			t.Logf("%v: %d: %s", time.Since(start).Round(time.Millisecond), len(found), found[0])
		})
	}
}

func numbered(size int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "key%d: value\n", i)
	}
	return b.Bytes()
}

// TestDeepNesting: neither text nor aliases nest the reader to death.
func TestDeepNesting(t *testing.T) {
	var chain strings.Builder
	chain.WriteString("a0: &a0 {}\n")
	for i := range 5000 {
		fmt.Fprintf(&chain, "a%d: &a%d {<<: *a%d}\n", i+1, i+1, i)
	}
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"json":     `{"apiVersion":` + strings.Repeat("[", 200000) + strings.Repeat("]", 200000) + "}",
		"merges":   chain.String(),
	} {
		_, found := model.Load(model.Input{Name: name, Data: []byte(text)})
		require.True(t, found.HasErrors(), name)
	}
}

func TestReadPaths(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, name := range []string{"b/z.yaml", "b/a.json", "a.yml", "c.YAML", "readme.md", ".git/x.yaml", "b/.hidden.yaml"} {
		write("in/"+name, name)
	}
	write("other.txt", "other")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "empty"), 0o755))
	large, err := os.Create(filepath.Join(dir, "large.yaml"))
	require.NoError(t, err)
	require.NoError(t, large.Truncate(model.MaxFileSize+1))
	require.NoError(t, large.Close())
	require.NoError(t, os.Symlink(filepath.Join(dir, "in"), filepath.Join(dir, "link")))

	at := func(name string) string { return filepath.Join(dir, name) }
	inputs, found := model.ReadPaths([]string{at("in"), at("other.txt"), "-", at("link")}, strings.NewReader("std"))
	require.Empty(t, found)
	var names []string
	for _, input := range inputs {
		names = append(names, strings.TrimPrefix(input.Name, dir+"/"))
	}
	require.Equal(t, []string{
		"in/a.yml", "in/b/a.json", "in/b/z.yaml", "in/c.YAML", "other.txt", "<stdin>",
		"link/a.yml", "link/b/a.json", "link/b/z.yaml", "link/c.YAML",
	}, names)
	require.Equal(t, "std", string(inputs[5].Data))

	inputs, found = model.ReadPaths([]string{at("no.yaml"), at("large.yaml"), at("empty"), "-", "-"}, strings.NewReader(""))
	require.Len(t, inputs, 1)
	require.Equal(t, strings.Join([]string{
		at("no.yaml") + ": error: can't be read: no such file or directory (check the path and its permissions)",
		at("large.yaml") + ": error: is larger than 64 MiB (split it into several files)",
		at("empty") + ": warning: holds no *.yaml, *.yml or *.json (is it the right folder?)",
		"-: error: standard input is given twice (name it once)", "",
	}, "\n"), found.String())

	_, found = model.ReadPaths([]string{"-"}, failing{})
	require.Contains(t, found.String(), "<stdin>: error: can't be read: broken")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("broken: %w", io.ErrUnexpectedEOF) }

func TestFaultsHavePlaces(t *testing.T) {
	set := load(t, `# a comment
apiVersion: ovn-vpc/v1
kind: ACL
metadata: {name: l, vpc: shop, labels: {"a.b/c": d}}
spec:
  rules:
  - {number: 20, ports: [80], protocol: tcp}
  - number: 10
    cidrs: [10.0.0.0/8]
`)
	r := set.Get(model.ID{Kind: model.KindACL, VPC: "shop", Name: "l"})
	for field, want := range map[string]string{
		"":                          "2:1",
		"metadata.name":             "4:18",
		`metadata.labels["a.b/c"]`:  "4:50",
		"spec.rules[0].number":      "8:13", // ascending by number
		"spec.rules[0].cidrs[0]":    "9:13",
		"spec.rules[1].ports[0]":    "7:26",
		"spec.rules[1].tiers[3]":    "7:5",
		"spec.rules[7]":             "7:3",
		"spec.nothing.of[1].a[kind": "6:3",
	} {
		line, column := r.Source.Pos(field)
		require.Equal(t, want, fmt.Sprintf("%d:%d", line, column), field)
	}
	require.Equal(t, "test.yaml:8:13: error: ACL shop/l: spec.rules[1].number: p (f)", r.Fault("spec.rules[0].number", "p", "f").String())
	r.Source = nil
	require.Equal(t, "warning: ACL shop/l: spec.rules[0]: p", r.Warning("spec.rules[0]", "p", "").String())
}

func TestParseKind(t *testing.T) {
	for word, want := range map[string]model.Kind{
		"tier": model.KindTier, "Tiers": model.KindTier, "VPC": model.KindVPC, "vpcs": model.KindVPC, "ACLS": model.KindACL,
		"vpcoffering": model.KindVPCOffering, "offerings": model.KindVPCOffering, "attachment": model.KindAttachment, "pod": "", "": "",
	} {
		kind, ok := model.ParseKind(word)
		require.Equal(t, want, kind, word)
		require.Equal(t, want != "", ok, word)
	}
	for _, kind := range model.Kinds() {
		parsed, _ := model.ParseKind(kind.Plural())
		require.Equal(t, kind, parsed)
	}
}

func TestUsers(t *testing.T) {
	set := load(t, `
items:
- {apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: gold}, spec: {}}
- {apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/16], offering: gold}}
- {apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: other}, spec: {cidrs: [10.0.0.0/16]}}
- {apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: web, vpc: shop}, spec: {cidrs: [10.0.0.0/24], acl: l}}
- {apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: web, vpc: other}, spec: {cidrs: [10.0.0.0/24]}}
- {apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: l, vpc: shop}, spec: {rules: [{tiers: [web]}]}}
- {apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: a, vpc: shop}, spec: {tier: web}}
- {apiVersion: ovn-vpc/v1, kind: Expectation, metadata: {name: e, vpc: shop}, spec: {from: a, to: web, expect: allow}}
`)
	require.Equal(t, []string{"other", "shop"}, set.VPCs())
	users := func(kind model.Kind, vpc, name string) string {
		return fmt.Sprint(model.Users(set.Resources)[model.ID{Kind: kind, VPC: vpc, Name: name}])
	}
	require.Equal(t, "[VPC shop]", users(model.KindVPCOffering, "", "gold"))
	require.Equal(t, "[Tier shop/web ACL shop/l Attachment shop/a Expectation shop/e]", users(model.KindVPC, "", "shop"))
	require.Equal(t, "[ACL shop/l Attachment shop/a Expectation shop/e]", users(model.KindTier, "shop", "web"))
	require.Equal(t, "[Expectation shop/e]", users(model.KindAttachment, "shop", "a"))
	require.Equal(t, "[Tier shop/web]", users(model.KindACL, "shop", "l"))
	require.Equal(t, "[]", users(model.KindTier, "other", "web"))
}

func TestManyFaultsAreCounted(t *testing.T) {
	_, found := model.Load(model.Input{Name: "x", Data: bytes.Repeat([]byte("--- x\n"), 1500)})
	require.Len(t, found, 1001)
	require.Equal(t, "error: after 1000 faults the rest is not read (mend those shown first)", found[1000].String())
}

func TestTooManyRules(t *testing.T) {
	rules := strings.Repeat("  - {}\n", model.MaxRules) + strings.Repeat("  - {direction: egress}\n", model.MaxRules)
	document := "apiVersion: ovn-vpc/v1\nkind: ACL\nmetadata: {name: l, vpc: shop}\nspec:\n  rules:\n" + rules
	load(t, document)
	_, found := model.Load(model.Input{Name: "x", Data: []byte(document + "  - {}\n")})
	require.Equal(t, "x:6:3: error: ACL shop/l: spec.rules: 29001 ingress rules (at most 29000 of a direction)\n", found.String())
}

// FuzzLoad: no text brings the reader down, each fault stands at a place of the
// text, and what is taken is taken again from its own output.
func FuzzLoad(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		require.NoError(f, err)
		for _, file := range archive.Files {
			f.Add(file.Data)
		}
	}
	for _, seed := range []string{"", "---", "\xff", "a: &a [*a]", "? ", "<<: *x", "!!binary x", "- - - -", "{\"a\":}", "%YAML 1.2\n---\n", "#\n  - a: b\n  - ", "&a *a : &b", "[]\n[]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, found := model.Load(model.Input{Name: "fuzz", Data: data})
		require.NotZero(t, len(set.Resources)+len(found), "neither a resource nor a word why not")
		checked := model.Check(set.Resources, set.Get, func(string) bool { return true })
		requirePlaces(t, data, append(checked, found...))
		if found.HasErrors() {
			return
		}
		requireRoundTrip(t, set)
	})
}

// requirePlaces holds diagnostics to the lines and columns that a text has.
func requirePlaces(t *testing.T, data []byte, found model.Diagnostics) {
	if bytes.ContainsAny(data, "\r\u0085\u2028\u2029") {
		return // line breaks to YAML alone: people and editors count otherwise
	}
	lines := strings.Split(string(data), "\n")
	for _, d := range found {
		if strings.HasSuffix(d.Problem, "the rest is not read") {
			continue // of no place
		}
		require.Equal(t, "fuzz", d.File, d)
		require.Positive(t, d.Line, d)
		require.LessOrEqual(t, d.Line, len(lines)+1, d) // yaml.v3 counts one more at the end
		require.Positive(t, d.Column, d)
		if d.Line <= len(lines) {
			require.LessOrEqual(t, d.Column, utf8.RuneCountInString(lines[d.Line-1])+1, d)
		}
	}
}

// requireRoundTrip writes a set as YAML and in its stored form and reads it
// back.
func requireRoundTrip(t require.TestingT, set *model.Set) {
	var documents []model.Document
	for _, r := range set.Resources {
		documents = append(documents, model.Envelope(r, map[string]string{"ignored": "yes"}))
	}
	var out bytes.Buffer
	require.NoError(t, model.EncodeYAML(&out, documents...))
	again, found := model.Load(model.Input{Name: "again", Data: out.Bytes()})
	require.False(t, found.HasErrors(), "%s\n%s", found, out.String())
	require.Len(t, again.Resources, len(set.Resources))
	for i, r := range set.Resources {
		got := again.Resources[i]
		require.Equal(t, r.ID(), got.ID())
		require.Equal(t, r.Metadata, got.Metadata, out.String())
		require.Equal(t, r.Spec, got.Spec, out.String())
		data, err := model.MarshalStored(r)
		require.NoError(t, err)
		stored, err := model.ParseStored(r.Kind, data)
		require.NoError(t, err)
		require.Equal(t, r.Spec, stored.Spec)
		require.Equal(t, r.Metadata, stored.Metadata)
	}
}

// YAML's sign to merge is a text as any other where a text is wanted.
func TestMergeSign(t *testing.T) {
	set, found := model.Load(model.Input{Data: []byte(`{"apiVersion": "ovn-vpc/v1", "kind": "ACL", "metadata": {"name": "a", "vpc": "shop"}, "spec": {"rules": [{"description": "<<"}]}}`)})
	require.Empty(t, found)
	requireRoundTrip(t, set)
}

// Wherever JSON is cut off, it is told: nothing of it passes for the whole.
func TestCutJSON(t *testing.T) {
	whole := `{"apiVersion": "ovn-vpc/v1", "kind": "VPC", "metadata": {"name": "shop", "labels": {"a": "b"}}, "spec": {"cidrs": ["10.0.0.0/16", "10.1.0.0/16"]}}`
	for _, before := range []string{"", whole + "\n"} {
		second := strings.ReplaceAll(whole, "shop", "other")
		for i := 1; i < len(second); i++ {
			_, ds := model.Load(model.Input{Name: "cut.json", Data: []byte(before + second[:i])})
			require.True(t, ds.HasErrors(), second[:i])
		}
	}
}

// Files that begin with a byte order mark are read alike one by one and one
// after another, with the same places.
func TestByteOrderMarks(t *testing.T) {
	const mark = "\ufeff"
	document := func(name string) string {
		return "apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: " + name + "}\nspec: {cidrs: [10.0.0.0/16]}\n"
	}
	text := mark + document("a") + "---\n" + mark + document("b") + mark + "---\n" + document("c")
	set, found := model.Load(model.Input{Name: "x", Data: []byte(text)})
	require.Empty(t, found)
	require.Len(t, set.Resources, 3)
	_, found = model.Load(model.Input{Name: "x", Data: []byte(text + "---\n" + mark + "kind: VCP\n")})
	require.Equal(t, []int{16, 16}, []int{found[0].Line, found[1].Line})
	require.Equal(t, []int{1, 7}, []int{found[0].Column, found[1].Column})
}

// With a processor left alone, to the end or until it is idle, the same is read.
func TestLoadBeside(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		kind := "Attachment"
		if i%7 == 0 {
			kind = "Attachmint"
		}
		fmt.Fprintf(&text, "---\napiVersion: ovn-vpc/v1\nkind: %s\nmetadata: {name: a-%d, vpc: shop}\nspec: {tier: web}\n", kind, i)
	}
	input := model.Input{Name: "many.yaml", Data: []byte(text.String())}
	want, faults := model.Load(input)
	require.Len(t, faults, 429)
	require.Len(t, want.Resources, 3000-429)
	soon := make(chan struct{})
	go close(soon)
	for _, idle := range []chan struct{}{soon, make(chan struct{}), nil} {
		got, found := model.LoadBeside(idle, input)
		require.Equal(t, faults, found)
		require.Equal(t, len(want.Resources), len(got.Resources))
	}
}
