package translate

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Rules remember the rows of rules from one state to the next, so that only those
// of rules that differ are made. They are for one owner, and may be used at the
// same time. The zero value is ready.
type Rules struct {
	mu    sync.Mutex
	lists map[model.ID][]ruleMade
	size  int // rules in all lists
}

// maxKnownRules bounds what is remembered, to some 20 MB.
const maxKnownRules = 20_000

// ruleMade is a rule, all else that its rows hang on, and these.
type ruleMade struct {
	rule     model.Rule
	tiers    []netip.Prefix // those of the tiers that it names
	priority int
	action   string
	rows     []*nbdb.ACL
}

// fits tells whether a rule that was made before has the rows of this one.
func (m *ruleMade) fits(before *ruleMade) bool {
	return before.priority == m.priority && before.action == m.action && slices.Equal(before.tiers, m.tiers) && before.rule.Equal(m.rule)
}

// rulesOf are the rules of a list, with their rows.
func (b *builder) rulesOf(vpc, name string, spec *model.ACLSpec) []ruleMade {
	id := model.ID{Kind: model.KindACL, VPC: vpc, Name: name}
	known := b.Lists.known(id)
	made := make([]ruleMade, len(spec.Rules))
	ranks := rankRules(spec.Rules)
	for i, rule := range spec.Rules {
		m := &made[i]
		*m = ruleMade{rule: rule, tiers: b.tierPrefixes(vpc, rule.Tiers), priority: prioRules - ranks[i], action: verdict(rule.Action, spec.Stateless)}
		for len(known) > 0 && known[0].rule.Number < rule.Number {
			known = known[1:]
		}
		if len(known) > 0 && m.fits(&known[0]) {
			m.rows = known[0].rows
		} else {
			m.rows = b.ruleRows(vpc, name, rule, m.tiers, m.priority, m.action)
		}
	}
	b.Lists.keep(id, made)
	return made
}

// known are the rules of a list as they were last made.
func (l *Lists) known(id model.ID) []ruleMade {
	if l == nil || l.Rules == nil {
		return nil
	}
	l.Rules.mu.Lock()
	defer l.Rules.mu.Unlock()
	return l.Rules.lists[id]
}

// keep remembers the rules of a list in the place of those before.
func (l *Lists) keep(id model.ID, made []ruleMade) {
	if l == nil || l.Rules == nil {
		return
	}
	k := l.Rules
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.size += len(made) - len(k.lists[id]); k.lists == nil || k.size > maxKnownRules {
		k.lists, k.size = map[model.ID][]ruleMade{}, len(made)
	}
	k.lists[id] = made
}
