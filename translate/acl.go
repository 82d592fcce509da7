package translate

import (
	"net/netip"
	"strconv"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// A packet that goes to the router, or comes from it, is known by the
// router's MAC: the router rewrites it, so a guest can't forge it, and VXLAN,
// which carries no input port, carries it.
const (
	routerMAC     = "0e:58:00:00:00:00"
	routerMACMask = "ff:fe:00:00:00:00"
)

const (
	fromLport = "from-lport"
	toLport   = "to-lport"
)

// crossing is the match of a packet that crosses the tier's boundary.
func crossing(direction string) match.Expr {
	if direction == fromLport {
		return match.EthMasked(match.EthDst, routerMAC, routerMACMask, true)
	}
	return match.EthMasked(match.EthSrc, routerMAC, routerMACMask, true)
}

// staying is its opposite.
func staying(direction string) match.Expr {
	if direction == fromLport {
		return match.EthMasked(match.EthDst, routerMAC, routerMACMask, false)
	}
	return match.EthMasked(match.EthSrc, routerMAC, routerMACMask, false)
}

func pipeline(d model.Direction) string {
	if d == model.Egress {
		return fromLport
	}
	return toLport
}

// verdict is the ACL row's action.
func verdict(a model.Action, stateless bool) string {
	switch a {
	case model.Deny:
		return "drop"
	case model.Reject:
		return "reject"
	}
	if stateless {
		return "allow-stateless"
	}
	return "allow-related"
}

func (b *builder) aclRows(spec *model.ACLSpec) error {
	m := b.resource.Metadata
	ids, err := b.principal(aclKey(m.VPC, m.Name))
	if err != nil {
		return err
	}
	b.listRows(m.VPC, m.Name, ids, spec)
	return nil
}

// listRows are a list's home and its rows.
func (b *builder) listRows(vpc, name string, ids map[string]string, spec *model.ACLSpec) {
	home := &nbdb.PortGroup{UUID: PortGroupUUID(b.Owner, vpc, name), Name: PortGroupName(vpc, name), ExternalIDs: ids}
	b.row(home)
	for _, r := range b.rowsOfList(vpc, name, spec) {
		b.row(r)
		b.edge(nbdb.TablePortGroup, home.UUID, "acls", r.UUID)
	}
}

// rowsOfList are the ACL rows of a list, rules first, then the defaults.
func (b *builder) rowsOfList(vpc, name string, spec *model.ACLSpec) []*nbdb.ACL {
	return b.Lists.of(model.ID{Kind: model.KindACL, VPC: vpc, Name: name}, func() []*nbdb.ACL { return b.makeList(vpc, name, spec) })
}

func (b *builder) makeList(vpc, name string, spec *model.ACLSpec) []*nbdb.ACL {
	var rows []*nbdb.ACL
	for _, rule := range b.rulesOf(vpc, name, spec) {
		rows = append(rows, rule.rows...)
	}
	for _, d := range []model.Direction{model.Ingress, model.Egress} {
		action := spec.Defaults.Ingress
		if d == model.Egress {
			action = spec.Defaults.Egress
		}
		p := pipeline(d)
		rows = append(rows, b.aclRow(defaultKey(vpc, name, d), p, prioDefault,
			match.And(crossing(p), match.Is(match.IP)), verdict(action, spec.Stateless)))
	}
	return rows
}

// ruleRows are the rows of a rule.
func (b *builder) ruleRows(vpc, name string, rule model.Rule, tiers []netip.Prefix, priority int, action string) []*nbdb.ACL {
	var rows []*nbdb.ACL
	for _, half := range b.halves(rule, tiers) {
		row := b.aclRow(ruleKey(vpc, name, rule, half.family), pipeline(rule.Direction), priority, half.match, action)
		if rule.Log != "" {
			row.Log = true
			severity := string(rule.Log)
			row.Severity = &severity
			if row.Action == "allow-related" {
				row.Label = ACLLabel(row.UUID)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// rankRules are the rules' ranks in the whole list. A list with more rules than
// the band has priorities counts each direction by itself, of which the model
// bounds the number.
func rankRules(rules []model.Rule) []int {
	ranks := make([]int, len(rules))
	next := map[model.Direction]int{}
	for i, r := range rules {
		ranks[i] = i
		if !rankedWhole(rules) {
			ranks[i] = next[r.Direction]
			next[r.Direction]++
		}
	}
	return ranks
}

func rankedWhole(rules []model.Rule) bool { return len(rules) <= bandOfRules }

func (b *builder) aclRow(key, direction string, priority int, m match.Expr, action string) *nbdb.ACL {
	name := ACLName(key)
	return &nbdb.ACL{
		UUID:        b.uuid(nbdb.TableACL, key),
		Name:        &name,
		Priority:    priority,
		Direction:   direction,
		Match:       match.Render(m),
		Action:      action,
		ExternalIDs: b.ids(key),
	}
}

type half struct {
	family string // "", or "ipv4" and "ipv6" where a rule takes a row per family
	match  match.Expr
}

// halves are the matches of a rule's rows. Ports over prefix sets of both
// families cost their product in flows as one row and half of it as two.
// A rule that can match nothing (IPv4 ICMP from a tier without IPv4) has none.
func (b *builder) halves(r model.Rule, tiers []netip.Prefix) []half {
	p := pipeline(r.Direction)
	v4, v6, anywhere := farSide(r, tiers)
	l4 := layer4(r)
	src4, src6 := match.IP4Src, match.IP6Src
	if r.Direction == model.Egress {
		src4, src6 = match.IP4Dst, match.IP6Dst
	}
	if anywhere {
		return []half{{match: match.And(crossing(p), l4)}}
	}
	if r.Protocol == model.ProtoICMP {
		v6 = nil
	}
	if r.Protocol == model.ProtoICMPv6 {
		v4 = nil
	}
	var four, six match.Expr
	if len(v4) > 0 {
		four = match.Addrs(src4, v4...)
	}
	if len(v6) > 0 {
		six = match.Addrs(src6, v6...)
	}
	// The address implies IP.
	if r.Protocol == model.ProtoAll {
		l4 = match.And()
	}
	switch {
	case four == nil && six == nil:
		return nil
	case six == nil:
		return []half{{match: match.And(crossing(p), four, l4)}}
	case four == nil:
		return []half{{match: match.And(crossing(p), six, l4)}}
	case len(r.Ports) > 0:
		return []half{
			{family: "ipv4", match: match.And(crossing(p), four, l4)},
			{family: "ipv6", match: match.And(crossing(p), six, l4)},
		}
	}
	return []half{{match: match.And(crossing(p), match.Or(four, six), l4)}}
}

// farSide is the union of a rule's prefixes and its tiers' prefixes by
// family; anywhere if it names neither.
func farSide(r model.Rule, tiers []netip.Prefix) (v4, v6 []netip.Prefix, anywhere bool) {
	if len(r.CIDRs) == 0 && len(r.Tiers) == 0 {
		return nil, nil, true
	}
	for _, prefixes := range [][]netip.Prefix{r.CIDRs, tiers} {
		for _, p := range prefixes {
			if p.Addr().Is4() {
				v4 = append(v4, p)
			} else {
				v6 = append(v6, p)
			}
		}
	}
	return v4, v6, false
}

// tierPrefixes are those of tiers.
func (b *builder) tierPrefixes(vpc string, tiers []string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, t := range tiers {
		if spec := b.tier(vpc, t); spec != nil {
			prefixes = append(prefixes, spec.CIDRs...)
		}
	}
	return prefixes
}

// layer4 is a rule's protocol, with ports or ICMP type. A fragment carries
// neither, so a deny or reject with them stops every fragment of its protocol.
func layer4(r model.Rule) match.Expr {
	var proto, detail match.Expr
	switch r.Protocol {
	case model.ProtoAll:
		return match.Is(match.IP)
	case model.ProtoTCP:
		proto, detail = match.Is(match.TCP), portMatch(match.TCPDst, r.Ports)
	case model.ProtoUDP:
		proto, detail = match.Is(match.UDP), portMatch(match.UDPDst, r.Ports)
	case model.ProtoSCTP:
		proto, detail = match.Is(match.SCTP), portMatch(match.SCTPDst, r.Ports)
	case model.ProtoICMP:
		proto, detail = match.Is(match.ICMP4), icmpMatch(match.ICMP4Type, match.ICMP4Code, r.ICMP)
	case model.ProtoICMPv6:
		proto, detail = match.Is(match.ICMP6), icmpMatch(match.ICMP6Type, match.ICMP6Code, r.ICMP)
	default:
		n, _ := strconv.ParseUint(string(r.Protocol), 10, 8)
		return match.Num(match.IPProto, match.Range{Lo: uint32(n), Hi: uint32(n)})
	}
	if detail == nil {
		return proto
	}
	switch {
	case r.Action != model.Allow:
		detail = match.Or(detail, match.Is(match.IsFrag))
	case r.ICMP != nil && r.ICMP.Type == 0:
		// Open vSwitch reads the type of a fragment as 0, which is echo reply.
		detail = match.And(detail, match.Not(match.Is(match.IsFrag)))
	}
	return match.And(proto, detail)
}

func portMatch(f match.Field, ports []model.PortRange) match.Expr {
	if len(ports) == 0 {
		return nil
	}
	ranges := make([]match.Range, len(ports))
	for i, p := range ports {
		ranges[i] = match.Range{Lo: uint32(p.First), Hi: uint32(p.Last)}
	}
	return match.Num(f, ranges...)
}

func icmpMatch(typ, code match.Field, icmp *model.ICMP) match.Expr {
	if icmp == nil || icmp.Type < 0 {
		return nil
	}
	e := number(typ, icmp.Type)
	if icmp.Code >= 0 {
		e = match.And(e, number(code, icmp.Code))
	}
	return e
}

func number(f match.Field, n int) match.Expr {
	return match.Num(f, match.Range{Lo: uint32(n), Hi: uint32(n)})
}
