package translate_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/internal/golden"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// globalRow is the row of NB_Global in these tests.
const globalRow nbdb.UUID = "00000000-0000-4000-8000-000000000001"

// TestGolden translates the documents of each archive, those below context/
// left out: they are there to be referred to. The file `rows` holds the
// fragments' dump, in which a row of the context stands with its key.
func TestGolden(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "rows", func(t *testing.T, archive *txtar.Archive) []byte {
		isContext := func(name string) bool { return strings.HasPrefix(name, "context/") }
		resources := load(t, archive, func(name string) bool { return name != "rows" })
		c := contextOf(resources)
		var shown, referred nbdb.Fragment
		for _, r := range resources {
			f := fragment(t, r, c)
			if isContext(r.Source.File) {
				join(&referred, f)
			} else {
				join(&shown, f)
			}
		}
		text := dump(t, shown)
		parsed, err := nbdb.ParseDump(bytes.NewReader(text))
		require.NoError(t, err)
		require.True(t, nbdb.Diff(shown, parsed).Empty())
		require.Equal(t, string(text), string(dump(t, parsed)))
		return names(referred).replace(text)
	})
}

// load reads the chosen files of an archive and checks their resources.
func load(t require.TestingT, archive *txtar.Archive, chosen func(name string) bool) []*model.Resource {
	var inputs []model.Input
	for _, f := range archive.Files {
		if chosen(f.Name) {
			inputs = append(inputs, model.Input{Name: f.Name, Data: f.Data})
		}
	}
	return loadInputs(t, inputs...)
}

func loadInputs(t require.TestingT, inputs ...model.Input) []*model.Resource {
	set, found := model.Load(inputs...)
	found = append(found, model.Check(set.Resources, func(model.ID) *model.Resource { return nil }, func(string) bool { return true })...)
	require.Empty(t, found.String())
	for _, r := range set.Resources {
		r.Manager = "cli"
	}
	return set.Resources
}

// contextOf is what translations of a whole desired state look at.
func contextOf(resources []*model.Resource) translate.Context {
	return translate.Context{
		Owner:  "default",
		Global: globalRow,
		Lookup: func(id model.ID) *model.Resource {
			for _, r := range resources {
				if r.ID() == id {
					return r
				}
			}
			return nil
		},
		Tiers: func(vpc string) []*model.Resource {
			var tiers []*model.Resource
			for _, r := range resources {
				if r.Kind == model.KindTier && r.Metadata.VPC == vpc {
					tiers = append(tiers, r)
				}
			}
			slices.SortFunc(tiers, func(a, b *model.Resource) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
			return tiers
		},
	}
}

func fragment(t require.TestingT, r *model.Resource, c translate.Context) nbdb.Fragment {
	f, err := translate.Fragment(r, c)
	require.NoError(t, err)
	return f
}

// union is the whole desired state.
func union(t require.TestingT, resources []*model.Resource) nbdb.Fragment {
	var f nbdb.Fragment
	c := contextOf(resources)
	for _, r := range resources {
		join(&f, fragment(t, r, c))
	}
	return f
}

func join(f *nbdb.Fragment, g nbdb.Fragment) {
	f.Rows = append(f.Rows, g.Rows...)
	f.Edges = append(f.Edges, g.Edges...)
	f.Entries = append(f.Entries, g.Entries...)
}

func dump(t require.TestingT, f nbdb.Fragment) []byte {
	var text bytes.Buffer
	require.NoError(t, nbdb.Dump(&text, f))
	return text.Bytes()
}

// keys give rows readable names.
type keys map[nbdb.UUID]string

func names(f nbdb.Fragment) keys {
	k := keys{globalRow: "@."}
	for _, r := range f.Rows {
		k[r.ID()] = "@" + r.IDs()[translate.KeyKey]
	}
	return k
}

// replace puts keys in the place of UUIDs.
func (k keys) replace(text []byte) []byte {
	var pairs []string
	for id, key := range k {
		pairs = append(pairs, string(id), key)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(text)))
}
