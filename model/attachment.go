package model

import (
	"fmt"
	"net/netip"
	"strings"
)

// AttachmentSpec is the spec of an Attachment. Addresses and MAC may be empty
// as written; the engine fills them in before they are stored.
type AttachmentSpec struct {
	Tier             string         `json:"tier" doc:"the tier of the interface; can't be changed"`
	Addresses        []netip.Addr   `json:"addresses,omitempty" doc:"fixed addresses inside the tier; default one allocated for each address family of the tier"`
	MAC              MAC            `json:"mac,omitempty" doc:"Ethernet address, unique in the tier; default derived from the address"`
	InterfaceID      string         `json:"interfaceID" doc:"external_ids:iface-id of the interface on the hypervisor, unique; default <vpc>/<name>"`
	Chassis          string         `json:"chassis,omitempty" doc:"the hypervisor that may bind the interface; default any"`
	MigratingTo      string         `json:"migratingTo,omitempty" doc:"live migration: a second chassis that may bind the interface"`
	PortSecurity     bool           `json:"portSecurity" doc:"true (default): the guest sends from its own addresses only; false trusts it"`
	AllowedAddresses []netip.Prefix `json:"allowedAddresses,omitempty" doc:"further addresses or prefixes the guest may use"`
	Hostname         string         `json:"hostname,omitempty" doc:"host name that DHCP tells the guest"`
	Enabled          bool           `json:"enabled" doc:"true (default); false: the interface passes nothing"`
	// Plug is nil where no agent is asked for the interface.
	Plug *PlugSpec `json:"plug,omitempty" doc:"asks the agent of the chassis to make the interface; default: somebody else plugs it by its ID"`
}

func (s *AttachmentSpec) setDefaults() {
	s.PortSecurity = true
	s.Enabled = true
}

func (s *AttachmentSpec) complete(r *Resource) {
	if s.InterfaceID == "" {
		s.InterfaceID = r.Metadata.VPC + "/" + r.Metadata.Name
	}
	s.Plug = normalPlug(s.Plug)
}

func (s *AttachmentSpec) check(c *checker) {
	c.required("spec.tier", s.Tier, dnsLabel)
	for i, addr := range s.Addresses {
		if !addr.IsValid() {
			continue
		}
		if use := specialUse(netip.PrefixFrom(addr, addr.BitLen())); use != "" {
			c.fault(index("spec.addresses", i), fmt.Sprintf("%s lies in %s", addr, use), "give an address of the tier")
		}
	}
	twice(c, "spec.addresses", s.Addresses)
	twice(c, "spec.allowedAddresses", s.AllowedAddresses)
	s.checkMAC(c)
	c.optional("spec.interfaceID", s.InterfaceID, interfaceID)
	c.optional("spec.chassis", s.Chassis, chassisName)
	c.optional("spec.migratingTo", s.MigratingTo, chassisName)
	c.optional("spec.hostname", s.Hostname, dnsName)
	switch {
	case s.MigratingTo != "" && s.Chassis == "":
		c.fault("spec.migratingTo", "needs spec.chassis, where the guest comes from", "name that chassis")
	case s.MigratingTo != "" && s.MigratingTo == s.Chassis:
		c.fault("spec.migratingTo", quote(s.MigratingTo)+" is where the guest is already", "name another chassis, or remove it")
	}
	if s.Plug != nil {
		s.Plug.check(c, s.Chassis)
	}
	if !s.PortSecurity && len(s.AllowedAddresses) > 0 {
		c.warn("spec.allowedAddresses", "has no effect: with portSecurity false every address is allowed", "remove it")
	}
}

func (s *AttachmentSpec) checkMAC(c *checker) {
	if s.MAC == "" {
		return
	}
	hw := s.MAC.bytes()
	switch {
	case hw[0]&1 != 0:
		c.fault("spec.mac", string(s.MAC)+" is a multicast address", "make the first byte even")
	case s.MAC == "00:00:00:00:00:00":
		c.fault("spec.mac", "an interface can't have address zero", "give a unicast address, or remove it for a derived one")
	case RouterMAC(s.MAC):
		c.fault("spec.mac", string(s.MAC)+" lies in the routers' range 0e:58:00:00:00:00/ff:fe:00:00:00:00", "choose another, or remove it for a derived one")
	}
}

// RouterMAC tells whether a MAC lies in the range of router ports,
// 0e:58:00:00:00:00/ff:fe:00:00:00:00. ACLs know by it what crosses a tier's
// boundary, so attachments can't have one.
func RouterMAC(mac MAC) bool {
	hw := mac.bytes()
	return hw[0] == 0x0e && hw[1]&0xfe == 0x58
}

// interfaceID refuses besides the syntax the names of router ports.
func interfaceID(text string) *fault {
	if f := token(text, "an interface ID"); f != nil {
		return f
	}
	parts := strings.Split(text, "/")
	if len(parts) == 3 && isLabel(parts[0]) && isLabel(parts[1]) && (parts[2] == "gw" || parts[2] == "rtr") {
		return &fault{quote(text) + " is the form of a router port's name", "choose another"}
	}
	return nil
}
