package translate_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
)

type object = map[string]any

// anyName is the VPC in the documents of genDocuments: to be replaced.
const anyName = "@VPC@"

// genDocuments draws the documents of a whole VPC, as JSON.
func genDocuments(t *rapid.T) []string {
	var docs []string
	add := func(kind, name string, spec object) {
		meta := object{"name": name}
		if kind != string(model.KindVPC) {
			meta["vpc"] = anyName
		}
		text, err := json.Marshal(object{"apiVersion": model.APIVersion, "kind": kind, "metadata": meta, "spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(text))
	}
	add("VPC", anyName, object{"cidrs": []string{"10.0.0.0/8", "fd00:10::/32"}})
	tiers := rapid.IntRange(1, 4).Draw(t, "tiers")
	lists := []string{model.ACLDefaultAllow, model.ACLDefaultDeny}
	for i := range rapid.IntRange(0, 3).Draw(t, "lists") {
		// A list may have a tier's name.
		lists = append(lists, tierName(i))
		add("ACL", lists[len(lists)-1], object{
			"stateless": rapid.Bool().Draw(t, "stateless"),
			"defaults":  object{"ingress": genAction(t), "egress": genAction(t)},
			"rules":     genRules(t, tiers),
		})
	}
	for i := range tiers {
		prefixes := rapid.SliceOfNDistinct(rapid.SampledFrom(tierPrefixes(i)), 1, 4, rapid.ID).Draw(t, "prefixes")
		add("Tier", tierName(i), object{
			"cidrs": prefixes,
			"acl":   rapid.SampledFrom(lists).Draw(t, "list"),
			"dhcp":  object{"enabled": rapid.Bool().Draw(t, "dhcp"), "options": genOptions(t, prefixes)},
		})
		for k := range rapid.IntRange(0, 3).Draw(t, "attachments") {
			add("Attachment", fmt.Sprintf("%s-%d", tierName(i), k), genAttachment(t, i, k, prefixes))
		}
	}
	return docs
}

func tierName(i int) string { return fmt.Sprintf("tier-%d", i) }

func tierPrefixes(i int) []string {
	return []string{
		fmt.Sprintf("10.%d.0.0/24", i), fmt.Sprintf("10.%d.1.0/24", i),
		fmt.Sprintf("fd00:10:0:%d0::/64", i), fmt.Sprintf("fd00:10:0:%d1::/64", i),
	}
}

func genAction(t *rapid.T) string {
	return rapid.SampledFrom([]string{"allow", "deny", "reject"}).Draw(t, "action")
}

// genOptions has several, so that the order of a map can show.
func genOptions(t *rapid.T, prefixes []string) object {
	options := object{}
	if strings.Contains(strings.Join(prefixes, " "), "10.") && rapid.Bool().Draw(t, "options") {
		options = object{"ntp_server": "10.0.0.2", "default_ttl": 64, "tftp_server": "boot.example.org", "ip_forward_enable": true}
	}
	return options
}

func genAttachment(t *rapid.T, tier, k int, prefixes []string) object {
	var addresses []string
	for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(prefixes), 1, len(prefixes), rapid.ID).Draw(t, "addresses") {
		base, _, _ := strings.Cut(p, "/")
		addresses = append(addresses, strings.TrimSuffix(base, "0")+fmt.Sprint(k+5))
	}
	return object{
		"tier": tierName(tier), "addresses": addresses, "mac": fmt.Sprintf("02:00:00:00:%02x:%02x", tier, k),
		"portSecurity": rapid.Bool().Draw(t, "port security"), "enabled": rapid.Bool().Draw(t, "enabled"),
	}
}

func genRules(t *rapid.T, tiers int) []object {
	rules, number := []object{}, 0
	for range rapid.IntRange(0, 8).Draw(t, "rules") {
		number += rapid.SampledFrom([]int{1, 2, 10, 1000, 1000000}).Draw(t, "gap")
		rules = append(rules, genRule(t, number, tiers))
	}
	return rules
}

func genRule(t *rapid.T, number, tiers int) object {
	protocol := rapid.SampledFrom([]string{"all", "tcp", "udp", "sctp", "icmp", "icmpv6", "0", "47", "255"}).Draw(t, "protocol")
	rule := object{
		"number": number, "action": genAction(t), "protocol": protocol,
		"direction": rapid.SampledFrom([]string{"ingress", "egress"}).Draw(t, "direction"),
	}
	far := []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "192.0.2.1/32", "::/0", "fd00:10::/32", "2001:db8::1/128"}
	switch protocol {
	case "tcp", "udp", "sctp":
		rule["ports"] = rapid.SliceOfN(rapid.Custom(genPorts), 0, 4).Draw(t, "ports")
	case "icmp", "icmpv6":
		if rapid.Bool().Draw(t, "type given") {
			rule["icmp"] = object{"type": rapid.IntRange(0, 255).Draw(t, "type"), "code": rapid.IntRange(-1, 255).Draw(t, "code")}
		}
		// Prefixes of the other family alone are refused.
		if far = far[:4]; protocol == "icmpv6" {
			far = []string{"::/0", "fd00:10::/32"}
		}
	}
	rule["cidrs"] = rapid.SliceOfNDistinct(rapid.SampledFrom(far), 0, len(far), rapid.ID).Draw(t, "cidrs")
	var names []string
	for i := range tiers {
		names = append(names, tierName(i))
	}
	rule["tiers"] = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID).Draw(t, "far tiers")
	if rapid.Bool().Draw(t, "log") {
		rule["log"] = "warning"
	}
	if rapid.Bool().Draw(t, "described") {
		rule["description"] = rapid.SampledFrom([]string{"a & b", "<c>", "é, \"d\""}).Draw(t, "description")
	}
	return rule
}

func genPorts(t *rapid.T) string {
	first := rapid.IntRange(1, 65535).Draw(t, "first")
	last := rapid.IntRange(first, 65535).Draw(t, "last")
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// inputOf are documents for a VPC of the name.
func inputOf(docs []string, vpc string) model.Input {
	return model.Input{Name: vpc + ".yaml", Data: []byte(strings.ReplaceAll(strings.Join(docs, "\n---\n"), anyName, vpc))}
}
