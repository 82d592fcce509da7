package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// readExpectations reads what the routers store beside their VPCs.
func (w *world) readExpectations(owned []nbdb.Row) {
	for _, r := range owned {
		router, ok := r.(*nbdb.LogicalRouter)
		if !ok {
			continue
		}
		for key, value := range router.ExternalIDs {
			res, err := expectation(w.owner, router, key, value)
			switch {
			case err != nil:
				id := model.ID{Kind: model.KindExpectation, VPC: router.IDs()[translate.KeyVPC], Name: strings.TrimPrefix(key, translate.KeyExpectationPrefix)}
				w.unread = append(w.unread, unreadable{router, key, id, err})
			case res != nil:
				w.resources[res.ID()] = res
			}
		}
	}
}

// expectation is the one that an entry of a VPC's router stores, nil if it is
// none.
func expectation(owner string, router nbdb.Row, key, value string) (*model.Resource, error) {
	name, ok := strings.CutPrefix(key, translate.KeyExpectationPrefix)
	if !ok {
		return nil, nil
	}
	return entry(model.ID{Kind: model.KindExpectation, VPC: router.IDs()[translate.KeyVPC], Name: name}, owner, key, value)
}

// expectation are the entries in which an expectation is stored, one that can't
// be read too.
func (w *world) expectation(id model.ID) []nbdb.Entry {
	router := nbdb.Lookup[*nbdb.LogicalRouter](w.state, translate.RouterUUID(w.owner, id.VPC))
	key := translate.KeyExpectationPrefix + id.Name
	if router == nil {
		return nil
	}
	value, ok := router.ExternalIDs[key]
	if !ok {
		return nil
	}
	return []nbdb.Entry{{Table: nbdb.TableLogicalRouter, Row: router.UUID, Key: key, Value: value}}
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
