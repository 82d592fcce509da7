package translate

// Priorities of ACL rows, highest first. OVN leaves equal priorities
// undefined, so no two rows of one direction on a switch share one, but for
// the two family halves of a rule, which are disjoint.
const (
	// Broadcast is never routed: it stays in the tier, untracked.
	prioBroadcast = 32012
	// So is a packet to a multicast group.
	prioMulticast = 32011
	// A multicast frame around a unicast packet would be routed, past the
	// egress rules: dropped.
	prioMulticastFrame = 32010
	// In-tier traffic is no list's business, and not tracked: a tracked
	// in-tier packet with a forged address would open a way back in. Below the
	// drop above, since allow-stateless at a higher priority would win over it.
	prioInTier = 32009
	// What has to work whatever the list says, one row each.
	prioSystem = 32000
	// Rules: prioRules - rank.
	prioRules = 30000
	// The list's defaults.
	prioDefault = 100
	// A VPC's router policy against routed link-local sources.
	prioLinkLocalPolicy = 32000
)

// bandOfRules is how many priorities the rules have.
const bandOfRules = prioRules - prioDefault
