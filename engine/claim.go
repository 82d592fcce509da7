package engine

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// attachment adds what a change of an attachment relies on.
func (g *guarder) attachment(c *change, gone map[model.ID]bool) {
	for _, tier := range tiersOf(c) {
		if !gone[model.ID{Kind: model.KindTier, VPC: g.vpc, Name: tier}] {
			g.tombstones(c, tier)
		}
	}
	if c.after != nil && c.after.Spec.(*model.AttachmentSpec).Plug != nil {
		// Its port tells the agent of both.
		g.digest(model.ID{Kind: model.KindTier, VPC: g.vpc, Name: c.after.Spec.(*model.AttachmentSpec).Tier})
		g.digest(model.ID{Kind: model.KindVPC, Name: g.vpc})
	}
	g.uncopied(c)
	if c.after == nil || !claims(c) {
		return
	}
	spec := c.after.Spec.(*model.AttachmentSpec)
	id := model.ID{Kind: model.KindTier, VPC: g.vpc, Name: spec.Tier}
	g.digest(id)
	registry := translate.RegistryUUID(g.desire.world.owner, g.vpc, spec.Tier)
	epoch, known := g.epochOf(registry)
	if !known {
		return // the tier is new: nobody else can have claimed anything in it
	}
	g.add("epoch "+spec.Tier, nbdb.Guard{Table: nbdb.TablePortGroup, Row: registry,
		Includes: map[string]string{translate.NoteEpoch: epoch}})
	tier := g.desire.resources[id].Spec.(*model.TierSpec)
	if !lockedByRow(g.vpc, tier, spec) {
		g.exclusive(spec.Tier, registry, epoch)
	}
}

// uncopied relies on nobody having brought back the second copy of what is removed and
// has lost it: from there it would be restored.
func (g *guarder) uncopied(c *change) {
	if c.after != nil || c.before == nil || len(c.have.Entries) > 0 {
		return
	}
	was, err := translate.Fragment(c.before, g.desire.now)
	if err != nil {
		return // nor can that be translated which would bring it back
	}
	for _, x := range was.Entries {
		g.add("copy "+c.id.String(), nbdb.Guard{Table: x.Table, Includes: map[string]string{x.Key: x.Value}})
	}
}

// exclusive is for a claim that the UUID of the port's row does not lock: it
// relies on nobody having claimed anything in the tier since it was read, and
// by a new epoch makes every claim that was planned before it plan again.
func (g *guarder) exclusive(tier string, registry nbdb.UUID, epoch string) {
	if g.seen["exclusive "+tier] {
		return
	}
	g.seen["exclusive "+tier] = true
	g.switchPorts(tier)
	fresh := strconv.FormatUint(g.engine.Rand(), 36)
	g.tx.Entries = append(g.tx.Entries, nbdb.EntryChange{Table: nbdb.TablePortGroup, Row: registry,
		Key: translate.NoteEpoch, Old: &epoch, New: &fresh})
}

// claims tells whether an attachment takes an address or a MAC that it did
// not have.
func claims(c *change) bool {
	if c.before == nil || len(c.have.Rows) == 0 {
		return true
	}
	was, is := c.before.Spec.(*model.AttachmentSpec), c.after.Spec.(*model.AttachmentSpec)
	return was.MAC != is.MAC || slices.ContainsFunc(is.Addresses, func(a netip.Addr) bool { return !slices.Contains(was.Addresses, a) })
}

func tiersOf(c *change) []string {
	if c.before == nil {
		return nil
	}
	return []string{c.before.Spec.(*model.AttachmentSpec).Tier}
}

// maxTombstones is how many freed addresses a tier remembers.
const maxTombstones = 64

// tombstones note the addresses that an attachment frees, so that they are
// not handed out again at once, and forget the oldest.
func (g *guarder) tombstones(c *change, tier string) {
	var kept []netip.Addr
	if c.after != nil {
		kept = c.after.Spec.(*model.AttachmentSpec).Addresses
	}
	registry := translate.RegistryUUID(g.desire.world.owner, g.vpc, tier)
	group := nbdb.Lookup[*nbdb.PortGroup](g.desire.world.state, registry)
	if group == nil {
		return
	}
	stands := func(key string) *string { // also what says nothing, written by somebody else
		if text, ok := group.ExternalIDs[key]; ok {
			return &text
		}
		return nil
	}
	now := strconv.FormatInt(g.engine.Now().Unix(), 10)
	known, read := g.freed[tier]
	if !read {
		known = g.desire.world.freed(g.vpc, tier)
		g.freed[tier] = known
	}
	fresh := 0
	for _, a := range c.before.Spec.(*model.AttachmentSpec).Addresses {
		if _, noted := known[a]; noted || slices.Contains(kept, a) || g.noted[registry] >= maxTombstones {
			continue
		}
		g.noted[registry]++
		fresh++
		key := translate.NoteFreedPrefix + a.String()
		g.note(registry, key, stands(key), &now)
	}
	surplus := len(known) + g.noted[registry] - maxTombstones
	if fresh == 0 || surplus <= 0 {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(known), func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(known[a], known[b]), a.Compare(b))
	})
	for _, a := range oldest[:min(len(oldest), surplus)] {
		key := translate.NoteFreedPrefix + a.String()
		g.note(registry, key, stands(key), nil)
	}
}

func (g *guarder) note(registry nbdb.UUID, key string, old, fresh *string) {
	if g.seen["note "+string(registry)+key] {
		return
	}
	g.seen["note "+string(registry)+key] = true
	g.tx.Entries = append(g.tx.Entries, nbdb.EntryChange{Table: nbdb.TablePortGroup, Row: registry, Key: key, Old: old, New: fresh})
}
