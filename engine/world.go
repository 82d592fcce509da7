package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// scope is what an operation has to read: some VPCs, or everything owned.
type scope struct {
	all  bool
	vpcs []string
	puts []*model.Resource // that may be created: who has their names
	// attachments are the names of those that are looked at, nil for all.
	attachments map[string]bool
	noStatus    bool // what OVN says of ports is not looked at
	// pages are the rows of registries that are looked at beside those that have
	// copies of the attachments, nil for all.
	pages map[nbdb.UUID]bool
}

// world is the database at one moment, read back as resources.
type world struct {
	owner     string
	state     *nbdb.State
	global    *nbdb.NBGlobal
	resources map[model.ID]*model.Resource
	digests   map[model.ID]string     // of the principal rows as read
	rows      map[model.ID][]nbdb.Row // owned rows by resource
	switches  []*nbdb.LogicalSwitch
	routers   []*nbdb.LogicalRouter
	stored    map[nbdb.UUID]model.ID // what a principal row stores
	edited    map[model.ID]bool      // what is stored does not fit its digest: edited by hand
	copies    map[model.ID][]nbdb.Entry
	reclaimed map[nbdb.UUID]bool // rows that are ours though they have lost their marks
	strays    []nbdb.Row         // owned rows that belong to no known resource
	lost      []*model.Resource  // resources whose principal row is gone, from their second copy
	unread    []unreadable
	// counts for the capacity of the whole database, all owners
	datapaths int
	// mirror tells what attachments hold that are not in resources; nil where all
	// of them are.
	mirror *Mirror
	rules  *translate.Rules // known rows; nil for none
	others map[string]int   // by VPC: attachments that are not in resources
}

var ownedTables = [...]string{
	nbdb.TableLogicalRouter, nbdb.TableLogicalRouterPort, nbdb.TableLogicalRouterPolicy,
	nbdb.TableLogicalSwitch, nbdb.TableLogicalSwitchPort, nbdb.TableACL,
	nbdb.TablePortGroup, nbdb.TableDHCPOptions,
}

// newWorld reads a state back; read gives what a row stores, of several rows at
// the same time.
func newWorld(owner string, s scope, state *nbdb.State, read func(nbdb.Row) stored) (*world, error) {
	globals := nbdb.All[*nbdb.NBGlobal](state)
	if len(globals) != 1 {
		return nil, &UnpreparedError{len(globals)}
	}
	many := state.Len(nbdb.TableLogicalSwitchPort)
	w := &world{owner: owner, state: state, global: globals[0],
		resources: make(map[model.ID]*model.Resource, many), digests: make(map[model.ID]string, many),
		rows:      make(map[model.ID][]nbdb.Row, many),
		reclaimed: map[nbdb.UUID]bool{}, stored: make(map[nbdb.UUID]model.ID, many), edited: map[model.ID]bool{}, copies: make(map[model.ID][]nbdb.Entry, many),
	}
	w.datapaths = state.Len(nbdb.TableLogicalSwitch) + state.Len(nbdb.TableLogicalRouter)
	w.readOfferings()
	var owned []nbdb.Row
	for _, table := range ownedTables {
		for _, r := range state.Rows(table) {
			if w.owns(r) && s.covers(r) {
				owned = append(owned, r)
			}
		}
	}
	specs := make([]stored, len(owned))
	sideBySide(len(owned), func(i int) { specs[i] = read(owned[i]) })
	for i, r := range owned {
		w.readPrincipal(r, specs[i])
	}
	for _, r := range owned {
		w.assign(r)
	}
	w.readCopies(owned, s)
	w.readExpectations(owned)
	slices.SortFunc(w.lost, func(a, b *model.Resource) int { return compareIDs(a.ID(), b.ID()) })
	return w, nil
}

func (s scope) covers(r nbdb.Row) bool {
	return s.all || slices.Contains(s.vpcs, r.IDs()[translate.KeyVPC])
}

func (w *world) owns(r nbdb.Row) bool { return r.IDs()[translate.KeyOwner] == w.owner }

// principalKind is the kind whose principal row this may be.
func principalKind(r nbdb.Row) (model.Kind, bool) {
	switch r.(type) {
	case *nbdb.LogicalRouter:
		return model.KindVPC, true
	case *nbdb.LogicalSwitch:
		return model.KindTier, true
	case *nbdb.PortGroup:
		return model.KindACL, true
	case *nbdb.LogicalSwitchPort:
		return model.KindAttachment, true
	}
	return "", false
}

// stored is what a row stores: a resource, or nothing.
type stored struct {
	resource *model.Resource
	err      error
	edited   bool // it does not fit its digest: somebody edited it by hand
}

func readStored(r nbdb.Row) stored {
	kind, ok := principalKind(r)
	if _, there := r.IDs()[translate.KeySpec]; !ok || !there {
		return stored{}
	}
	text := translate.StoredSpec(r.IDs())
	res, err := model.ParseStored(kind, []byte(text))
	if err != nil {
		return stored{err: brief(err)}
	}
	s := storedIn(r, text, res)
	s.err = brief(s.err)
	return s
}

// storedIn is the resource that a text of a row tells.
func storedIn(r nbdb.Row, text string, res *model.Resource) stored {
	ids := r.IDs()
	res.Manager, res.Request = ids[translate.KeyManager], ids[translate.KeyRequest]
	if err := cmp.Or(misplaced(res, ids[translate.KeyKey]), hollow(res)); err != nil {
		return stored{err: err}
	}
	edited := ids[translate.KeyDigest] != translate.Digest([]byte(text), res.Manager)
	// What was checked when it was written fits its digest.
	if edited {
		if err := invalid(res.Check()); err != nil {
			return stored{err: err}
		}
	}
	return stored{resource: res, edited: edited}
}

// readPrincipal notes the resource that a row stores, if it stores one.
func (w *world) readPrincipal(r nbdb.Row, s stored) {
	if s.err != nil {
		w.unread = append(w.unread, w.unreadable(r, s.err))
	}
	if s.resource == nil {
		return
	}
	id := s.resource.ID()
	if _, twice := w.resources[id]; twice {
		w.unread = append(w.unread, w.unreadable(r, fmt.Errorf("a second row of %s", id)))
		return
	}
	w.resources[id] = s.resource
	w.stored[r.ID()] = id
	w.digests[id] = r.IDs()[translate.KeyDigest]
	if s.edited {
		w.edited[id] = true
	}
}

// assign finds out to which resource a row belongs.
func (w *world) assign(r nbdb.Row) {
	id, ok := w.resourceOf(r)
	if !ok || w.resources[id] == nil {
		w.strays = append(w.strays, r)
	}
	if !ok {
		id = model.ID{}
	}
	w.assignTo(id, r)
}

// assignTo notes a row of a resource, which may be unknown.
func (w *world) assignTo(id model.ID, r nbdb.Row) {
	if id != (model.ID{}) {
		w.rows[id] = append(w.rows[id], r)
	}
	switch r := r.(type) {
	case *nbdb.LogicalSwitch:
		w.switches = append(w.switches, r)
	case *nbdb.LogicalRouter:
		w.routers = append(w.routers, r)
	}
}

func (w *world) resourceOf(r nbdb.Row) (model.ID, bool) {
	if id, ok := translate.ResourceOf(r.IDs()[translate.KeyKey]); ok {
		return id, true
	}
	id, ok := w.stored[r.ID()]
	return id, ok
}

// readCopies finds the resources whose principal row somebody deleted or
// edited: their second copies are still there.
func (w *world) readCopies(owned []nbdb.Row, s scope) {
	for _, r := range owned {
		group, ok := r.(*nbdb.PortGroup)
		if !ok {
			continue
		}
		ids := group.ExternalIDs
		if spec, ok := ids[translate.KeyVPCSpec]; ok {
			w.readCopy(model.ID{Kind: model.KindVPC, Name: ids[translate.KeyVPC]}, ids[translate.KeyManager], ids[translate.KeyRequest], spec)
		}
		if spec, ok := ids[translate.KeyTierSpec]; ok {
			id, _ := translate.ResourceOf(ids[translate.KeyKey])
			w.readCopy(id, ids[translate.KeyManager], ids[translate.KeyRequest], spec)
		}
		s.eachCopy(ids, func(name, key, value string) {
			id := model.ID{Kind: model.KindAttachment, VPC: ids[translate.KeyVPC], Name: name}
			manager, request, spec := translate.ParseRegistry(value)
			w.readCopy(id, manager, request, spec)
			w.noteCopy(id, group, key, value)
		})
	}
}

func (w *world) noteCopy(id model.ID, group nbdb.Row, key, value string) {
	w.copies[id] = append(w.copies[id], nbdb.Entry{Table: nbdb.TablePortGroup, Row: group.ID(), Key: key, Value: value})
}

// eachCopy visits the second copies of the scope's attachments among the
// external_ids of a registry.
func (s scope) eachCopy(ids map[string]string, visit func(name, key, value string)) {
	if s.attachments != nil {
		for name := range s.attachments {
			key := translate.KeyAttachmentPrefix + name
			if value, ok := ids[key]; ok {
				visit(name, key, value)
			}
		}
		return
	}
	for key, value := range ids {
		if name, ok := strings.CutPrefix(key, translate.KeyAttachmentPrefix); ok {
			visit(name, key, value)
		}
	}
}

// readCopy reads a second copy, unless the first is as it should be.
func (w *world) readCopy(id model.ID, manager, request, spec string) {
	r := w.resources[id]
	if r != nil && !w.edited[id] {
		if r.Request == "" && request != "" {
			known := *r
			known.Request = request
			w.resources[id] = &known
		}
		return
	}
	res, err := model.ParseStored(id.Kind, []byte(spec))
	if err != nil {
		return
	}
	res.Manager, res.Request = manager, request
	switch id := res.ID(); {
	case hollow(res) != nil || res.Check().HasErrors():
	case w.resources[id] == nil:
		w.lost = append(w.lost, res)
	case w.edited[id]:
		w.resources[id] = res
	}
}

func (w *world) readOfferings() {
	for key, value := range w.global.ExternalIDs {
		res, err := offering(w.owner, key, value)
		switch {
		case err != nil:
			id := model.ID{Kind: model.KindVPCOffering, Name: strings.TrimPrefix(key, translate.KeyOfferingPrefix)}
			w.unread = append(w.unread, unreadable{w.global, key, id, err})
		case res != nil:
			w.resources[res.ID()] = res
		}
	}
}

// offering is the one that an entry of NB_Global stores, nil if it is none of
// the owner's.
func offering(owner, key, value string) (*model.Resource, error) {
	name, ok := strings.CutPrefix(key, translate.KeyOfferingPrefix)
	if !ok {
		return nil, nil
	}
	return entry(model.ID{Kind: model.KindVPCOffering, Name: name}, owner, key, value)
}

// entry is the resource that is to be stored in an entry of a row, nil if that is
// another owner's.
func entry(id model.ID, owner, key, value string) (*model.Resource, error) {
	res, err := translate.ParseEntry(id.Kind, owner, value)
	if err == nil && res != nil && res.ID() != id {
		err = fmt.Errorf("it is of %s", res.ID())
	}
	if err == nil && res != nil {
		err = invalid(res.Check())
	}
	if err != nil {
		return nil, brief(fmt.Errorf("external_ids:%s: %w", model.Brief(key), err))
	}
	return res, nil
}

// context is what translations of a desired state look at.
func (w *world) context(desired map[model.ID]*model.Resource) translate.Context {
	tiers := map[string][]*model.Resource{}
	for _, r := range sortedIf(desired, isTier) {
		tiers[r.Metadata.VPC] = append(tiers[r.Metadata.VPC], r)
	}
	return translate.Context{Owner: w.owner, Global: w.global.UUID,
		Lookup: func(id model.ID) *model.Resource { return desired[id] }, Lists: &translate.Lists{Rules: w.rules},
		Tiers: func(vpc string) []*model.Resource { return tiers[vpc] }}
}

// reclaim looks whether rows that are to be inserted are there all the same:
// somebody has taken our marks off them. Their UUIDs, made of owner and key,
// prove them ours, unless they have the mark of another installation by now:
// then they are in the way. It tells whether there were any.
func (e *Engine) reclaim(ctx context.Context, w *world, inserts []nbdb.RowChange, owners map[nbdb.UUID]model.ID) (found bool, inTheWay model.Diagnostics, err error) {
	for part := range slices.Chunk(inserts, chunk) {
		var queries []nbdb.Query
		for _, r := range part {
			queries = append(queries, nbdb.Query{Table: r.Table, Where: map[string]any{"_uuid": string(r.UUID)}})
		}
		state, err := e.NB.Read(ctx, queries...)
		if err != nil {
			return false, nil, fmt.Errorf("reading rows without marks: %w", err)
		}
		for _, r := range part {
			// A row with all its marks was not there before: another writer has
			// made it since, and the commit finds out.
			row := state.Get(r.Table, r.UUID)
			switch {
			case row == nil || w.marked(row, r.Key, owners[r.UUID]):
			case isGivenAway(row, w.owner):
				if r.Op == nbdb.Insert {
					inTheWay = append(inTheWay, givenAway(row, owners[r.UUID]))
				}
			default:
				found = true
				w.state.Put(row)
				w.reclaimed[r.UUID] = true
				w.assignTo(owners[r.UUID], row)
				scope{}.eachCopy(row.IDs(), func(name, key, value string) {
					id := model.ID{Kind: model.KindAttachment, VPC: vpcOf(owners[r.UUID]), Name: name}
					if w.resources[id] != nil {
						w.noteCopy(id, row, key, value)
					}
				})
			}
		}
	}
	return found, inTheWay, nil
}

// marked tells whether a row has the marks by which it is read.
func (w *world) marked(r nbdb.Row, key string, id model.ID) bool {
	ids := r.IDs()
	return ids[translate.KeyOwner] == w.owner && ids[translate.KeyKey] == key && ids[translate.KeyVPC] == vpcOf(id)
}

// fragment is what a resource becomes. An input has been checked by now: what
// can't be translated is stored, or refers to it.
func fragment(r *model.Resource, c translate.Context) (nbdb.Fragment, error) {
	f, err := translate.Fragment(r, c)
	if err != nil {
		return f, &DamagedError{VPC: vpcOf(r.ID()), Err: err}
	}
	return f, nil
}

// homeless are the tiers of attachments that have lost the row where the second
// copy of one of these is to stand, or the marks by which it is read: they have to be
// mended first.
func (w *world) homeless(put []*model.Resource) (tiers []*model.Resource) {
	for _, r := range put {
		if tier, _, there := w.copyHome(r); tier != nil && !there && !slices.Contains(tiers, tier) {
			tiers = append(tiers, tier)
		}
	}
	return tiers
}

// copyHome is the tier of an attachment, nil for what has none, and the row where its
// second copy is to stand; there tells whether that was read.
func (w *world) copyHome(r *model.Resource) (tier *model.Resource, row nbdb.UUID, there bool) {
	spec, ok := r.Spec.(*model.AttachmentSpec)
	if !ok {
		return nil, "", false
	}
	if tier = w.resources[model.ID{Kind: model.KindTier, VPC: r.Metadata.VPC, Name: spec.Tier}]; tier == nil {
		return nil, "", false
	}
	row = translate.CopyUUID(w.owner, r.Metadata.VPC, spec.Tier, tier.Spec.(*model.TierSpec), r.Metadata.Name)
	group := w.state.Get(nbdb.TablePortGroup, row)
	return tier, row, group != nil && w.owns(group) && group.IDs()[translate.KeyVPC] == r.Metadata.VPC
}

// ports are the references in a tier's switch.
func (w *world) ports(vpc, tier string) []nbdb.UUID {
	sw := nbdb.Lookup[*nbdb.LogicalSwitch](w.state, translate.SwitchUUID(w.owner, vpc, tier))
	if sw == nil {
		return nil
	}
	return sw.Ports
}

// sorted are resources by kind in the order of dependence, VPC and name.
func sorted(set map[model.ID]*model.Resource) []*model.Resource {
	return sortedIf(set, func(*model.Resource) bool { return true })
}

func isTier(r *model.Resource) bool { return r.Kind == model.KindTier }

// sortedIf are those of sorted that meet a condition.
func sortedIf(set map[model.ID]*model.Resource, meets func(*model.Resource) bool) []*model.Resource {
	var out []*model.Resource
	for _, r := range set {
		if meets(r) {
			out = append(out, r)
		}
	}
	return inOrder(out)
}

func inOrder(list []*model.Resource) []*model.Resource {
	slices.SortFunc(list, func(a, b *model.Resource) int { return compareIDs(a.ID(), b.ID()) })
	return list
}

func compareIDs(a, b model.ID) int {
	switch {
	case a.Kind != b.Kind:
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(a.Kind, b.Kind))
	case a.VPC != b.VPC:
		return cmp.Compare(a.VPC, b.VPC)
	}
	return cmp.Compare(a.Name, b.Name)
}

// rank orders kinds so that what is referred to comes first.
func rank(k model.Kind) int {
	switch k {
	case model.KindVPCOffering:
		return 0
	case model.KindVPC:
		return 1
	case model.KindACL:
		return 2
	case model.KindTier:
		return 3
	case model.KindAttachment:
		return 4
	case model.KindExpectation:
		return 5
	}
	return -1
}

// vpcOf is the VPC that a resource belongs to, "" for an offering.
func vpcOf(id model.ID) string {
	switch id.Kind {
	case model.KindVPC:
		return id.Name
	case model.KindVPCOffering:
		return ""
	}
	return id.VPC
}
