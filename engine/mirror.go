package engine

import (
	"context"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Mirror is a copy of the northbound database in memory, as far as engines look
// at it: all owned rows, and the names of others. Watch keeps it. An engine that
// has one reads from it: what had been committed before is in it, as it would be
// in what the database answers.
type Mirror struct {
	owner string

	synced atomic.Pointer[asker] // nil while it is not complete
	rules  translate.Rules       // as edits have made them

	// mu guards what follows. It is held through all rows of a transaction.
	mu       sync.RWMutex
	writing  bool
	rows     *nbdb.State            // of registries without the copies
	networks map[string]*network    // owned rows, by VPC
	names    map[string][]nbdb.UUID // by nameKey
}

// network is what the mirror knows of a VPC.
type network struct {
	structure map[model.ID][]nbdb.Row // rows of all but the attachments, and of nothing
	ports     map[string][]nbdb.Row   // rows of attachments, by name
	stored    map[nbdb.UUID]stored
	copies    map[nbdb.UUID]map[string]string // by registry: its entries of attachments
	paired    map[string]pair                 // attachments, by name
	unpaired  int                             // that lack their row or their copy, or have two
	odd       map[nbdb.UUID]bool              // rows that can't be read, or were edited by hand
	requests  map[requestKey]model.ID
	holdings  holdings
	allowing  map[string]bool // attachments that add addresses to their tier's, or would if they were enabled
}

// pair counts where an attachment is stored.
type pair struct{ rows, copies int }

// holdings are the addresses and MACs that attachments of a VPC have: whose they
// are.
type holdings struct {
	addresses map[netip.Addr][]string
	macs      map[tierMAC][]string
}

type tierMAC struct {
	tier string
	mac  model.MAC
}

// NewMirror is an empty one for the rows of an installation; Watch fills it.
func NewMirror(owner string) *Mirror {
	m := &Mirror{owner: owner}
	m.clear()
	return m
}

// clear forgets all, as the connection was lost. Rows may have been cut short.
func (m *Mirror) clear() {
	m.synced.Store(nil)
	m.begin()
	m.rows, m.networks, m.names = nbdb.NewState(), map[string]*network{}, map[string][]nbdb.UUID{}
	m.Done()
}

// begin begins a transaction's rows, unless it has begun.
func (m *Mirror) begin() {
	if !m.writing {
		m.mu.Lock()
		m.writing = true
	}
}

// Done says that a transaction's rows are there.
func (m *Mirror) Done() {
	if m.writing {
		m.writing = false
		m.mu.Unlock()
	}
}

// asker is what nbdb.Syncer is given.
type asker func() (await func(context.Context) error)

// Synced is nbdb.Syncer's.
func (m *Mirror) Synced(ask func() (await func(context.Context) error)) {
	asked := asker(ask)
	m.synced.Store(&asked)
}

// syncPatience is how long the mirror may take to catch up; then the database is
// read.
const syncPatience = 2 * time.Second

// lock waits until everything is in the mirror that has been committed by now,
// and keeps it as it is until RUnlock of mu. It is false, and nothing is
// locked, where the database has to be read instead.
func (m *Mirror) lock(ctx context.Context) bool {
	if m == nil {
		return false
	}
	asked := m.synced.Load()
	if asked == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	return (*asked)()(ctx) == nil && m.hold(asked)
}

// hold is lock without waiting, unless the mirror has lost what it had when asked
// was Synced.
func (m *Mirror) hold(asked *asker) bool {
	m.mu.RLock()
	if asked != nil && m.synced.Load() == asked {
		return true
	}
	m.mu.RUnlock()
	return false
}

// Current waits until everything is in the mirror that has been committed by now.
// It is false where that can't be.
func (m *Mirror) Current(ctx context.Context) bool {
	if !m.lock(ctx) {
		return false
	}
	m.mu.RUnlock()
	return true
}

// mirrorQueries are what a mirror follows. Names are shared with other owners.
func mirrorQueries(owner string) []nbdb.Query {
	owned := map[string]string{translate.KeyOwner: owner}
	return []nbdb.Query{
		{Table: nbdb.TableNBGlobal},
		{Table: nbdb.TableLogicalRouter}, {Table: nbdb.TableLogicalSwitch},
		{Table: nbdb.TableLogicalRouterPort}, {Table: nbdb.TablePortGroup},
		{Table: nbdb.TableLogicalRouterPolicy, Includes: owned}, {Table: nbdb.TableACL, Includes: owned},
		{Table: nbdb.TableDHCPOptions, Includes: owned}, {Table: nbdb.TableLogicalSwitchPort, Includes: owned},
	}
}

// Row notes a row that is new, or gone.
func (m *Mirror) Row(old, now nbdb.Row) {
	m.begin()
	if old != nil {
		m.remove(old)
	}
	if now != nil {
		m.add(now, nil)
	}
}

// Amend notes a row that has changed.
func (m *Mirror) Amend(old nbdb.Row, d nbdb.Difference) (now nbdb.Row) {
	m.begin()
	n := m.networks[old.IDs()[translate.KeyVPC]]
	if !m.owns(old) {
		n = nil
	}
	if n != nil && n.copies[old.ID()] != nil {
		if !remarks(d) {
			return m.amendRegistry(n, old.(*nbdb.PortGroup), d)
		}
		old = n.withCopies(old, maps.Keys(n.copies[old.ID()]))
	}
	now = d.Apply(old)
	var known *stored
	if n != nil {
		if s, ok := n.stored[old.ID()]; ok && restores(d) {
			known = s.amended(now, d)
		} else if ok {
			known = &s
		}
	}
	m.remove(old)
	m.add(now, known)
	return now
}

// remarks tells whether a difference changes whose a row is.
func remarks(d nbdb.Difference) bool {
	return slices.ContainsFunc([]string{translate.KeyOwner, translate.KeyVPC, translate.KeyKey},
		func(key string) bool { _, ok := d.IDs()[key]; return ok })
}

// restores tells whether a difference changes what a row stores.
func restores(d nbdb.Difference) bool {
	for key := range d.IDs() {
		if strings.HasPrefix(key, nbdb.KeyPrefix) {
			return true
		}
	}
	return false
}

func (m *Mirror) owns(r nbdb.Row) bool { return r.IDs()[translate.KeyOwner] == m.owner }

func (m *Mirror) network(vpc string) *network {
	n := m.networks[vpc]
	if n == nil {
		n = &network{structure: map[model.ID][]nbdb.Row{}, ports: map[string][]nbdb.Row{}, stored: map[nbdb.UUID]stored{},
			copies: map[nbdb.UUID]map[string]string{}, paired: map[string]pair{}, odd: map[nbdb.UUID]bool{},
			requests: map[requestKey]model.ID{}, allowing: map[string]bool{},
			holdings: holdings{map[netip.Addr][]string{}, map[tierMAC][]string{}}}
		m.networks[vpc] = n
	}
	return n
}

// add notes a row; known is what it stores, where that is known.
func (m *Mirror) add(r nbdb.Row, known *stored) {
	m.rows.Put(r)
	m.name(r, true)
	if !m.owns(r) || r.Table() == nbdb.TableNBGlobal {
		return
	}
	n := m.network(r.IDs()[translate.KeyVPC])
	if registry(r) {
		n.takeCopies(r.(*nbdb.PortGroup))
	}
	s := stored{}
	if known != nil {
		s = *known
	} else if _, ok := principalKind(r); ok {
		s = readStored(r)
	}
	if s.err != nil || s.edited {
		n.odd[r.ID()] = true
	}
	if s.resource != nil || s.err != nil {
		n.stored[r.ID()] = s
	}
	n.assign(r, s, 1)
}

// remove forgets a row.
func (m *Mirror) remove(r nbdb.Row) {
	m.rows.Remove(r)
	m.name(r, false)
	if !m.owns(r) || r.Table() == nbdb.TableNBGlobal {
		return
	}
	vpc := r.IDs()[translate.KeyVPC]
	n := m.network(vpc)
	s := n.stored[r.ID()]
	delete(n.stored, r.ID())
	delete(n.odd, r.ID())
	for name := range n.copies[r.ID()] {
		n.pair(name, 0, -1)
	}
	delete(n.copies, r.ID())
	n.assign(r, s, -1)
	if len(n.structure)+len(n.ports)+len(n.odd) == 0 {
		delete(m.networks, vpc)
	}
}

// assign adds a row to those of its resource (by is 1), or takes it away (-1).
// One of nothing that is known is odd.
func (n *network) assign(r nbdb.Row, s stored, by int) {
	put := func(rows []nbdb.Row) []nbdb.Row {
		if by > 0 {
			return append(rows, r)
		}
		return slices.DeleteFunc(rows, func(x nbdb.Row) bool { return x.ID() == r.ID() })
	}
	id, ok := resourceOf(r, s)
	if !ok && by > 0 {
		n.odd[r.ID()] = true
	}
	switch {
	case id.Kind == model.KindAttachment:
		if n.ports[id.Name] = put(n.ports[id.Name]); len(n.ports[id.Name]) == 0 {
			delete(n.ports, id.Name)
		}
	default:
		if n.structure[id] = put(n.structure[id]); len(n.structure[id]) == 0 {
			delete(n.structure, id)
		}
	}
	n.note(s.resource, by)
	if by < 0 { // it may have moved to another row, which may have come first
		for _, other := range n.ports[id.Name] {
			n.mark(n.stored[other.ID()].resource)
		}
	}
}

// resourceOf is the resource that a row belongs to.
func resourceOf(r nbdb.Row, s stored) (model.ID, bool) {
	if id, ok := translate.ResourceOf(r.IDs()[translate.KeyKey]); ok {
		return id, true
	}
	if s.resource != nil {
		return s.resource.ID(), true
	}
	return model.ID{}, false
}

// name notes or forgets what a row is called.
func (m *Mirror) name(r nbdb.Row, there bool) {
	if key := nameKey(r); key != "" {
		hold(m.names, key, r.ID(), there)
	}
}

// nameKey is a row's name, and the kind of names among which it is alone.
func nameKey(r nbdb.Row) string {
	switch r := r.(type) {
	case *nbdb.LogicalSwitchPort:
		return "port " + r.Name
	case *nbdb.LogicalRouterPort:
		return "port " + r.Name
	case *nbdb.LogicalSwitch:
		return "switch " + r.Name
	case *nbdb.LogicalRouter:
		return "router " + r.Name
	case *nbdb.PortGroup:
		return "group " + r.Name
	}
	return ""
}

// note adds a resource to what is known beside its rows, or takes it away.
func (n *network) note(r *model.Resource, by int) {
	if r == nil {
		return
	}
	id := r.ID()
	if by > 0 {
		n.mark(r)
	} else {
		delete(n.requests, requestKeyOf(r))
	}
	spec, ok := r.Spec.(*model.AttachmentSpec)
	if !ok {
		return
	}
	n.pair(id.Name, by, 0)
	if by < 0 {
		delete(n.allowing, id.Name)
	}
	for _, a := range spec.Addresses {
		hold(n.holdings.addresses, a, id.Name, by > 0)
	}
	hold(n.holdings.macs, tierMAC{spec.Tier, spec.MAC}, id.Name, by > 0)
}

// mark notes what a resource that is there counts for beside its rows.
func (n *network) mark(r *model.Resource) {
	if r == nil {
		return
	}
	if r.Request != "" {
		n.requests[requestKeyOf(r)] = r.ID()
	}
	if spec, ok := r.Spec.(*model.AttachmentSpec); ok && len(spec.AllowedAddresses) > 0 {
		n.allowing[r.Metadata.Name] = true
	}
}

// hold adds somebody to those who hold a thing, or takes them away.
func hold[K, W comparable](holders map[K][]W, what K, who W, holds bool) {
	if holds {
		holders[what] = append(holders[what], who)
		return
	}
	list := holders[what]
	if i := slices.Index(list, who); i >= 0 {
		list = slices.Delete(slices.Clone(list), i, i+1)
	}
	if holders[what] = list; len(list) == 0 {
		delete(holders, what)
	}
}

// pair counts rows and copies of an attachment.
func (n *network) pair(name string, rows, copies int) {
	odd := func(p pair) int {
		if p == (pair{}) || p == (pair{1, 1}) {
			return 0
		}
		return 1
	}
	p := n.paired[name]
	n.unpaired -= odd(p)
	p.rows += rows
	p.copies += copies
	n.unpaired += odd(p)
	if n.paired[name] = p; p == (pair{}) {
		delete(n.paired, name)
	}
}

// takeCopies takes the attachments' copies out of a registry that is new: they
// are apart, since they grow with the tier.
func (n *network) takeCopies(r *nbdb.PortGroup) {
	own, copies := map[string]string{}, map[string]string{}
	for key, value := range r.ExternalIDs {
		if name, ok := strings.CutPrefix(key, translate.KeyAttachmentPrefix); ok {
			copies[name] = value
			n.pair(name, 0, 1)
		} else {
			own[key] = value
		}
	}
	r.ExternalIDs, n.copies[r.UUID] = own, copies
}

// withCopies is a registry with the copies of some attachments, another row as
// it is.
func (n *network) withCopies(r nbdb.Row, attachments iter.Seq[string]) nbdb.Row {
	copies := n.copies[r.ID()]
	var group *nbdb.PortGroup
	for name := range attachments {
		value, ok := copies[name]
		if !ok {
			continue
		}
		if group == nil {
			same := *r.(*nbdb.PortGroup)
			group = &same
			group.ExternalIDs = maps.Clone(group.ExternalIDs)
		}
		group.ExternalIDs[translate.KeyAttachmentPrefix+name] = value
	}
	if group == nil {
		return r
	}
	return group
}

// amendRegistry changes a registry, and in their place the copies.
func (m *Mirror) amendRegistry(n *network, old *nbdb.PortGroup, d nbdb.Difference) nbdb.Row {
	now := d.Apply(old, "external_ids").(*nbdb.PortGroup)
	now.ExternalIDs = maps.Clone(old.ExternalIDs)
	copies := n.copies[old.UUID]
	for key, value := range d.IDs() {
		name, copied := strings.CutPrefix(key, translate.KeyAttachmentPrefix)
		if !copied {
			toggle(now.ExternalIDs, key, value)
			continue
		}
		_, was := copies[name]
		toggle(copies, name, value)
		_, is := copies[name]
		n.pair(name, 0, count(is)-count(was))
	}
	m.name(old, false)
	m.name(now, true)
	m.rows.Put(now)
	id, _ := translate.ResourceOf(now.ExternalIDs[translate.KeyKey])
	rows := slices.Clone(n.structure[id])
	rows[slices.IndexFunc(rows, func(r nbdb.Row) bool { return r.ID() == now.UUID })] = now
	n.structure[id] = rows
	return now
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// toggle changes a pair as a difference says: one that is there just so goes.
func toggle(pairs map[string]string, key, value string) {
	if had, ok := pairs[key]; ok && had == value {
		delete(pairs, key)
	} else {
		pairs[key] = value
	}
}
