package translate

import (
	"net/netip"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

func (b *builder) vpcRows(spec *model.VPCSpec) error {
	name := b.resource.Metadata.Name
	ids, err := b.principal(VPCKey(name))
	if err != nil {
		return err
	}
	router := &nbdb.LogicalRouter{UUID: RouterUUID(b.Owner, name), Name: RouterName(name), ExternalIDs: ids}
	if spec.Offering != "" {
		ids[KeyOffering] = spec.Offering
	}
	if !spec.DistributedRouting {
		router.Options = map[string]string{"chassis": spec.Chassis}
	}
	b.row(router)
	if hasIPv6(spec.CIDRs) {
		b.linkLocalPolicy(router.UUID)
	}
	for _, list := range []string{model.ACLDefaultAllow, model.ACLDefaultDeny} {
		home := b.ids(aclKey(name, list))
		if list == model.ACLDefaultDeny {
			home[KeyVPCSpec] = ids[KeySpec]
			b.brought(home)
		}
		b.listRows(name, list, home, model.BuiltinACL(list))
	}
	return nil
}

// linkLocalPolicy keeps the router from forwarding packets with a link-local
// source (RFC 4291, 2.5.6): northd lets MLD past the lists, and old routers
// then pass it on to another tier.
func (b *builder) linkLocalPolicy(router nbdb.UUID) {
	key := vpcPolicyKey(b.resource.Metadata.Name, "link-local")
	linkLocal := netip.MustParsePrefix("fe80::/10")
	policy := &nbdb.LogicalRouterPolicy{
		UUID:     b.uuid(nbdb.TableLogicalRouterPolicy, key),
		Priority: prioLinkLocalPolicy,
		Match: match.Render(match.And(
			match.Addrs(match.IP6Src, linkLocal),
			match.Not(match.Addrs(match.IP6Dst, linkLocal)))),
		Action:      "drop",
		ExternalIDs: b.ids(key),
	}
	b.row(policy)
	b.edge(nbdb.TableLogicalRouter, router, "policies", policy.UUID)
}

func hasIPv6(prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Addr().Is6() {
			return true
		}
	}
	return false
}
