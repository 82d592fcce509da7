package model_test

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// TestRoundTrip: what is written is read as it was, and once read it stays as
// it is. The resources are drawn in canonical form.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resources := drawResources(t)
		var documents []model.Document
		for _, r := range resources {
			documents = append(documents, model.Envelope(r, nil))
		}
		var out bytes.Buffer
		require.NoError(t, model.EncodeYAML(&out, documents...))
		set, found := model.Load(model.Input{Name: "x", Data: out.Bytes()})
		require.False(t, found.HasErrors(), "%s\n%s", found, out.String())
		require.Len(t, set.Resources, len(resources))
		for i, r := range resources {
			require.Equal(t, r.Metadata, set.Resources[i].Metadata)
			require.Equal(t, r.Spec, set.Resources[i].Spec, out.String())
		}
		found = model.Check(set.Resources, set.Get, func(string) bool { return true })
		require.Empty(t, found)
		requireRoundTrip(t, set)
	})
}

func drawResources(t *rapid.T) []*model.Resource {
	vpc := model.NewSpec(model.KindVPC).(*model.VPCSpec)
	vpc.CIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}
	if vpc.DistributedRouting = rapid.Bool().Draw(t, "distributed"); !vpc.DistributedRouting {
		vpc.Chassis = rapid.StringMatching(`[!#-&*+\-./0-:<-Z^_a-z|~]{1,20}`).Draw(t, "chassis")
	}
	offering := &model.VPCOfferingSpec{Capabilities: model.Capabilities{DistributedRouting: true}}
	if rapid.Bool().Draw(t, "limited") {
		limit := rapid.IntRange(100, 1000).Draw(t, "limit")
		offering.Limits.ACLRules = &limit
	}
	vpc.Offering = "gold"
	meta := model.Metadata{VPC: "shop"}
	named := func(name string) model.Metadata { meta.Name = name; return meta }
	resources := []*model.Resource{
		{Kind: model.KindVPCOffering, Metadata: model.Metadata{Name: "gold"}, Spec: offering},
		{Kind: model.KindVPC, Metadata: model.Metadata{Name: "shop", Labels: drawLabels(t)}, Spec: vpc},
		{Kind: model.KindACL, Metadata: named("list"), Spec: drawACL(t)},
	}
	for i := range 3 {
		name := fmt.Sprintf("t%d", i)
		resources = append(resources,
			&model.Resource{Kind: model.KindTier, Metadata: named(name), Spec: drawTier(t, i)},
			&model.Resource{Kind: model.KindAttachment, Metadata: named("a" + name), Spec: drawAttachment(t, i)})
	}
	resources = append(resources, &model.Resource{Kind: model.KindExpectation, Metadata: named("expected"), Spec: drawExpectation(t)})
	return resources
}

func drawExpectation(t *rapid.T) *model.ExpectationSpec {
	return &model.ExpectationSpec{
		From:    rapid.SampledFrom([]string{"t0", "tier/t0", "at0", "attachment/at1", "192.0.2.1", "fd00::7"}).Draw(t, "from"),
		To:      rapid.SampledFrom([]string{"t1", "at2", "10.2.0.9", "outside"}).Draw(t, "to"),
		Traffic: traffic.Ports(traffic.TCP, 1, rapid.Uint16Range(1, 65535).Draw(t, "port")).Union(traffic.ICMPTypes(traffic.IPv4, 8, 8)),
		Expect:  rapid.SampledFrom([]model.Action{model.Allow, model.Deny}).Draw(t, "expect"),
	}
}

func drawLabels(t *rapid.T) map[string]string {
	labels := rapid.MapOfN(rapid.StringMatching(`([a-z]{1,9}\.[a-z]{1,3}/)?[A-Za-z0-9]([-_.a-z0-9]{0,9}[A-Za-z0-9])?`),
		rapid.StringMatching(`([A-Za-z0-9]([-_.a-z0-9]{0,9}[A-Za-z0-9])?)?`), 0, 4).Draw(t, "labels")
	if len(labels) == 0 {
		return nil
	}
	return labels
}

func drawACL(t *rapid.T) *model.ACLSpec {
	spec := model.NewSpec(model.KindACL).(*model.ACLSpec)
	spec.Stateless = rapid.Bool().Draw(t, "stateless")
	spec.Defaults.Egress = rapid.SampledFrom([]model.Action{model.Allow, model.Deny, model.Reject}).Draw(t, "egress")
	for number := range rapid.IntRange(0, 5).Draw(t, "rules") {
		rule := model.Rule{
			Number:      number*rapid.IntRange(1, 1000).Draw(t, "step") + 1,
			Action:      rapid.SampledFrom([]model.Action{model.Allow, model.Deny, model.Reject}).Draw(t, "action"),
			Direction:   rapid.SampledFrom([]model.Direction{model.Ingress, model.Egress}).Draw(t, "direction"),
			Protocol:    rapid.SampledFrom([]model.Protocol{"all", "tcp", "udp", "sctp", "icmp", "icmpv6", "47"}).Draw(t, "protocol"),
			Log:         rapid.SampledFrom([]model.Severity{"", "info", "alert", "debug"}).Draw(t, "log"),
			Description: rapid.StringOf(rapid.RuneFrom([]rune("ab \"'#:-{}[]&*!|>%@`,?\\~=<nulltrue0189é漢😀"))).Draw(t, "description"),
		}
		if n := len(spec.Rules); n > 0 && rule.Number <= spec.Rules[n-1].Number {
			rule.Number = spec.Rules[n-1].Number + 1
		}
		if rule.Protocol.HasPorts() && rapid.Bool().Draw(t, "ports") {
			first := rapid.Uint16Range(1, 60000).Draw(t, "first")
			rule.Ports = []model.PortRange{{First: first, Last: rapid.Uint16Range(first, 60000).Draw(t, "last")}, {First: 60002, Last: 60002}}
		}
		if rule.Protocol.IsICMP() && rapid.Bool().Draw(t, "icmp") {
			rule.ICMP = &model.ICMP{Type: rapid.IntRange(0, 255).Draw(t, "type"), Code: rapid.IntRange(-1, 255).Draw(t, "code")}
		}
		if rapid.Bool().Draw(t, "cidrs") {
			rule.CIDRs = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2001:db8::/32")}
		}
		if rapid.Bool().Draw(t, "tiers") {
			rule.Tiers = []string{"t1", "t0"}
		}
		spec.Rules = append(spec.Rules, rule)
	}
	return spec
}

func drawTier(t *rapid.T, i int) *model.TierSpec {
	spec := model.NewSpec(model.KindTier).(*model.TierSpec)
	spec.CIDRs = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i)), netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", i))}
	spec.Gateways = []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.%d.0.%d", i, rapid.IntRange(1, 255).Draw(t, "gateway"))), netip.MustParseAddr(fmt.Sprintf("fd00:%d::1", i))}
	spec.ACL = rapid.SampledFrom([]string{"list", model.ACLDefaultAllow, model.ACLDefaultDeny}).Draw(t, "acl")
	spec.DHCP.LeaseTime = rapid.IntRange(10, math.MaxUint32).Draw(t, "lease")
	if rapid.Bool().Draw(t, "reserved") {
		spec.Reserved = []model.AddrRange{
			{First: spec.CIDRs[0].Addr(), Last: spec.Gateways[0]},
			{First: spec.Gateways[1], Last: spec.Gateways[1]},
		}
	}
	if rapid.Bool().Draw(t, "options") {
		spec.DHCP.DNSServers = []netip.Addr{spec.Gateways[1], spec.Gateways[0]}
		spec.DHCP.Domain = "example.org"
		spec.DHCP.Options = map[string]string{"ntp_server": "10.0.0.1,10.0.0.2", "default_ttl": "7", "ip_forward_enable": "true", "tftp_server": "10.0.0.9"}
	}
	return spec
}

func drawAttachment(t *rapid.T, i int) *model.AttachmentSpec {
	spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
	spec.Tier = fmt.Sprintf("t%d", i)
	spec.InterfaceID = fmt.Sprintf("%s-%d", rapid.StringMatching(`[!#-&*+\-./0-:<-Z^_a-z|~]{1,20}`).Draw(t, "interface"), i)
	spec.Enabled = rapid.Bool().Draw(t, "enabled")
	spec.PortSecurity = rapid.Bool().Draw(t, "security")
	if rapid.Bool().Draw(t, "fixed") {
		spec.Addresses = []netip.Addr{netip.MustParseAddr(fmt.Sprintf("fd00:%d::%x", i, rapid.IntRange(2, 0xffff).Draw(t, "host")))}
		spec.MAC = model.MAC(fmt.Sprintf("0a:00:00:00:00:%02x", rapid.IntRange(0, 255).Draw(t, "mac")))
	}
	if spec.PortSecurity && rapid.Bool().Draw(t, "allowed") {
		spec.AllowedAddresses = []netip.Prefix{netip.MustParsePrefix("10.9.9.9/32"), netip.MustParsePrefix("fd00::/8")}
	}
	return spec
}

// TestPorts: the canonical ranges of a rule are ascending, apart from each
// other, and hold the ports that were written.
func TestPorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text string
		given := map[int]bool{}
		for range rapid.IntRange(1, 6).Draw(t, "n") {
			first := rapid.IntRange(1, 40).Draw(t, "first")
			last := rapid.IntRange(first, 40).Draw(t, "last")
			text += fmt.Sprintf("%d-%d, ", first, last)
			for port := first; port <= last; port++ {
				given[port] = true
			}
		}
		set, found := model.Load(model.Input{Name: "x", Data: []byte(
			"{apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: l, vpc: v}, spec: {rules: [{protocol: tcp, ports: [" + text + "]}]}}")})
		require.Empty(t, found)
		previous, held := -1, 0
		for _, r := range set.Resources[0].Spec.(*model.ACLSpec).Rules[0].Ports {
			require.Greater(t, int(r.First), previous+1)
			for port := int(r.First); port <= int(r.Last); port++ {
				require.True(t, given[port])
				held++
			}
			previous = int(r.Last)
		}
		require.Len(t, given, held)
	})
}

// TestOverlapsFound holds the check of tiers against trying every pair.
func TestOverlapsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set []*model.Resource
		var prefixes []netip.Prefix
		for i := range rapid.IntRange(1, 6).Draw(t, "tiers") {
			addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 255).Draw(t, "addr"))})
			p := netip.PrefixFrom(addr, rapid.IntRange(24, 30).Draw(t, "bits")).Masked()
			prefixes = append(prefixes, p)
			set = append(set, &model.Resource{
				Kind: model.KindTier, Metadata: model.Metadata{Name: fmt.Sprint("t", i), VPC: "v"}, Source: &model.Source{File: "x"},
				Spec: &model.TierSpec{CIDRs: []netip.Prefix{p}, ACL: model.ACLDefaultDeny},
			})
		}
		set = append(set, &model.Resource{Kind: model.KindVPC, Metadata: model.Metadata{Name: "v"}, Spec: &model.VPCSpec{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
		overlapping := map[string]bool{}
		for i, p := range prefixes {
			for j, q := range prefixes[:i] {
				if p.Overlaps(q) {
					overlapping[set[i].ID().String()], overlapping[set[j].ID().String()] = true, true
				}
			}
		}
		named := map[string]bool{}
		for _, d := range model.Check(set, func(model.ID) *model.Resource { return nil }, func(string) bool { return true }) {
			named[d.Resource] = true
			for _, r := range set {
				if bytes.Contains([]byte(d.Problem), []byte(r.ID().String()+" ")) {
					named[r.ID().String()] = true
				}
			}
		}
		require.Equal(t, overlapping, named)
	})
}

// TestDHCPOptionsAreSafe: whatever a value says, what is rendered is one value
// of the option's type and nothing that ends it early.
func TestDHCPOptionsAreSafe(t *testing.T) {
	types := model.DHCPOptionTypes()
	rapid.Check(t, func(t *rapid.T) {
		var names []string
		for name := range types {
			names = append(names, name)
		}
		name := rapid.SampledFrom(names).Draw(t, "name")
		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-z.,"{}\\; =-]{0,30}`)).Draw(t, "value")
		for _, option := range model.DHCPOptions(model.DHCPSpec{Options: map[string]string{name: value}}) {
			require.Regexp(t, `^([0-9]+|[0-9]+(\.[0-9]+){3}|\{[0-9]+(\.[0-9]+){3}(, [0-9]+(\.[0-9]+){3})+\}|"[-A-Za-z0-9._~:/?#@!&*+=%,\[\]]+")$`, option.Rendered)
		}
	})
}

func TestDHCPOptionsRendered(t *testing.T) {
	got := map[string]string{}
	for _, option := range model.DHCPOptions(model.DHCPSpec{Options: map[string]string{
		"ntp_server": "10.0.0.1, 10.0.0.2", "log_server": "10.0.0.1", "wpad": "http://x/y", "ip_forward_enable": "false",
		"tftp_server": "boot.example.org", "tftp_server_address": "10.0.0.3", "T1": "100", "domain_search_list": "a.org, B.org",
		"no_such": "1", "default_ttl": "300",
	}}) {
		require.Equal(t, 4, option.Family)
		got[option.Name] = option.Rendered
	}
	require.Equal(t, map[string]string{
		"ntp_server": "{10.0.0.1, 10.0.0.2}", "log_server": "10.0.0.1", "wpad": `"http://x/y"`, "ip_forward_enable": "0",
		"tftp_server": `"boot.example.org"`, "tftp_server_address": "10.0.0.3", "T1": "100", "domain_search_list": `"a.org,b.org"`,
	}, got)
}

func TestParseStoredRefuses(t *testing.T) {
	for _, text := range []string{
		``, `null`, `{}`, `{"metadata":{"name":"a"},"spec":null}`, `{"metadata":{"name":"a"},"spec":{"cidr":1}}`,
		`{"metadata":{"name":"a"},"spec":{}} x`, `{"metadata":{"name":"a"},"spec":{"cidrs":["x"]}}`, `{"status":{},"spec":{}}`,
	} {
		_, err := model.ParseStored(model.KindTier, []byte(text))
		require.Error(t, err, text)
	}
	_, err := model.ParseStored("Pod", []byte(`{}`))
	require.Error(t, err)
	for _, rule := range []string{`{"action":"drop"}`, `{"direction":"in"}`, `{"protocol":"x"}`, `{"ports":[0]}`, `{"ports":["5-1"]}`, `{"log":"loud"}`} {
		_, err := model.ParseStored(model.KindACL, []byte(`{"metadata":{"name":"a","vpc":"v"},"spec":{"rules":[`+rule+`]}}`))
		require.Error(t, err, rule)
	}
}
