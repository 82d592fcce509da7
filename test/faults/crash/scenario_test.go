package crash_test

import (
	"fmt"
	"strings"
)

// scenario is a command that writes, and what is in the database before.
type scenario struct {
	name   string
	before string     // spec
	hand   [][]string // what ovn-nbctl then does to it
	spec   string     // of the command, as SPEC
	args   []string
	// steps is how many transactions the command takes.
	steps int
	// gone is how it ends when everything has landed before.
	gone int
	// northd says that ovn-northd runs, and is waited for.
	northd bool
	// large ones have one kill in so many, and not by default where rare.
	large, rare bool
}

func document(kind, vpc, name, spec string) string {
	if vpc != "" {
		vpc = ", vpc: " + vpc
	}
	return "---\n{apiVersion: ovn-vpc/v1, kind: " + kind + ", metadata: {name: " + name + vpc + "}, spec: {" + spec + "}}\n"
}

// shop is a VPC of both families with what refers to what else.
func shop() string {
	text := document("VPCOffering", "", "small", "capabilities: {distributedRouting: true}, limits: {tiers: 9}") +
		document("VPC", "", "shop", "cidrs: [10.1.0.0/16, 'fd01::/48'], offering: small") +
		document("Tier", "shop", "web", "cidrs: [10.1.1.0/24, 'fd01:0:0:1::/64'], acl: front") +
		document("Tier", "shop", "db", "cidrs: [10.1.2.0/24], acl: back") +
		document("ACL", "shop", "front", "stateless: true, rules: [{protocol: tcp, ports: [80, 443]}, {tiers: [db]}]") +
		document("ACL", "shop", "back", "rules: [{protocol: tcp, ports: [5432], tiers: [web]}, {protocol: icmp}]") +
		document("Expectation", "shop", "works", "from: web, to: db, traffic: tcp/5432, expect: allow")
	for i := range 8 {
		text += document("Attachment", "shop", fmt.Sprintf("w%d", i), "tier: web") + document("Attachment", "shop", fmt.Sprintf("d%d", i), "tier: db")
	}
	return text
}

// changed is shop with something of everything different; db has made room for
// a tier with its prefix, and is named no more.
func changed() string {
	text := strings.ReplaceAll(shop(), "name: db, vpc: shop", "name: store, vpc: shop")
	text = strings.NewReplacer("tier: db", "tier: store", "to: db", "to: store", "name: d", "name: s").Replace(text)
	text = strings.ReplaceAll(text, "tiers: [db]", "tiers: [store]")
	return strings.ReplaceAll(text, "ports: [80, 443]", "ports: [80, 8080-8090]")
}

// crowd is a VPC of more rows than one transaction takes.
func crowd() string {
	const tiers, each = 6, 1700
	var text strings.Builder
	text.WriteString(document("VPC", "", "crowd", "cidrs: [10.2.0.0/16]"))
	for i := range tiers {
		text.WriteString(document("Tier", "crowd", fmt.Sprintf("t%d", i), fmt.Sprintf("cidrs: [10.2.%d.0/21]", 8*i)))
		for j := range each {
			text.WriteString(document("Attachment", "crowd", fmt.Sprintf("a%d-%d", i, j), fmt.Sprintf("tier: t%d", i)))
		}
	}
	return text.String()
}

func scenarios() []scenario {
	apply := []string{"apply", "-f", "SPEC"}
	return []scenario{
		{name: "apply, new", spec: shop(), args: apply, steps: 2},
		{name: "apply, change", before: shop(), args: apply, steps: 1,
			spec: strings.NewReplacer("ports: [80, 443]", "ports: [443]", "name: w7", "name: w8", "acl: front", "acl: default-allow").Replace(shop())},
		{name: "apply, several VPCs", before: shop(), args: apply, steps: 3,
			spec: strings.ReplaceAll(shop(), "80, 443", "443") + document("VPC", "", "empty", "cidrs: [10.1.0.0/16]") + document("VPC", "", "another", "cidrs: [10.1.0.0/16]")},
		{name: "prune", before: shop(), args: append(apply, "--prune"), steps: 1,
			spec: document("VPC", "", "shop", "cidrs: [10.1.0.0/16, 'fd01::/48']") + document("Tier", "shop", "web", "cidrs: [10.1.1.0/24, 'fd01:0:0:1::/64']")},
		// Deleted switches go ahead, since ovn-northd must not see both at once.
		{name: "prune, a tier in place of another", before: shop(), args: append(apply, "--prune"), spec: changed(), steps: 2, northd: true},
		{name: "delete an attachment", before: shop(), args: []string{"delete", "attachment", "shop/w3"}, steps: 1, gone: 1},
		{name: "delete all", before: shop(), args: []string{"delete", "vpc", "shop", "--cascade"}, steps: 1, gone: 1},
		{name: "acl replace", before: shop(), args: []string{"acl", "replace", "shop", "db", "default-allow"}, steps: 1},
		{name: "repair", before: shop(), args: []string{"drift", "--repair"}, steps: 1, hand: [][]string{
			{"acl-del", "shop/web"}, {"lsp-del", "shop/w1"}, {"ls-del", "shop/db"}, {"set", "Logical_Router_Port", "shop/web/gw", `mac="0e:58:00:00:00:09"`},
		}},
		{name: "apply, large", spec: crowd(), args: apply, steps: 2, large: true},
		{name: "delete, large", before: crowd(), args: []string{"delete", "vpc", "crowd", "--cascade"}, steps: 12, large: true, rare: true},
	}
}
