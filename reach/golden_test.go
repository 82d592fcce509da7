package reach_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/internal/golden"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// TestGolden asks of each archive's VPC v who reaches whom, and what the change
// from before/ to after/ opens and closes. Words in the comment choose what the
// file want holds: attachments, views, diff.
func TestGolden(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "want", outcome)
}

func outcome(t *testing.T, archive *txtar.Archive) []byte {
	asked := func(word string) bool { return strings.Contains(string(archive.Comment), word) }
	if asked("diff") {
		before, after := policy(t, archive, "before/"), policy(t, archive, "after/")
		d := reach.Diff(before, after, reach.Tier)
		require.Empty(t, reach.Diff(after, after, reach.Tier).String())
		return []byte(d.String() + "== by attachment\n" + reach.Diff(before, after, reach.Attachment).String())
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
		out += "\n" + reach.Mermaid(r) + "\n" + reach.DOT(r) + "\n" + string(data) + "\n"
	}
	return []byte(out)
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
