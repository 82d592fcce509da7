package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// noRules is how the spec of a list stands in KeySpec: each rule has a key of its
// own, so that to change one costs one. No string holds these quotes.
const noRules = `"spec":{"rules":[]`

// StoredSpec is what a principal row stores of its resource, as
// model.MarshalStored has written it.
func StoredSpec(ids map[string]string) string {
	spec := ids[KeySpec]
	if !strings.Contains(spec, noRules) {
		return spec
	}
	type rule struct {
		number int
		text   string
	}
	rules, size := make([]rule, 0, len(ids)), len(spec)
	for key, text := range ids {
		if name, ok := strings.CutPrefix(key, KeyRulePrefix); ok {
			number, _ := strconv.Atoi(name)
			rules = append(rules, rule{number, text})
			size += len(text) + 1
		}
	}
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.text, b.text)) })
	var all strings.Builder
	all.Grow(size)
	head, tail, _ := strings.Cut(spec, noRules)
	all.WriteString(head)
	all.WriteString(strings.TrimSuffix(noRules, "]"))
	for i, r := range rules {
		if i > 0 {
			all.WriteByte(',')
		}
		all.WriteString(r.text)
	}
	all.WriteByte(']')
	all.WriteString(tail)
	return all.String()
}

// splitRules gives each rule of a list a key of its own in the external_ids that
// store it.
func splitRules(ids map[string]string, r *model.Resource) error {
	spec, ok := r.Spec.(*model.ACLSpec)
	if !ok {
		return nil
	}
	bare := *spec
	bare.Rules = []model.Rule{}
	stored, err := model.MarshalStored(&model.Resource{Kind: r.Kind, Metadata: r.Metadata, Spec: &bare})
	if err != nil {
		return err
	}
	ids[KeySpec] = string(stored)
	for _, rule := range spec.Rules {
		text, err := model.MarshalRule(rule)
		if err != nil {
			return fmt.Errorf("%s: %w", r.ID(), err)
		}
		ids[KeyRulePrefix+strconv.Itoa(rule.Number)] = string(text)
	}
	return nil
}
