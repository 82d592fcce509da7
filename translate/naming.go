// Package translate turns resources into rows of the northbound database:
// pure functions, one file per kind, no I/O.
package translate

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// The external_ids of owned rows.
const (
	KeyOwner    = nbdb.KeyPrefix + "owner"    // the installation
	KeyKey      = nbdb.KeyPrefix + "key"      // kind and path of what the row realises
	KeyVPC      = nbdb.KeyPrefix + "vpc"      // the VPC the row belongs to
	KeySpec     = nbdb.KeyPrefix + "spec"     // principal row: metadata and spec, of a list without its rules
	KeyDigest   = nbdb.KeyPrefix + "digest"   // principal row: a short hash of spec and manager
	KeyManager  = nbdb.KeyPrefix + "manager"  // principal row: who brought the resource
	KeyRequest  = nbdb.KeyPrefix + "request"  // principal row: the request that created the resource, if it is known by one
	KeyOffering = nbdb.KeyPrefix + "offering" // a VPC's router: the offering it uses

	// KeyRulePrefix and the number: a rule of a list, beside KeySpec.
	KeyRulePrefix = nbdb.KeyPrefix + "rule/"

	// KeyNet is a port's surroundings (GuestNet), for the agent that plugs it.
	// ovn-northd copies it to the southbound database with the port's others.
	KeyNet = nbdb.KeyPrefix + "net"

	// KeyVPCSpec and KeyTierSpec are second copies of a spec, kept in a row that
	// outlives the principal one when somebody deletes that by hand.
	KeyVPCSpec  = nbdb.KeyPrefix + "vpc-spec"
	KeyTierSpec = nbdb.KeyPrefix + "tier-spec"

	// KeyAttachmentPrefix and the name: a second copy of an attachment's spec, in
	// its tier's registry. The key is the attachment's, not the registry's own.
	KeyAttachmentPrefix = "ovn-vpc-attachment:"
	// KeyOfferingPrefix and the name: an offering, in NB_Global.
	KeyOfferingPrefix = nbdb.KeyPrefix + "offering/"
	// KeyExpectationPrefix and the name: an expectation, at its VPC's router, and a
	// second copy at the row HistoryUUID. The keys are the expectation's, not those
	// rows' own.
	KeyExpectationPrefix = "ovn-vpc-expectation:"
	// KeyHistoryPrefix and a number: a change of a VPC's structure
	// (engine.HistoryEntry), at the row HistoryUUID. The key is no part of the
	// desired state.
	KeyHistoryPrefix = "ovn-vpc-history:"
)

// Runtime notes in a tier's registry, at a VPC's router and in NB_Global: written
// by the engine, no part of the desired state.
const (
	// NoteEpoch changes with every claim that its row's UUID does not lock.
	NoteEpoch = "ovn-vpc-run:epoch"
	// NoteOverridden at a router: who last broke which expectations knowingly, and
	// when (engine.Overridden).
	NoteOverridden = "ovn-vpc-run:overridden"
	// NoteExpected at the row HistoryUUID changes with the VPC's expectations.
	NoteExpected = "ovn-vpc-run:expected"
	// NoteAllowed at the same row changes with the allowedAddresses of the VPC's
	// attachments, and with expectations that are new or changed.
	NoteAllowed = "ovn-vpc-run:allowed"
	// NoteLimited at the same row changes with each attachment that comes to a VPC
	// whose offering limits their number.
	NoteLimited = "ovn-vpc-run:limited"
	// NoteFreedPrefix and an address: when the address was freed (Unix seconds).
	NoteFreedPrefix = "ovn-vpc-run:freed/"
	// NoteUnconfirmedPrefix, an owner, a slash and a VPC, in NB_Global: the VPC's
	// change that waits for its confirmation (engine.Unconfirmed).
	NoteUnconfirmedPrefix = "ovn-vpc-run:unconfirmed/"
)

// namespace makes the row UUIDs (RFC 9562, version 5) this project's own.
var namespace = sync.OnceValue(func() uuid.UUID { return uuid.MustParse("3f0f3c0c-6b0d-5d55-9c3c-3b8d5f0a7e51") })

// RowUUID is the UUID of the row that realises key in table, for owner.
func RowUUID(owner, table, key string) nbdb.UUID {
	space := namespace()
	// uuid.NewSHA1 does the same and takes twice as long.
	name := append(make([]byte, 0, 160), space[:]...)
	name = append(append(append(append(append(name, owner...), 0), table...), 0), key...)
	sum := sha1.Sum(name)
	id := uuid.UUID(sum[:len(space)])
	id[6] = id[6]&0x0f | 5<<4 // the version
	id[8] = id[8]&0x3f | 0x80 // the variant
	return nbdb.UUID(id.String())
}

// Digest is a short hash of a stored resource, for preconditions.
func Digest(stored []byte, manager string) string {
	h := sha256.New()
	h.Write(stored)
	return digest(h, manager)
}

// digest ends a Digest.
func digest(h hash.Hash, manager string) string {
	h.Write([]byte{0})
	h.Write([]byte(manager))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Names of rows.

// RouterName is a VPC's Logical_Router.
func RouterName(vpc string) string { return vpc }

// SwitchName is a tier's Logical_Switch.
func SwitchName(vpc, tier string) string { return vpc + "/" + tier }

// RouterPortName is a tier's Logical_Router_Port.
func RouterPortName(vpc, tier string) string { return vpc + "/" + tier + "/gw" }

// SwitchRouterPortName is the Logical_Switch_Port that joins a tier's switch
// to the router.
func SwitchRouterPortName(vpc, tier string) string { return vpc + "/" + tier + "/rtr" }

// RouterPortType is its type (ovn-nb(5), Logical_Switch_Port), which no
// attachment's port has.
const RouterPortType = "router"

// PortGroupName is a list's home. Names of port groups have no hyphens; names
// of resources have no underscores, so nothing collides.
func PortGroupName(vpc, acl string) string {
	return strings.ReplaceAll("ovnvpc."+vpc+"."+acl, "-", "_")
}

// RegistryName is a tier's registry: a Port_Group without ports that keeps
// the tier's bookkeeping off the switch's row, whose change would make
// ovn-northd recompute.
func RegistryName(vpc, tier string) string {
	return strings.ReplaceAll("ovnvpc."+vpc+"."+tier+".attachments", "-", "_")
}

// PageNames are the names of the pages of a tier's registry: of the registry, and
// of the further port groups that a tier with much room has.
func PageNames(vpc, tier string, spec *model.TierSpec) []string {
	names := []string{RegistryName(vpc, tier)}
	for page := 1; page < pagesOf(spec); page++ {
		names = append(names, names[0]+"."+strconv.Itoa(page))
	}
	return names
}

// Keys.

// VPCKey is the key of a VPC's router.
func VPCKey(vpc string) string { return "vpc/" + vpc }

// TierKey is the key of a tier's switch.
func TierKey(vpc, tier string) string { return "tier/" + vpc + "/" + tier }

func vpcPolicyKey(vpc, what string) string      { return "vpc-policy/" + vpc + "/" + what }
func tierGatewayKey(vpc, tier string) string    { return "tier-gateway/" + vpc + "/" + tier }
func tierRouterPortKey(vpc, tier string) string { return "tier-router-port/" + vpc + "/" + tier }
func registryKey(vpc, tier string) string       { return "tier-registry/" + vpc + "/" + tier }
func aclKey(vpc, acl string) string             { return "acl/" + vpc + "/" + acl }

// pageKey is the key of a page of a tier's registry, which is itself the first.
func pageKey(vpc, tier string, page int) string {
	if page == 0 {
		return registryKey(vpc, tier)
	}
	return registryKey(vpc, tier) + "/" + strconv.Itoa(page)
}

func tierACLKey(vpc, tier, direction string, priority int) string {
	return fmt.Sprintf("tier-acl/%s/%s/%s/%d", vpc, tier, direction, priority)
}

func tierDHCPKey(vpc, tier string, p netip.Prefix) string {
	return "tier-dhcp/" + vpc + "/" + tier + "/" + p.String()
}

func ruleKey(vpc, acl string, r model.Rule, family string) string {
	key := "acl-rule/" + vpc + "/" + acl + "/" + string(r.Direction) + "/" + strconv.Itoa(r.Number)
	if family != "" {
		key += "/" + family
	}
	return key
}

func defaultKey(vpc, acl string, d model.Direction) string {
	return "acl-default/" + vpc + "/" + acl + "/" + string(d)
}

// maxACLName is the longest name of an ACL row (ovn-nb(5), ACL name).
const maxACLName = 63

// ACLName is the name of the ACL row that realises a key, under which
// ovn-controller logs it: shop/db/ingress/20, shop/db/egress/default,
// shop/web/from-lport/32012. Of one that is too long a hash and the end are left.
func ACLName(key string) string {
	kind, name, _ := strings.Cut(key, "/")
	for _, family := range families() {
		name = strings.TrimSuffix(name, "/"+family)
	}
	if kind == "acl-default" {
		name += "/default"
	}
	if len(name) <= maxACLName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:4]) + "~"
	return hash + name[len(name)-maxACLName+len(hash):]
}

// families are the ends of keys of rules that take a row for each.
func families() [2]string { return [2]string{"ipv4", "ipv6"} }

// ACLLabel marks what connection tracking knows of connections that a row has
// let pass (ovn-nb(5), ACL label): the first 32 bits of the row's UUID, which is
// the stage-hint of its logical flows too.
func ACLLabel(row nbdb.UUID) int {
	n, _ := strconv.ParseUint(string(row[:8]), 16, 32)
	return int(n)
}

// AddressKey is the key of an attachment's port: its VPC and first address,
// so that the row's UUID is the lock on the address.
func AddressKey(vpc string, a netip.Addr) string { return "address/" + vpc + "/" + a.String() }

// AddressOf reads what AddressKey has written.
func AddressOf(key string) (vpc string, a netip.Addr, ok bool) {
	rest, ok := strings.CutPrefix(key, "address/")
	vpc, text, _ := strings.Cut(rest, "/")
	a, err := netip.ParseAddr(text)
	return vpc, a, ok && err == nil
}

// UUIDs that other packages refer to.

// RouterUUID is the row of a VPC's router.
func RouterUUID(owner, vpc string) nbdb.UUID {
	return RowUUID(owner, nbdb.TableLogicalRouter, VPCKey(vpc))
}

// SwitchUUID is the row of a tier's switch.
func SwitchUUID(owner, vpc, tier string) nbdb.UUID {
	return RowUUID(owner, nbdb.TableLogicalSwitch, TierKey(vpc, tier))
}

// RegistryUUID is the row of a tier's registry.
func RegistryUUID(owner, vpc, tier string) nbdb.UUID {
	return RowUUID(owner, nbdb.TablePortGroup, registryKey(vpc, tier))
}

// CopyUUID is the row of a tier's registry that has an attachment's second copy.
func CopyUUID(owner, vpc, tier string, spec *model.TierSpec, attachment string) nbdb.UUID {
	return RowUUID(owner, nbdb.TablePortGroup, pageKey(vpc, tier, pageOf(spec, attachment)))
}

// PortGroupUUID is the row of a list's home.
func PortGroupUUID(owner, vpc, acl string) nbdb.UUID {
	return RowUUID(owner, nbdb.TablePortGroup, aclKey(vpc, acl))
}

// HistoryUUID is the row that keeps a VPC's history: the home of the built-in
// list that denies everything, which every VPC has from its first day. It has no
// ports, and attachments leave it alone, but for those whose allowedAddresses change.
func HistoryUUID(owner, vpc string) nbdb.UUID {
	return PortGroupUUID(owner, vpc, model.ACLDefaultDeny)
}

// DefaultUUID is the row of a list's default verdict. Every list has it, so
// the switches that refer to it are the list's users.
func DefaultUUID(owner, vpc, acl string, d model.Direction) nbdb.UUID {
	return RowUUID(owner, nbdb.TableACL, defaultKey(vpc, acl, d))
}

// PortUUID is the row of an attachment's port.
func PortUUID(owner, vpc string, first netip.Addr) nbdb.UUID {
	return RowUUID(owner, nbdb.TableLogicalSwitchPort, AddressKey(vpc, first))
}

// ResourceOf tells which resource a row's key belongs to. For the port of an
// attachment the key alone doesn't say: ok is false, the row's spec does.
func ResourceOf(key string) (id model.ID, ok bool) {
	what, rest, ok := strings.Cut(key, "/")
	vpc, rest, _ := strings.Cut(rest, "/")
	name, _, _ := strings.Cut(rest, "/")
	if !ok {
		return model.ID{}, false
	}
	switch what {
	case "vpc", "vpc-policy":
		return model.ID{Kind: model.KindVPC, Name: vpc}, true
	case "tier", "tier-gateway", "tier-router-port", "tier-registry", "tier-acl", "tier-dhcp":
		return model.ID{Kind: model.KindTier, VPC: vpc, Name: name}, name != ""
	case "acl", "acl-rule", "acl-default":
		if model.BuiltinACL(name) != nil {
			return model.ID{Kind: model.KindVPC, Name: vpc}, true
		}
		return model.ID{Kind: model.KindACL, VPC: vpc, Name: name}, name != ""
	}
	return model.ID{}, false
}

// ListRow is what the key of a list's row stands for: a rule, or a default.
type ListRow struct {
	VPC, ACL  string
	Direction model.Direction
	Number    int // of the rule; 0 for the default
}

// ListRowOf reads the key of a list's row.
func ListRowOf(key string) (row ListRow, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) < 4 {
		return ListRow{}, false
	}
	row = ListRow{VPC: parts[1], ACL: parts[2], Direction: model.Direction(parts[3])}
	switch {
	case parts[0] == "acl-default" && len(parts) == 4:
		return row, true
	case parts[0] == "acl-rule" && len(parts) > 4:
		n, err := strconv.Atoi(parts[4])
		row.Number = n
		return row, err == nil && n > 0
	}
	return ListRow{}, false
}

// RouterMAC is the MAC of a tier's router port: in the range
// 0e:58:00:00:00:00/ff:fe:00:00:00:00, by which rules know that a packet
// comes from or goes to the router.
func RouterMAC(vpc string, gateways []netip.Addr) model.MAC {
	for _, g := range gateways {
		if g.Is4() {
			b := g.As4()
			return model.MAC(fmt.Sprintf("0e:58:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3]))
		}
	}
	sum := sha256.Sum256([]byte(vpc + "\x00" + gateways[0].String()))
	return model.MAC(fmt.Sprintf("0e:59:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3]))
}

// LinkLocal is the EUI-64 link-local address of a MAC (RFC 4291, appendix A).
func LinkLocal(mac model.MAC) netip.Addr {
	var b [6]byte
	for i := range b {
		v, _ := strconv.ParseUint(string(mac[3*i:3*i+2]), 16, 8)
		b[i] = byte(v)
	}
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80,
		8: b[0] ^ 2, 9: b[1], 10: b[2], 11: 0xff, 12: 0xfe, 13: b[3], 14: b[4], 15: b[5]})
}
