package model_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/internal/golden"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// TestGolden loads the files of each archive and checks them against each
// other. Files below stored/ are the state of the database before: what the
// input doesn't have anew stays. With the word offline in the comment, what is
// beyond the input is unknown. The file `want` holds the diagnostics, then the
// input's resources as they are stored.
func TestGolden(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "want", outcome)
}

// archived reads the files of an archive: the input with its diagnostics,
// what is stored, and both together.
func archived(t *testing.T, archive *txtar.Archive) (set *model.Set, found model.Diagnostics, before *model.Set, all []*model.Resource) {
	var inputs, stored []model.Input
	for _, f := range archive.Files {
		input := model.Input{Name: f.Name, Data: f.Data}
		switch {
		case f.Name == "want":
		case strings.HasPrefix(f.Name, "stored/"):
			stored = append(stored, input)
		default:
			inputs = append(inputs, input)
		}
	}
	set, found = model.Load(inputs...)
	before, faults := model.Load(stored...)
	require.Empty(t, faults.Errors(), "stored/")
	all = slices.Clone(set.Resources)
	for _, r := range before.Resources {
		r.Source = nil
		if set.Get(r.ID()) == nil {
			all = append(all, r)
		}
	}
	return set, found, before, all
}

func outcome(t *testing.T, archive *txtar.Archive) []byte {
	set, found, before, all := archived(t, archive)
	offline := strings.Contains(string(archive.Comment), "offline")
	found = append(found, model.Check(all, before.Get, func(string) bool { return !offline })...)
	found.Sort()

	var out bytes.Buffer
	out.WriteString(found.String())
	if found.HasErrors() {
		return out.Bytes()
	}
	for _, r := range set.Resources {
		data, err := model.MarshalStored(r)
		require.NoError(t, err)
		out.WriteString(string(r.Kind) + " " + string(data) + "\n")
		again, err := model.ParseStored(r.Kind, data)
		require.NoError(t, err)
		require.Equal(t, r.Spec, again.Spec)
		require.Equal(t, r.Metadata, again.Metadata)
		require.Empty(t, again.Check().Errors())
	}
	return out.Bytes()
}

// TestKindsAreComplete holds every kind to a good and a bad golden file and to
// a word on each of its fields.
func TestKindsAreComplete(t *testing.T) {
	for _, kind := range model.Kinds() {
		for _, suffix := range []string{"", "-bad"} {
			require.FileExists(t, "testdata/"+strings.ToLower(string(kind))+suffix+".txtar")
		}
		docs := model.FieldDocs(kind)
		require.NotEmpty(t, docs)
		for _, doc := range docs {
			require.NotEmpty(t, doc.Doc, "%s %s", kind, doc.Path)
			require.NotEmpty(t, doc.Type, "%s %s", kind, doc.Path)
		}
	}
}
