package translate

import (
	"strconv"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Amendment is what differs between the rows of two states of a list.
type Amendment struct {
	Was, Is     []*nbdb.ACL       // of rules, before and after
	WasIDs, IDs map[string]string // what differs of the home's external_ids, with its key
}

// AmendList is what differs between the rows of two states of a list of which
// nothing but rules differs; nil where more may. stored are the external_ids of its
// home before. It costs what differs, and a look at each rule.
func AmendList(before, after *model.Resource, stored map[string]string, c Context) (*Amendment, error) {
	was, is := before.Spec.(*model.ACLSpec), after.Spec.(*model.ACLSpec)
	if !InParts(stored) || before.Manager != after.Manager || !model.SameButRules(before, after) || rankedWhole(was.Rules) != rankedWhole(is.Rules) {
		return nil, nil
	}
	first, last := differing(was.Rules, is.Rules)
	b := &builder{Context: c, resource: after}
	a := &Amendment{Was: b.someRules(was, first, len(was.Rules)-last), Is: b.someRules(is, first, len(is.Rules)-last)}
	a.WasIDs = map[string]string{KeyKey: stored[KeyKey], KeyDigest: stored[KeyDigest]}
	a.IDs = map[string]string{KeyKey: stored[KeyKey]}
	for i := range was.Rules[first : len(was.Rules)-last] {
		key := ruleIDsKey(&was.Rules[first+i])
		a.WasIDs[key] = stored[key]
	}
	for i := range is.Rules[first : len(is.Rules)-last] {
		text, err := model.MarshalRule(&is.Rules[first+i])
		if err != nil {
			return nil, err
		}
		a.IDs[ruleIDsKey(&is.Rules[first+i])] = text
	}
	a.IDs[KeyDigest] = ListDigest(is.Rules, after.Manager, a.IDs, stored)
	return a, nil
}

func ruleIDsKey(r *model.Rule) string { return KeyRulePrefix + strconv.Itoa(r.Number) }

// differing tells how many rules at the beginning and at the end are the same in two
// states of a list, with the same ranks.
func differing(was, is []model.Rule) (first, last int) {
	for first < min(len(was), len(is)) && was[first].Equal(is[first]) {
		first++
	}
	if len(was) != len(is) || !rankedWhole(was) {
		return first, 0
	}
	for last < len(was)-first && was[len(was)-1-last].Equal(is[len(is)-1-last]) {
		last++
	}
	return first, last
}

// someRules are the rows of the rules from first to before last.
func (b *builder) someRules(spec *model.ACLSpec, first, last int) []*nbdb.ACL {
	var rows []*nbdb.ACL
	m, ranks := b.resource.Metadata, rankRules(spec.Rules)
	for i, rule := range spec.Rules[first:last] {
		rows = append(rows, b.ruleRows(m.VPC, m.Name, rule, b.tierPrefixes(m.VPC, rule.Tiers),
			prioRules-ranks[first+i], verdict(rule.Action, spec.Stateless))...)
	}
	return rows
}
