package translate

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"io"
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
	var all strings.Builder
	all.Grow(size)
	joinRules(&all, spec, len(rules), func(i int) string { return rules[i].text })
	return all.String()
}

// joinRules writes the spec of a list that is stored in parts with the texts of its
// n rules.
func joinRules(w io.StringWriter, spec string, n int, text func(i int) string) {
	write := func(text string) { _, _ = w.WriteString(text) } // memory
	head, tail, _ := strings.Cut(spec, noRules)
	write(head)
	write(strings.TrimSuffix(noRules, "]"))
	for i := range n {
		if i > 0 {
			write(",")
		}
		write(text(i))
	}
	write("]")
	write(tail)
}

// ListDigest is Digest of what a list's home stores in parts, where the rules in it
// are just these. The values of its keys stand in the first of the maps that has them.
func ListDigest(rules []model.Rule, manager string, ids ...map[string]string) string {
	value := func(key []byte) string {
		for _, m := range ids {
			if text, ok := m[string(key)]; ok {
				return text
			}
		}
		return ""
	}
	h := sha256.New()
	w := bufio.NewWriterSize(h, 1<<10) // a hash takes no strings
	key := []byte(KeyRulePrefix)
	joinRules(w, value([]byte(KeySpec)), len(rules), func(i int) string {
		return value(strconv.AppendInt(key[:len(KeyRulePrefix)], int64(rules[i].Number), 10))
	})
	_ = w.Flush() // a hash never fails
	return digest(h, manager)
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
