package translate

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// GuestNet is what a guest has to know of its network beyond its own spec. It
// stands with the port of an attachment that an agent plugs, so that the agent
// need not read the tier and the VPC.
type GuestNet struct {
	// Addresses are the attachment's, with the length of their prefix.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways are the router's addresses in those prefixes.
	Gateways []netip.Addr `json:"gateways"`
	// OnLink are the tier's other prefixes of the families that it has.
	OnLink []netip.Prefix `json:"onLink,omitempty"`
	// VPC are the prefixes that are reached through the gateways.
	VPC []netip.Prefix `json:"vpc"`
	// MTU in bytes.
	MTU int `json:"mtu"`
}

func (b *builder) guestNet(spec *model.AttachmentSpec, tier *model.TierSpec) (string, error) {
	vpc := b.vpc(b.resource.Metadata.VPC)
	if vpc == nil {
		return "", fmt.Errorf("its VPC is unknown")
	}
	net := GuestNet{VPC: vpc.CIDRs, MTU: vpc.MTU}
	for i, p := range tier.CIDRs {
		own := false
		for _, a := range spec.Addresses {
			if p.Contains(a) {
				own = true
				net.Addresses = append(net.Addresses, netip.PrefixFrom(a, p.Bits()))
			}
		}
		switch {
		case own:
			net.Gateways = append(net.Gateways, tier.Gateways[i])
		case slices.ContainsFunc(spec.Addresses, func(a netip.Addr) bool { return a.Is4() == p.Addr().Is4() }):
			net.OnLink = append(net.OnLink, p)
		}
	}
	text, err := json.Marshal(net)
	if err != nil {
		return "", fmt.Errorf("encoding its network: %w", err)
	}
	return string(text), nil
}
