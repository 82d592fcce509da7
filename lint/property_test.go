package lint_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/lint"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// vpc is a VPC whose tier a uses the list; b has all open.
func vpc(rules []model.Rule, stateless bool) []*model.Resource {
	meta := func(name string) model.Metadata { return model.Metadata{Name: name, VPC: "v"} }
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, text := range texts {
			out = append(out, netip.MustParsePrefix(text))
		}
		return out
	}
	tier := func(name, acl string, cidrs []netip.Prefix) *model.Resource {
		spec := &model.TierSpec{CIDRs: cidrs, ACL: acl}
		for _, p := range cidrs {
			spec.Gateways = append(spec.Gateways, model.FirstUsable(p))
		}
		return &model.Resource{Kind: model.KindTier, Metadata: meta(name), Spec: spec}
	}
	return []*model.Resource{
		{Kind: model.KindVPC, Metadata: model.Metadata{Name: "v"}, Spec: &model.VPCSpec{CIDRs: prefixes("10.0.0.0/16", "fd00::/48")}},
		tier("a", "l", prefixes("10.0.1.0/24", "fd00:0:0:1::/64")),
		tier("b", model.ACLDefaultAllow, prefixes("10.0.2.0/24", "fd00:0:0:2::/64")),
		{Kind: model.KindACL, Metadata: meta("l"), Spec: &model.ACLSpec{Rules: rules, Stateless: stateless,
			Defaults: model.ACLDefaults{Ingress: model.Deny, Egress: model.Allow}}},
	}
}

func genRule(t *rapid.T, number int) model.Rule {
	r := model.Rule{Number: number,
		Action:    rapid.SampledFrom([]model.Action{model.Allow, model.Allow, model.Deny, model.Reject}).Draw(t, "action"),
		Direction: rapid.SampledFrom([]model.Direction{model.Ingress, model.Ingress, model.Egress}).Draw(t, "direction"),
		Protocol:  rapid.SampledFrom([]model.Protocol{model.ProtoAll, model.ProtoTCP, model.ProtoTCP, model.ProtoTCP, model.ProtoICMP, "47"}).Draw(t, "protocol")}
	if r.Protocol == model.ProtoTCP && rapid.IntRange(0, 3).Draw(t, "with ports") > 0 {
		first := rapid.Uint16Range(1, 6).Draw(t, "first")
		r.Ports = []model.PortRange{{First: first, Last: rapid.Uint16Range(first, 6).Draw(t, "last")}}
	}
	far := []string{"0.0.0.0/0", "10.0.2.0/24", "10.0.2.0/25", "10.0.2.128/25", "10.0.0.0/8", "192.0.2.0/24", "::/0", "fd00:0:0:2::/64", "10.0.1.0/24", "10.0.9.0/24", "ff00::/8"}
	for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(far), 0, 2, rapid.ID).Draw(t, "cidrs") {
		r.CIDRs = append(r.CIDRs, netip.MustParsePrefix(p))
	}
	if rapid.IntRange(0, 5).Draw(t, "by tier") == 0 {
		r.Tiers = []string{"b"}
	}
	return r
}

// A rule that is said to decide about nothing can go, and so can a far side
// that is said to be none: what reaches what stays as it is.
func TestWhatIsWarnedOfCanGo(t *testing.T) {
	said := map[string]int{}
	// Chance may pass over one of the three.
	for rounds := 0; rounds < 20 && len(said) < 3; rounds++ {
		rapid.Check(t, func(t *rapid.T) { tryWarnings(t, said) })
	}
	require.NotZero(t, said["rule"])
	require.NotZero(t, said["prefix"])
	require.NotZero(t, said["fragments"])
}

func tryWarnings(t *rapid.T, said map[string]int) {
	var rules []model.Rule
	for i := range rapid.IntRange(1, 10).Draw(t, "rules") {
		rules = append(rules, genRule(t, i+1))
	}
	stateless := rapid.Bool().Draw(t, "stateless")
	found, err := lint.Check("v", vpc(rules, stateless), nil)
	require.NoError(t, err)
	for _, d := range found {
		changed := slices.Clone(rules)
		i, rest, ok := indexIn(d.Field)
		switch {
		case !ok:
			continue
		case strings.Contains(d.Problem, "never reached") || strings.Contains(d.Problem, "says the same") || strings.Contains(d.Problem, "matches nothing"):
			said["rule"]++
			changed = slices.Delete(changed, i, i+1)
		case strings.Contains(d.Problem, "fragments alone"):
			// Without it nothing but fragments fares otherwise.
			said["fragments"]++
			for _, c := range differences(t, rules, slices.Delete(changed, i, i+1), stateless) {
				require.Regexp(t, ` (ipv[46] )?(tcp|icmp) fragments `, c, d)
			}
			continue
		case strings.HasPrefix(rest, ".cidrs[") && len(rules[i].CIDRs)+len(rules[i].Tiers) > 1:
			said["prefix"]++
			k, _, _ := indexIn("spec.rules" + strings.TrimPrefix(rest, ".cidrs"))
			changed[i].CIDRs = slices.Delete(slices.Clone(rules[i].CIDRs), k, k+1)
		default:
			continue
		}
		require.Empty(t, differences(t, rules, changed, stateless), d)
	}
}

// differences are what changes for hosts. That something of the VPC is in no
// tier, and that an address is never routed, is what reach doesn't know.
func differences(t require.TestingT, before, after []model.Rule, stateless bool) []string {
	a, err := reach.New("v", vpc(before, stateless))
	require.NoError(t, err)
	b, err := reach.New("v", vpc(after, stateless))
	require.NoError(t, err)
	d := reach.Diff(a, b, reach.Tier)
	var out []string
	for _, c := range slices.Concat(d.Opens, d.Closes) {
		far := c.From
		if c.ToEnd.Kind == reach.Outside {
			far = c.To
		}
		if c.Outside && far != nil && far.Except == nil && !slices.ContainsFunc(far.In, possible) {
			continue
		}
		out = append(out, c.String())
	}
	return out
}

func possible(p netip.Prefix) bool {
	return !netip.MustParsePrefix("10.0.0.0/16").Overlaps(p) && !netip.MustParsePrefix("fd00::/48").Overlaps(p) && !netip.MustParsePrefix("ff00::/8").Overlaps(p)
}

// indexIn reads spec.rules[3].rest.
func indexIn(field string) (i int, rest string, ok bool) {
	text, ok := strings.CutPrefix(field, "spec.rules[")
	digits, rest, _ := strings.Cut(text, "]")
	i, err := strconv.Atoi(digits)
	return i, rest, ok && err == nil
}

// It ends on a list of 5000 rules.
func TestLarge(t *testing.T) {
	var rules []model.Rule
	for i := range 5000 {
		port := uint16(1 + i%3000)
		r := model.Rule{Number: i + 1, Action: model.Allow, Direction: model.Ingress, Protocol: model.ProtoTCP, Ports: []model.PortRange{{First: port, Last: port}}}
		if i%3 == 0 {
			r.CIDRs = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.2.%d/32", i%256))}
		}
		if i%7 == 0 {
			r.Action = model.Deny
		}
		rules = append(rules, r)
	}
	found, err := lint.Check("v", vpc(rules, false), nil)
	require.NoError(t, err)
	require.NotEmpty(t, found)
}
