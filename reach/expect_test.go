package reach_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

func verify(t *testing.T, p *reach.Policy, vpc, from, to, text string, expect model.Action) reach.Verdict {
	set, err := traffic.Parse(text)
	require.NoError(t, err)
	spec := &model.ExpectationSpec{From: from, To: to, Traffic: set, Expect: expect}
	found := p.Verify([]*model.Resource{{Kind: model.KindExpectation, Metadata: model.Metadata{Name: "e", VPC: vpc}, Spec: spec}})
	require.Len(t, found, 1)
	require.Equal(t, found[0].Holds, len(found[0].Reasons()) == 0)
	return found[0]
}

// What passes is denied no less than it is allowed no more: verdicts agree with
// what Reach tells of the same ends.
func TestVerdictsAgreeWithReach(t *testing.T) {
	p := fromArchive(t, "tiers")
	r, err := p.Reach(reach.Options{})
	require.NoError(t, err)
	for _, from := range []string{"web", "app", "outside"} {
		for _, to := range []string{"tier/web", "app", "outside"} {
			a, err := reach.ParseEnd(from)
			require.NoError(t, err)
			b, err := reach.ParseEnd(to)
			require.NoError(t, err)
			if a.Kind == "" {
				a.Kind = reach.Tier
			}
			if b.Kind == "" {
				b.Kind = reach.Tier
			}
			if a == b && a.Kind == reach.Outside {
				require.Equal(t, "both ends are outside: no list decides", verify(t, p, "v", from, to, "all", model.Deny).Problem)
				continue
			}
			path := r.Find(a, b)
			require.Equal(t, len(path.Parts) == 0, verify(t, p, "v", from, to, "all", model.Deny).Holds, "%s -> %s", from, to)
			for _, part := range path.Parts {
				if part.From == nil && part.To == nil {
					require.True(t, verify(t, p, "v", from, to, part.Traffic, model.Allow).Holds, "%s -> %s %s", from, to, part.Traffic)
				} else {
					require.False(t, verify(t, p, "v", from, to, part.Traffic, model.Allow).Holds, "%s -> %s %s", from, to, part.Traffic)
				}
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct{ archive, from, to, traffic, expect, want string }{
		{"tiers", "web", "app", "tcp 22, 8080", "allow", "tcp 22 from 10.0.1.128/25 is stopped by app/rule 15 (spec.yaml:30)"},
		{"tiers", "web", "app", "tcp 22, 8080", "deny", "tcp 22 from 10.0.1.0/25 passes by web/egress default (spec.yaml:20), app/rule 20 (spec.yaml:31); " +
			"tcp 8080 passes by web/egress default (spec.yaml:20), app/rule 10 (spec.yaml:29)"},
		{"tiers", "10.0.1.200", "app", "tcp 22", "deny", ""},
		{"tiers", "10.0.1.100", "10.0.2.9", "tcp 22", "allow", ""},
		{"tiers", "app", "outside", "udp", "allow", "udp is stopped by app/egress default (spec.yaml:33)"},
		{"tiers", "192.0.2.1", "web", "tcp 443", "allow", ""},
		{"tiers", "192.0.2.1", "198.51.100.1", "tcp 443", "allow", "both ends are outside: no list decides"},
		{"tiers", "web", "10.0.1.7", "all", "deny", "both are in tier web, inside which no list applies"},
		{"tiers", "web", "10.0.1.7", "all", "allow", ""},
		{"tiers", "2001:db8::1", "web", "all", "allow", "no such traffic goes between the two: they have no address family in common that has it"},
		{"tiers", "2001:db8::1", "web", "all", "deny", ""},
		{"tiers", "gone", "web", "all", "deny", "there is no gone"},
		{"attachments", "a1", "b", "tcp 22", "allow", "tcp 22 from 10.0.11.5 is stopped by b/ingress default (spec.yaml:20)"},
		{"attachments", "attachment/a2", "b", "tcp 22", "deny", ""},
		{"attachments", "a4", "b", "all", "deny", ""},
		{"attachments", "a4", "b", "all", "allow", "an attachment is disabled: nothing reaches it, and it reaches nothing"},
	} {
		v := verify(t, fromArchive(t, c.archive), "v", c.from, c.to, c.traffic, model.Action(c.expect))
		require.Equal(t, c.want, strings.Join(v.Reasons(), "; "), v.What())
	}
}
