package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// unique demands that no address of a VPC is held twice.
func (c *Checker) unique(tx Transaction) {
	for h := range c.index.touched.addresses {
		var found []fault
		holders := sortedKeys(c.index.holders[h])
		if len(holders) > 1 {
			found = append(found, fault{Address, fmt.Sprintf("%s of the VPC %s is held by %s", h.addr, h.vpc, c.list(holders))})
		}
		at := Violation{}
		if len(holders) > 0 {
			at = c.row(holders[0])
		}
		c.settle(tx, fmt.Sprintf("address %s %s %s", h.owner, h.vpc, h.addr), at, found)
	}
}

func (c *Checker) list(ids []nbdb.UUID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = fmt.Sprintf("%s (%s)", c.named(id), id)
	}
	return strings.Join(names, " and ")
}

// apart demands that no prefix of a router's port overlaps another's, and
// neither do those of two tiers' specs.
func (c *Checker) apart(tx Transaction) {
	for s := range c.index.touched.routers {
		ports := sortedKeys(c.index.routed[s])
		var found []fault
		for i, a := range ports {
			for _, b := range ports[i+1:] {
				for _, p := range networksOf(c.state.rows[a]) {
					for _, q := range networksOf(c.state.rows[b]) {
						if p.Overlaps(q) {
							found = append(found, fault{Overlap, fmt.Sprintf("%s of %s and %s of %s overlap", p, c.named(a), q, c.named(b))})
						}
					}
				}
			}
		}
		at := Violation{}
		if len(ports) > 0 {
			at = c.row(ports[0])
		}
		c.settle(tx, fmt.Sprintf("router %s %s", s.owner, s.vpc), at, found)
	}
}

// placed demands that each owned port of a switch is on one, that of its tier.
func (c *Checker) placed(tx Transaction) {
	for _, id := range sortedKeys(c.index.touched.ports) {
		port, ok := c.state.rows[id].(*nbdb.LogicalSwitchPort)
		if !ok || !owned(port) {
			c.settle(tx, "place "+string(id), Violation{}, nil)
			continue
		}
		var found []fault
		want, is := c.home(port), sortedKeys(c.index.switches[id])
		if want != "" && !slices.Equal(is, []nbdb.UUID{want}) {
			found = append(found, fault{Place, fmt.Sprintf("it is on %s, and belongs on %s", cmp.Or(c.list(is), "no switch"), c.named(want))})
		}
		c.settle(tx, "place "+string(id), c.row(id), found)
	}
}

// home is the switch of a port's tier, "" where the port does not tell: then it
// is unexplained.
func (c *Checker) home(port *nbdb.LogicalSwitchPort) nbdb.UUID {
	owner := port.ExternalIDs[translate.KeyOwner]
	if id, ok := translate.ResourceOf(port.ExternalIDs[translate.KeyKey]); ok && id.Kind == model.KindTier {
		return translate.SwitchUUID(owner, id.VPC, id.Name)
	}
	for _, r := range storedIn(port) {
		return translate.SwitchUUID(owner, r.Metadata.VPC, r.Spec.(*model.AttachmentSpec).Tier)
	}
	return ""
}
