package translate

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// attachmentRows needs an attachment with its addresses and MAC filled in.
func (b *builder) attachmentRows(spec *model.AttachmentSpec) error {
	m := b.resource.Metadata
	tier := b.tier(m.VPC, spec.Tier)
	if tier == nil {
		return fmt.Errorf("its tier %q is unknown", spec.Tier)
	}
	if len(spec.Addresses) == 0 || spec.MAC == "" {
		return fmt.Errorf("it has no address or no MAC yet")
	}
	key := AddressKey(m.VPC, spec.Addresses[0])
	ids, err := b.principal(key)
	if err != nil {
		return err
	}
	if spec.Plug != nil {
		if ids[KeyNet], err = b.guestNet(spec, tier); err != nil {
			return err
		}
	}
	port := &nbdb.LogicalSwitchPort{
		UUID:        PortUUID(b.Owner, m.VPC, spec.Addresses[0]),
		Name:        spec.InterfaceID,
		Addresses:   []string{spaced(spec.MAC, spec.Addresses)},
		Options:     portOptions(spec),
		ExternalIDs: ids,
	}
	if spec.PortSecurity {
		port.PortSecurity = []string{portSecurity(spec)}
	}
	if !spec.Enabled {
		disabled := false
		port.Enabled = &disabled
	}
	if tier.DHCP.Enabled {
		port.Dhcpv4Options = b.dhcpOf(spec, tier, netip.Addr.Is4)
		port.Dhcpv6Options = b.dhcpOf(spec, tier, netip.Addr.Is6)
	}
	b.row(port)
	b.edge(nbdb.TableLogicalSwitch, SwitchUUID(b.Owner, m.VPC, spec.Tier), "ports", port.UUID)
	b.Entries = append(b.Entries, nbdb.Entry{Table: nbdb.TablePortGroup, Row: CopyUUID(b.Owner, m.VPC, spec.Tier, tier, m.Name),
		Key: KeyAttachmentPrefix + m.Name, Value: registryValue(ids)})
	return nil
}

// registryValue is an attachment's second copy: manager, request if any and
// spec, with spaces between them.
func registryValue(ids map[string]string) string {
	if request := ids[KeyRequest]; request != "" {
		return ids[KeyManager] + " " + request + " " + ids[KeySpec]
	}
	return ids[KeyManager] + " " + ids[KeySpec]
}

// ParseRegistry takes an attachment's second copy apart. Only the spec begins
// with a brace (model.ValidRequest).
func ParseRegistry(value string) (manager, request, spec string) {
	manager, spec, _ = strings.Cut(value, " ")
	if head, tail, ok := strings.Cut(spec, " {"); ok && !strings.HasPrefix(spec, "{") {
		request, spec = head, "{"+tail
	}
	return manager, request, spec
}

// portOptions are options of ovn-nb(5), Logical_Switch_Port.
func portOptions(spec *model.AttachmentSpec) map[string]string {
	o := map[string]string{}
	if spec.Chassis != "" {
		o["requested-chassis"] = spec.Chassis
	}
	if spec.MigratingTo != "" {
		o["requested-chassis"] = spec.Chassis + "," + spec.MigratingTo
		o["activation-strategy"] = "rarp"
	}
	if spec.Hostname != "" {
		o["hostname"] = spec.Hostname
	}
	return o
}

// portSecurity names what the guest may use as a source: also the EUI-64
// link-local address, without which OVN drops a guest's own neighbour
// advertisements.
func portSecurity(spec *model.AttachmentSpec) string {
	s := spaced(spec.MAC, append(append([]netip.Addr{}, spec.Addresses...), LinkLocal(spec.MAC)))
	for _, p := range spec.AllowedAddresses {
		if p.IsSingleIP() {
			s += " " + p.Addr().String()
		} else {
			s += " " + p.String()
		}
	}
	return s
}

func spaced(mac model.MAC, addrs []netip.Addr) string {
	parts := []string{string(mac)}
	for _, a := range addrs {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, " ")
}

// dhcpOf is the DHCP_Options row of the prefix that holds the attachment's
// first address of a family.
func (b *builder) dhcpOf(spec *model.AttachmentSpec, tier *model.TierSpec, family func(netip.Addr) bool) *nbdb.UUID {
	for _, a := range spec.Addresses {
		if !family(a) {
			continue
		}
		for _, p := range tier.CIDRs {
			if p.Contains(a) {
				u := b.uuid(nbdb.TableDHCPOptions, tierDHCPKey(b.resource.Metadata.VPC, spec.Tier, p))
				return &u
			}
		}
	}
	return nil
}
