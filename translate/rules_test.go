package translate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// What is known of rules from other states does not show in the rows.
func TestKnownRulesDoNotShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := genDocuments(t)
		known := &translate.Rules{}
		first, again := loadInputs(t, inputOf(docs, "shop")), 0
		for range rapid.IntRange(2, 5).Draw(t, "states") {
			resources := slices.Clone(first)
			for i, r := range resources {
				if rapid.Bool().Draw(t, "altered") {
					resources[i] = alter(t, r)
				}
			}
			fresh, reused := contextOf(resources), contextOf(resources)
			reused.Lists = &translate.Lists{Rules: known}
			for _, r := range resources {
				require.Equal(t, fragment(t, r, fresh), fragment(t, r, reused))
				again++
			}
		}
		require.Positive(t, again)
	})
}

// alter is a list with a part of its rules, which differ from those that it had,
// or a tier with a part of its prefixes.
func alter(t *rapid.T, r *model.Resource) *model.Resource {
	altered := *r
	switch spec := r.Spec.(type) {
	case *model.ACLSpec:
		list := *spec
		list.Rules = []model.Rule{}
		for _, rule := range spec.Rules {
			switch rapid.IntRange(0, 4).Draw(t, "rule") {
			case 0:
				continue
			case 1:
				rule.Action = model.Action(genAction(t))
			case 2:
				rule.Log = "debug"
			case 3:
				rule.CIDRs = rule.CIDRs[:len(rule.CIDRs)/2]
			}
			list.Rules = append(list.Rules, rule)
		}
		list.Stateless = rapid.Bool().Draw(t, "stateless")
		altered.Spec = &list
	case *model.TierSpec:
		tier, left := *spec, rapid.IntRange(1, len(spec.CIDRs)).Draw(t, "prefixes left")
		tier.CIDRs, tier.Gateways = spec.CIDRs[:left], spec.Gateways[:left]
		altered.Spec = &tier
	}
	return &altered
}
