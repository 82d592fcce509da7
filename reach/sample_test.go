package reach_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// attachments have the addresses of hosts.
func attachments() (out []string) {
	for _, tier := range []string{"a", "b"} {
		for i, a := range hosts()[tier] {
			out = append(out, document("Attachment", "v", fmt.Sprintf("%s-%d", tier, i), object{"tier": tier, "addresses": []netip.Addr{a}}))
		}
	}
	return out
}

func samples(p *reach.Policy, from, to string, wanted traffic.Set, free bool, limit int) ([]reach.Sample, int) {
	spec := &model.ExpectationSpec{From: from, To: to, Traffic: wanted, Expect: model.Allow}
	return p.Samples(&model.Resource{Kind: model.KindExpectation, Metadata: model.Metadata{Name: "e", VPC: "v"}, Spec: spec}, free, limit)
}

// Each sample passes as the lists say, goes between the ends, and is of the traffic;
// whatever becomes of some packet becomes of some sample, too.
func TestSamplesAgainstBruteForce(t *testing.T) {
	wanted := traffic.All().Minus(traffic.Ports(traffic.TCP, 3, 4))
	rapid.Check(t, func(t *rapid.T) {
		s := genSmall(t)
		free := rapid.Bool().Draw(t, "free")
		p := s.policy(t, attachments()...)
		passes := func(from, to string, src, dst netip.Addr, k traffic.Packet) bool {
			return s.allows(from, model.Egress, dst, k) && s.allows(to, model.Ingress, src, k)
		}
		type fate struct {
			from, to string
			family   traffic.Family
			passes   bool
		}
		sampled := map[fate]bool{}
		for _, from := range []string{"", "a", "b"} {
			for _, to := range []string{"", "a", "b"} {
				if from == to {
					continue
				}
				some, all := samples(p, endOf(from).String(), endOf(to).String(), wanted, free, 1<<20)
				require.Len(t, some, all)
				for _, x := range some {
					require.Equal(t, passes(from, to, x.Src, x.Dst, x.Header), x.Passes, "%s -> %s %+v", from, to, x)
					require.True(t, free || from == "" || slices.Contains(hosts()[from], x.Src), "%+v", x)
					require.True(t, free || to == "" || slices.Contains(hosts()[to], x.Dst), "%+v", x)
					require.True(t, wanted.Contains(x.Header), "%+v", x)
					sampled[fate{from, to, x.Header.Family, x.Passes}] = true
				}
				few, of := samples(p, endOf(from).String(), endOf(to).String(), wanted, free, 3)
				require.Equal(t, all, of)
				require.Len(t, few, min(3, all))
				for _, x := range few {
					require.Contains(t, some, x)
				}
			}
		}
		every(func(from, to string, src, dst netip.Addr, k traffic.Packet) {
			if wanted.Contains(k) && !(k.Fragment && k.Family == traffic.IPv6) {
				require.True(t, sampled[fate{from, to, k.Family, passes(from, to, src, dst, k)}], "%s -> %s %s -> %s %+v", from, to, src, dst, k)
			}
		})
	})
}

// Inside a tier everything passes, between two that are not one.
func TestSamplesInTier(t *testing.T) {
	deny := &model.ACLSpec{Rules: []model.Rule{}, Defaults: model.ACLDefaults{Ingress: model.Deny, Egress: model.Deny}}
	p := small{map[string]*model.ACLSpec{"a": deny, "b": deny}}.policy(t, attachments()...)
	some, _ := samples(p, "b", "b", traffic.All().Only(traffic.IPv4), false, 10)
	require.Equal(t, []reach.Sample{
		{Src: netip.MustParseAddr("10.0.0.10"), Dst: netip.MustParseAddr("10.0.0.14"), Header: traffic.Packet{}, Passes: true},
		{Src: netip.MustParseAddr("10.0.0.14"), Dst: netip.MustParseAddr("10.0.0.10"), Header: traffic.Packet{Protocol: 255, Fragment: true}, Passes: true},
	}, some)
	for _, ends := range [][2]string{{"outside", "192.0.2.1"}, {"outside", "b2"}, {"10.0.0.9", "a"}, {"outside", "fd00::1"}} {
		some, all := samples(p, ends[0], ends[1], traffic.All(), false, 10)
		require.Zero(t, all, "%v: %v", ends, some)
	}
	some, all := samples(p, "a", "outside", traffic.All(), true, 10)
	require.Len(t, some, 4, "one verdict for each family, at two corners: %v", some)
	require.Equal(t, 4, all)
}
