package api_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// generator makes requests, by chance. What it has seen of answers it uses again.
type generator struct {
	*rand.Rand
	doc   *document
	etags []string
	pages []string // what lists had as continue
	plans []string
}

// request is one request, and what is known of it.
type request struct {
	op     *operation // nil: the document has no such
	method string
	path   string
	query  []string // name=value, as they are sent
	header http.Header
	body   []byte
	known  bool // the request's id is one that is kept
}

func (r *request) target() string {
	if len(r.query) == 0 {
		return r.path
	}
	return r.path + "?" + strings.Join(r.query, "&")
}

// names are the few that resources of a kind have, so that they meet.
func names(kind string) []string {
	return map[string][]string{
		"VPC": {"v1", "v2"}, "VPCOffering": {"gold", "small"}, "Tier": {"web", "app", "db"},
		"ACL": {"open", "closed", "default-allow", "default-deny"}, "Attachment": {"n1", "n2", "n3", "n4", "n5", "n6"}, "Expectation": {"e1", "e2"},
	}[kind]
}

// words are values for a field or parameter that its schema does not tell: by
// component and name, or by name alone.
func words() map[string][]any {
	texts := func(words ...string) []any {
		var out []any
		for _, w := range words {
			out = append(out, w)
		}
		return out
	}
	tiers, lists, vpcs := texts(names("Tier")...), texts(names("ACL")...), texts(names("VPC")...)
	return map[string][]any{
		"VPCSpec.cidrs":           texts("10.10.0.0/16", "10.10.0.0/16", "10.10.0.0/16", "fd00:10::/48"),
		"VPCSpec.chassis":         texts("hv1"),
		"VPCSpec.mtu":             {1442, 1500, 9000},
		"VPCSpec.offering":        texts(names("VPCOffering")...),
		"distributedRouting":      {true, true, true, false},
		"TierSpec.cidrs":          texts("10.10.1.0/24", "10.10.2.0/24", "10.10.3.0/28", "10.10.4.0/24", "10.10.5.0/24", "10.10.6.0/25", "10.10.6.128/25", "fd00:10:0:1::/64", "fd00:10:0:2::/64"),
		"TierSpec.gateways":       texts("10.10.1.1", "10.10.2.254"),
		"TierSpec.reserved":       texts("10.10.1.10", "10.10.1.20-10.10.1.30"),
		"acl":                     lists,
		"leaseTime":               {60, 3600},
		"dnsServers":              texts("9.9.9.9", "2620:fe::fe"),
		"domain":                  texts("example.com"),
		"options":                 {map[string]any{"ntp_server": "192.0.2.1"}, map[string]any{}},
		"labels":                  {map[string]any{"a": "b"}, map[string]any{"a": "c", "example.com/x": ""}, map[string]any{}},
		"number":                  {1, 2, 3, 10, 100, 1000000},
		"action":                  texts("allow", "deny", "reject"),
		"direction":               texts("ingress", "egress"),
		"protocol":                texts("tcp", "tcp", "udp", "all"),
		"ports":                   {80, 443, "8000-9000"},
		"Rule.cidrs":              texts("10.0.0.0/8", "0.0.0.0/0", "192.0.2.7/32", "2001:db8::/32"),
		"tiers":                   tiers,
		"Limits.tiers":            {1, 3, 100},
		"attachments":             {3, 1000},
		"aclRules":                {5, 1000},
		"log":                     {true, false, "info"},
		"description":             texts("why, häufig"),
		"ingress":                 texts("allow", "deny", "reject"),
		"egress":                  texts("allow", "deny"),
		"tier":                    tiers,
		"addresses":               texts("10.10.1.5", "10.10.1.6", "10.10.2.5", "10.10.3.5", "10.10.4.9"),
		"allowedAddresses":        texts("10.10.1.77", "10.99.0.0/24"),
		"mac":                     texts("02:00:00:00:00:01", "02:00:00:00:00:02"),
		"interfaceID":             texts("if-1", "if-2", "if-3"),
		"chassis":                 texts("hv1", "hv2"),
		"migratingTo":             texts("hv3"),
		"hostname":                texts("host-1"),
		"PlugSpec.type":           texts("none", "tap", "netns"),
		"PlugSpec.name":           texts("tap1"),
		"vpc":                     vpcs,
		"manager":                 texts("server", "cli", "ci@example"),
		"timeout":                 texts("0s", "1ms", "5ms"),
		"ExpectationSpec.from":    texts("web", "outside", "192.0.2.7", "attachment/n1"),
		"ExpectationSpec.to":      texts("tier/web", "db", "10.10.1.5"),
		"ExpectationSpec.traffic": texts("all", "tcp/443", "tcp 80, 443; icmp echo"),
		"expect":                  texts("deny", "allow"),
		"kind":                    texts("VPC", "Tier", "ACL", "Attachment", "tiers", "attachments", "offering"),
		"name":                    texts("web", "open", "n1", "v1"),
		"continue":                texts("VlBDLy92MQ"),
		"lastEventId":             texts("0123456789abcdef-1", "x"),
		"Last-Event-ID":           texts("0123456789abcdef-7.3.9"),
		"If-None-Match":           texts("*"),
		"confirmWithin":           texts("1s"),
		"If-Match":                texts("*", `"0123456789abcdef"`),
		"Idempotency-Key":         texts("k1", "k2", "k3", "k4"),
		"from":                    texts("web", "n1", "outside", "10.10.1.5"),
		"to":                      texts("web", "n1", "outside", "10.10.1.5"),
		"traffic":                 texts("tcp/443", "udp/53", "icmp"),
	}
}

// one is one of several, by chance.
func one[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// chance is true so many times in a hundred.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// text is a word for a parameter.
func (g *generator) text(name string) string {
	if seen := map[string][]string{"If-Match": g.etags, "continue": g.pages}[name]; len(seen) > 0 && g.chance(70) {
		return one(g, seen...)
	}
	if known := words()[name]; known != nil {
		return one(g, known...).(string)
	}
	return "x"
}

// base is what others need, or are about. It comes again and again, as
// much of it is deleted.
func (g *generator) base() *request {
	op := g.doc.Paths["/v1/apply"]["post"]
	items := []any{}
	for _, vpc := range names("VPC") {
		add := func(kind string, metadata, spec map[string]any) {
			items = append(items, map[string]any{"apiVersion": "ovn-vpc/v1", "kind": kind, "metadata": metadata, "spec": spec})
		}
		add("VPC", map[string]any{"name": vpc}, map[string]any{"cidrs": []string{"10.10.0.0/16", "fd00:10::/48"}})
		for _, name := range names("ACL")[:2] {
			add("ACL", map[string]any{"vpc": vpc, "name": name}, map[string]any{"defaults": map[string]any{"ingress": "allow"}, "rules": []any{map[string]any{"number": 2}, map[string]any{"number": 20}}})
		}
		for i, name := range names("Tier")[:2] {
			add("Tier", map[string]any{"vpc": vpc, "name": name}, map[string]any{"cidrs": words()["TierSpec.cidrs"][i : i+1]})
		}
		for _, name := range names("Attachment")[:3] {
			add("Attachment", map[string]any{"vpc": vpc, "name": name}, map[string]any{"tier": "web"})
		}
	}
	return &request{op: op, method: op.method, path: op.path, header: http.Header{"Content-Type": {jsonType}}, body: encode(jsonType, map[string]any{"items": items})}
}

// removal deletes a VPC and all that is in it.
func (g *generator) removal(vpc string) *request {
	op := g.doc.Paths["/v1/vpcs/{vpc}"]["delete"]
	return &request{op: op, method: op.method, path: "/v1/vpcs/" + vpc, query: []string{"cascade=true"}, header: http.Header{}}
}

// provisional is a change of a VPC that is taken back unless it is confirmed.
func (g *generator) provisional(vpc string) *request {
	r := g.base()
	r.query = []string{"confirmWithin=5s"}
	r.body = encode(jsonType, map[string]any{"apiVersion": "ovn-vpc/v1", "kind": "VPC", "spec": map[string]any{"cidrs": []string{"10.10.0.0/16", "fd00:10::/48"}},
		"metadata": map[string]any{"name": vpc, "labels": map[string]any{"a": strconv.Itoa(g.IntN(1000000))}}})
	return r
}

// valid is a request as the document wants it.
func (g *generator) valid(op *operation) *request {
	r := &request{op: op, method: op.method, header: http.Header{}}
	kind, named := g.doc.kind(op), g.doc.kind(op)
	if op.rules() {
		named = "ACL"
	}
	id := map[string]string{}
	var parts []string
	for part := range strings.SplitSeq(op.path, "/") {
		if field, ok := strings.CutPrefix(part, "{"); ok {
			field = strings.TrimSuffix(field, "}")
			of := map[string]string{"vpc": "VPC", "tier": "Tier", "name": named}[field]
			if part = one(g, "1", "2", "3", "20"); field != "number" {
				part = one(g, names(of)...)
			}
			id[field] = part
		}
		parts = append(parts, part)
	}
	r.path = strings.Join(parts, "/")
	if kind == "VPC" && id["vpc"] != "" {
		id = map[string]string{"name": id["vpc"]}
	}
	g.parameters(r)
	if len(op.RequestBody.Content) > 0 {
		g.fill(r, kind, id)
	}
	if g.chance(10) {
		r.header.Set("Accept", one(g, yamlType, jsonType, "*/*", "application/*;q=0.5, text/html"))
	}
	if g.chance(10) {
		r.header.Set("X-Request-Id", "request/"+string(rune('a'+g.IntN(26))))
		r.known = true
	}
	return r
}

// parameters gives a request some of those that its operation has.
func (g *generator) parameters(r *request) {
	for _, p := range r.op.Parameters {
		if p.In == "path" || !g.chance(15) || p.Name == "timeout" || (p.Name == "prune" || p.Name == "confirmWithin") && g.chance(70) {
			continue
		}
		value := ""
		switch {
		case len(p.Schema.Enum) > 0:
			value = one(g, p.Schema.Enum...).(string)
		case p.Schema.is("boolean"):
			value = one(g, "true", "false")
		case p.Schema.is("integer"):
			value = one(g, "1", "2", "1000")
		case p.Name == "labels":
			value = one(g, "a=b", "a=c,example.com/x=")
		default:
			value = g.text(p.Name)
		}
		if p.In == "header" {
			r.header.Set(p.Name, value)
			continue
		}
		r.query = append(r.query, p.Name+"="+url.QueryEscape(value))
		if p.Name == "wait" { // nobody is there to wait for
			r.query = append(r.query, "timeout="+g.text("timeout"))
		}
	}
}

// fill gives a request a body of one of the types that its operation takes.
func (g *generator) fill(r *request, kind string, id map[string]string) {
	media := one(g, slices.Sorted(maps.Keys(r.op.RequestBody.Content))...)
	if media == planType && len(g.plans) == 0 {
		media = jsonType
	}
	r.header.Set("Content-Type", media)
	s := r.op.RequestBody.Content[media].Schema
	var body any
	switch {
	case media == planType:
		r.body = []byte(one(g, g.plans...))
		return
	case r.method == http.MethodPatch:
		body = g.patch(kind)
	case kind != "":
		body = g.resource(kind, id)
	case s.Ref == "" && len(s.OneOf) > 0: // many documents, or one
		items := []any{}
		for range g.IntN(4) {
			items = append(items, g.resource(one(g, "VPC", "Tier", "ACL", "Attachment", "VPCOffering"), nil))
		}
		body = map[string]any{"items": items}
		if media == yamlType {
			r.body = stream(items)
			return
		}
	default:
		body = g.value(s, "", "")
		if rule, ok := body.(map[string]any); ok && r.op.rules() && (r.method == http.MethodPut || g.chance(50)) && g.chance(90) {
			delete(rule, "number") // the path's, or the next
		}
	}
	r.body = encode(media, body)
}

func encode(media string, value any) []byte {
	marshal := json.Marshal
	if media == yamlType {
		marshal = yaml.Marshal
	}
	data, err := marshal(value)
	if err != nil {
		panic(err) // maps, lists and words
	}
	return data
}

// stream is a YAML stream of documents.
func stream(items []any) []byte {
	var out []byte
	for _, item := range items {
		out = append(append(out, "---\n"...), encode(yamlType, item)...)
	}
	return out
}

// resource is a document of a kind. Without an id it says by itself whose it is.
func (g *generator) resource(kind string, id map[string]string) map[string]any {
	metadata, document := map[string]any{}, map[string]any{}
	if g.chance(20) {
		metadata["labels"] = g.value(nil, "", "labels")
	}
	if id == nil || g.chance(30) {
		document["apiVersion"], document["kind"] = "ovn-vpc/v1", kind
	}
	for field, from := range map[string]string{"name": kind, "vpc": "VPC"} {
		global := field == "vpc" && (kind == "VPC" || kind == "VPCOffering")
		switch {
		case global:
		case id == nil:
			metadata[field] = one(g, names(from)...)
		case id[field] != "" && g.chance(30):
			metadata[field] = id[field]
		}
	}
	if len(metadata) > 0 {
		document["metadata"] = metadata
	}
	document["spec"] = g.value(g.doc.Components.Schemas[kind].Properties["spec"], "", "")
	return document
}

// reference names a resource.
func (g *generator) reference() any {
	kind := one(g, "VPC", "VPCOffering", "ACL", "Tier", "Attachment", "Attachment")
	r := map[string]any{"kind": kind, "name": one(g, names(kind)...)}
	if kind != "VPC" && kind != "VPCOffering" {
		r["vpc"] = one(g, names("VPC")...)
	}
	return r
}

// patch is a JSON merge patch of some fields.
func (g *generator) patch(kind string) map[string]any {
	if g.chance(30) {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": one[any](g, nil, "b", "d")}}}
	}
	spec := g.value(g.doc.Components.Schemas[kind].Properties["spec"], "", "").(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		if g.chance(50) {
			delete(spec, field)
		} else if g.chance(10) {
			spec[field] = nil
		}
	}
	return map[string]any{"spec": spec}
}

// value is one that fits a schema, for a field of a component.
func (g *generator) value(s *schema, in, field string) any {
	if s != nil && s.Ref != "" {
		if s.component() == "Reference" {
			return g.reference()
		}
		return g.value(g.doc.Components.Schemas[s.component()], s.component(), "")
	}
	if s != nil && len(s.AllOf) > 0 {
		object := map[string]any{}
		for _, part := range s.AllOf {
			if fields, ok := g.value(part, in, field).(map[string]any); ok {
				maps.Copy(object, fields)
			}
		}
		return object
	}
	if s != nil && s.is("array") {
		list := []any{}
		for range 1 + g.IntN(2)*g.IntN(2) {
			list = append(list, g.value(s.Items, in, field))
		}
		return list
	}
	for _, key := range []string{in + "." + field, field} {
		if known := words()[key]; known != nil {
			return one(g, known...)
		}
	}
	switch {
	case len(s.Enum) > 0:
		return one(g, s.Enum...)
	case s.is("object"):
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) || g.chance(15) {
				object[name] = g.value(s.Properties[name], in, name)
			}
		}
		return object
	case s.is("boolean"):
		return g.chance(50)
	case s.is("integer"):
		return g.IntN(10)
	}
	return "x"
}

// learn keeps what of an answer is of use in further requests.
func (g *generator) learn(r *request, a *answer) {
	keep := func(seen []string, text string) []string {
		if text == "" {
			return seen
		}
		return append(seen, text)[max(0, len(seen)-9):] // the newest
	}
	g.etags = keep(g.etags, a.Header.Get("ETag"))
	if a.StatusCode != http.StatusOK || r.op == nil || a.Header.Get("Content-Type") != jsonType {
		return
	}
	var list struct{ Continue string }
	switch {
	case r.op.OperationID == "plan":
		g.plans = keep(g.plans, string(a.body))
	case json.Unmarshal(a.body, &list) == nil:
		g.pages = keep(g.pages, list.Continue)
	}
}
