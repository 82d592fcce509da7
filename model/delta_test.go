package model_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// A delta turns what is stored of one resource into what is stored of the other.
func TestDelta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawResources(t), drawResources(t)
		for i, from := range before {
			delta, err := model.Delta(from, after[i])
			require.NoError(t, err)
			got, err := model.Patched(from, delta)
			require.NoError(t, err)
			require.Equal(t, storedText(t, after[i]), storedText(t, got), "%s", delta)
			none, err := model.Delta(got, after[i])
			require.NoError(t, err)
			require.Equal(t, "{}", string(none))
		}
	})
}

func storedText(t require.TestingT, r *model.Resource) string {
	data, err := model.MarshalStored(r)
	require.NoError(t, err)
	return string(data)
}

// One rule of many costs one rule, whether it comes, changes or goes.
func TestDeltaOfOneRule(t *testing.T) {
	list := func(numbers ...int) *model.Resource {
		r := &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{VPC: "shop", Name: "web"}}
		spec := model.NewSpec(model.KindACL).(*model.ACLSpec)
		for _, n := range numbers {
			spec.Rules = append(spec.Rules, model.Rule{Number: n, Action: model.Allow, Direction: model.Ingress, Protocol: "all"})
		}
		r.Spec = spec
		return r
	}
	var many []int
	for n := range 5000 {
		many = append(many, n+1)
	}
	more, less := list(many...), list(many[:4999]...)
	delta, err := model.Delta(more, less)
	require.NoError(t, err)
	require.JSONEq(t, `{"spec": {"rules": {"5000": null}}}`, string(delta))
	delta, err = model.Delta(less, more)
	require.NoError(t, err)
	require.Less(t, len(delta), 150)
	other := list(many...)
	other.Spec.(*model.ACLSpec).Rules[7].Action = model.Deny
	delta, err = model.Delta(more, other)
	require.NoError(t, err)
	require.JSONEq(t, `{"spec": {"rules": {"8": {"action": "deny"}}}}`, string(delta))
}

func TestPatchedRefuses(t *testing.T) {
	r := &model.Resource{Kind: model.KindVPC, Metadata: model.Metadata{Name: "shop"}, Spec: model.NewSpec(model.KindVPC)}
	for _, delta := range []string{"", "{", "7", `{"spec": {"nosuch": 1}}`, `{"metadata": null}`} {
		_, err := model.Patched(r, json.RawMessage(delta))
		require.Error(t, err, fmt.Sprintf("%q", delta))
	}
}
