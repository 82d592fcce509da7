package pipeline_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// frame is whom a frame is for.
type frame string

const (
	toRouter    frame = "router"
	toNeighbour frame = "neighbour" // an attachment of the same tier
	toGroup     frame = "group"     // an Ethernet group
	toEverybody frame = "everybody" // Ethernet broadcast
	fromOutside frame = "outside"   // at the router, as if from beyond the VPC
)

// probe is a packet that is tried: the first of its connection.
type probe struct {
	From      string // the attachment that sends it; from outside the tier at whose router port it comes in
	Frame     frame
	Neighbour string
	Src, Dst  netip.Addr
	TTL       uint8
	Proto     uint8
	SrcPort   uint16
	DstPort   uint16
	Type      uint8 // of ICMP
	Code      uint8
	Frag      bool // a later fragment
	// linkLocals are the link-local addresses of attachments and of tiers'
	// router ports.
	linkLocals map[string]netip.Addr
}

func (p probe) v4() bool      { return p.Src.Is4() }
func (p probe) v6() bool      { return p.Src.Is6() }
func (p probe) outside() bool { return p.Frame == fromOutside }

func (p probe) String() string {
	type plain probe
	p.linkLocals = nil
	return strings.Replace(fmt.Sprintf("%+v", plain(p)), " linkLocals:map[]", "", 1)
}

// names are the names and MACs that the rows of a VPC have for a probe's ends.
type names struct {
	vpc        string
	guests     map[string]string // attachment: name of its port
	macs       map[string][6]byte
	linkLocals map[string]netip.Addr
}

func newNames(vpc string, set *model.Set, state *nbdb.State) (*names, error) {
	n := &names{vpc: vpc, guests: map[string]string{}, macs: map[string][6]byte{}, linkLocals: map[string]netip.Addr{}}
	byPort := map[string]string{}
	for _, r := range set.Resources {
		if spec, ok := r.Spec.(*model.AttachmentSpec); ok {
			n.guests[r.Metadata.Name] = spec.InterfaceID
			byPort[spec.InterfaceID] = r.Metadata.Name
		}
	}
	note := func(name, mac string) error {
		hw, err := net.ParseMAC(mac)
		if err != nil {
			return fmt.Errorf("the MAC of %s: %w", name, err)
		}
		n.macs[name] = [6]byte(hw)
		// RFC 4291, appendix A.
		n.linkLocals[name] = netip.AddrFrom16([16]byte{0xfe, 0x80, 8: hw[0] ^ 2, 9: hw[1], 10: hw[2], 11: 0xff, 12: 0xfe, 13: hw[3], 14: hw[4], 15: hw[5]})
		return nil
	}
	for _, row := range nbdb.All[*nbdb.LogicalSwitchPort](state) {
		if name, ok := byPort[row.Name]; ok && len(row.Addresses) > 0 {
			mac, _, _ := strings.Cut(row.Addresses[0], " ")
			if err := note(name, mac); err != nil {
				return nil, err
			}
		}
	}
	for _, row := range nbdb.All[*nbdb.LogicalRouterPort](state) {
		if tier, ok := strings.CutPrefix(row.Name, vpc+"/"); ok {
			if err := note(strings.TrimSuffix(tier, "/gw"), row.MAC); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// start is the name of the port where the probe starts.
func (n *names) start(p probe) string {
	if p.outside() {
		return n.vpc + "/" + p.From + "/gw"
	}
	return n.guests[p.From]
}

// packet is the probe as package match has packets; router is the tier whose
// router port the sender knows.
func (n *names) packet(p probe, tierOf map[string]string) match.Packet {
	k := match.Packet{EthType: 0x800, Src: p.Src, Dst: p.Dst, Proto: p.Proto, TTL: p.TTL, SrcPort: p.SrcPort, DstPort: p.DstPort,
		ICMPType: p.Type, ICMPCode: p.Code, Frag: p.Frag, Inport: n.start(p)}
	if p.v6() {
		k.EthType = 0x86dd
	}
	k.EthSrc = n.macs[p.From]
	switch p.Frame {
	case toRouter:
		k.EthDst = n.macs[tierOf[p.From]]
	case toNeighbour:
		k.EthDst = n.macs[p.Neighbour]
	case toGroup:
		k.EthDst = group(p.Dst)
	case toEverybody:
		k.EthDst = [6]byte{255, 255, 255, 255, 255, 255}
	case fromOutside:
		k.EthSrc, k.EthDst = [6]byte{2, 2, 2, 2, 2, 2}, n.macs[p.From]
	}
	return k
}

// group is the Ethernet group of a multicast address (RFC 1112, 6.4; RFC
// 2464, 7), for any other address the one of all hosts.
func group(a netip.Addr) [6]byte {
	b := a.AsSlice()
	switch {
	case a.Is4() && a.IsMulticast():
		return [6]byte{1, 0, 0x5e, b[1] & 0x7f, b[2], b[3]}
	case a.IsMulticast():
		return [6]byte{0x33, 0x33, b[12], b[13], b[14], b[15]}
	}
	return [6]byte{1, 0, 0x5e, 0, 0, 1}
}
