package audit

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// held is an address of a VPC.
type held struct {
	scope
	addr netip.Addr
}

type set[K comparable] map[K]struct{}

// multimap has several values to a key.
type multimap[K, V comparable] map[K]set[V]

func (m multimap[K, V]) add(k K, v V) {
	if m[k] == nil {
		m[k] = set[V]{}
	}
	m[k][v] = struct{}{}
}

func (m multimap[K, V]) remove(k K, v V) {
	delete(m[k], v)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}

// index finds rows by what is looked up in them at each state.
type index struct {
	holders  multimap[held, nbdb.UUID]      // ports of switches and routers by address
	routed   multimap[scope, nbdb.UUID]     // ports of routers by VPC
	switches multimap[nbdb.UUID, nbdb.UUID] // switches by port
	touched  touched
}

// touched is where the index has changed.
type touched struct {
	addresses set[held]
	routers   set[scope]
	ports     set[nbdb.UUID]
}

func newTouched() touched {
	return touched{addresses: set[held]{}, routers: set[scope]{}, ports: set[nbdb.UUID]{}}
}

// update takes a change in.
func (x *index) update(c change) {
	for _, h := range addressesOf(c.old) {
		x.holders.remove(h, c.uuid)
		x.touched.addresses[h] = struct{}{}
	}
	for _, h := range addressesOf(c.now) {
		x.holders.add(h, c.uuid)
		x.touched.addresses[h] = struct{}{}
	}
	switch c.table {
	case nbdb.TableLogicalRouterPort:
		if s, ok := scopeOf(c.old); ok {
			x.routed.remove(s, c.uuid)
			x.touched.routers[s] = struct{}{}
		}
		if s, ok := scopeOf(c.now); ok {
			x.routed.add(s, c.uuid)
			x.touched.routers[s] = struct{}{}
		}
	case nbdb.TableLogicalSwitchPort:
		x.touched.ports[c.uuid] = struct{}{}
	case nbdb.TableLogicalSwitch:
		x.place(c)
	}
}

// place notes the ports that have come to a switch or left it.
func (x *index) place(c change) {
	before, after := portsOf(c.old), portsOf(c.now)
	for p := range before {
		if _, still := after[p]; !still {
			x.switches.remove(p, c.uuid)
			x.touched.ports[p] = struct{}{}
		}
	}
	for p := range after {
		if _, already := before[p]; !already {
			x.switches.add(p, c.uuid)
			x.touched.ports[p] = struct{}{}
		}
	}
}

func portsOf(r nbdb.Row) set[nbdb.UUID] {
	ports := set[nbdb.UUID]{}
	if s, ok := r.(*nbdb.LogicalSwitch); ok {
		for _, p := range s.Ports {
			ports[p] = struct{}{}
		}
	}
	return ports
}

// addressesOf are those that an owned port of a switch or a router holds. What
// is none, such as a MAC or "router", is passed over.
func addressesOf(r nbdb.Row) []held {
	s, ok := scopeOf(r)
	if !ok {
		return nil
	}
	var texts []string
	switch r := r.(type) {
	case *nbdb.LogicalSwitchPort:
		for _, a := range r.Addresses {
			texts = append(texts, strings.Fields(a)...)
		}
	case *nbdb.LogicalRouterPort:
		for _, n := range r.Networks {
			addr, _, _ := strings.Cut(n, "/")
			texts = append(texts, addr)
		}
	}
	var out []held
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, held{s, a})
		}
	}
	return out
}

// networksOf are the prefixes of a router's port.
func networksOf(r nbdb.Row) []netip.Prefix {
	var out []netip.Prefix
	if port, ok := r.(*nbdb.LogicalRouterPort); ok {
		for _, n := range port.Networks {
			if p, err := netip.ParsePrefix(n); err == nil {
				out = append(out, p)
			}
		}
	}
	return out
}

func sortedKeys[V any](m map[nbdb.UUID]V) []nbdb.UUID { return slices.Sorted(maps.Keys(m)) }
