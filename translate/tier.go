package translate

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

func (b *builder) tierRows(spec *model.TierSpec) error {
	m := b.resource.Metadata
	vpc := b.vpc(m.VPC)
	list := b.acl(m.VPC, spec.ACL)
	if vpc == nil || list == nil {
		return fmt.Errorf("its VPC or its list %q is unknown", spec.ACL)
	}
	ids, err := b.principal(TierKey(m.VPC, m.Name))
	if err != nil {
		return err
	}
	sw := &nbdb.LogicalSwitch{UUID: SwitchUUID(b.Owner, m.VPC, m.Name), Name: SwitchName(m.VPC, m.Name), ExternalIDs: ids}
	b.row(sw)
	b.registry(spec, ids)
	b.routerPort(spec, vpc)
	b.switchRouterPort(sw.UUID)
	for _, r := range b.systemRows(spec, list.Stateless) {
		b.row(r)
		b.edge(nbdb.TableLogicalSwitch, sw.UUID, "acls", r.UUID)
	}
	for _, r := range b.rowsOfList(m.VPC, spec.ACL, list) {
		b.edge(nbdb.TableLogicalSwitch, sw.UUID, "acls", r.UUID)
	}
	if spec.DHCP.Enabled {
		b.dhcpRows(spec, vpc)
	}
	return nil
}

func (b *builder) registry(spec *model.TierSpec, principal map[string]string) {
	m := b.resource.Metadata
	for page, name := range PageNames(m.VPC, m.Name, spec) {
		key := pageKey(m.VPC, m.Name, page)
		ids := b.ids(key)
		if page == 0 {
			ids[KeyTierSpec] = principal[KeySpec]
			b.brought(ids)
			ids[NoteEpoch] = "0"
		}
		b.row(&nbdb.PortGroup{UUID: b.uuid(nbdb.TablePortGroup, key), Name: name, ExternalIDs: ids})
	}
}

// The database copies a row's external_ids whenever one of them changes: the second
// copies of a tier that has room for many attachments are divided among several rows.
const (
	manyAttachments = 1 << 10
	manyPages       = 8
)

// pagesOf is how many rows a tier's registry has.
func pagesOf(spec *model.TierSpec) int {
	room := map[bool]float64{} // by family: an attachment has an address of each
	for _, p := range spec.CIDRs {
		room[p.Addr().Is4()] += math.Exp2(float64(p.Addr().BitLen() - p.Bits()))
	}
	for _, addresses := range room {
		if addresses <= manyAttachments {
			return 1
		}
	}
	return manyPages
}

// pageOf is the one among them that has an attachment's second copy.
func pageOf(spec *model.TierSpec, attachment string) int {
	h := fnv.New32a()
	h.Write([]byte(attachment))
	return int(h.Sum32() % uint32(pagesOf(spec)))
}

func (b *builder) routerPort(spec *model.TierSpec, vpc *model.VPCSpec) {
	m := b.resource.Metadata
	key := tierGatewayKey(m.VPC, m.Name)
	port := &nbdb.LogicalRouterPort{
		UUID:        b.uuid(nbdb.TableLogicalRouterPort, key),
		Name:        RouterPortName(m.VPC, m.Name),
		MAC:         string(RouterMAC(m.VPC, spec.Gateways)),
		ExternalIDs: b.ids(key),
	}
	for i, p := range spec.CIDRs {
		port.Networks = append(port.Networks, netip.PrefixFrom(spec.Gateways[i], p.Bits()).String())
	}
	if spec.DHCP.Enabled && hasIPv6(spec.CIDRs) {
		port.Ipv6RaConfigs = routerAdvertisement(spec.DHCP, vpc.MTU)
	}
	b.row(port)
	b.edge(nbdb.TableLogicalRouter, RouterUUID(b.Owner, m.VPC), "ports", port.UUID)
}

func (b *builder) switchRouterPort(sw nbdb.UUID) {
	m := b.resource.Metadata
	key := tierRouterPortKey(m.VPC, m.Name)
	port := &nbdb.LogicalSwitchPort{
		UUID:        b.uuid(nbdb.TableLogicalSwitchPort, key),
		Name:        SwitchRouterPortName(m.VPC, m.Name),
		Type:        RouterPortType,
		Addresses:   []string{"router"},
		Options:     map[string]string{"router-port": RouterPortName(m.VPC, m.Name)},
		ExternalIDs: b.ids(key),
	}
	b.row(port)
	b.edge(nbdb.TableLogicalSwitch, sw, "ports", port.UUID)
}

// systemRows are the rows that a tier has whatever its list says.
func (b *builder) systemRows(spec *model.TierSpec, stateless bool) []*nbdb.ACL {
	const untracked = "allow-stateless"
	rows := []*nbdb.ACL{
		b.systemRow(fromLport, prioBroadcast, match.Is(match.EthBcast), untracked),
		b.systemRow(fromLport, prioMulticast, match.Or(match.Is(match.IP4Mcast), match.Is(match.IP6Mcast)), untracked),
		b.systemRow(fromLport, prioMulticastFrame, match.And(match.Is(match.EthMcast), match.Is(match.IP)), "drop"),
		b.systemRow(fromLport, prioInTier, staying(fromLport), untracked),
		b.systemRow(toLport, prioInTier, staying(toLport), untracked),
	}
	allow := verdict(model.Allow, stateless)
	for i, m := range toGateway(b.resource.Metadata.VPC, spec, stateless) {
		rows = append(rows, b.systemRow(fromLport, prioSystem-i, match.And(crossing(fromLport), m), allow))
	}
	if stateless {
		for i, m := range b.routerAnswers(spec) {
			rows = append(rows, b.systemRow(toLport, prioSystem-i, match.And(crossing(toLport), m), allow))
		}
	}
	return rows
}

func (b *builder) systemRow(direction string, priority int, m match.Expr, action string) *nbdb.ACL {
	meta := b.resource.Metadata
	return b.aclRow(tierACLKey(meta.VPC, meta.Name, direction, priority), direction, priority, m, action)
}

// toGateway is what a guest may always send to its own gateway: ping and DHCP
// renewal (RFC 2131, 4.3.2: unicast to the server), and on a stateless switch,
// where northd adds nothing of its own, unicast neighbour discovery
// (RFC 4861, 7.3).
func toGateway(vpc string, spec *model.TierSpec, stateless bool) []match.Expr {
	v4, v6 := hosts(spec.Gateways)
	var out []match.Expr
	if len(v4) > 0 {
		out = append(out,
			match.And(match.Addrs(match.IP4Dst, v4...), match.Is(match.ICMP4), number(match.ICMP4Type, 8)),
			match.And(match.Addrs(match.IP4Dst, v4...), match.Is(match.UDP), number(match.UDPSrc, 68), number(match.UDPDst, 67)))
	}
	if len(v6) > 0 {
		v6 = append(v6, netip.PrefixFrom(LinkLocal(RouterMAC(vpc, spec.Gateways)), 128))
		types := []match.Range{{Lo: 128, Hi: 128}}
		if stateless {
			types = append(types, match.Range{Lo: 135, Hi: 136})
		}
		out = append(out, match.And(match.Addrs(match.IP6Dst, v6...), match.Is(match.ICMP6), match.Num(match.ICMP6Type, types...)))
	}
	return out
}

// routerAnswers is what the router itself sends back past a stateless list,
// from any of its addresses: echo replies and errors, and neighbour and router
// discovery from the tier's own gateway.
func (b *builder) routerAnswers(spec *model.TierSpec) []match.Expr {
	vpc := b.resource.Metadata.VPC
	var all []netip.Addr
	for _, t := range b.Tiers(vpc) {
		all = append(all, t.Spec.(*model.TierSpec).Gateways...)
	}
	v4, v6 := hosts(all)
	var out []match.Expr
	if len(v4) > 0 {
		out = append(out, match.And(match.Addrs(match.IP4Src, v4...), match.Is(match.ICMP4),
			match.Num(match.ICMP4Type, match.Range{Lo: 0, Hi: 0}, match.Range{Lo: 3, Hi: 3}, match.Range{Lo: 11, Hi: 11})))
	}
	if hasIPv6(spec.CIDRs) {
		v6 = append(v6, netip.PrefixFrom(LinkLocal(RouterMAC(vpc, spec.Gateways)), 128))
		out = append(out, match.And(match.Addrs(match.IP6Src, v6...), match.Is(match.ICMP6),
			match.Num(match.ICMP6Type, match.Range{Lo: 1, Hi: 3}, match.Range{Lo: 129, Hi: 129}, match.Range{Lo: 134, Hi: 136})))
	}
	return out
}

// hosts are the addresses as host prefixes, by family.
func hosts(addrs []netip.Addr) (v4, v6 []netip.Prefix) {
	for _, a := range addrs {
		p := netip.PrefixFrom(a, a.BitLen())
		if a.Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return v4, v6
}
