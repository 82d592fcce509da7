package model_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// Documents of one text are read as each of them alone, in its place: whatever is
// wrong with one, and whatever it says for the next.
func TestDocumentsTogetherAndAlone(t *testing.T) {
	attachment := "apiVersion: ovn-vpc/v1\nkind: Attachment\nmetadata: {name: a-%d, vpc: shop}\nspec: {tier: web}\n"
	bodies := []string{
		attachment, attachment, attachment, attachment, attachment,
		"# of the next\n" + attachment, attachment + "# of this one\n", attachment + "...\n", attachment + "...\n" + attachment,
		"apiVersion: ovn-vpc/v1\nkind: Tier\nmetadata: {name: t-%d, vpc: shop, labels: {a: \"% &x\"}}\nspec:\n  cidrs:\n  - 10.0.%d.0/24\n",
		"apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata:\n  name: &name v-%d\nspec: {cidrs: [10.0.0.0/8]}\n",
		"apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: *name}\nspec: {cidrs: [10.0.0.0/8]}\n",
		"%YAML 1.2\n", "%TAG ! tag:example.org:\n", "...\n", "\n", "null\n", "text\n", "| \n  block\n", "[1, 2]\n", "{a: \n", "a: 'open\n", "a: \"open\n", "\ta: 1\n", "a: b: c\n", "- a\nb\n",
		`{"apiVersion": "ovn-vpc/v1", "kind": "VPC", "metadata": {"name": "v-%d"}, "spec": {"cidrs": ["10.0.0.0\/8"]}}` + "\n",
		"kind: Attachment\nspec: {tier: 5, wrong: 1}\n", "a: 1\na: 2\n", "!!binary x\n", "? a\n: b\n", "<<: {kind: VPC}\n",
	}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for i := range rapid.IntRange(1, 30).Draw(t, "documents") {
			body := rapid.SampledFrom(bodies).Draw(t, "body")
			if i > 0 || !rapid.Bool().Draw(t, "bare") {
				text.WriteString("---\n")
			}
			text.WriteString(strings.ReplaceAll(body, "%d", strconv.Itoa(i)))
		}
		// With an ampersand in it a text is read one by one.
		set, found := model.Load(model.Input{Name: "t.yaml", Data: []byte("# and\n" + text.String())})
		alone, foundAlone := model.Load(model.Input{Name: "t.yaml", Data: []byte("# &\n" + text.String())})
		require.Equal(t, foundAlone.String(), found.String())
		require.Len(t, set.Resources, len(alone.Resources))
		for i, r := range set.Resources {
			require.Equal(t, alone.Resources[i].Metadata, r.Metadata)
			require.Equal(t, alone.Resources[i].Spec, r.Spec)
			line, column := r.Source.Pos("spec")
			lineAlone, columnAlone := alone.Resources[i].Source.Pos("spec")
			require.Equal(t, [2]int{lineAlone, columnAlone}, [2]int{line, column})
		}
	})
}

// An anchor is known in its own document alone.
func TestAnchorsEndWithTheirDocument(t *testing.T) {
	_, found := model.Load(model.Input{Name: "t.yaml", Data: []byte("apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: &name shop}\nspec: {cidrs: [10.0.0.0/8]}\n---\nkind: *name\n")})
	require.ErrorContains(t, errors.New(found.String()), "unknown anchor 'name'")
}
