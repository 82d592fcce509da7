package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// size says how much there is of everything.
type size struct {
	tiers, attachments, rules int // of the VPC that is applied; rules of each list
	eachSample                int // commands of nbctl-each that are timed
	calls                     int // REST calls of a round
	few                       int // attachments of the small case beside the VPC's
	started                   int // such VPCs in the database of a server that starts
	planned                   int // VPCs that are planned at most
	flowTiers, flowGuests     int // tiers that use one list, and attachments of each at most
}

func full() size {
	return size{tiers: 20, attachments: 10000, rules: 100, eachSample: 50, calls: 200, few: 1000, started: 10, planned: 100, flowTiers: 50, flowGuests: 40}
}

func quick() size {
	return size{tiers: 2, attachments: 200, rules: 5, eachSample: 2, calls: 5, few: 100, started: 2, planned: 4, flowTiers: 3, flowGuests: 6}
}

// network is a VPC with attachments spread over its tiers, each tier with a
// list of its own.
type network struct {
	vpc         string
	tiers, rest int // tiers, and attachments in all of them
	rules       int // of each list
}

// vpcName is the VPC of the cases that have one.
const vpcName = "shop"

// shop is the VPC of those cases, with so many attachments.
func (b *bench) shop(attachments int) network {
	return network{vpcName, b.size.tiers, attachments, b.size.rules}
}

func (n network) vpcDoc() string {
	return "apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: " + n.vpc + "}\nspec: {cidrs: [10.0.0.0/8]}\n"
}

// tierDoc is a tier with room for 65,000 attachments.
func (n network) tierDoc(i int) string {
	return fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: Tier\nmetadata: {name: tier-%d, vpc: %s}\nspec: {cidrs: [10.%d.0.0/16], acl: list-%d}\n", i, n.vpc, i, i)
}

func (n network) listDoc(i int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "---\napiVersion: ovn-vpc/v1\nkind: ACL\nmetadata: {name: list-%d, vpc: %s}\nspec:\n  rules:\n", i, n.vpc)
	for k := range n.rules {
		r := ruleOf(k)
		fmt.Fprintf(&text, "    - {number: %d, protocol: %s, ports: [%s], cidrs: [%s]}\n", r.Number, r.Protocol, r.Ports[0], r.CIDRs[0])
	}
	return text.String()
}

// ruleOf is a list's rule at a place, counted from 0.
func ruleOf(k int) model.Rule {
	port := uint16(1000 + k)
	return model.Rule{Number: (k + 1) * 10, Action: model.Allow, Direction: model.Ingress, Protocol: model.ProtoTCP,
		Ports: []model.PortRange{{First: port, Last: port}}, CIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(k % 250)}), 24)}}
}

func (n network) attachmentDoc(i, tier int) string {
	return fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: Attachment\nmetadata: {name: a-%d, vpc: %s}\nspec: {tier: tier-%d}\n", i, n.vpc, tier)
}

// docs are the specs by the names of their files. Addresses are for the engine
// to allocate.
func (n network) docs() map[string]string {
	var tiers, attachments strings.Builder
	tiers.WriteString(n.vpcDoc())
	files := map[string]string{}
	for i := range n.tiers {
		tiers.WriteString(n.tierDoc(i))
		files[listFile(i)] = n.listDoc(i)
	}
	for i := range n.rest {
		attachments.WriteString(n.attachmentDoc(i, i%n.tiers))
	}
	files["network.yaml"], files["attachments.yaml"] = tiers.String(), attachments.String()
	return files
}

func listFile(i int) string { return fmt.Sprintf("list-%d.yaml", i) }

// writeSpecs makes a folder of specs.
func (b *bench) writeSpecs(n network, folder ...string) (string, error) {
	dir := filepath.Join(append([]string{b.dir}, folder...)...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of specs: %w", err)
	}
	for file, text := range n.docs() {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("writing specs: %w", err)
		}
	}
	return dir, nil
}

// oneRuleMore adds a rule to the first list of a folder, and returns its file.
func (n network) oneRuleMore(dir string) (string, error) {
	n.rules++
	path := filepath.Join(dir, listFile(0))
	if err := os.WriteFile(path, []byte(n.listDoc(0)), 0o600); err != nil {
		return "", fmt.Errorf("adding a rule: %w", err)
	}
	return path, nil
}
