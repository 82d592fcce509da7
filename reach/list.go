package reach

import (
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Default stands for a list's default in the place of a rule's index.
const Default = -1

// Judgement is what a list says of traffic with the far addresses: the same of
// each of them.
type Judgement struct {
	Family traffic.Family
	Far    *netipx.IPSet
	// Rules gives each header the index of the rule that decides, or Default.
	Rules traffic.Map[int]
	// Back is the same for packets of the other direction, as replies are, and
	// nil for a stateful list, which lets replies pass.
	Back traffic.Map[int]
}

// list is a list with its rules read.
type list struct {
	name     string
	spec     *model.ACLSpec
	resource *model.Resource // nil for a built-in one
	rules    []rule
	plain    map[model.Direction]func() [2]sheet[int] // of addresses that no rule names
}

type rule struct {
	traffic traffic.Set
	far     []netipx.IPRange // where anywhere is false
	any     bool
}

func newList(name string, spec *model.ACLSpec, r *model.Resource, tier func(string) []netip.Prefix) (*list, error) {
	l := &list{name: name, spec: spec, resource: r, plain: map[model.Direction]func() [2]sheet[int]{}}
	for _, r := range spec.Rules {
		far, err := FarSide(r, tier)
		if err != nil {
			return nil, err
		}
		read := rule{traffic: Traffic(r), any: far == nil}
		if far != nil {
			read.far = far.Ranges()
		}
		l.rules = append(l.rules, read)
	}
	for _, d := range []model.Direction{model.Ingress, model.Egress} {
		l.plain[d] = sync.OnceValue(func() [2]sheet[int] { return l.read([2][]netipx.IPRange{}, d) })
	}
	return l, nil
}

// FarSide is the union of a rule's prefixes and those of its tiers, nil for
// anywhere.
func FarSide(r model.Rule, tier func(string) []netip.Prefix) (*netipx.IPSet, error) {
	if len(r.CIDRs) == 0 && len(r.Tiers) == 0 {
		return nil, nil
	}
	prefixes := slices.Clone(r.CIDRs)
	for _, name := range r.Tiers {
		prefixes = append(prefixes, tier(name)...)
	}
	return prefixSet(prefixes)
}

// Traffic is what a rule matches, its far side left out. A fragment carries
// neither ports nor types: a deny or reject with them stops every fragment of
// its protocol, an allow lets none pass.
func Traffic(r model.Rule) traffic.Set {
	whole, detail := traffic.All(), traffic.Set{}
	detailed := false
	switch r.Protocol {
	case model.ProtoAll:
	case model.ProtoTCP:
		whole, detail, detailed = withPorts(traffic.TCP, r.Ports)
	case model.ProtoUDP:
		whole, detail, detailed = withPorts(traffic.UDP, r.Ports)
	case model.ProtoSCTP:
		whole, detail, detailed = withPorts(traffic.SCTP, r.Ports)
	case model.ProtoICMP:
		whole, detail, detailed = withType(traffic.IPv4, traffic.ICMP, r.ICMP)
	case model.ProtoICMPv6:
		whole, detail, detailed = withType(traffic.IPv6, traffic.ICMPv6, r.ICMP)
	default:
		number, err := strconv.ParseUint(string(r.Protocol), 10, 8)
		if err != nil {
			return traffic.Set{}
		}
		whole = traffic.Protocol(uint8(number))
	}
	switch {
	case !detailed:
		return whole
	case r.Action == model.Allow:
		return detail
	}
	return detail.Union(fragments(r.Protocol).Intersect(whole))
}

func withPorts(protocol uint8, ports []model.PortRange) (whole, detail traffic.Set, detailed bool) {
	for _, p := range ports {
		detail = detail.Union(traffic.Ports(protocol, p.First, p.Last))
	}
	return traffic.Protocol(protocol), detail, len(ports) > 0
}

func withType(f traffic.Family, protocol uint8, icmp *model.ICMP) (whole, detail traffic.Set, detailed bool) {
	whole = traffic.Protocol(protocol).Only(f)
	switch {
	case icmp == nil || icmp.Type < 0:
		return whole, traffic.Set{}, false
	case icmp.Code < 0:
		return whole, traffic.ICMPTypes(f, uint8(icmp.Type), uint8(icmp.Type)), true
	}
	return whole, traffic.ICMPCodes(f, uint8(icmp.Type), uint8(icmp.Code), uint8(icmp.Code)), true
}

func fragments(p model.Protocol) traffic.Set {
	switch p {
	case model.ProtoTCP:
		return traffic.Fragments(traffic.TCP)
	case model.ProtoUDP:
		return traffic.Fragments(traffic.UDP)
	case model.ProtoSCTP:
		return traffic.Fragments(traffic.SCTP)
	case model.ProtoICMP:
		return traffic.Fragments(traffic.ICMP)
	}
	return traffic.Fragments(traffic.ICMPv6)
}

// action is the word of a rule, or of the direction's default.
func (l *list) action(rule int, d model.Direction) model.Action {
	switch {
	case rule >= 0:
		return l.spec.Rules[rule].Action
	case d == model.Egress:
		return l.spec.Defaults.Egress
	}
	return l.spec.Defaults.Ingress
}

func opposite(d model.Direction) model.Direction {
	if d == model.Ingress {
		return model.Egress
	}
	return model.Ingress
}
