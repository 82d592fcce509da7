package engine

import (
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// have is the fragment of a resource as it really stands in the database.
func (w *world) have(id model.ID) nbdb.Fragment {
	var f nbdb.Fragment
	switch id.Kind {
	case model.KindVPCOffering:
		key := translate.KeyOfferingPrefix + id.Name
		if value := w.global.ExternalIDs[key]; offeringOwner(value) == w.owner {
			f.Entries = append(f.Entries, nbdb.Entry{Table: nbdb.TableNBGlobal, Row: w.global.UUID, Key: key, Value: value})
		}
		return f
	case model.KindExpectation:
		f.Entries = w.expectation(id)
		return f
	}
	f.Rows = w.rows[id]
	for _, r := range f.Rows {
		f.Edges = append(f.Edges, w.edgesOf(id, r)...)
	}
	if id.Kind == model.KindAttachment {
		f.Entries = w.copies[id]
	}
	return f
}

func (w *world) ownsACL(uuid nbdb.UUID) bool {
	r := w.state.Get(nbdb.TableACL, uuid)
	return r != nil && w.ours(r)
}

// ours tells whether a row is ours, also one that has lost its marks.
func (w *world) ours(r nbdb.Row) bool { return w.owns(r) || w.reclaimed[r.ID()] }

// parent is the reference that holds a port or a policy: it belongs to the
// resource of the row that it points to, which is id if that is known.
func (w *world) parent(id model.ID, r nbdb.Row) (nbdb.Edge, bool) {
	held := func(ids []nbdb.UUID) bool {
		_, ok := slices.BinarySearch(ids, r.ID())
		return ok
	}
	switch r.(type) {
	case *nbdb.LogicalSwitchPort:
		own := nbdb.Lookup[*nbdb.LogicalSwitch](w.state, translate.SwitchUUID(w.owner, r.IDs()[translate.KeyVPC], w.tierOf(id)))
		if own != nil && w.ours(own) && held(own.Ports) {
			return nbdb.Edge{Table: nbdb.TableLogicalSwitch, From: own.UUID, Column: "ports", Target: r.ID()}, true
		}
		for _, sw := range w.switches { // somebody has moved it
			if held(sw.Ports) {
				return nbdb.Edge{Table: nbdb.TableLogicalSwitch, From: sw.UUID, Column: "ports", Target: r.ID()}, true
			}
		}
	case *nbdb.LogicalRouterPort:
		return w.routerOf(r, "ports", func(lr *nbdb.LogicalRouter) bool { return held(lr.Ports) })
	case *nbdb.LogicalRouterPolicy:
		return w.routerOf(r, "policies", func(lr *nbdb.LogicalRouter) bool { return held(lr.Policies) })
	}
	return nbdb.Edge{}, false
}

// holders are the references that hold ports and policies, by these: more than one
// where somebody has put a row into another one beside.
func (w *world) holders() map[nbdb.UUID][]nbdb.Edge {
	out := map[nbdb.UUID][]nbdb.Edge{}
	note := func(r nbdb.Row) {
		for _, e := range nbdb.EdgesOf(r) {
			if e.Column != "acls" {
				out[e.Target] = append(out[e.Target], e)
			}
		}
	}
	for _, r := range w.switches {
		note(r)
	}
	for _, r := range w.routers {
		note(r)
	}
	return out
}

// routerOf is the reference of the router that holds a row, as a rule its VPC's.
func (w *world) routerOf(r nbdb.Row, column string, held func(*nbdb.LogicalRouter) bool) (nbdb.Edge, bool) {
	lr := nbdb.Lookup[*nbdb.LogicalRouter](w.state, translate.RouterUUID(w.owner, r.IDs()[translate.KeyVPC]))
	if lr == nil || !w.ours(lr) || !held(lr) {
		i := slices.IndexFunc(w.routers, held)
		if i < 0 {
			return nbdb.Edge{}, false
		}
		lr = w.routers[i]
	}
	return nbdb.Edge{Table: nbdb.TableLogicalRouter, From: lr.UUID, Column: column, Target: r.ID()}, true
}

// tierOf is the tier that the ports of a resource belong to, "" if it is not known.
func (w *world) tierOf(id model.ID) string {
	if res := w.resources[id]; id.Kind == model.KindAttachment && res != nil {
		return res.Spec.(*model.AttachmentSpec).Tier
	}
	return id.Name
}

// edges are those that belong to the resource of a row.
func (w *world) edges(r nbdb.Row) []nbdb.Edge {
	id, _ := w.resourceOf(r)
	return w.edgesOf(id, r)
}

// edgesOf are edges of a row of a resource.
func (w *world) edgesOf(id model.ID, r nbdb.Row) []nbdb.Edge {
	edges := w.lists(r)
	if e, ok := w.parent(id, r); ok {
		edges = append(edges, e)
	}
	return edges
}

// lists are the references of a row to rows of lists, which are its resource's.
func (w *world) lists(r nbdb.Row) []nbdb.Edge {
	var acls []nbdb.UUID
	switch r := r.(type) {
	case *nbdb.LogicalSwitch:
		acls = r.ACLs
	case *nbdb.PortGroup:
		acls = r.ACLs
	}
	var edges []nbdb.Edge
	for _, target := range acls {
		if w.ownsACL(target) {
			edges = append(edges, nbdb.Edge{Table: r.Table(), From: r.ID(), Column: "acls", Target: target})
		}
	}
	return edges
}
