package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// readExpectations reads what the routers store beside their VPCs, then the
// second copies of what somebody has removed or damaged there.
func (w *world) readExpectations(owned []nbdb.Row) {
	for _, r := range owned {
		router, ok := r.(*nbdb.LogicalRouter)
		if !ok {
			continue
		}
		for key, value := range router.ExternalIDs {
			_, res, err := expectation(w.owner, router, key, value)
			switch {
			case err != nil:
				w.unread = append(w.unread, unreadable{router, err})
			case res != nil:
				w.resources[res.ID()] = res
			}
		}
	}
	for _, r := range owned {
		home, ok := r.(*nbdb.PortGroup)
		if !ok || home.UUID != translate.HistoryUUID(w.owner, home.ExternalIDs[translate.KeyVPC]) {
			continue
		}
		for key, value := range home.ExternalIDs {
			id, res, _ := expectation(w.owner, home, key, value)
			if id == (model.ID{}) {
				continue
			}
			w.copies[id] = []nbdb.Entry{{Table: nbdb.TablePortGroup, Row: home.UUID, Key: key, Value: value}}
			if res != nil && w.resources[id] == nil {
				w.lost = append(w.lost, res)
			}
		}
	}
}

// expectation is the one that an entry of one of its VPC's rows is for, which is
// none for the zero ID, and what it stores.
func expectation(owner string, row nbdb.Row, key, value string) (id model.ID, r *model.Resource, err error) {
	name, ok := strings.CutPrefix(key, translate.KeyExpectationPrefix)
	if !ok {
		return model.ID{}, nil, nil
	}
	id = model.ID{Kind: model.KindExpectation, VPC: row.IDs()[translate.KeyVPC], Name: name}
	r, err = entry(id, owner, key, value)
	return id, r, err
}

// expectation are the entries in which an expectation is stored, those that can't
// be read too.
func (w *world) expectation(id model.ID) []nbdb.Entry {
	entries := slices.Clone(w.copies[id])
	key := translate.KeyExpectationPrefix + id.Name
	if router := nbdb.Lookup[*nbdb.LogicalRouter](w.state, translate.RouterUUID(w.owner, id.VPC)); router != nil {
		if value, ok := router.ExternalIDs[key]; ok {
			entries = append(entries, nbdb.Entry{Table: nbdb.TableLogicalRouter, Row: router.UUID, Key: key, Value: value})
		}
	}
	return entries
}

// expectation relies on the tiers and attachments that an expectation names.
func (g *guarder) expectation(c *change) {
	if c.after == nil {
		return
	}
	ends := slices.Concat(g.all(model.KindTier), g.all(model.KindAttachment))
	users := model.Users(append(slices.Clone(ends), c.after))
	for _, r := range ends {
		if slices.Contains(users[r.ID()], c.id) {
			g.digest(r.ID())
		}
	}
}

// followRouter is what a transaction makes of the keys of the VPC's router.
func (g *guarder) followRouter() {
	row := translate.RouterUUID(g.desire.world.owner, g.vpc)
	for _, r := range g.tx.Rows {
		if r.UUID != row {
			continue
		}
		if r.Op == nbdb.Delete {
			g.router = nil
			continue
		}
		for _, col := range r.Columns {
			if col.Column != "external_ids" {
				continue
			}
			was, _ := col.Old.(map[string]string)
			is, _ := col.New.(map[string]string)
			if g.router == nil {
				g.router = map[string]string{}
			}
			maps.DeleteFunc(g.router, func(key, _ string) bool { _, ours := was[key]; return ours })
			maps.Copy(g.router, is)
		}
	}
	for _, x := range g.tx.Entries {
		switch {
		case x.Row != row || g.router == nil:
		case x.New == nil:
			delete(g.router, x.Key)
		default:
			g.router[x.Key] = *x.New
		}
	}
}
