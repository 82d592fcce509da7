package model_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// TestPlace sends the input of each golden elsewhere, as JSON in its canonical
// form: what is found there is, put in its place again, what is found here.
func TestPlace(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	faults := 0
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		require.NoError(t, err)
		set, found, before, all := archived(t, archive)
		if found.HasErrors() {
			continue
		}
		stored := all[len(set.Resources):]
		complete := func(string) bool { return true }
		want := model.Check(all, before.Get, complete)

		sent := struct {
			Items []model.Document `json:"items"`
		}{}
		for _, r := range set.Resources {
			sent.Items = append(sent.Items, model.Envelope(r, nil))
		}
		data, err := json.MarshalIndent(sent, "", "  ")
		require.NoError(t, err)
		there, found := model.Load(model.Input{Data: data})
		require.False(t, found.HasErrors(), found.String())
		got := model.Check(append(there.Resources, stored...), before.Get, complete)
		for i := range got {
			got[i] = set.Place(got[i])
		}
		got.Sort()
		require.ElementsMatch(t, want, got, path)
		faults += len(want)
	}
	require.Greater(t, faults, 10)
}

func TestParseID(t *testing.T) {
	for _, id := range []model.ID{{Kind: model.KindVPC, Name: "shop"}, {Kind: model.KindTier, VPC: "shop", Name: "web"}, {Kind: model.KindTier, Name: "web"}} {
		got, ok := model.ParseID(id.String())
		require.True(t, ok)
		require.Equal(t, id, got)
	}
	for _, text := range []string{"", "Tier", "tier shop/web", "no resource"} {
		_, ok := model.ParseID(text)
		require.False(t, ok, text)
	}
}
