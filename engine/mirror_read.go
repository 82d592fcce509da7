package engine

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// wide is a world of some VPCs or of all. The caller holds the lock.
func (m *Mirror) wide(s scope) (*world, error) {
	state := nbdb.NewState()
	// Everybody's switches and routers count for the capacity.
	for _, table := range []string{nbdb.TableNBGlobal, nbdb.TableLogicalSwitch, nbdb.TableLogicalRouter} {
		m.rows.Each(table, state.Put)
	}
	for vpc, n := range m.networks {
		if s.all || slices.Contains(s.vpcs, vpc) {
			n.each(func(r nbdb.Row) { state.Put(n.withCopies(r, maps.Keys(n.copies[r.ID()]))) })
		}
	}
	m.putNames(state, s.puts)
	return newWorld(m.owner, s, state, m.storedOf)
}

// each visits the rows of a VPC.
func (n *network) each(visit func(nbdb.Row)) {
	for _, rows := range n.structure {
		for _, r := range rows {
			visit(r)
		}
	}
	for _, rows := range n.ports {
		for _, r := range rows {
			visit(r)
		}
	}
}

// storedOf is what a row of the mirror stores.
func (m *Mirror) storedOf(r nbdb.Row) stored {
	n := m.networks[r.IDs()[translate.KeyVPC]]
	if n == nil || !m.owns(r) {
		return stored{}
	}
	return n.stored[r.ID()]
}

// putNames adds to a state the rows that have names which resources want.
func (m *Mirror) putNames(state *nbdb.State, wanted []*model.Resource) {
	for _, res := range wanted {
		for _, name := range namesOf(res) {
			for _, r := range m.named(name.group + name.name) {
				if state.Get(r.Table(), r.ID()) == nil {
					state.Put(r)
				}
			}
		}
	}
}

// named are the rows of a nameKey.
func (m *Mirror) named(key string) []nbdb.Row {
	var rows []nbdb.Row
	for _, uuid := range m.names[key] {
		for _, table := range namedTables {
			if r := m.rows.Get(table, uuid); r != nil && nameKey(r) == key {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

var namedTables = [...]string{nbdb.TableLogicalSwitchPort, nbdb.TableLogicalRouterPort,
	nbdb.TableLogicalSwitch, nbdb.TableLogicalRouter, nbdb.TablePortGroup}

// narrow is a world for edits that concern no other attachments than those they
// name: all of a VPC but the other attachments, and of lists whose rows stay as they
// are nothing but the spec. It is nil where that is not enough. more are attachments
// that are looked at too. The caller holds the lock.
func (m *Mirror) narrow(edits []Edit, more ...string) (*world, error) {
	vpc := vpcOf(edits[0].ID)
	n := m.networks[vpc]
	if n == nil || !n.intact() {
		return nil, nil
	}
	s := scope{vpcs: []string{vpc}, attachments: map[string]bool{}}
	lists, tiers, itself := map[string]bool{}, false, false
	for _, x := range edits {
		switch {
		case x.Cascade:
			return nil, nil
		case x.ID.Kind == model.KindVPC:
			itself = true
		case x.ID.Kind == model.KindTier:
			tiers = true
		case x.ID.Kind == model.KindAttachment:
			s.attachments[x.ID.Name] = true
		case x.ID.Kind == model.KindACL:
			lists[x.ID.Name] = true
		default:
			return nil, nil
		}
	}
	for _, name := range more {
		s.attachments[name] = true
	}
	return m.part(n, s, func(id model.ID, rows []nbdb.Row) (some, rules bool) {
		return true, tiers || itself && id.Kind == model.KindVPC || len(lists) > 0 && lists[n.listOf(id, rows)]
	})
}

// one is a world for a look at one attachment, tier or list: what its status hangs on.
// It is nil where that may be more, as for other kinds. The caller holds the lock.
func (m *Mirror) one(id model.ID) (*world, error) {
	n := m.networks[id.VPC]
	if n == nil || !n.intact() {
		return nil, nil
	}
	s := scope{vpcs: []string{id.VPC}, attachments: map[string]bool{}}
	switch id.Kind {
	case model.KindAttachment:
		s.attachments[id.Name] = true
		tier := n.tierOf(id.Name)
		// Its registry has the second copy.
		return m.part(n, s, func(of model.ID, _ []nbdb.Row) (some, rules bool) { return of == tier, false })
	case model.KindTier:
		for _, name := range m.attached(id) {
			s.attachments[name] = true
		}
		return m.part(n, s, func(model.ID, []nbdb.Row) (some, rules bool) { return true, false })
	case model.KindACL:
		return m.part(n, s, func(of model.ID, _ []nbdb.Row) (some, rules bool) { return of == id || of.Kind != model.KindACL, false })
	}
	return nil, nil
}

// outline is a world for a look at resources of a kind, "" for all: the structure of the
// scope's VPCs without the rows of rules, and of attachments what statuses hang on. It is
// nil where that is not enough. The caller holds the lock.
func (m *Mirror) outline(s scope, kind model.Kind) (*world, error) {
	state := nbdb.NewState()
	m.rows.Each(nbdb.TableNBGlobal, state.Put)
	names := map[string]iter.Seq[string]{}
	for vpc, n := range m.networks {
		if !s.all && !slices.Contains(s.vpcs, vpc) {
			continue
		}
		known := true
		switch {
		case kind == model.KindTier || kind == model.KindAttachment || kind == "":
			names[vpc] = maps.Keys(n.ports)
		case kind == model.KindVPC && !s.all:
			var judged []string
			judged, known = m.judging(vpc)
			names[vpc] = slices.Values(judged)
		}
		if !known || !n.intact() {
			return nil, nil
		}
		for _, rows := range n.structure {
			for _, r := range rows {
				if _, rule := r.(*nbdb.ACL); !rule {
					state.Put(r)
				}
			}
		}
	}
	w, err := newWorld(m.owner, s, state, m.storedOf)
	if err != nil {
		return nil, err
	}
	w.others = map[string]int{}
	for vpc, n := range m.networks {
		w.others[vpc] = len(n.paired)
	}
	for vpc, names := range names {
		w.others[vpc] -= m.networks[vpc].sketch(w, names)
	}
	return w, nil
}

// part is a world of some resources of a VPC's structure, with the rows of rules
// or without, and of the scope's attachments.
func (m *Mirror) part(n *network, s scope, want func(model.ID, []nbdb.Row) (some, rules bool)) (*world, error) {
	state := nbdb.NewState()
	m.rows.Each(nbdb.TableNBGlobal, state.Put)
	for id, rows := range n.structure {
		some, rules := want(id, rows)
		if !some {
			continue
		}
		for _, r := range rows {
			if _, rule := r.(*nbdb.ACL); (rules || !rule) && n.concerns(r, s) {
				state.Put(n.withCopies(r, maps.Keys(s.attachments)))
			}
		}
	}
	for name := range s.attachments {
		for _, r := range n.ports[name] {
			state.Put(r)
		}
	}
	w, err := newWorld(m.owner, s, state, m.storedOf)
	if err != nil {
		return nil, err
	}
	w.datapaths = m.rows.Len(nbdb.TableLogicalSwitch) + m.rows.Len(nbdb.TableLogicalRouter)
	w.mirror, w.rules, w.others = m, &m.rules, map[string]int{}
	for _, vpc := range s.vpcs {
		w.others[vpc] = len(n.paired)
		for name := range s.attachments {
			if w.resources[model.ID{Kind: model.KindAttachment, VPC: vpc, Name: name}] != nil {
				w.others[vpc]--
			}
		}
	}
	return w, nil
}

// sketch is a world of the scope's attachments as their rows tell them, enough to ask
// edits of these.
func (m *Mirror) sketch(n *network, s scope) *world {
	w := &world{owner: m.owner, resources: map[model.ID]*model.Resource{}}
	n.sketch(w, maps.Keys(s.attachments))
	return w
}

// sketch adds attachments to a world as their rows tell them, with these where it has
// rows, and counts them.
func (n *network) sketch(w *world, names iter.Seq[string]) int {
	before := len(w.resources)
	for name := range names {
		for _, r := range n.ports[name] {
			if res := n.stored[r.ID()].resource; res != nil {
				w.resources[res.ID()] = res
			}
			if w.state != nil {
				w.state.Put(r)
			}
		}
	}
	return len(w.resources) - before
}

// concerns tells whether a row is looked at in a scope, as far as it is of a registry.
func (n *network) concerns(r nbdb.Row, s scope) bool {
	copies, registry := n.copies[r.ID()]
	if !registry || s.pages == nil || s.pages[r.ID()] {
		return true
	}
	for name := range s.attachments {
		if _, ok := copies[name]; ok {
			return true
		}
	}
	return false
}

// intact tells that all resources of a VPC are stored as they should be.
func (n *network) intact() bool { return n.unpaired == 0 && len(n.odd) == 0 }

// tierOf is the tier of an attachment.
func (n *network) tierOf(attachment string) (tier model.ID) {
	for _, r := range n.ports[attachment] {
		if res := n.stored[r.ID()].resource; res != nil {
			tier = model.ID{Kind: model.KindTier, VPC: res.Metadata.VPC, Name: res.Spec.(*model.AttachmentSpec).Tier}
		}
	}
	return tier
}

// listOf is the list whose change concerns the rows of a resource.
func (n *network) listOf(id model.ID, rows []nbdb.Row) string {
	switch id.Kind {
	case model.KindACL:
		return id.Name
	case model.KindTier:
		for _, r := range rows {
			if res := n.stored[r.ID()].resource; res != nil {
				return res.Spec.(*model.TierSpec).ACL
			}
		}
	}
	return ""
}

// judging are the attachments that count for what a change opens or breaks: those
// that add addresses to their tier's, and those that expectations name. known is
// false where an expectation can't be read.
func (m *Mirror) judging(vpc string) (names []string, known bool) {
	n := m.networks[vpc]
	if n == nil {
		return nil, true
	}
	names = slices.Collect(maps.Keys(n.allowing))
	for _, r := range []nbdb.Row{
		m.rows.Get(nbdb.TableLogicalRouter, translate.RouterUUID(m.owner, vpc)), m.rows.Get(nbdb.TablePortGroup, translate.HistoryUUID(m.owner, vpc)),
	} {
		if r == nil {
			continue
		}
		for key, value := range r.IDs() {
			_, res, err := expectation(m.owner, r, key, value)
			if err != nil {
				return nil, false
			}
			if res != nil {
				names = append(names, res.Spec.(*model.ExpectationSpec).Attachments()...)
			}
		}
	}
	return names, true
}

// attached are the attachments of a tier.
func (m *Mirror) attached(tier model.ID) (names []string) {
	n := m.networks[tier.VPC]
	sw := nbdb.Lookup[*nbdb.LogicalSwitch](m.rows, translate.SwitchUUID(m.owner, tier.VPC, tier.Name))
	if n == nil || sw == nil || tier.Kind != model.KindTier {
		return nil
	}
	for _, port := range sw.Ports {
		if r := n.stored[port].resource; r != nil {
			names = append(names, r.Metadata.Name)
		}
	}
	return names
}

// expects tells whether a VPC has expectations, or had them.
func (m *Mirror) expects(vpc string, n *network) bool {
	router := nbdb.Lookup[*nbdb.LogicalRouter](m.rows, translate.RouterUUID(m.owner, vpc))
	if router == nil || n.stored[router.UUID].resource == nil {
		return true
	}
	home := nbdb.Lookup[*nbdb.PortGroup](m.rows, translate.HistoryUUID(m.owner, vpc))
	return home != nil && holdsExpectations(home) || holdsExpectations(router)
}

func holdsExpectations(r nbdb.Row) bool {
	for key := range r.IDs() {
		if strings.HasPrefix(key, translate.KeyExpectationPrefix) {
			return true
		}
	}
	return false
}

// holders are the attachments of a VPC that have what others want.
func (m *Mirror) holders(vpc string, wanted []*model.Resource) []string {
	n := m.networks[vpc]
	var names []string
	for _, r := range wanted {
		spec, ok := r.Spec.(*model.AttachmentSpec)
		if !ok || n == nil {
			continue
		}
		for _, a := range spec.Addresses {
			names = append(names, n.holdings.addresses[a]...)
		}
		names = append(names, n.holdings.macs[tierMAC{spec.Tier, spec.MAC}]...)
		for _, row := range m.named("port " + spec.InterfaceID) {
			if res := n.stored[row.ID()].resource; res != nil {
				names = append(names, res.Metadata.Name)
			}
		}
	}
	return names
}

// holds tells whether an attachment that is not in a narrow world has an address,
// or in the tier a MAC.
func (w *world) holds(vpc, tier string, a netip.Addr, mac model.MAC) bool {
	if w.mirror == nil {
		return false
	}
	w.mirror.mu.RLock()
	defer w.mirror.mu.RUnlock()
	n := w.mirror.networks[vpc]
	return n != nil && (len(n.holdings.addresses[a]) > 0 || len(n.holdings.macs[tierMAC{tier, mac}]) > 0)
}
