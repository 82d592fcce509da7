package arch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// TestKindsAreComplete fails when a kind lacks one of what each must have: a
// good and a bad golden of its documents, a golden of its rows, an example,
// and a word on each of its fields.
func TestKindsAreComplete(t *testing.T) {
	shown := examples(t)
	for _, kind := range model.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			name := strings.ToLower(string(kind))
			want := golden(t, "model/testdata/"+name+".txtar", "want")
			require.Contains(t, "\n"+want, "\n"+string(kind)+" {", "the good golden has none")
			want = golden(t, "model/testdata/"+name+"-bad.txtar", "want")
			require.Contains(t, want, ": error: "+string(kind)+" ", "the bad golden has no fault of one")
			rows := golden(t, "translate/testdata/"+name+".txtar", "rows")
			require.Contains(t, rows, `"metadata":{`, "no spec is stored")
			require.NotEmpty(t, shown[kind], "no folder below examples/ has one")
			docs := model.FieldDocs(kind)
			require.NotEmpty(t, docs)
			for _, d := range docs {
				require.NotEmpty(t, d.Doc, d.Path)
				require.NotEmpty(t, d.Type, d.Path)
			}
		})
	}
}

// golden is one file of an archive, not empty.
func golden(t *testing.T, path, name string) string {
	archive, err := txtar.ParseFile(filepath.Join(root, path))
	require.NoError(t, err)
	for _, f := range archive.Files {
		if f.Name == name {
			require.NotEmpty(t, f.Data, "%s: %s", path, name)
			return string(f.Data)
		}
	}
	t.Fatalf("%s has no file %s", path, name)
	return ""
}

// examples are the folders below examples/ by the kinds that they show.
func examples(t *testing.T) map[model.Kind][]string {
	entries, err := os.ReadDir(filepath.Join(root, "examples"))
	require.NoError(t, err)
	shown := map[model.Kind][]string{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		inputs, found := model.ReadPaths([]string{filepath.Join(root, "examples", e.Name())}, strings.NewReader(""))
		require.Empty(t, found.String())
		set, found := model.Load(inputs...)
		require.Empty(t, found.String())
		for _, r := range set.Resources {
			shown[r.Kind] = append(shown[r.Kind], e.Name())
		}
	}
	return shown
}
