package engine

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/ipam"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// allocate fills in the addresses and MACs of the wish's attachments. What an
// attachment has it keeps.
func (e *Engine) allocate(d *desire, attempt int) {
	a := &allocator{engine: e, desire: d, attempt: attempt, tiers: map[tierID]*tierState{}, taken: make(map[vpcAddr]bool, len(d.resources))}
	asked := make(map[model.ID]bool, len(d.input))
	var open []*model.Resource
	for _, r := range d.input {
		if r.Kind == model.KindAttachment {
			asked[r.ID()] = true
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		return
	}
	for id, r := range d.resources {
		if r.Kind == model.KindAttachment && !asked[id] {
			a.claim(r.Metadata.VPC, r.Spec.(*model.AttachmentSpec))
		}
	}
	for _, r := range d.world.lost {
		if r.Kind == model.KindAttachment && d.resources[r.ID()] == nil {
			a.claim(r.Metadata.VPC, r.Spec.(*model.AttachmentSpec))
		}
	}
	for _, u := range d.world.unread { // its row is the lock on an address
		if vpc, addr, ok := translate.AddressOf(u.row.IDs()[translate.KeyKey]); ok {
			a.taken[vpcAddr{vpc, addr}] = true
		}
	}
	// Fixed claims first, so that an allocation doesn't take what another
	// document of the same input names.
	automatic := map[*model.Resource]bool{}
	for _, r := range open {
		automatic[r] = len(r.Spec.(*model.AttachmentSpec).Addresses) == 0
		a.keep(r)
	}
	for _, r := range open {
		a.fill(r, automatic[r])
	}
}

// fieldAddresses is where the fault of an attachment stands for which no
// address is left.
const fieldAddresses = "spec.addresses"

type tierID struct{ vpc, name string }
type vpcAddr struct {
	vpc  string
	addr netip.Addr
}

type allocator struct {
	engine  *Engine
	desire  *desire
	attempt int
	tiers   map[tierID]*tierState
	taken   map[vpcAddr]bool
}

// tierState is what allocation knows of a tier.
type tierState struct {
	spec  *model.TierSpec
	pools []*ipam.Pool // in the order of the prefixes
	macs  map[model.MAC]bool
	freed map[netip.Addr]int64 // when, Unix seconds
	full  map[int]bool         // by address length: nothing is left
}

func (a *allocator) tier(vpc, name string) *tierState {
	id := tierID{vpc, name}
	if t, ok := a.tiers[id]; ok {
		return t
	}
	r := a.desire.resources[model.ID{Kind: model.KindTier, VPC: vpc, Name: name}]
	if r == nil {
		a.tiers[id] = nil
		return nil
	}
	t := &tierState{spec: r.Spec.(*model.TierSpec), macs: map[model.MAC]bool{}, freed: a.desire.world.freed(vpc, name), full: map[int]bool{}}
	for _, p := range t.spec.CIDRs {
		pool, err := ipam.NewPool(p, t.spec.Gateways, t.spec.Reserved)
		if err != nil {
			a.desire.found = append(a.desire.found, r.Fault("spec", err.Error(), ""))
			continue
		}
		t.pools = append(t.pools, pool)
	}
	a.tiers[id] = t
	return t
}

// freed are the addresses of a tier that were freed lately.
func (w *world) freed(vpc, tier string) map[netip.Addr]int64 {
	out := map[netip.Addr]int64{}
	g := nbdb.Lookup[*nbdb.PortGroup](w.state, translate.RegistryUUID(w.owner, vpc, tier))
	if g == nil {
		return out
	}
	for key, value := range g.ExternalIDs {
		text, ok := strings.CutPrefix(key, translate.NoteFreedPrefix)
		if !ok {
			continue
		}
		addr, err := netip.ParseAddr(text)
		when, err2 := strconv.ParseInt(value, 10, 64)
		if err == nil && err2 == nil {
			out[addr] = when
		}
	}
	return out
}

// keep takes over what an attachment of the input has already, and claims it.
func (a *allocator) keep(r *model.Resource) {
	spec := r.Spec.(*model.AttachmentSpec)
	filled := *spec
	r.Spec = &filled
	old := a.desire.world.before(r.ID())
	if old == nil || old.Spec.(*model.AttachmentSpec).Tier != spec.Tier {
		a.claim(r.Metadata.VPC, &filled)
		return
	}
	was := old.Spec.(*model.AttachmentSpec)
	if len(filled.Addresses) == 0 {
		// Also where the tier no longer has them: model.Check then refuses that,
		// instead of a guest losing its address unasked.
		filled.Addresses = slices.Clone(was.Addresses)
	}
	if filled.MAC == "" && len(filled.Addresses) > 0 && len(was.Addresses) > 0 &&
		(filled.Addresses[0] == was.Addresses[0] || was.MAC != ipam.MAC(r.Metadata.VPC, was.Addresses[0], 0)) {
		filled.MAC = was.MAC
	}
	a.claim(r.Metadata.VPC, &filled)
}

func (a *allocator) claim(vpc string, spec *model.AttachmentSpec) {
	for _, addr := range spec.Addresses {
		a.taken[vpcAddr{vpc, addr}] = true
	}
	if t := a.tier(vpc, spec.Tier); t != nil && spec.MAC != "" {
		t.macs[spec.MAC] = true
	}
}

// fill allocates what an attachment lacks; automatic is false where the
// document names addresses itself.
func (a *allocator) fill(r *model.Resource, automatic bool) {
	spec := r.Spec.(*model.AttachmentSpec)
	vpc := r.Metadata.VPC
	t := a.tier(vpc, spec.Tier)
	if t == nil {
		return // model.Check says so
	}
	if automatic {
		for _, family := range []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6} {
			a.fillFamily(r, spec, t, family)
		}
	}
	if spec.MAC != "" || len(spec.Addresses) == 0 {
		return
	}
	for try := 0; ; try++ {
		mac := ipam.MAC(vpc, spec.Addresses[0], try)
		if !t.macs[mac] && !a.desire.world.holds(vpc, spec.Tier, netip.Addr{}, mac) || spec.Addresses[0].Is4() {
			spec.MAC = mac
			t.macs[mac] = true
			return
		}
	}
}

func (a *allocator) fillFamily(r *model.Resource, spec *model.AttachmentSpec, t *tierState, family func(netip.Addr) bool) {
	if slices.ContainsFunc(spec.Addresses, family) {
		return
	}
	var pools []*ipam.Pool
	for _, p := range t.pools {
		if family(p.Prefix.Addr()) {
			pools = append(pools, p)
		}
	}
	if len(pools) == 0 {
		return
	}
	length := pools[0].Prefix.Addr().BitLen()
	addr, ok := netip.Addr{}, false
	if !t.full[length] {
		addr, ok = a.pick(r, spec, t, pools)
	}
	if !ok {
		t.full[length] = true
		var size uint64
		for _, p := range pools {
			size += p.Size()
		}
		a.desire.found = append(a.desire.found, r.Fault(fieldAddresses,
			"Tier "+r.Metadata.VPC+"/"+spec.Tier+" has no free address left: all "+strconv.FormatUint(size, 10)+
				" of "+prefixes(pools)+" are taken or reserved", "add a prefix to the tier's cidrs, or delete attachments").Coded(model.CodeLimit))
		return
	}
	a.taken[vpcAddr{r.Metadata.VPC, addr}] = true
	spec.Addresses = append(spec.Addresses, addr)
}

// pick chooses an address. An IPv6 address beside an IPv4 one embeds it where
// that is possible: the lock on the one is then a lock on both. Addresses
// freed lately come last, the oldest first.
func (a *allocator) pick(r *model.Resource, spec *model.AttachmentSpec, t *tierState, pools []*ipam.Pool) (netip.Addr, bool) {
	vpc := r.Metadata.VPC
	taken := func(x netip.Addr) bool {
		var mac model.MAC
		if spec.MAC == "" && x.Is4() {
			mac = ipam.MAC(vpc, x, 0) // somebody may have asked for it
		}
		return a.taken[vpcAddr{vpc, x}] || t.macs[mac] || a.desire.world.holds(vpc, spec.Tier, x, mac)
	}
	if len(spec.Addresses) > 0 {
		if x, ok := embedded(t.spec, spec.Addresses[0]); ok && !taken(x) && free(t.spec, x) {
			return x, true
		}
	}
	h := fnv.New64a()
	h.Write([]byte(vpc + "/" + r.Metadata.Name))
	seed := h.Sum64()
	if a.attempt > 0 {
		seed = a.engine.Rand()
	}
	for _, p := range pools {
		x, ok := p.Pick(seed, func(x netip.Addr) bool { _, f := t.freed[x]; return f || taken(x) })
		if ok {
			return x, true
		}
	}
	var late []netip.Addr
	for x := range t.freed {
		if !taken(x) && free(t.spec, x) && slices.ContainsFunc(pools, func(p *ipam.Pool) bool { return p.Prefix.Contains(x) }) {
			late = append(late, x)
		}
	}
	if len(late) == 0 {
		return netip.Addr{}, false
	}
	return slices.MinFunc(late, func(x, y netip.Addr) int {
		return cmp.Or(cmp.Compare(t.freed[x], t.freed[y]), x.Compare(y))
	}), true
}

// embedded is the IPv6 address of the tier that goes with an IPv4 address.
func embedded(spec *model.TierSpec, v4 netip.Addr) (netip.Addr, bool) {
	for _, p := range spec.CIDRs {
		if x, ok := ipam.Embed(p, v4); ok {
			return x, true
		}
	}
	return netip.Addr{}, false
}

// free tells whether an address may be handed out at all.
func free(spec *model.TierSpec, x netip.Addr) bool {
	if slices.Contains(spec.Gateways, x) {
		return false
	}
	return !slices.ContainsFunc(spec.Reserved, func(r model.AddrRange) bool {
		return r.First.BitLen() == x.BitLen() && r.First.Compare(x) <= 0 && x.Compare(r.Last) <= 0
	})
}

func prefixes(pools []*ipam.Pool) string {
	var out []string
	for _, p := range pools {
		out = append(out, p.Prefix.String())
	}
	return strings.Join(out, ", ")
}

// lockedByRow tells whether the UUID of the attachment's row locks all that
// it claims: its first address is the lock, and its MAC and its other
// addresses follow from that address and from no other.
func lockedByRow(vpc string, tier *model.TierSpec, spec *model.AttachmentSpec) bool {
	first := spec.Addresses[0]
	if spec.MAC != ipam.MAC(vpc, first, 0) {
		return false
	}
	if first.Is6() {
		return len(spec.Addresses) == 1 && ipam.InBlock(tier.CIDRs[0], first) &&
			!slices.ContainsFunc(tier.CIDRs, func(p netip.Prefix) bool { return p.Addr().Is4() })
	}
	for _, x := range spec.Addresses[1:] {
		if e, ok := embedded(tier, first); !ok || x != e {
			return false
		}
	}
	return len(spec.Addresses) <= 2
}
