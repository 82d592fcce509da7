package reach_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// TestGolden asks of each archive's VPC v who reaches whom, and what the change
// from before/ to after/ opens and closes. Words in the comment choose what the
// file want holds: attachments, views, diff.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			require.NoError(t, err)
			got := []byte(outcome(t, archive))
			at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
			if testflag.Update() {
				if at < 0 {
					at = len(archive.Files)
					archive.Files = append(archive.Files, txtar.File{Name: "want"})
				}
				archive.Files[at].Data = got
				require.NoError(t, os.WriteFile(path, txtar.Format(archive), 0o644))
				return
			}
			require.GreaterOrEqual(t, at, 0, "no file want: run with -update")
			require.Equal(t, string(archive.Files[at].Data), string(got))
		})
	}
}

func outcome(t *testing.T, archive *txtar.Archive) string {
	asked := func(word string) bool { return strings.Contains(string(archive.Comment), word) }
	if asked("diff") {
		before, after := policy(t, archive, "before/"), policy(t, archive, "after/")
		d := reach.Diff(before, after, reach.Tier)
		require.Empty(t, reach.Diff(after, after, reach.Tier).String())
		return d.String() + "== by attachment\n" + reach.Diff(before, after, reach.Attachment).String()
	}
	p := policy(t, archive, "")
	o := reach.Options{Rules: true}
	if asked("attachments") {
		o.By = reach.Attachment
	}
	r, err := p.Reach(o)
	require.NoError(t, err)
	o.Rules = false
	short, err := p.Reach(o)
	require.NoError(t, err)
	require.Equal(t, r.Table(), short.Table())
	out := r.Table() + "\n" + r.Rules()
	for _, note := range r.Notes {
		out += "note: " + note + "\n"
	}
	if asked("views") {
		data, err := json.MarshalIndent(r, "", " ")
		require.NoError(t, err)
		out += "\n" + r.Mermaid() + "\n" + r.DOT() + "\n" + string(data) + "\n"
	}
	return out
}

// policy is that of the VPC v by the files below a folder, nil if there are
// none.
func policy(t require.TestingT, archive *txtar.Archive, folder string) *reach.Policy {
	var inputs []model.Input
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, folder); ok && f.Name != "want" {
			inputs = append(inputs, model.Input{Name: name, Data: f.Data})
		}
	}
	if len(inputs) == 0 {
		return nil
	}
	return policyOf(t, inputs...)
}

func policyOf(t require.TestingT, inputs ...model.Input) *reach.Policy {
	set, found := model.Load(inputs...)
	found = append(found, model.Check(set.Resources, func(model.ID) *model.Resource { return nil }, func(string) bool { return true })...)
	require.Empty(t, found.Errors(), found.String())
	p, err := reach.New("v", set.Resources)
	require.NoError(t, err)
	return p
}
