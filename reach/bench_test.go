package reach_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

const (
	manyTiers = 200
	manyRules = 5000
)

// large is a VPC of many tiers and rules, in lists that so many tiers share.
func large(share int) []*model.Resource {
	random := rand.New(rand.NewPCG(1, 0))
	name := func(i int) string { return fmt.Sprintf("t%03d", i) }
	prefix := func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24) }
	prefix6 := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 7: byte(i)}), 64)
	}
	var all []*model.Resource
	lists := manyTiers / share
	for i := range manyTiers {
		spec := &model.TierSpec{CIDRs: []netip.Prefix{prefix(i), prefix6(i)}, ACL: fmt.Sprintf("l%03d", i%lists)}
		for _, p := range spec.CIDRs {
			spec.Gateways = append(spec.Gateways, model.FirstUsable(p))
		}
		all = append(all, &model.Resource{Kind: model.KindTier, Metadata: model.Metadata{Name: name(i), VPC: "v"}, Spec: spec})
	}
	for i := range lists {
		spec := &model.ACLSpec{Defaults: model.ACLDefaults{Ingress: model.Deny, Egress: model.Allow}}
		for k := range manyRules / lists {
			r := model.Rule{Number: k + 1, Action: model.Allow, Direction: model.Ingress, Protocol: model.ProtoTCP}
			first := uint16(1 + random.IntN(60000))
			r.Ports = []model.PortRange{{First: first, Last: first + uint16(random.IntN(3))}}
			if random.IntN(4) == 0 {
				r.Action = model.Deny
			}
			if random.IntN(4) == 0 {
				r.Direction = model.Egress
			}
			far := random.IntN(manyTiers)
			switch random.IntN(4) {
			case 0:
				r.Tiers = []string{name(far), name((far + 1) % manyTiers)}
			case 1:
				r.CIDRs = []netip.Prefix{netip.PrefixFrom(prefix(far).Addr(), 20+random.IntN(13)).Masked()}
			case 2:
				r.CIDRs = []netip.Prefix{prefix6(far), netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(far)}), 32)}
			}
			spec.Rules = append(spec.Rules, r)
		}
		all = append(all, &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{Name: fmt.Sprintf("l%03d", i), VPC: "v"}, Spec: spec})
	}
	return all
}

func reachLarge(t require.TestingT, resources []*model.Resource) *reach.Result {
	p, err := reach.New("v", resources)
	require.NoError(t, err)
	r, err := p.Reach(reach.Options{})
	require.NoError(t, err)
	return r
}

// It ends, and says something of each tier.
func TestLarge(t *testing.T) {
	r := reachLarge(t, large(1))
	require.Greater(t, len(r.Paths), manyTiers)
	require.NotEmpty(t, r.Table())
}

// shapes are how many tiers share a list.
func shapes(b *testing.B, run func(b *testing.B, share int)) {
	for _, share := range []int{1, 10, 20, manyTiers} {
		b.Run(fmt.Sprintf("%d-tiers-%d-rules-%d-lists", manyTiers, manyRules, manyTiers/share), func(b *testing.B) {
			b.ReportAllocs()
			run(b, share)
		})
	}
}

func BenchmarkReach(b *testing.B) {
	shapes(b, func(b *testing.B, share int) {
		resources := large(share)
		for b.Loop() {
			reachLarge(b, resources)
		}
	})
}

// One list loses a fifth of its rules.
func BenchmarkDiff(b *testing.B) {
	shapes(b, func(b *testing.B, share int) {
		before, err := reach.New("v", large(share))
		require.NoError(b, err)
		changed := large(share)
		for _, r := range changed {
			if spec, ok := r.Spec.(*model.ACLSpec); ok && r.Metadata.Name == "l000" {
				spec.Rules = spec.Rules[:len(spec.Rules)*4/5]
			}
		}
		after, err := reach.New("v", changed)
		require.NoError(b, err)
		b.ReportMetric(float64(reach.Work(before, after)), "work")
		for b.Loop() {
			reach.Diff(before, after, reach.Tier)
		}
	})
}

// A tier's expectations about each other one, and outside.
func BenchmarkVerify(b *testing.B) {
	shapes(b, func(b *testing.B, share int) {
		p, err := reach.New("v", large(share))
		require.NoError(b, err)
		var expectations []*model.Resource
		for i := range manyTiers {
			spec := &model.ExpectationSpec{From: "outside", To: fmt.Sprintf("t%03d", i), Traffic: traffic.Protocol(traffic.UDP), Expect: model.Deny}
			if i%2 == 0 {
				spec.From, spec.Traffic = "t001", traffic.Ports(traffic.TCP, 1, 1023)
			}
			expectations = append(expectations, &model.Resource{Kind: model.KindExpectation, Metadata: model.Metadata{Name: fmt.Sprintf("e%d", i), VPC: "v"}, Spec: spec})
		}
		for b.Loop() {
			p.Verify(expectations)
		}
	})
}
