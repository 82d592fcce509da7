package reach

import "slices"

// unchanged tells whether an end is there before and after, with the same
// addresses and a list that says the same.
func (p *pair) unchanged() bool {
	a, b := p.before, p.after
	return a != nil && b != nil && a.sends.all.Equal(b.sends.all) && a.receives.all.Equal(b.receives.all) && a.list.says(b.list)
}

// says tells whether two lists say the same, rule by rule; nil is no list.
func (l *list) says(m *list) bool {
	if l == m || l == nil || m == nil {
		return l == m
	}
	if l.spec.Stateless != m.spec.Stateless || l.spec.Defaults != m.spec.Defaults || len(l.rules) != len(m.rules) {
		return false
	}
	for i, a := range l.rules {
		b, x, y := m.rules[i], l.spec.Rules[i], m.spec.Rules[i]
		if x.Action != y.Action || x.Direction != y.Direction || a.any != b.any || !slices.Equal(a.far, b.far) || !a.traffic.Equal(b.traffic) {
			return false
		}
	}
	return true
}

// Work is how much Diff has to do about tiers, in pairs of tiers and the rules
// of their lists.
func Work(before, after *Policy) int {
	ends := both(before.ends(Tier), after.ends(Tier))
	rules, changed, ofChanged := 0, 0, 0
	for _, p := range ends {
		n := 0
		if l := p.any().list; l != nil {
			n = len(l.rules)
		}
		rules += n
		if !p.unchanged() {
			changed++
			ofChanged += n
		}
	}
	const pairAlone = 2400 // what a pair costs, in rules
	same := len(ends) - changed
	// Of the pairs with a changed end each end is in as many as it has others.
	return (len(ends)*len(ends)-same*same)*pairAlone + 2*(ofChanged*len(ends)+(rules-ofChanged)*changed)
}
