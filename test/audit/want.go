package audit

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// resourceID is a resource of an owner.
type resourceID struct {
	owner string
	id    model.ID
}

func (r resourceID) vpc() string {
	if r.id.Kind == model.KindVPC {
		return r.id.Name
	}
	return r.id.VPC
}

// storedIn are the resources that a row stores. What can't be read is none: its
// rows are then explained by nothing.
func storedIn(r nbdb.Row) map[resourceID]*model.Resource {
	found := map[resourceID]*model.Resource{}
	put := func(owner string, res *model.Resource, err error) {
		if err == nil && res != nil {
			found[resourceID{owner, res.ID()}] = res
		}
	}
	principal := func(kind model.Kind) {
		ids := r.IDs()
		if _, ok := ids[translate.KeySpec]; ok && owned(r) {
			res, err := model.ParseStored(kind, []byte(translate.StoredSpec(ids)))
			if err == nil {
				res.Manager, res.Request = ids[translate.KeyManager], ids[translate.KeyRequest]
			}
			put(ids[translate.KeyOwner], res, err)
		}
	}
	entries := func(kind model.Kind, prefix string) {
		for key, value := range r.IDs() {
			var entry translate.StoredEntry
			if strings.HasPrefix(key, prefix) && json.Unmarshal([]byte(value), &entry) == nil {
				res, err := translate.ParseEntry(kind, entry.Owner, value)
				put(entry.Owner, res, err)
			}
		}
	}
	switch r.(type) {
	case *nbdb.LogicalRouter:
		principal(model.KindVPC)
		entries(model.KindExpectation, translate.KeyExpectationPrefix)
	case *nbdb.LogicalSwitch:
		principal(model.KindTier)
	case *nbdb.PortGroup:
		principal(model.KindACL)
	case *nbdb.LogicalSwitchPort:
		principal(model.KindAttachment)
	case *nbdb.NBGlobal:
		entries(model.KindVPCOffering, translate.KeyOfferingPrefix)
	}
	return found
}

// wanted is a row as the stored specs have it: nil where they have none, and
// what they add to its sets and keys.
type wanted struct {
	row     nbdb.Row
	edges   set[nbdb.Edge]
	entries set[nbdb.Entry]
}

func (w *wanted) empty() bool { return w.row == nil && len(w.edges)+len(w.entries) == 0 }

func newWanted() *wanted {
	return &wanted{edges: set[nbdb.Edge]{}, entries: set[nbdb.Entry]{}}
}

func (w *wanted) clone() *wanted {
	return &wanted{w.row, maps.Clone(w.edges), maps.Clone(w.entries)}
}

// desire is what the stored specs translate to.
type desire struct {
	global    nbdb.UUID
	stored    map[resourceID]map[nbdb.UUID]*model.Resource // by the row that stores it
	byScope   map[scope]map[model.ID]*model.Resource
	fragments map[resourceID]nbdb.Fragment
	failed    map[resourceID]error
	rows      map[nbdb.UUID]*wanted
}

// places tells whether an edge puts a port on a switch: Checker.placed looks at
// those from the other side.
func places(e nbdb.Edge) bool { return e.Table == nbdb.TableLogicalSwitch && e.Column == "ports" }

func newDesire() desire {
	return desire{
		stored:    map[resourceID]map[nbdb.UUID]*model.Resource{},
		byScope:   map[scope]map[model.ID]*model.Resource{},
		fragments: map[resourceID]nbdb.Fragment{},
		failed:    map[resourceID]error{},
		rows:      map[nbdb.UUID]*wanted{},
	}
}

// update takes a change in, and tells which resources it changes.
func (d *desire) update(c change) []resourceID {
	if c.table == nbdb.TableNBGlobal && c.now != nil {
		d.global = c.uuid
	}
	if c.old != nil && c.now != nil && maps.Equal(c.old.IDs(), c.now.IDs()) {
		return nil
	}
	var changed []resourceID
	before, after := map[resourceID]*model.Resource{}, map[resourceID]*model.Resource{}
	if c.old != nil {
		before = storedIn(c.old)
	}
	if c.now != nil {
		after = storedIn(c.now)
	}
	for id := range before {
		if after[id] == nil {
			delete(d.stored[id], c.uuid)
			changed = append(changed, id)
		}
	}
	for id, r := range after {
		if d.stored[id] == nil {
			d.stored[id] = map[nbdb.UUID]*model.Resource{}
		}
		d.stored[id][c.uuid] = r
		changed = append(changed, id)
	}
	for _, id := range changed {
		d.choose(id)
	}
	return changed
}

// choose takes one of the rows that store a resource; there should be no second.
func (d *desire) choose(id resourceID) {
	at := scope{id.owner, id.vpc()}
	if d.byScope[at] == nil {
		d.byScope[at] = map[model.ID]*model.Resource{}
	}
	rows := sortedKeys(d.stored[id])
	if len(rows) == 0 {
		delete(d.stored, id)
		delete(d.byScope[at], id.id)
		return
	}
	d.byScope[at][id.id] = d.stored[id][rows[0]]
}

// dependents are resources and all whose translation looks at them.
func (d *desire) dependents(changed []resourceID) []resourceID {
	all := map[resourceID]struct{}{}
	for _, c := range changed {
		all[c] = struct{}{}
		at := scope{c.owner, c.vpc()}
		for id, r := range d.byScope[at] {
			if id.Kind != model.KindAttachment {
				if c.id.Kind == model.KindVPC || c.id.Kind == model.KindTier || c.id.Kind == model.KindACL && id.Kind == model.KindTier {
					all[resourceID{c.owner, id}] = struct{}{}
				}
				continue
			}
			if c.id.Kind == model.KindVPC || c.id.Kind == model.KindTier && r.Spec.(*model.AttachmentSpec).Tier == c.id.Name {
				all[resourceID{c.owner, id}] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b resourceID) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.id.String(), b.id.String()))
	})
}

// translate puts the fragments of resources in the place of their former ones,
// and gives the rows concerned; with keep as they were wanted before.
func (d *desire) translate(resources []resourceID, keep bool) map[nbdb.UUID]*wanted {
	concerned := map[nbdb.UUID]*wanted{}
	at := func(id nbdb.UUID) *wanted {
		w := d.rows[id]
		if w == nil {
			w = newWanted()
			d.rows[id] = w
		}
		if _, seen := concerned[id]; !seen {
			concerned[id] = nil
			if keep {
				concerned[id] = w.clone()
			}
		}
		return w
	}
	contexts := map[scope]translate.Context{}
	for _, id := range resources {
		f := d.fragments[id]
		for _, r := range f.Rows {
			at(r.ID()).row = nil
		}
		for _, e := range f.Edges {
			if !places(e) {
				delete(at(e.From).edges, e)
			}
		}
		for _, e := range f.Entries {
			delete(at(e.Row).entries, e)
		}
	}
	// A row may go from one resource to another: an address, for instance.
	for _, id := range resources {
		f := d.fragment(id, contexts)
		for _, r := range f.Rows {
			at(r.ID()).row = r
		}
		for _, e := range f.Edges {
			if !places(e) {
				at(e.From).edges[e] = struct{}{}
			}
		}
		for _, e := range f.Entries {
			at(e.Row).entries[e] = struct{}{}
		}
	}
	return concerned
}

// fragment translates a resource as it is stored now. One that can't be
// translated has none.
func (d *desire) fragment(id resourceID, contexts map[scope]translate.Context) nbdb.Fragment {
	delete(d.fragments, id)
	delete(d.failed, id)
	at := scope{id.owner, id.vpc()}
	r := d.byScope[at][id.id]
	if r == nil {
		return nbdb.Fragment{}
	}
	if _, ok := contexts[at]; !ok {
		contexts[at] = d.context(at)
	}
	f, err := translate.Fragment(r, contexts[at])
	if err != nil {
		d.failed[id] = err
		return nbdb.Fragment{}
	}
	d.fragments[id] = f
	return f
}

func (d *desire) context(at scope) translate.Context {
	var tiers []*model.Resource
	for id, r := range d.byScope[at] {
		if id.Kind == model.KindTier {
			tiers = append(tiers, r)
		}
	}
	slices.SortFunc(tiers, func(a, b *model.Resource) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	return translate.Context{Owner: at.owner, Global: d.global,
		Lookup: func(id model.ID) *model.Resource { return d.byScope[at][id] },
		Tiers:  func(string) []*model.Resource { return tiers }}
}
