// Package trace walks a packet over rows of the northbound database and tells
// what becomes of it and which rows decided. It needs no OVN: the rows may be
// those of a plan.
//
// It knows what ovn-northd(8) makes of switches, their ACLs, routers, their
// policies and connected networks, for the first packet of a connection and
// for the multicast frames of OVN 23.03. It does not know ARP, neighbour
// discovery and DHCP as services, port groups with ports, address sets, load
// balancers, NAT, static routes, unknown and dynamic addresses, and ports of
// other types than a guest's and a router's.
package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// Network is the rows of a state, ready to be walked. It is not changed by
// walks, which may run at the same time.
type Network struct {
	guests   map[string]*port // by the name of the switch port
	gateways map[string]*gateway
}

// lswitch is a switch with its ACLs, each direction with the highest priority
// first.
type lswitch struct {
	name     string
	stateful bool // northd tracks connections on it
	ports    []*port
	acls     map[string][]*nbdb.ACL
}

// port is a port of a switch: a guest's, or the one that leads to a router.
type port struct {
	row      *nbdb.LogicalSwitchPort
	sw       *lswitch
	owned    []identity // its addresses
	security []identity // what it may use; empty: anything
	gateway  *gateway   // nil for a guest's
}

// identity is a MAC and the addresses that go with it, none meaning any.
type identity struct {
	mac   [6]byte
	addrs []netip.Prefix
}

// lrouter is a router with its policies, the highest priority first.
type lrouter struct {
	name     string
	disabled bool
	central  bool // bound to one chassis: a gateway router
	policies []*nbdb.LogicalRouterPolicy
	gateways []*gateway
}

// gateway is a port of a router and the switch port that leads to it.
type gateway struct {
	name      string
	router    *lrouter
	disabled  bool
	mac       [6]byte
	networks  []netip.Prefix // addresses with the lengths of their networks
	linkLocal netip.Addr
	peer      *port // nil when no switch leads here
}

// NewNetwork reads the rows of a state. It fails on a row whose addresses
// can't be read.
func NewNetwork(state *nbdb.State) (*Network, error) {
	n := &Network{guests: map[string]*port{}, gateways: map[string]*gateway{}}
	for _, row := range nbdb.All[*nbdb.LogicalRouter](state) {
		if err := n.router(state, row); err != nil {
			return nil, fmt.Errorf("reading the router %s: %w", row.Name, err)
		}
	}
	for _, row := range nbdb.All[*nbdb.LogicalSwitch](state) {
		if err := n.lswitch(state, row); err != nil {
			return nil, fmt.Errorf("reading the switch %s: %w", row.Name, err)
		}
	}
	return n, nil
}

func (n *Network) router(state *nbdb.State, row *nbdb.LogicalRouter) error {
	r := &lrouter{name: row.Name, disabled: isFalse(row.Enabled), central: row.Options["chassis"] != ""}
	for _, id := range row.Policies {
		if p := nbdb.Lookup[*nbdb.LogicalRouterPolicy](state, id); p != nil {
			r.policies = append(r.policies, p)
		}
	}
	slices.SortStableFunc(r.policies, func(a, b *nbdb.LogicalRouterPolicy) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, id := range row.Ports {
		lrp := nbdb.Lookup[*nbdb.LogicalRouterPort](state, id)
		if lrp == nil {
			continue
		}
		g := &gateway{name: lrp.Name, router: r, disabled: isFalse(lrp.Enabled)}
		var err error
		if g.mac, err = parseMAC(lrp.MAC); err != nil {
			return fmt.Errorf("port %s: %w", lrp.Name, err)
		}
		g.linkLocal = linkLocal(g.mac)
		for _, text := range lrp.Networks {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return fmt.Errorf("port %s: %w", lrp.Name, err)
			}
			g.networks = append(g.networks, p)
		}
		r.gateways = append(r.gateways, g)
		n.gateways[g.name] = g
	}
	return nil
}

func (n *Network) lswitch(state *nbdb.State, row *nbdb.LogicalSwitch) error {
	sw := &lswitch{name: row.Name, acls: map[string][]*nbdb.ACL{}}
	for _, id := range row.ACLs {
		if acl := nbdb.Lookup[*nbdb.ACL](state, id); acl != nil {
			sw.acls[acl.Direction] = append(sw.acls[acl.Direction], acl)
			sw.stateful = sw.stateful || acl.Action == "allow-related"
		}
	}
	for _, acls := range sw.acls {
		slices.SortStableFunc(acls, func(a, b *nbdb.ACL) int { return cmp.Compare(b.Priority, a.Priority) })
	}
	for _, id := range row.Ports {
		lsp := nbdb.Lookup[*nbdb.LogicalSwitchPort](state, id)
		if lsp == nil {
			continue
		}
		p := &port{row: lsp, sw: sw}
		switch lsp.Type {
		case "":
			sw.ports = append(sw.ports, p)
		case "router":
			if p.gateway = n.gateways[lsp.Options["router-port"]]; p.gateway != nil {
				p.gateway.peer = p
				sw.ports = append(sw.ports, p)
			}
			continue
		default:
			continue
		}
		n.guests[lsp.Name] = p
		var err error
		if p.owned, err = identities(lsp.Addresses); err != nil {
			return fmt.Errorf("addresses of port %s: %w", lsp.Name, err)
		}
		if p.security, err = identities(lsp.PortSecurity); err != nil {
			return fmt.Errorf("port security of port %s: %w", lsp.Name, err)
		}
	}
	return nil
}

// identities reads the texts of Logical_Switch_Port's addresses or
// port_security (ovn-nb(5)): a prefix without host bits stands for all of its
// addresses, one with them for the one address.
func identities(texts []string) ([]identity, error) {
	var out []identity
	for _, text := range texts {
		words := slices.DeleteFunc(strings.Fields(text), func(w string) bool { return w == "unknown" || w == "dynamic" })
		if len(words) == 0 {
			continue
		}
		mac, err := parseMAC(words[0])
		if err != nil {
			return nil, err
		}
		id := identity{mac: mac}
		for _, word := range words[1:] {
			p, err := netip.ParsePrefix(word)
			if err != nil {
				var a netip.Addr
				if a, err = netip.ParseAddr(word); err != nil {
					return nil, err
				}
				p = netip.PrefixFrom(a, a.BitLen())
			}
			if p != p.Masked() {
				p = netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
			}
			id.addrs = append(id.addrs, p)
		}
		out = append(out, id)
	}
	return out, nil
}

// mayUse tells whether port security grants the identity an address. With any
// IPv6 address OVN grants the link-local one of the MAC.
func (id identity) mayUse(a netip.Addr) bool {
	return len(id.addrs) == 0 || contains(id.addrs, a) ||
		a == linkLocal(id.mac) && slices.ContainsFunc(id.addrs, func(p netip.Prefix) bool { return p.Addr().Is6() })
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func isFalse(b *bool) bool { return b != nil && !*b }

// predicate evaluates one predicate of package match.
func predicate(p match.Pred, packet match.Packet) bool { return match.Eval(match.Is(p), packet) }
