package engine

import (
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
				w.unread = append(w.unread, unreadable{router, err})
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

// expectation relies on the tiers that an expectation names.
func (g *guarder) expectation(c *change) {
	if c.after == nil {
		return
	}
	tiers := g.all(model.KindTier)
	users := model.Users(append(slices.Clone(tiers), c.after))
	for _, t := range tiers {
		if len(users[t.ID()]) > 0 {
			g.digest(t.ID())
		}
	}
}
