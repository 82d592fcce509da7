package engine

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// guarder adds to the transactions of one VPC what each relies on: the specs
// that were read, and where it matters the sets that must not have grown. It
// follows the database through the transactions of the plan.
type guarder struct {
	engine *Engine
	desire *desire
	vpc    string
	// What transactions of the plan have changed; all else is as it was read.
	digests map[model.ID]string       // "" where the resource is gone
	ports   map[nbdb.UUID][]nbdb.UUID // a switch's or the router's ports
	epochs  map[nbdb.UUID]string      // by registry

	freed map[string]map[netip.Addr]int64 // a tier's tombstones

	reckoned bool               // the plan tells what it opens
	gated    bool               // it may break expectations
	judged   bool               // it was found to break none, or to open nothing else than named
	router   map[string]string  // the external_ids of the VPC's router, where they are stored; nil if there is none
	notes    map[string]*string // at the row HistoryUUID

	tx    *nbdb.Plan
	seen  map[string]bool
	noted map[nbdb.UUID]int // tombstones that tx adds, by registry
}

func (e *Engine) newGuarder(d *desire, vpc string) *guarder {
	g := &guarder{engine: e, desire: d, vpc: vpc, digests: map[model.ID]string{},
		ports: map[nbdb.UUID][]nbdb.UUID{}, epochs: map[nbdb.UUID]string{},
		freed: map[string]map[netip.Addr]int64{}, notes: map[string]*string{}}
	if lr := nbdb.Lookup[*nbdb.LogicalRouter](d.world.state, translate.RouterUUID(e.Owner, vpc)); lr != nil {
		g.router = maps.Clone(lr.ExternalIDs)
	}
	if pg := nbdb.Lookup[*nbdb.PortGroup](d.world.state, translate.HistoryUUID(e.Owner, vpc)); pg != nil {
		for _, key := range []string{translate.NoteExpected, translate.NoteAllowed, translate.NoteLimited} {
			if note, ok := pg.ExternalIDs[key]; ok {
				g.notes[key] = &note
			}
		}
	}
	return g
}

// digestOf is "" where there is no such resource.
func (g *guarder) digestOf(id model.ID) string {
	if digest, moved := g.digests[id]; moved {
		return digest
	}
	return g.desire.world.digests[id]
}

// portsOf are those of a switch or router, if there is one.
func (g *guarder) portsOf(row nbdb.UUID) (ports []nbdb.UUID, known bool) {
	if ports, moved := g.ports[row]; moved {
		return ports, true
	}
	if sw := nbdb.Lookup[*nbdb.LogicalSwitch](g.desire.world.state, row); sw != nil {
		return sw.Ports, true
	}
	if lr := nbdb.Lookup[*nbdb.LogicalRouter](g.desire.world.state, row); lr != nil {
		return lr.Ports, true
	}
	return nil, false
}

// epochOf is that of a tier's registry, if it has one.
func (g *guarder) epochOf(registry nbdb.UUID) (epoch string, known bool) {
	if epoch, moved := g.epochs[registry]; moved {
		return epoch, true
	}
	if pg := nbdb.Lookup[*nbdb.PortGroup](g.desire.world.state, registry); pg != nil {
		epoch, known = pg.ExternalIDs[translate.NoteEpoch]
	}
	return epoch, known
}

// guard adds the preconditions of one transaction.
func (g *guarder) guard(changes []*change, tx *nbdb.Plan) {
	g.tx, g.seen, g.noted = tx, map[string]bool{}, map[nbdb.UUID]int{}
	structural, gone := false, map[model.ID]bool{}
	for _, c := range changes {
		structural = structural || c.id.Kind != model.KindAttachment
		gone[c.id] = c.after == nil
	}
	for _, c := range changes {
		g.lost(c)
		switch c.id.Kind {
		case model.KindAttachment:
			g.attachment(c, gone)
		case model.KindTier:
			g.tier(c)
		case model.KindACL:
			g.list(c)
		case model.KindVPC:
			g.network(c)
		case model.KindVPCOffering:
			g.offering(c)
		case model.KindExpectation:
			g.expectation(c)
		}
	}
	if structural && g.vpc != "" {
		g.digest(model.ID{Kind: model.KindVPC, Name: g.vpc})
	}
	if g.reckoned {
		g.policy()
	}
	if g.gated || slices.ContainsFunc(changes, concernsItself) {
		g.expectations()
	}
	g.overtake(changes)
	g.limits(changes)
}

// lost relies on nobody having brought back what is removed by its second copy alone.
func (g *guarder) lost(c *change) {
	w := g.desire.world
	if c.after != nil || c.before == nil || w.resources[c.id] != nil {
		return
	}
	none := func(table, key string) nbdb.Guard {
		return nbdb.Guard{Table: table, Includes: map[string]string{translate.KeyOwner: w.owner, translate.KeyKey: key}}
	}
	var there bool
	var guard nbdb.Guard
	switch spec := c.before.Spec.(type) {
	case *model.VPCSpec:
		there, guard = g.router != nil, none(nbdb.TableLogicalRouter, translate.VPCKey(c.id.Name))
	case *model.TierSpec:
		there = w.state.Get(nbdb.TableLogicalSwitch, translate.SwitchUUID(w.owner, c.id.VPC, c.id.Name)) != nil
		guard = none(nbdb.TableLogicalSwitch, translate.TierKey(c.id.VPC, c.id.Name))
	case *model.AttachmentSpec:
		port := translate.PortUUID(w.owner, c.id.VPC, spec.Addresses[0])
		there = w.state.Get(nbdb.TableLogicalSwitchPort, port) != nil
		guard = none(nbdb.TableLogicalSwitchPort, translate.AddressKey(c.id.VPC, spec.Addresses[0]))
	case *model.ExpectationSpec:
		entry := c.have.Entries[0] // its second copy
		_, there = g.router[entry.Key]
		guard = nbdb.Guard{Table: nbdb.TableLogicalRouter, Includes: map[string]string{entry.Key: entry.Value}}
	}
	if !there {
		g.add("lost "+c.id.String(), guard)
	}
}

func (g *guarder) add(key string, guard nbdb.Guard) {
	if !g.seen[key] {
		g.seen[key] = true
		g.tx.Guards = append(g.tx.Guards, guard)
	}
}

// digest relies on a resource being as it was read.
func (g *guarder) digest(id model.ID) {
	value := g.digestOf(id)
	if value == "" {
		return // not there yet: this plan brings it
	}
	owner := g.desire.world.owner
	guard := nbdb.Guard{Includes: map[string]string{translate.KeyDigest: value}}
	switch id.Kind {
	case model.KindVPC:
		guard.Table, guard.Row = nbdb.TableLogicalRouter, translate.RouterUUID(owner, id.Name)
	case model.KindTier:
		guard.Table, guard.Row = nbdb.TableLogicalSwitch, translate.SwitchUUID(owner, id.VPC, id.Name)
	case model.KindACL:
		guard.Table, guard.Row = nbdb.TablePortGroup, translate.PortGroupUUID(owner, id.VPC, id.Name)
	case model.KindAttachment:
		spec := g.desire.world.resources[id].Spec.(*model.AttachmentSpec)
		guard.Table, guard.Row = nbdb.TableLogicalSwitchPort, translate.PortUUID(owner, id.VPC, spec.Addresses[0])
	default:
		return
	}
	g.add("digest "+id.String(), guard)
}

// samePorts relies on a switch or router having just the ports that were read.
func (g *guarder) samePorts(table string, row nbdb.UUID) {
	ports, known := g.portsOf(row)
	if !known {
		return
	}
	values := make([]string, len(ports))
	for i, p := range ports {
		values[i] = string(p)
	}
	slices.Sort(values)
	g.add("ports "+string(row), nbdb.Guard{Table: table, Row: row, Columns: map[string]any{"ports": values}})
}

func (g *guarder) switchPorts(tier string) {
	g.samePorts(nbdb.TableLogicalSwitch, translate.SwitchUUID(g.desire.world.owner, g.vpc, tier))
}

func (g *guarder) routerPorts() {
	g.samePorts(nbdb.TableLogicalRouter, translate.RouterUUID(g.desire.world.owner, g.vpc))
}

// all are the stored resources of a kind in the VPC, sorted.
func (g *guarder) all(kind model.Kind) []*model.Resource {
	var out []*model.Resource
	for _, r := range g.desire.of(g.vpc, g.desire.stored) {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return inOrder(out)
}

// everyTier relies on the VPC having the tiers that were read, as they were.
func (g *guarder) everyTier() {
	g.routerPorts()
	for _, t := range g.all(model.KindTier) {
		g.digest(t.ID())
	}
}

// homes relies on the VPC having the lists (and registries) that were read.
func (g *guarder) homes() {
	g.add("homes", nbdb.Guard{Table: nbdb.TablePortGroup, Rows: g.desire.homes(g.vpc),
		Includes: map[string]string{translate.KeyOwner: g.desire.world.owner, translate.KeyVPC: g.vpc}})
}

// policy relies on all tiers and lists being as they were read: what a change
// opens hangs on them too.
func (g *guarder) policy() {
	g.everyTier()
	for _, l := range g.all(model.KindACL) {
		g.digest(l.ID())
	}
}

func (g *guarder) tier(c *change) {
	var was, is *model.TierSpec
	if c.before != nil {
		was = c.before.Spec.(*model.TierSpec)
		g.listDigest(was.ACL)
	}
	if c.after != nil {
		is = c.after.Spec.(*model.TierSpec)
		g.listDigest(is.ACL)
	}
	if was != nil && is != nil && onlyList(was, is) && onlyEdges(c) {
		return
	}
	g.everyTier()
	if was == nil && is != nil {
		return
	}
	g.digest(c.id)
	if is == nil || !slices.Equal(was.CIDRs, is.CIDRs) || !slices.Equal(was.Gateways, is.Gateways) {
		g.switchPorts(c.id.Name)
		for _, l := range g.all(model.KindACL) {
			g.digest(l.ID())
		}
	}
}

func (g *guarder) listDigest(name string) {
	if model.BuiltinACL(name) == nil {
		g.digest(model.ID{Kind: model.KindACL, VPC: g.vpc, Name: name})
	}
}

// onlyList tells whether two specs of a tier differ in nothing but the list.
func onlyList(a, b *model.TierSpec) bool {
	return slices.Equal(a.CIDRs, b.CIDRs) && slices.Equal(a.Gateways, b.Gateways) && a.DHCP.Enabled == b.DHCP.Enabled
}

// onlyEdges tells whether of a tier's rows only the two that hold its spec
// change: its own rules stay.
func onlyEdges(c *change) bool {
	for _, r := range nbdb.Diff(c.have, c.want).Rows {
		if r.Op != nbdb.Update || r.Table != nbdb.TableLogicalSwitch && r.Table != nbdb.TablePortGroup {
			return false
		}
	}
	return true
}

func (g *guarder) list(c *change) {
	for _, r := range []*model.Resource{c.before, c.after} {
		if r == nil {
			continue
		}
		for _, rule := range r.Spec.(*model.ACLSpec).Rules {
			for _, t := range rule.Tiers {
				g.digest(model.ID{Kind: model.KindTier, VPC: g.vpc, Name: t})
			}
		}
	}
	if c.before == nil && c.after != nil {
		return
	}
	g.digest(c.id)
	g.users(c.id)
}

// users relies on a list being in force on just the switches where it was
// read: those that refer to its default.
func (g *guarder) users(id model.ID) {
	w := g.desire.world
	ref := translate.DefaultUUID(w.owner, id.VPC, id.Name, model.Ingress)
	if w.state.Get(nbdb.TableACL, ref) == nil {
		return // drift: the default is gone
	}
	g.add("users "+id.String(), nbdb.Guard{Table: nbdb.TableLogicalSwitch, Match: "acls", Ref: ref, Rows: g.desire.users(ref)})
}

func (g *guarder) network(c *change) {
	if c.before == nil && c.after != nil {
		return
	}
	g.everyTier()
	if c.after == nil {
		g.homes()
		return
	}
	was, is := c.before.Spec.(*model.VPCSpec), c.after.Spec.(*model.VPCSpec)
	limits := was.Offering != is.Offering
	// Ports that an agent plugs say both; another offering may limit their number.
	if was.MTU == is.MTU && slices.Equal(was.CIDRs, is.CIDRs) && !limits {
		return
	}
	for _, t := range g.all(model.KindTier) {
		if g.digestOf(t.ID()) == "" { // removed by a transaction before this one
			continue
		}
		g.switchPorts(t.Metadata.Name)
		registry := translate.RegistryUUID(g.desire.world.owner, g.vpc, t.Metadata.Name)
		if epoch, known := g.epochOf(registry); known && limits { // who attaches meanwhile has to count
			g.exclusive(t.Metadata.Name, registry, epoch)
		}
	}
}

// offering relies on the VPCs that use an offering, and when it is changed on
// how much they hold.
func (g *guarder) offering(c *change) {
	if c.before == nil && c.after != nil {
		return
	}
	w := g.desire.world
	for _, r := range sorted(w.resources) {
		if spec, ok := r.Spec.(*model.VPCSpec); ok && spec.Offering == c.id.Name && c.after != nil {
			of := &guarder{engine: g.engine, desire: g.desire, vpc: r.Metadata.Name, digests: g.digests,
				ports: g.ports, epochs: g.epochs, tx: g.tx, seen: map[string]bool{}}
			of.contents()
		}
	}
	var routers []nbdb.UUID
	for _, lr := range nbdb.All[*nbdb.LogicalRouter](w.state) {
		if w.owns(lr) && lr.ExternalIDs[translate.KeyOffering] == c.id.Name {
			routers = append(routers, lr.UUID)
		}
	}
	g.add("users "+c.id.String(), nbdb.Guard{Table: nbdb.TableLogicalRouter, Rows: routers,
		Includes: map[string]string{translate.KeyOwner: w.owner, translate.KeyOffering: c.id.Name}})
}

// contents relies on everything that a VPC holds and an offering counts.
func (g *guarder) contents() {
	g.everyTier()
	g.homes()
	for _, l := range g.all(model.KindACL) {
		g.digest(l.ID())
	}
	for _, t := range g.all(model.KindTier) {
		g.switchPorts(t.Metadata.Name)
	}
}

// limits relies on what was counted: for the limits of the VPC's offering,
// and where a switch comes near the number of ports that OVN can realise.
func (g *guarder) limits(changes []*change) {
	attaches := false
	for _, c := range changes {
		if c.id.Kind != model.KindAttachment || c.after == nil || c.before != nil {
			continue
		}
		attaches = true
		tier := c.after.Spec.(*model.AttachmentSpec).Tier
		have := len(g.desire.world.ports(g.vpc, tier))
		if have >= g.desire.world.portLimit()*8/10 {
			g.switchPorts(tier)
		}
	}
	vpc := g.desire.resources[model.ID{Kind: model.KindVPC, Name: g.vpc}]
	if vpc == nil || vpc.Spec.(*model.VPCSpec).Offering == "" {
		return
	}
	name := vpc.Spec.(*model.VPCSpec).Offering
	offering := g.desire.resources[model.ID{Kind: model.KindVPCOffering, Name: name}]
	if offering == nil {
		return
	}
	key := translate.KeyOfferingPrefix + name
	limits := offering.Spec.(*model.VPCOfferingSpec).Limits
	w := g.desire.world
	structural := slices.ContainsFunc(changes, func(c *change) bool { return c.id.Kind != model.KindAttachment })
	if value, ok := w.global.ExternalIDs[key]; ok && !g.desire.puts(offering.ID()) && (structural || attaches) {
		g.add("offering", nbdb.Guard{Table: nbdb.TableNBGlobal, Row: w.global.UUID, Includes: map[string]string{key: value}})
	}
	switch {
	case !attaches || limits.Attachments == nil:
	case w.historyHome(g.vpc) != nil:
		g.move(translate.NoteLimited, false) // others that attach have to count again
	default:
		g.routerPorts()
		for _, t := range g.all(model.KindTier) {
			g.switchPorts(t.Metadata.Name)
		}
	}
	if structural && limits.ACLRules != nil {
		g.homes()
		for _, l := range g.all(model.KindACL) {
			g.digest(l.ID())
		}
	}
}

// puts tells whether the wish itself brings a resource.
func (d *desire) puts(id model.ID) bool {
	return d.resources[id] != nil && d.resources[id] != d.world.resources[id]
}

// advance moves on to what the database is after the transaction that was guarded,
// for another one.
func (g *guarder) advance(changes []*change) {
	for _, c := range changes {
		if c.after == nil {
			g.digests[c.id] = ""
		}
		for _, r := range c.want.Rows {
			if d := r.IDs()[translate.KeyDigest]; d != "" && c.id.Kind != model.KindAttachment {
				g.digests[c.id] = d
			}
			if e, ok := r.IDs()[translate.NoteEpoch]; ok {
				if known, _ := g.epochOf(r.ID()); known == "" {
					g.epochs[r.ID()] = e
				}
			}
		}
	}
	for _, r := range g.tx.Rows {
		for _, col := range r.Columns {
			if ports, ok := col.New.([]string); ok && r.Op == nbdb.Insert && col.Column == "ports" && isDatapath(r.Table) {
				for _, p := range ports {
					g.ports[r.UUID] = append(g.ports[r.UUID], nbdb.UUID(p))
				}
			}
		}
	}
	for _, x := range g.tx.Edges {
		if x.Column == "ports" {
			ports, _ := g.portsOf(x.From)
			left := slices.DeleteFunc(slices.Clone(ports), func(u nbdb.UUID) bool { return slices.Contains(x.Remove, u) })
			g.ports[x.From] = append(left, x.Add...)
		}
	}
	g.followRouter()
	for _, x := range g.tx.Entries {
		switch {
		case x.Key == translate.NoteEpoch && x.New != nil:
			g.epochs[x.Row] = *x.New
		case x.Key == translate.NoteExpected || x.Key == translate.NoteAllowed || x.Key == translate.NoteLimited:
			g.notes[x.Key] = x.New
		}
	}
}
