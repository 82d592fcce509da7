package reach_test

import (
	"encoding/json"
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

type object = map[string]any

// small is a VPC of tiers a and b with few addresses, whose lists are drawn.
type small struct{ lists map[string]*model.ACLSpec }

func tierPrefixes() map[string][]string {
	return map[string][]string{"a": {"10.0.0.0/29", "fd00::/125"}, "b": {"10.0.0.8/29"}}
}

func document(kind, vpc, name string, spec any) string {
	meta := object{"name": name}
	if vpc != "" {
		meta["vpc"] = vpc
	}
	text, err := json.Marshal(object{"apiVersion": model.APIVersion, "kind": kind, "metadata": meta, "spec": spec})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (s small) policy(t require.TestingT, more ...string) *reach.Policy {
	input := document("VPC", "", "v", object{"cidrs": []string{"10.0.0.0/8", "fd00::/64"}})
	for _, tier := range []string{"a", "b"} {
		list := "list-" + tier
		if s.lists["a"] == s.lists["b"] {
			list = "list-a"
		}
		input += "\n---\n" + document("Tier", "v", tier, object{"cidrs": tierPrefixes()[tier], "acl": list})
		if list == "list-"+tier {
			input += "\n---\n" + document("ACL", "v", list, s.lists[tier])
		}
	}
	for _, document := range more {
		input += "\n---\n" + document
	}
	return policyOf(t, model.Input{Name: "small", Data: []byte(input)})
}

func genSmall(t *rapid.T) small {
	s := small{map[string]*model.ACLSpec{}}
	for _, tier := range []string{"a", "b"} {
		spec := &model.ACLSpec{Stateless: rapid.IntRange(0, 2).Draw(t, "stateless") == 0, Rules: []model.Rule{}, Defaults: model.ACLDefaults{Ingress: genAction(t), Egress: genAction(t)}}
		for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
			spec.Rules = append(spec.Rules, genRule(t, 10*i+10))
		}
		s.lists[tier] = spec
	}
	if rapid.IntRange(0, 3).Draw(t, "shared") == 0 {
		s.lists["b"] = s.lists["a"]
	}
	return s
}

func genAction(t *rapid.T) model.Action {
	return rapid.SampledFrom([]model.Action{model.Allow, model.Allow, model.Deny, model.Reject}).Draw(t, "action")
}

func genRule(t *rapid.T, number int) model.Rule {
	r := model.Rule{Number: number, Action: genAction(t),
		Direction: rapid.SampledFrom([]model.Direction{model.Ingress, model.Egress}).Draw(t, "direction"),
		Protocol:  rapid.SampledFrom([]model.Protocol{model.ProtoAll, model.ProtoTCP, model.ProtoTCP, model.ProtoUDP, model.ProtoICMP, "47"}).Draw(t, "protocol")}
	far := []string{"10.0.0.0/29", "10.0.0.8/29", "10.0.0.8/30", "10.0.0.2/31", "10.0.0.10/32", "0.0.0.0/0", "10.0.0.0/28", "192.0.2.0/24", "fd00::/126", "::/0"}
	if r.Protocol == model.ProtoICMP {
		far = far[:8]
		if rapid.Bool().Draw(t, "typed") {
			r.ICMP = &model.ICMP{Type: rapid.SampledFrom([]int{0, 8}).Draw(t, "type"), Code: rapid.SampledFrom([]int{-1, 0}).Draw(t, "code")}
		}
	}
	if r.Protocol.HasPorts() {
		for range rapid.IntRange(0, 2).Draw(t, "ranges") {
			first := rapid.Uint16Range(1, 7).Draw(t, "first")
			r.Ports = append(r.Ports, model.PortRange{First: first, Last: rapid.Uint16Range(first, 7).Draw(t, "last")})
		}
	}
	for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(far), 0, 3, rapid.ID).Draw(t, "cidrs") {
		r.CIDRs = append(r.CIDRs, netip.MustParsePrefix(p))
	}
	if rapid.IntRange(0, 4).Draw(t, "tiers") == 0 {
		r.Tiers = []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tier")}
	}
	return r
}

// hosts are the addresses of attachments by tiers, and some outside by "".
func hosts() map[string][]netip.Addr {
	out := map[string][]netip.Addr{"": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.0.0.16"), netip.MustParseAddr("fd00::9")}}
	for i := range 5 {
		out["a"] = append(out["a"], netip.AddrFrom4([4]byte{10, 0, 0, byte(2 + i)}), netip.MustParseAddr(fmt.Sprintf("fd00::%d", 2+i)))
		out["b"] = append(out["b"], netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + i)}))
	}
	return out
}

func packets(f traffic.Family) (out []traffic.Packet) {
	for _, p := range []uint8{0, traffic.ICMP, traffic.TCP, traffic.UDP, 47, traffic.ICMPv6} {
		out = append(out, traffic.Packet{Family: f, Protocol: p, Fragment: true}, traffic.Packet{Family: f, Protocol: p})
		switch {
		case traffic.HasPorts(p):
			for port := range uint16(8) {
				out = append(out, traffic.Packet{Family: f, Protocol: p, Port: port})
			}
		case p == traffic.ICMP && f == traffic.IPv4:
			out = append(out, traffic.Packet{Family: f, Protocol: p, Type: 8}, traffic.Packet{Family: f, Protocol: p, Type: 8, Code: 1})
		}
	}
	return out
}

// allows is the brute force: a list's word on a packet, rule by rule.
func (s small) allows(tier string, d model.Direction, far netip.Addr, k traffic.Packet) bool {
	if tier == "" {
		return true
	}
	spec := s.lists[tier]
	for _, r := range spec.Rules {
		if r.Direction == d && isFar(r, far) && matches(r, k) {
			return r.Action == model.Allow
		}
	}
	if d == model.Egress {
		return spec.Defaults.Egress == model.Allow
	}
	return spec.Defaults.Ingress == model.Allow
}

func isFar(r model.Rule, far netip.Addr) bool {
	in := len(r.CIDRs) == 0 && len(r.Tiers) == 0
	for _, p := range r.CIDRs {
		in = in || p.Contains(far)
	}
	for _, tier := range r.Tiers {
		for _, p := range tierPrefixes()[tier] {
			in = in || netip.MustParsePrefix(p).Contains(far)
		}
	}
	return in
}

func matches(r model.Rule, k traffic.Packet) bool {
	number := map[model.Protocol]uint8{model.ProtoTCP: 6, model.ProtoUDP: 17, model.ProtoICMP: 1, "47": 47}[r.Protocol]
	switch {
	case r.Protocol == model.ProtoAll:
		return true
	case k.Protocol != number || r.Protocol == model.ProtoICMP && k.Family == traffic.IPv6:
		return false
	case len(r.Ports) == 0 && r.ICMP == nil:
		return true
	case k.Fragment:
		return r.Action != model.Allow
	case r.ICMP != nil:
		return r.ICMP.Type == int(k.Type) && (r.ICMP.Code < 0 || r.ICMP.Code == int(k.Code))
	}
	return slices.ContainsFunc(r.Ports, func(p model.PortRange) bool { return p.First <= k.Port && k.Port <= p.Last })
}

func endOf(tier string) reach.End {
	if tier == "" {
		return reach.End{Kind: reach.Outside}
	}
	return reach.End{Kind: reach.Tier, Name: tier}
}

// every visits each packet between two different ends.
func every(visit func(from, to string, src, dst netip.Addr, k traffic.Packet)) {
	all := hosts()
	for _, from := range []string{"", "a", "b"} {
		for _, to := range []string{"", "a", "b"} {
			for _, src := range all[from] {
				for _, dst := range all[to] {
					if from == to || src.Is4() != dst.Is4() {
						continue
					}
					f := traffic.IPv4
					if src.Is6() {
						f = traffic.IPv6
					}
					for _, k := range packets(f) {
						visit(from, to, src, dst, k)
					}
				}
			}
		}
	}
}

func TestReachAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSmall(t)
		r, err := s.policy(t).Reach(reach.Options{})
		require.NoError(t, err)
		every(func(from, to string, src, dst netip.Addr, k traffic.Packet) {
			want := s.allows(from, model.Egress, dst, k) && s.allows(to, model.Ingress, src, k)
			if got := r.Find(endOf(from), endOf(to)).Allows(src, dst, k); got != want {
				t.Fatalf("%s -> %s, %s -> %s %+v: passes %v, should %v\n%s", from, to, src, dst, k, got, want, r.Rules())
			}
		})
		// Parts don't overlap: each packet has its one pair of rules.
		for _, p := range r.Paths {
			texts := map[string]bool{}
			for _, part := range p.Parts {
				text, err := json.Marshal(part)
				require.NoError(t, err)
				require.False(t, texts[string(text)], "twice: %s", text)
				texts[string(text)] = true
			}
		}
	})
}

// Each packet is judged once, by the first rule that matches it.
func TestJudgeAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSmall(t)
		p := s.policy(t)
		spec := s.lists["a"]
		decides := func(d model.Direction, far netip.Addr, k traffic.Packet) int {
			return slices.IndexFunc(spec.Rules, func(r model.Rule) bool { return r.Direction == d && isFar(r, far) && matches(r, k) })
		}
		for d, back := range map[model.Direction]model.Direction{model.Ingress: model.Egress, model.Egress: model.Ingress} {
			judged := p.Judge("list-a", d)
			for _, far := range slices.Concat(hosts()[""], hosts()["a"], hosts()["b"]) {
				mine := slices.DeleteFunc(slices.Clone(judged), func(j reach.Judgement) bool { return !j.Far.Contains(far) })
				require.Len(t, mine, 1)
				require.Equal(t, far.Is6(), mine[0].Family == traffic.IPv6)
				for _, k := range packets(mine[0].Family) {
					require.Equal(t, decides(d, far, k), mine[0].Rules.At(k.Point()), "%s %s %+v", d, far, k)
					if spec.Stateless {
						require.Equal(t, decides(back, far, k), mine[0].Back.At(k.Point()), "back of %s %s %+v", d, far, k)
					}
				}
			}
		}
	})
}

func TestDiffAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := genSmall(t), genSmall(t)
		if rapid.Bool().Draw(t, "one list alone") {
			after.lists = map[string]*model.ACLSpec{"a": before.lists["a"], "b": after.lists["b"]}
		}
		d := reach.Diff(before.policy(t), after.policy(t), reach.Tier)
		old, err := before.policy(t).Reach(reach.Options{})
		require.NoError(t, err)
		now, err := after.policy(t).Reach(reach.Options{})
		require.NoError(t, err)
		passes := func(s small, from, to string, src, dst netip.Addr, k traffic.Packet) bool {
			return s.allows(from, model.Egress, dst, k) && s.allows(to, model.Ingress, src, k)
		}
		every(func(from, to string, src, dst netip.Addr, k traffic.Packet) {
			was, is := passes(before, from, to, src, dst, k), passes(after, from, to, src, dst, k)
			told := func(changes []reach.Change, by bool) int {
				n := 0
				for _, c := range changes {
					if c.FromEnd == endOf(from) && c.ToEnd == endOf(to) && c.Covers(src, dst, k) {
						require.Equal(t, by, len(c.By) > 0)
						require.Equal(t, from == "" || to == "", c.Outside)
						n++
					}
				}
				return n
			}
			opens, closes := told(d.Opens, true), told(d.Closes, true)
			require.Equal(t, !was && is, opens == 1, "%s -> %s: %s -> %s %+v\n%s", from, to, src, dst, k, d)
			require.Equal(t, was && !is, closes == 1, "%s -> %s: %s -> %s %+v\n%s", from, to, src, dst, k, d)
			require.LessOrEqual(t, opens+closes, 1)
			x, xPasses := old.Find(endOf(from), endOf(to)).Part(src, dst, k)
			y, yPasses := now.Find(endOf(from), endOf(to)).Part(src, dst, k)
			require.Equal(t, xPasses && yPasses && x.Replies != y.Replies, told(d.Replies, false) == 1)
		})
	})
}

// What passes is said in one way, however the rules say it.
func TestTextFollowsFromWhatPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSmall(t)
		again := small{map[string]*model.ACLSpec{}}
		for tier, spec := range s.lists {
			other := &model.ACLSpec{Rules: []model.Rule{}, Defaults: spec.Defaults, Stateless: spec.Stateless}
			for _, r := range spec.Rules {
				pieces := []model.Rule{r}
				if len(r.Tiers) == 0 && len(r.CIDRs) > 0 {
					pieces = nil
					for _, p := range slices.Backward(r.CIDRs) {
						one := r
						one.CIDRs = []netip.Prefix{p}
						pieces = append(pieces, one, one)
					}
				}
				other.Rules = append(other.Rules, pieces...)
			}
			for i := range other.Rules {
				other.Rules[i].Number = i + 1
			}
			again.lists[tier] = other
		}
		want, err := s.policy(t).Reach(reach.Options{})
		require.NoError(t, err)
		got, err := again.policy(t).Reach(reach.Options{})
		require.NoError(t, err)
		require.Equal(t, want.Table(), got.Table())
		require.Empty(t, reach.Diff(s.policy(t), again.policy(t), reach.Tier).String())
	})
}
