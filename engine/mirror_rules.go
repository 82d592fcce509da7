package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// rulesEdit is an edit of some rules of a list, with what these come to.
type rulesEdit struct {
	world         *world
	desire        *desire
	before, after *model.Resource
	changes       []*change // of the list, and of the tiers that use it
}

// rulesOf asks an edit of rules, and finds out what these come to; nil where more
// may change, or their rows are not as they should be. The caller holds the lock.
func (m *Mirror) rulesOf(x Edit) *rulesEdit {
	vpc := x.ID.VPC
	n := m.networks[vpc]
	if n == nil || !n.intact() || m.expects(vpc, n) {
		return nil
	}
	home := nbdb.Lookup[*nbdb.PortGroup](m.rows, translate.PortGroupUUID(m.owner, vpc, x.ID.Name))
	if home == nil || n.stored[home.UUID].resource == nil {
		return nil
	}
	r := &rulesEdit{before: n.stored[home.UUID].resource}
	wanted, err := x.Change(r.before)
	if err != nil || wanted == nil || wanted == r.before || wanted.ID() != x.ID {
		return nil
	}
	r.after = asInput(wanted)
	r.after.Manager, r.after.Request = r.before.Manager, r.before.Request
	users := m.users(n, x.ID, r.before, r.after)
	if users == nil || !r.look(m, home, users) {
		return nil
	}
	then := r.world.context(r.desire.resources)
	if r.limited() {
		return nil
	}
	a, err := translate.AmendList(r.before, r.after, home.ExternalIDs, then)
	if err != nil || a == nil || !r.change(m, home, a) {
		return nil
	}
	return r
}

// limited tells whether the VPC's offering bounds the rules of all its lists.
func (r *rulesEdit) limited() bool {
	vpc := r.world.resources[vpcResource(r.before.Metadata.VPC).ID()]
	if vpc == nil {
		return true
	}
	offering := r.world.resources[model.ID{Kind: model.KindVPCOffering, Name: vpc.Spec.(*model.VPCSpec).Offering}]
	return offering != nil && offering.Spec.(*model.VPCOfferingSpec).Limits.ACLRules != nil
}

// users are the switches of the tiers that a list guards, and of those that it
// names before or after; nil where one isn't there.
func (m *Mirror) users(n *network, list model.ID, states ...*model.Resource) map[*nbdb.LogicalSwitch]bool {
	guarded := map[*nbdb.LogicalSwitch]bool{}
	for id := range n.structure {
		if id.Kind != model.KindTier {
			continue
		}
		sw, spec := m.tier(n, id)
		if spec == nil {
			return nil
		}
		if spec.ACL == list.Name {
			guarded[sw] = true
		}
	}
	for _, r := range states {
		for _, rule := range r.Spec.(*model.ACLSpec).Rules {
			for _, name := range rule.Tiers {
				sw, spec := m.tier(n, model.ID{Kind: model.KindTier, VPC: list.VPC, Name: name})
				if spec == nil {
					return nil
				}
				if !guarded[sw] {
					guarded[sw] = false
				}
			}
		}
	}
	return guarded
}

// tier is a tier's switch, with what it stores.
func (m *Mirror) tier(n *network, id model.ID) (*nbdb.LogicalSwitch, *model.TierSpec) {
	sw := nbdb.Lookup[*nbdb.LogicalSwitch](m.rows, translate.SwitchUUID(m.owner, id.VPC, id.Name))
	if sw == nil || n.stored[sw.UUID].resource == nil {
		return nil, nil
	}
	return sw, n.stored[sw.UUID].resource.Spec.(*model.TierSpec)
}

// look makes a world of the list, its VPC and the tiers concerned.
func (r *rulesEdit) look(m *Mirror, home *nbdb.PortGroup, tiers map[*nbdb.LogicalSwitch]bool) bool {
	id := r.before.ID()
	state := nbdb.NewState(home)
	m.rows.Each(nbdb.TableNBGlobal, state.Put)
	for sw := range tiers {
		state.Put(sw)
	}
	def := translate.DefaultUUID(m.owner, id.VPC, id.Name, model.Ingress)
	for _, row := range []nbdb.Row{
		m.rows.Get(nbdb.TableLogicalRouter, translate.RouterUUID(m.owner, id.VPC)),
		m.rows.Get(nbdb.TablePortGroup, translate.HistoryUUID(m.owner, id.VPC)),
		m.rows.Get(nbdb.TableACL, def),
	} {
		if row == nil {
			return false
		}
		state.Put(row)
	}
	var err error
	if r.world, err = newWorld(m.owner, scope{vpcs: []string{id.VPC}}, state, m.storedOf); err != nil {
		return false
	}
	put := wish{put: []*model.Resource{r.after}, through: ThroughEdit}
	r.desire = &desire{world: r.world, resources: maps.Clone(r.world.resources), input: put.put, wish: put}
	r.desire.resources[id] = r.after
	r.desire.now = r.world.context(r.world.resources)
	r.desire.index.lists = map[nbdb.UUID]bool{def: true}
	for sw, uses := range tiers {
		if uses {
			tier := r.world.resources[r.world.stored[sw.UUID]]
			r.changes = append(r.changes, &change{id: tier.ID(), before: tier, after: tier})
		}
	}
	return true
}

// change makes of what differs the changes of the list and of the tiers. It is false
// where a row is not as it should be.
func (r *rulesEdit) change(m *Mirror, home *nbdb.PortGroup, a *translate.Amendment) bool {
	of := func(ids map[string]string) *nbdb.PortGroup {
		same := *home
		same.ExternalIDs = ids
		return &same
	}
	list := &change{id: r.before.ID(), before: r.before, after: r.after, input: true}
	list.have.Rows, list.want.Rows = []nbdb.Row{of(a.WasIDs)}, []nbdb.Row{of(a.IDs)}
	known := map[nbdb.UUID]bool{}
	for _, row := range a.Was {
		is := m.rows.Get(nbdb.TableACL, row.UUID)
		if is == nil {
			return false
		}
		known[row.UUID] = true
		list.have.Rows = append(list.have.Rows, is)
	}
	for _, row := range a.Is {
		if !known[row.UUID] && m.rows.Get(nbdb.TableACL, row.UUID) != nil {
			return false
		}
		list.want.Rows = append(list.want.Rows, row)
	}
	if !refer(list, nbdb.TablePortGroup, home.UUID, home.ACLs, a) {
		return false
	}
	for _, c := range r.changes {
		sw := translate.SwitchUUID(m.owner, c.id.VPC, c.id.Name)
		if !refer(c, nbdb.TableLogicalSwitch, sw, nbdb.Lookup[*nbdb.LogicalSwitch](m.rows, sw).ACLs, a) {
			return false
		}
		c.same = nbdb.Same(c.have, c.want)
	}
	list.same = nbdb.Same(list.have, list.want)
	r.changes = append(r.changes, list)
	return true
}

// refer adds to a change the references of a row to the rules' rows. It is false
// where one is missing.
func refer(c *change, table string, from nbdb.UUID, acls []nbdb.UUID, a *translate.Amendment) bool {
	for _, row := range a.Was {
		if _, ok := slices.BinarySearch(acls, row.UUID); !ok {
			return false
		}
		c.have.Edges = append(c.have.Edges, nbdb.Edge{Table: table, From: from, Column: "acls", Target: row.UUID})
	}
	for _, row := range a.Is {
		c.want.Edges = append(c.want.Edges, nbdb.Edge{Table: table, From: from, Column: "acls", Target: row.UUID})
	}
	return true
}

// amended is what a row stores after a difference that changes of a list nothing
// but rules; nil where it has to be read anew.
func (s stored) amended(now nbdb.Row, d nbdb.Difference) *stored {
	if s.resource == nil || s.err != nil || s.edited {
		return nil
	}
	was, ok := s.resource.Spec.(*model.ACLSpec)
	if !ok || len(d.IDs()) > maxAmended || !translate.InParts(now.IDs()) {
		return nil
	}
	ids, rules := now.IDs(), slices.Grow(slices.Clone(was.Rules), len(d.IDs()))
	for key := range d.IDs() {
		name, isRule := strings.CutPrefix(key, translate.KeyRulePrefix)
		if !isRule && strings.HasPrefix(key, nbdb.KeyPrefix) && key != translate.KeyDigest {
			return nil
		}
		if isRule {
			if rules, ok = amendRule(rules, name, ids, key); !ok {
				return nil
			}
		}
	}
	r, spec := *s.resource, *was
	r.Spec, spec.Rules = &spec, rules
	if ids[translate.KeyDigest] != translate.ListDigest(rules, r.Manager, ids) {
		return nil
	}
	return &stored{resource: &r}
}

// maxAmended bounds the keys that are looked at one by one.
const maxAmended = 64

// amendRule puts what is stored of a rule into a list's, or takes the rule out.
func amendRule(rules []model.Rule, name string, ids map[string]string, key string) ([]model.Rule, bool) {
	number, err := strconv.Atoi(name)
	at, there := model.RuleAt(rules, number)
	text, stays := ids[key]
	if !stays {
		if there {
			rules = slices.Delete(rules, at, at+1)
		}
		return rules, err == nil && there
	}
	rule, ok := model.ParseRule(text)
	if there {
		rules[at] = rule
	} else {
		rules = slices.Insert(rules, at, rule)
	}
	return rules, err == nil && ok && rule.Number == number && strconv.Itoa(number) == name
}
