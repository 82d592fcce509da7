package engine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// changedFields are the fields in which two versions of a resource differ.
func changedFields(before, after *model.Resource) []FieldChange {
	if reflect.DeepEqual(before.Metadata, after.Metadata) && sameSpec(before, after) {
		return nil // of most of many: at once
	}
	before, after = differing(before, after)
	flat := flat
	if model.SameButRules(before, after) {
		flat = flatRules
	}
	a, b := flat(before), flat(after)
	var fields []string
	for f := range a {
		fields = append(fields, f)
	}
	for f := range b {
		if _, ok := a[f]; !ok {
			fields = append(fields, f)
		}
	}
	slices.Sort(fields)
	var out []FieldChange
	for _, f := range fields {
		if !reflect.DeepEqual(a[f], b[f]) {
			out = append(out, FieldChange{Field: f, Old: a[f], New: b[f]})
		}
	}
	return out
}

// sameSpec tells whether two states of a resource have the same spec.
func sameSpec(before, after *model.Resource) bool {
	before, after = differing(before, after)
	return reflect.DeepEqual(before.Spec, after.Spec)
}

// differing are two states of a resource, of a list without the rules that are
// in both.
func differing(before, after *model.Resource) (a, b *model.Resource) {
	was, ok := before.Spec.(*model.ACLSpec)
	is, same := after.Spec.(*model.ACLSpec)
	if !ok || !same {
		return before, after
	}
	with := func(r *model.Resource, spec *model.ACLSpec, rules []model.Rule) *model.Resource {
		less, short := *spec, *r
		less.Rules, short.Spec = rules, &less
		return &short
	}
	gone, fresh := differingRules(was.Rules, is.Rules)
	return with(before, was, gone), with(after, is, fresh)
}

// differingRules are those of each of two lists that the other has not.
func differingRules(was, is []model.Rule) (gone, fresh []model.Rule) {
	for len(was) > 0 && len(is) > 0 && was[0].Equal(is[0]) {
		was, is = was[1:], is[1:]
	}
	for len(was) > 0 && len(is) > 0 && was[len(was)-1].Equal(is[len(is)-1]) {
		was, is = was[:len(was)-1], is[:len(is)-1]
	}
	without := func(rules, others []model.Rule) []model.Rule {
		known := make(map[int]model.Rule, len(others))
		for _, rule := range others {
			known[rule.Number] = rule
		}
		left := []model.Rule{} // not nil, which a Delta would take for no list
		for _, rule := range rules {
			if other, ok := known[rule.Number]; !ok || !rule.Equal(other) {
				left = append(left, rule)
			}
		}
		return left
	}
	return without(was, is), without(is, was)
}

// flat is what is stored of a resource, by field path. Rules are named by
// their number, so that one that is put in between doesn't shift the rest.
func flat(r *model.Resource) map[string]any {
	out := map[string]any{}
	stored, err := model.MarshalStored(r)
	var tree any
	if err != nil || json.Unmarshal(stored, &tree) != nil {
		return out
	}
	flatten("", tree, out)
	return out
}

// flatRules is flat of a list's rules alone.
func flatRules(list *model.Resource) map[string]any {
	out := map[string]any{}
	rules := list.Spec.(*model.ACLSpec).Rules
	for i := range rules {
		text, err := model.MarshalRule(&rules[i])
		var tree any
		if err != nil || json.Unmarshal([]byte(text), &tree) != nil {
			continue
		}
		flatten(fmt.Sprintf("spec.rules[number=%d]", rules[i].Number), tree, out)
	}
	return out
}

func flatten(path string, v any, out map[string]any) {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if path != "" {
				k = path + "." + k
			}
			flatten(k, e, out)
		}
	case []any:
		if len(x) == 0 {
			return // as without it
		}
		if !slices.ContainsFunc(x, func(e any) bool { _, ok := e.(map[string]any); return ok }) {
			out[path] = x
			return
		}
		for i, e := range x {
			name := strconv.Itoa(i)
			if m, ok := e.(map[string]any); ok && m["number"] != nil {
				name = fmt.Sprintf("number=%.0f", m["number"])
			}
			flatten(path+"["+name+"]", e, out)
		}
	default:
		out[path] = v
	}
}
