package engine

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// outsideEnd is the word for all that is in no tier.
const outsideEnd = "outside"

// host is an end of a packet. Tier is "" outside the VPC, port and attachment
// where nobody in the tier has the address.
type host struct {
	attachment, tier string
	port             string
	mac              [6]byte
	addr             netip.Addr
	others           []host // for which it stands too
}

// pairs counts the pairs of different addresses that two hosts stand for, and gives
// one.
func pairs(s, d host) (from, to host, n int) {
	if s.tier != d.tier {
		return s, d, (1 + len(s.others)) * (1 + len(d.others))
	}
	for _, a := range append([]host{s}, s.others...) {
		for _, b := range append([]host{d}, d.others...) {
			if a.addr == b.addr {
				continue
			}
			if n == 0 {
				from, to = a, b
			}
			n++
		}
	}
	return from, to, n
}

func (h host) end() TraceEnd {
	return TraceEnd{Attachment: h.attachment, Tier: h.tier, Address: h.addr.String()}
}

// place is where an end's list is in force.
func (e TraceEnd) place() string {
	if e.Tier == "" {
		return outsideEnd
	}
	return "tier " + e.Tier
}

// ends are the hosts that a word of a query means.
func (t *tracing) ends(text string) ([]host, error) {
	const forms = "attachment/NAME, tier/NAME, NAME alone, an address, or outside"
	switch text {
	case outsideEnd:
		return t.outside(), nil
	case "":
		return nil, refuse("an end is missing", "name two: "+forms)
	}
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap()
		if slices.ContainsFunc(model.Unrouted(), func(p netip.Prefix) bool { return p.Contains(a.WithZone("")) }) {
			return nil, refuse(fmt.Sprintf("%s is an address that no router forwards", a), "name a host: broadcast, multicast and link-local packets stay in their tier")
		}
		return []host{t.hostAt(a)}, nil
	}
	kind, name, qualified := strings.Cut(text, "/")
	if !qualified {
		kind, name = "", text
	}
	tier := t.resources[model.ID{Kind: model.KindTier, VPC: t.vpc, Name: name}]
	attachment := t.resources[model.ID{Kind: model.KindAttachment, VPC: t.vpc, Name: name}]
	switch {
	case kind != "" && kind != "tier" && kind != "attachment":
		return nil, refuse(fmt.Sprintf("%q is no end", text), "write "+forms+"; the VPC is named with --vpc")
	case kind == "" && tier != nil && attachment != nil:
		return nil, refuse(fmt.Sprintf("%q is a tier and an attachment", text), "write tier/"+name+" or attachment/"+name)
	case attachment != nil && kind != "tier":
		return t.hostsOf(attachment), nil
	case tier != nil && kind != "attachment":
		return t.hostsIn(tier)
	}
	missing := model.ID{Kind: model.KindAttachment, VPC: t.vpc, Name: name}
	if kind == "tier" {
		missing.Kind = model.KindTier
	}
	return nil, &NotFoundError{missing}
}

// hostsOf are an attachment's ends: its first address of each family.
func (t *tracing) hostsOf(r *model.Resource) []host {
	spec := r.Spec.(*model.AttachmentSpec)
	var out []host
	for _, a := range spec.Addresses {
		if !slices.ContainsFunc(out, func(h host) bool { return h.addr.BitLen() == a.BitLen() }) {
			out = append(out, t.host(r, a))
		}
	}
	return out
}

func (t *tracing) host(r *model.Resource, a netip.Addr) host {
	spec := r.Spec.(*model.AttachmentSpec)
	return host{attachment: r.Metadata.Name, tier: spec.Tier, port: spec.InterfaceID, mac: macOf(string(spec.MAC)), addr: a}
}

// macOf is a MAC that has been checked.
func macOf(text string) (mac [6]byte) {
	hw, _ := net.ParseMAC(text)
	copy(mac[:], hw)
	return mac
}

// hostsIn are the ends of a tier: of all that no list can tell apart, one.
func (t *tracing) hostsIn(tier *model.Resource) ([]host, error) {
	prefixes := t.prefixes()
	var out []host
	classes := map[string]int{}
	for _, r := range t.guests {
		spec := r.Spec.(*model.AttachmentSpec)
		if spec.Tier != tier.Metadata.Name {
			continue
		}
		for _, a := range spec.Addresses {
			class := fmt.Append(nil, a.Is4(), spec.Enabled, spec.PortSecurity)
			for i, p := range prefixes {
				if p.Contains(a) {
					class = fmt.Append(class, " ", i)
				}
			}
			if i, ok := classes[string(class)]; ok {
				out[i].others = append(out[i].others, t.host(r, a))
				continue
			}
			classes[string(class)] = len(out)
			out = append(out, t.host(r, a))
		}
	}
	if len(out) == 0 {
		return nil, refuse(fmt.Sprintf("tier %s has no attachment", tier.Metadata.Name), "name an address; reach tells about tiers without attachments too")
	}
	return out, nil
}

// prefixes are those that the rules of the VPC's lists name.
func (t *tracing) prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range sorted(t.resources) {
		if list, ok := r.Spec.(*model.ACLSpec); ok && r.Metadata.VPC == t.vpc {
			for _, rule := range list.Rules {
				out = append(out, rule.CIDRs...)
			}
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// outside are addresses beyond the VPC: of all that no list can tell apart, one.
func (t *tracing) outside() []host {
	// Those of documentation first (RFC 5737, 3849, 9637), then anywhere.
	var usual []netip.Addr
	for _, a := range []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"} {
		usual = append(usual, netip.MustParseAddr(a))
	}
	prefixes := append(t.prefixes(), netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	var out []host
	for _, p := range slices.Compact(prefixes) {
		var b netipx.IPSetBuilder
		b.AddPrefix(p)
		for _, finer := range prefixes {
			if finer.Bits() > p.Bits() && p.Overlaps(finer) {
				b.RemovePrefix(finer)
			}
		}
		for _, inside := range append(t.networks(), reach.NotUnicast()...) {
			b.RemovePrefix(inside)
		}
		set, err := b.IPSet()
		if err != nil || len(set.Ranges()) == 0 {
			continue
		}
		a := set.Ranges()[0].From()
		if second := a.Next(); set.Contains(second) {
			a = second // the first may be a network's own
		}
		if i := slices.IndexFunc(usual, set.Contains); i >= 0 {
			a = usual[i]
		}
		out = append(out, host{addr: a})
	}
	return out
}

// networks are the prefixes of the VPC's tiers.
func (t *tracing) networks() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range t.tiers {
		out = append(out, r.Spec.(*model.TierSpec).CIDRs...)
	}
	return out
}

// hostAt is who has an address.
func (t *tracing) hostAt(a netip.Addr) host {
	if owner := t.ownerOf(a); owner.port != "" {
		return owner
	}
	for _, r := range t.guests {
		if slices.ContainsFunc(r.Spec.(*model.AttachmentSpec).AllowedAddresses, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return t.host(r, a)
		}
	}
	return host{tier: t.tierAt(a), addr: a}
}

// tierAt is the tier that an address lies in, "" for none.
func (t *tracing) tierAt(a netip.Addr) string {
	for _, r := range t.tiers {
		if slices.ContainsFunc(r.Spec.(*model.TierSpec).CIDRs, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return r.Metadata.Name
		}
	}
	return ""
}

// ownerOf is the attachment that has an address, or somebody outside.
func (t *tracing) ownerOf(a netip.Addr) host {
	for _, r := range t.guests {
		if slices.Contains(r.Spec.(*model.AttachmentSpec).Addresses, a) {
			return t.host(r, a)
		}
	}
	return host{addr: a}
}

// routerMAC is the MAC of a tier's gateway.
func (t *tracing) routerMAC(tier string) [6]byte {
	name := translate.RouterPortName(t.vpc, tier)
	for _, row := range nbdb.All[*nbdb.LogicalRouterPort](t.state) {
		if row.Name == name {
			return macOf(row.MAC)
		}
	}
	return [6]byte{}
}

// isGateway tells whether an address is one of the router's.
func (t *tracing) isGateway(a netip.Addr) bool {
	return slices.ContainsFunc(t.tiers, func(r *model.Resource) bool { return slices.Contains(r.Spec.(*model.TierSpec).Gateways, a) })
}
