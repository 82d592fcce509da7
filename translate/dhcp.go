package translate

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// dhcpRows are the DHCP_Options of a tier, one per prefix (ovn-nb(5)).
func (b *builder) dhcpRows(spec *model.TierSpec, vpc *model.VPCSpec) {
	m := b.resource.Metadata
	for i, p := range spec.CIDRs {
		key := tierDHCPKey(m.VPC, m.Name, p)
		row := &nbdb.DHCPOptions{UUID: b.uuid(nbdb.TableDHCPOptions, key), Cidr: p.String(), ExternalIDs: b.ids(key)}
		if p.Addr().Is4() {
			row.Options = b.dhcpv4(spec, i, vpc.MTU)
		} else {
			row.Options = b.dhcpv6(spec)
		}
		b.row(row)
	}
}

func (b *builder) dhcpv4(spec *model.TierSpec, prefix, mtu int) map[string]string {
	gateway := spec.Gateways[prefix].String()
	o := map[string]string{
		"server_id":  gateway,
		"server_mac": string(RouterMAC(b.resource.Metadata.VPC, spec.Gateways)),
		"lease_time": strconv.Itoa(spec.DHCP.LeaseTime),
		"router":     gateway,
		"mtu":        strconv.Itoa(mtu),
	}
	// The tier's other prefixes are on the same link (RFC 3442: router
	// 0.0.0.0). A client that takes option 121 ignores option 3, so the default
	// route stands here too.
	var routes []string
	for i, p := range spec.CIDRs {
		if i != prefix && p.Addr().Is4() {
			routes = append(routes, p.String()+",0.0.0.0")
		}
	}
	if len(routes) > 0 {
		routes = append(routes, "0.0.0.0/0,"+gateway)
		o["classless_static_route"] = "{" + strings.Join(routes, ", ") + "}"
	}
	if s := addrList(spec.DHCP.DNSServers, netip.Addr.Is4); s != "" {
		o["dns_server"] = s
	}
	if spec.DHCP.Domain != "" {
		o["domain_name"] = quote(spec.DHCP.Domain)
	}
	b.extraOptions(spec.DHCP, 4, o)
	return o
}

func (b *builder) dhcpv6(spec *model.TierSpec) map[string]string {
	o := map[string]string{"server_id": string(RouterMAC(b.resource.Metadata.VPC, spec.Gateways))}
	if s := addrList(spec.DHCP.DNSServers, netip.Addr.Is6); s != "" {
		o["dns_server"] = s
	}
	if spec.DHCP.Domain != "" {
		o["domain_search"] = quote(spec.DHCP.Domain)
	}
	b.extraOptions(spec.DHCP, 6, o)
	return o
}

func (b *builder) extraOptions(spec model.DHCPSpec, family int, o map[string]string) {
	for _, x := range model.DHCPOptions(spec) {
		if x.Family == family {
			o[x.Name] = x.Rendered
		}
	}
}

// routerAdvertisement is the router port's ipv6_ra_configs (ovn-nb(5)):
// prefixes on-link, addresses by DHCPv6, since port security lets a guest use
// no address of its own making.
func routerAdvertisement(spec model.DHCPSpec, mtu int) map[string]string {
	o := map[string]string{"address_mode": "dhcpv6_stateful", "send_periodic": "true", "mtu": strconv.Itoa(mtu)}
	for _, a := range spec.DNSServers {
		if a.Is6() {
			o["rdnss"] = a.String()
			break
		}
	}
	if spec.Domain != "" {
		o["dnssl"] = spec.Domain
	}
	return o
}

// addrList renders the addresses of a family as OVN's lists are written.
func addrList(addrs []netip.Addr, family func(netip.Addr) bool) string {
	var out []string
	for _, a := range addrs {
		if family(a) {
			out = append(out, a.String())
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// quote makes an OVN string constant of a text that model has checked to hold
// neither quotes nor backslashes.
func quote(s string) string { return `"` + s + `"` }
