package translate_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// What differs between the rows of two states of a list makes of those of the one
// those of the other.
func TestAmendList(t *testing.T) {
	amended := 0
	rapid.Check(t, func(t *rapid.T) {
		resources := loadInputs(t, inputOf(genDocuments(t), "shop"))
		tiers := 0
		for _, r := range resources {
			if r.Kind == model.KindTier {
				tiers++
			}
		}
		for _, r := range resources {
			if r.Kind == model.KindACL {
				after := otherRules(t, r, tiers)
				a := amend(t, r, after, contextOf(resources))
				require.NotNil(t, a)
				amended += len(a.Is)
			}
		}
	})
	require.Positive(t, amended)
}

// Nothing is said of states that differ in more than rules.
func TestAmendListOfMoreThanRules(t *testing.T) {
	r := &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{Name: "web", VPC: "shop"}, Spec: model.NewSpec(model.KindACL), Manager: "cli"}
	for name, change := range map[string]func(*model.Resource, *model.ACLSpec){
		"stateless": func(_ *model.Resource, s *model.ACLSpec) { s.Stateless = true },
		"defaults":  func(_ *model.Resource, s *model.ACLSpec) { s.Defaults.Ingress = model.Allow },
		"manager":   func(r *model.Resource, _ *model.ACLSpec) { r.Manager = "ops" },
		"labels":    func(r *model.Resource, _ *model.ACLSpec) { r.Metadata.Labels = map[string]string{"a": "b"} },
	} {
		t.Run(name, func(t *testing.T) {
			after, spec := *r, *r.Spec.(*model.ACLSpec)
			after.Spec = &spec
			change(&after, &spec)
			require.Nil(t, amend(t, r, &after, contextOf([]*model.Resource{r})))
		})
	}
}

// A list that gets more rules than there are priorities, or no longer has, counts
// ranks otherwise: all its rows may differ.
func TestAmendListWithManyRules(t *testing.T) {
	const band = 29900 // priorities
	list := func(rules int) *model.Resource {
		spec := model.NewSpec(model.KindACL).(*model.ACLSpec)
		for n := range rules {
			rule := model.Rule{Number: n + 1, Action: model.Allow, Direction: model.Ingress, Protocol: model.ProtoAll}
			if n%2 == 0 {
				rule.Direction = model.Egress
			}
			spec.Rules = append(spec.Rules, rule)
		}
		return &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{Name: "web", VPC: "shop"}, Spec: spec, Manager: "cli"}
	}
	c := contextOf([]*model.Resource{list(0)})
	fits, more := list(band), list(band+1)
	require.Nil(t, amend(t, fits, more, c))
	require.Nil(t, amend(t, more, fits, c))
	for _, r := range []*model.Resource{fits, list(band + 2)} {
		spec := *r.Spec.(*model.ACLSpec)
		fewer := *r
		spec.Rules = slices.Delete(slices.Clone(spec.Rules), band-9, band-8)
		fewer.Spec = &spec
		a := amend(t, r, &fewer, c)
		require.Less(t, len(a.Was), 20)
	}
}

// amend is what differs between two states, which it holds against all of their rows.
func amend(t require.TestingT, before, after *model.Resource, c translate.Context) *translate.Amendment {
	was, err := translate.Fragment(before, c)
	require.NoError(t, err)
	is, err := translate.Fragment(after, c)
	require.NoError(t, err)
	rows := map[nbdb.UUID]nbdb.Row{}
	for _, r := range was.Rows {
		rows[r.ID()] = r
	}
	home := rows[translate.PortGroupUUID(c.Owner, before.Metadata.VPC, before.Metadata.Name)].(*nbdb.PortGroup)
	stored := maps.Clone(home.ExternalIDs)
	a, err := translate.AmendList(before, after, stored, c)
	require.NoError(t, err)
	require.Equal(t, home.ExternalIDs, stored)
	if a == nil {
		return nil
	}
	for _, r := range a.Was {
		require.Equal(t, rows[r.UUID], nbdb.Row(r))
		delete(rows, r.UUID)
	}
	for _, r := range a.Is {
		require.Nil(t, rows[r.UUID])
		rows[r.UUID] = r
	}
	for key, value := range a.WasIDs {
		require.Equal(t, value, home.ExternalIDs[key])
		delete(home.ExternalIDs, key)
	}
	maps.Copy(home.ExternalIDs, a.IDs)
	require.Len(t, rows, len(is.Rows))
	for _, r := range is.Rows { // one by one: of many, that all differ takes minutes to tell
		require.Equal(t, r, rows[r.ID()])
	}
	return a
}

// otherRules is a list of which some rules are others.
func otherRules(t *rapid.T, r *model.Resource, tiers int) *model.Resource {
	after := *r
	spec := *r.Spec.(*model.ACLSpec)
	rules := []model.Rule{}
	drawn := func(number int) model.Rule {
		text, err := json.Marshal(genRule(t, number, tiers))
		require.NoError(t, err)
		rule, found := model.LoadRule(model.Input{Data: text}, r.ID())
		require.Empty(t, found)
		return *rule
	}
	last := 0
	for _, rule := range spec.Rules {
		what := rapid.IntRange(0, 9).Draw(t, "rule")
		if what == 0 && rule.Number > last+1 {
			rules = append(rules, drawn(rule.Number-1))
		}
		if last = rule.Number; what == 1 {
			continue
		}
		if what == 2 {
			rule = drawn(rule.Number)
		}
		rules = append(rules, rule)
	}
	if rapid.IntRange(0, 3).Draw(t, "more") == 0 {
		rules = append(rules, drawn(last+1))
	}
	spec.Rules = rules
	after.Spec = &spec
	return &after
}
