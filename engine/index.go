package engine

import (
	"maps"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// index spares the parts of a plan, one for each VPC, to look through all that
// was read for what is theirs. Each list is made when it is asked for first, by
// when the wish is merged.
type index struct {
	resources map[string][]*model.Resource
	homes     map[string][]nbdb.UUID
	lists     map[nbdb.UUID]bool // defaults of those that the plan touches
	users     map[nbdb.UUID][]nbdb.UUID
}

// of are the resources of a VPC that were or will be there, as find knows them, in
// no order.
func (d *desire) of(vpc string, find func(model.ID) *model.Resource) []*model.Resource {
	if d.index.resources == nil {
		all := maps.Clone(d.resources)
		for _, list := range [][]*model.Resource{d.removed, d.world.lost} {
			for _, r := range list {
				if all[r.ID()] == nil {
					all[r.ID()] = r
				}
			}
		}
		d.index.resources = map[string][]*model.Resource{}
		for id, r := range all {
			d.index.resources[vpcOf(id)] = append(d.index.resources[vpcOf(id)], r)
		}
	}
	var out []*model.Resource
	for _, r := range d.index.resources[vpc] {
		if r = find(r.ID()); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// planned and stored find a resource as it is to be, and as it is.
func (d *desire) planned(id model.ID) *model.Resource { return d.resources[id] }
func (d *desire) stored(id model.ID) *model.Resource  { return d.world.resources[id] }

// homes are a VPC's port groups, sorted by UUID.
func (d *desire) homes(vpc string) []nbdb.UUID {
	if d.index.homes == nil {
		d.index.homes = map[string][]nbdb.UUID{}
		for _, pg := range nbdb.All[*nbdb.PortGroup](d.world.state) {
			if of := pg.ExternalIDs[translate.KeyVPC]; d.world.owns(pg) {
				d.index.homes[of] = append(d.index.homes[of], pg.UUID)
			}
		}
	}
	return d.index.homes[vpc]
}

// users are the switches that refer to the default of a list that the
// plan touches, sorted by UUID. Other rules are passed over: there are many.
func (d *desire) users(list nbdb.UUID) []nbdb.UUID {
	if d.index.users == nil {
		d.index.users = map[nbdb.UUID][]nbdb.UUID{}
		for _, sw := range nbdb.All[*nbdb.LogicalSwitch](d.world.state) {
			for _, ref := range sw.ACLs {
				if d.index.lists[ref] {
					d.index.users[ref] = append(d.index.users[ref], sw.UUID)
				}
			}
		}
	}
	return d.index.users[list]
}
