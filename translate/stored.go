package translate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// noRules is how the spec of a list stands in KeySpec: each rule has a key of its
// own, so that to change one costs one. No string holds these quotes.
const noRules = `"spec":{"rules":[]`

// InParts tells whether a list is stored with a key for each rule. Older versions
// stored it in one text.
func InParts(ids map[string]string) bool { return strings.Contains(ids[KeySpec], noRules) }

// StoredSpec is what a principal row stores of its resource, as
// model.MarshalStored has written it.
func StoredSpec(ids map[string]string) string {
	spec := ids[KeySpec]
	if !InParts(ids) {
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
	return string(joinRules(spec, len(rules), size, func(i int) string { return rules[i].text }))
}

// joinRules puts the texts of n rules, of about so many bytes with the rest, into the
// spec of a list that is stored in parts.
func joinRules(spec string, n, size int, text func(i int) string) []byte {
	all := make([]byte, 0, size)
	head, tail, _ := strings.Cut(spec, noRules)
	all = append(append(all, head...), strings.TrimSuffix(noRules, "]")...)
	for i := range n {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, text(i)...)
	}
	return append(append(all, ']'), tail...)
}

// ListDigest is Digest of what a list's home stores in parts, where the rules in it
// are just these; ids give the value of a key.
func ListDigest(rules []model.Rule, manager string, ids func(key string) string) string {
	const size = 128 // of a rule
	return Digest(joinRules(ids(KeySpec), len(rules), len(rules)*size, func(i int) string { return ids(ruleIDsKey(&rules[i])) }), manager)
}

// store writes a resource into external_ids, each rule of a list under a key of
// its own, and returns what MarshalStored makes of it.
func store(ids map[string]string, r *model.Resource) (string, error) {
	if _, ok := r.Spec.(*model.ACLSpec); !ok {
		stored, err := model.MarshalStored(r)
		ids[KeySpec] = string(stored)
		return ids[KeySpec], err
	}
	stored, bare, rules, err := model.MarshalList(r)
	ids[KeySpec] = bare
	for i, text := range rules {
		ids[ruleIDsKey(&r.Spec.(*model.ACLSpec).Rules[i])] = text
	}
	return stored, err
}
