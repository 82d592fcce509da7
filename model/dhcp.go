package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// DHCPOptionType is the type of a DHCP option's value. The values are as in
// ovn-nb(5), section DHCP_Options, by the RFC that defines the option.
type DHCPOptionType string

// The types of options.
const (
	DHCPAddress      DHCPOptionType = "IPv4 address"
	DHCPAddresses    DHCPOptionType = "list of IPv4 addresses"
	DHCPAddressPairs DHCPOptionType = "list of IPv4 addresses, an even number"
	DHCPBool         DHCPOptionType = "true or false"
	DHCPUint8        DHCPOptionType = "integer 0 to 255"
	DHCPTTL          DHCPOptionType = "integer 1 to 255"
	DHCPSeconds      DHCPOptionType = "integer 68 to 4294967295"
	DHCPString       DHCPOptionType = "string"
	DHCPHost         DHCPOptionType = "IPv4 address or DNS name"
	DHCPDomains      DHCPOptionType = "list of DNS names"
)

const (
	maxOptionValues = 16
	maxOptionString = 128
)

// DHCPOption is one option as it is written into the database.
type DHCPOption struct {
	Name     string
	Family   int    // 4 or 6
	Rendered string // OVN action source (ovn-sb(5), put_dhcp_opts)
}

type dhcpOption struct {
	name string
	kind DHCPOptionType
}

// dhcpOptions is the table: the DHCPv4 options that every OVN since 22.03
// knows (one that a release doesn't know removes DHCP altogether), without
// those that follow from other fields (server_id, server_mac, router, netmask,
// broadcast_address, lease_time, mtu, dns_server, domain_name, hostname, the
// classless static routes) or change how addresses are given (offerip,
// next_server, dhcpv6_stateless). No DHCPv6 option is left.
func dhcpOptions() []dhcpOption {
	return []dhcpOption{
		{"T1", DHCPSeconds},
		{"T2", DHCPSeconds},
		{"arp_cache_timeout", DHCPUint8},
		{"bootfile_name", DHCPString},
		{"bootfile_name_alt", DHCPString},
		{"default_ttl", DHCPTTL},
		{"domain_search_list", DHCPDomains},
		{"ethernet_encap", DHCPBool},
		{"ip_forward_enable", DHCPBool},
		{"log_server", DHCPAddresses},
		{"lpr_server", DHCPAddresses},
		{"netbios_name_server", DHCPAddresses},
		{"netbios_node_type", DHCPUint8},
		{"nis_server", DHCPAddresses},
		{"ntp_server", DHCPAddresses},
		{"path_prefix", DHCPString},
		{"policy_filter", DHCPAddressPairs},
		{"router_discovery", DHCPBool},
		{"router_solicitation", DHCPAddress},
		{"swap_server", DHCPAddress},
		{"tcp_keepalive_interval", DHCPUint8},
		{"tcp_ttl", DHCPTTL},
		{"tftp_server", DHCPHost},
		{"tftp_server_address", DHCPAddresses},
		{"wpad", DHCPString},
	}
}

// DHCPOptionTypes is the closed table of what spec.dhcp.options may hold.
func DHCPOptionTypes() map[string]DHCPOptionType {
	types := make(map[string]DHCPOptionType)
	for _, option := range dhcpOptions() {
		types[option.name] = option.kind
	}
	return types
}

func dhcpOptionType(name string) (DHCPOptionType, *fault) {
	var names []string
	for _, option := range dhcpOptions() {
		if option.name == name {
			return option.kind, nil
		}
		names = append(names, option.name)
	}
	owned := map[string]string{
		"router": "spec.gateways", "mtu": "the VPC's spec.mtu", "lease_time": "spec.dhcp.leaseTime", "dns_server": "spec.dhcp.dnsServers",
		"domain_name": "spec.dhcp.domain", "domain_search": "spec.dhcp.domain", "hostname": "the attachment's spec.hostname",
		"netmask": "spec.cidrs", "broadcast_address": "spec.cidrs",
		"classless_static_route": "spec.cidrs", "ms_classless_static_route": "spec.cidrs",
	}
	if from := owned[name]; from != "" {
		return "", &fault{"option " + name + " can't be set here", "it follows from " + from}
	}
	return "", &fault{quote(name) + " is not one of the options", suggest(name, names, "one of "+strings.Join(names, ", "))}
}

// canonicalOption reads a value by the type of its option and writes it
// again: lists joined by commas without spaces.
func canonicalOption(name, text string) (string, *fault) {
	kind, err := dhcpOptionType(name)
	if err != nil {
		return "", err
	}
	canonical, ok := kind.canonical(text)
	if !ok {
		fix := string(kind)
		if kind == DHCPString {
			fix = fmt.Sprintf("1 to %d characters of letters, digits and %s", maxOptionString, stringAlphabet)
		}
		return "", &fault{quote(text) + " is no value for " + name, fix}
	}
	return canonical, nil
}

// stringAlphabet is what a string may hold besides letters and digits: enough
// for paths and URLs, nothing that means something in OVN's action language.
const stringAlphabet = "-._~:/?#@!&*+=%[]"

func (t DHCPOptionType) canonical(text string) (string, bool) {
	switch t {
	case DHCPAddress, DHCPAddresses, DHCPAddressPairs:
		return canonicalAddresses(t, text)
	case DHCPBool:
		value := map[string]string{"true": "true", "1": "true", "false": "false", "0": "false"}[text]
		return value, value != ""
	case DHCPUint8:
		return canonicalInteger(text, 0, 255)
	case DHCPTTL:
		return canonicalInteger(text, 1, 255)
	case DHCPSeconds:
		return canonicalInteger(text, 68, 1<<32-1)
	case DHCPString:
		return text, text != "" && len(text) <= maxOptionString && only(text, stringAlphabet)
	case DHCPHost:
		if addr, ok := canonicalAddresses(DHCPAddress, text); ok {
			return addr, true
		}
		// All digits and dots but no address: OVN would take it for a number.
		return text, dnsName(text) == nil && strings.IndexFunc(text, letter) >= 0
	case DHCPDomains:
		names := strings.Split(text, ",")
		for i, name := range names {
			names[i] = strings.ToLower(strings.TrimSpace(name))
			if dnsName(names[i]) != nil {
				return "", false
			}
		}
		joined := strings.Join(names, ",")
		return joined, len(joined) <= maxOptionString
	}
	return "", false
}

func canonicalInteger(text string, least, most uint64) (string, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return text, err == nil && isDecimal(text) && least <= n && n <= most
}

func canonicalAddresses(t DHCPOptionType, text string) (string, bool) {
	addrs := strings.Split(text, ",")
	if len(addrs) > maxOptionValues || t == DHCPAddress && len(addrs) != 1 || t == DHCPAddressPairs && len(addrs)%2 != 0 {
		return "", false
	}
	for i, text := range addrs {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil || !addr.Is4() {
			return "", false
		}
		addrs[i] = addr.String()
	}
	return strings.Join(addrs, ","), true
}

// render writes a canonical value as OVN's actions want it: strings quoted,
// several addresses in braces, booleans as 0 and 1.
func (t DHCPOptionType) render(value string) string {
	switch t {
	case DHCPAddresses, DHCPAddressPairs:
		if strings.Contains(value, ",") {
			return "{" + strings.ReplaceAll(value, ",", ", ") + "}"
		}
		return value
	case DHCPBool:
		return map[string]string{"true": "1", "false": "0"}[value]
	case DHCPString, DHCPDomains:
		return `"` + value + `"`
	case DHCPHost:
		if _, err := netip.ParseAddr(value); err != nil {
			return `"` + value + `"`
		}
	}
	return value
}

// DHCPOptions are the options of a tier as OVN takes them, by name. Every
// value is parsed and written anew, so that nothing but a value of its type
// ever reaches OVN; what Check refuses is left out.
func DHCPOptions(spec DHCPSpec) []DHCPOption {
	var options []DHCPOption
	for name, text := range spec.Options {
		value, err := canonicalOption(name, text)
		if err != nil {
			continue
		}
		options = append(options, DHCPOption{Name: name, Family: 4, Rendered: DHCPOptionTypes()[name].render(value)})
	}
	slices.SortFunc(options, func(a, b DHCPOption) int { return cmp.Compare(a.Name, b.Name) })
	return options
}
