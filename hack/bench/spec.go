package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// size says how much there is of everything.
type size struct {
	tiers, attachments, rules int // of the VPC that is applied; rules of each list
	eachSample                int // commands of nbctl-each that are timed
	calls                     int // REST calls of a round
	few                       int // attachments of the small case beside the VPC's
}

func full() size {
	return size{tiers: 20, attachments: 10000, rules: 100, eachSample: 50, calls: 200, few: 1000}
}

func quick() size {
	return size{tiers: 2, attachments: 40, rules: 5, eachSample: 2, calls: 5, few: 10}
}

const (
	vpcName = "shop"
	listDoc = "lists-0.yaml" // the file of the list that gets one rule more
)

func vpcDoc() string {
	return "apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: " + vpcName + "}\nspec: {cidrs: [10.0.0.0/8]}\n"
}

// tierDoc is a tier with room for 65,000 attachments.
func tierDoc(i int) string {
	return fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: Tier\nmetadata: {name: tier-%d, vpc: %s}\nspec: {cidrs: [10.%d.0.0/16], acl: list-%d}\n", i, vpcName, i, i)
}

func listDocument(i, rules int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "---\napiVersion: ovn-vpc/v1\nkind: ACL\nmetadata: {name: list-%d, vpc: %s}\nspec:\n  rules:\n", i, vpcName)
	for n := range rules {
		fmt.Fprintf(&text, "    - {number: %d, protocol: tcp, ports: [%d], cidrs: [192.0.%d.0/24]}\n", (n+1)*10, 1000+n, n%250)
	}
	return text.String()
}

func attachmentDoc(i, tier int) string {
	return fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: Attachment\nmetadata: {name: a-%d, vpc: %s}\nspec: {tier: tier-%d}\n", i, vpcName, tier)
}

// writeSpecs makes a folder of specs: a VPC with attachments spread over its
// tiers, each tier with a list of its own. Addresses are for the engine to
// allocate.
func (b *bench) writeSpecs(name string, attachments int) (string, error) {
	dir := filepath.Join(b.dir, name)
	network, guests := vpcDoc(), ""
	for i := range b.size.tiers {
		network += tierDoc(i)
	}
	var text strings.Builder
	for i := range attachments {
		text.WriteString(attachmentDoc(i, i%b.size.tiers))
	}
	guests = text.String()
	files := map[string]string{"network.yaml": network, "attachments.yaml": guests}
	for i := range b.size.tiers {
		files[fmt.Sprintf("lists-%d.yaml", i)] = listDocument(i, b.size.rules)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of specs: %w", err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("writing specs: %w", err)
		}
	}
	return dir, nil
}

// oneRuleMore rewrites the first list of a folder with one rule more than it
// is applied with at first.
func (b *bench) oneRuleMore(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, listDoc), []byte(listDocument(0, b.size.rules+1)), 0o600); err != nil {
		return fmt.Errorf("adding a rule: %w", err)
	}
	return nil
}
