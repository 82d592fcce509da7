package api_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// spoil makes something about a request other than the document wants it, or
// than any program would write it.
func (g *generator) spoil(r *request) {
	ways := []func(*request){g.spoilPath, g.spoilQuery, g.spoilHeader, g.spoilMethod}
	if len(r.body) > 0 {
		ways = append(ways, g.spoilTree, g.spoilTree, g.spoilTree, g.spoilTree, g.spoilText, g.spoilText, g.spoilYAML, g.spoilType)
	}
	one(g, ways...)(r)
}

// odd are texts that something may stumble over.
func odd() []string {
	return []string{"", " ", "\x00", "a\x00b", "UPPER", "-x", "x-", "ä", "\u202e", "😀", "\xff\xfe", "..", "a/b", "%", "null", "true", "1e9", "0x10", "'", `"`,
		"${jndi:x}", "<script>", "a\nb", "a\r\nX: y", "10.10.1.0/33", "::", "999.1.1.1", "ip4.src == 0/0", "*", "\\", strings.Repeat("a", 64), strings.Repeat("x", 70_000)}
}

// spoilPath puts something odd where a name belongs.
func (g *generator) spoilPath(r *request) {
	parts := strings.Split(r.path, "/")
	i := 1 + g.IntN(len(parts)-1)
	named := strings.HasPrefix(strings.Split(r.op.path, "/")[i], "{")
	part := one(g, odd()...)
	if len(part) > 4096 {
		part = part[:4096]
	}
	parts[i] = url.PathEscape(part)
	if !named || part == "" || part == ".." {
		r.op = nil // another path, which is none
	}
	r.path = strings.Join(parts, "/")
}

func (g *generator) spoilQuery(r *request) {
	r.query = append(r.query, one(g, "nosuch=1", "limit=0", "limit=1001", "limit=x", "limit=99999999999999999999", "up=maybe", "cascade=1", "wait=soon",
		"timeout=61s", "timeout=-1s", "timeout=x", "timeout=99999m", "kind=Pod", "vpc=UPPER", "vpc=%00", "labels=a", "labels=%00%3Db", "labels=%3D", "continue=!",
		"continue=AAAA", "manager=%20", "manager="+strings.Repeat("m", 100), "initial=2", "%zz=1", "a;b", "=", "&", "vpc", "tier=%ff", "chassis="+strings.Repeat("c", 5000),
		"builtins=TRUE", "prune=", "name=%0A"))
	if len(r.query) > 1 && g.chance(20) {
		r.query = append(r.query, r.query[0]) // twice
	}
}

func (g *generator) spoilHeader(r *request) {
	name := one(g, "Accept", "If-Match", "If-None-Match", "Idempotency-Key", "X-Request-Id", "Last-Event-ID", "Content-Encoding", "Authorization", "Expect", "Origin")
	value := one(g, "", "*", "text/html", "application/json;q=0", "x;q=y", "W/\"x\"", "\"x\", \"y\"", "\"", ",", "*, \"x\"", "äöü", strings.Repeat("k", 256), "gzip", "Basic eDp4", "Bearer x", "a\tb")
	if name == "Expect" {
		value = "100-continue" // any other the server of Go answers by itself
	}
	r.known = r.known && name != "X-Request-Id"
	r.header.Set(name, value)
	if g.chance(10) {
		r.header.Add(name, "x")
	}
}

func (g *generator) spoilMethod(r *request) {
	r.method = one(g, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "PURGE", "get")
	known := strings.ToLower(r.method)
	if r.method == http.MethodHead {
		known = "get" // of which it is the head
	}
	r.op = g.doc.Paths[r.op.path][known]
	if r.method == "get" {
		r.op = nil // methods are case-sensitive
	}
}

func (g *generator) spoilType(r *request) {
	r.header.Set("Content-Type", one(g, "text/plain", "application/xml", "application/json; charset=latin1", "application/json;", "multipart/form-data", "/", "äöü",
		"application/x-www-form-urlencoded", "application/merge-patch+json", yamlType, jsonType))
	if g.chance(10) {
		r.header.Del("Content-Type")
	}
}

// strange are values that have no place in a document.
func (g *generator) strange() any {
	raw := func(text string) any { return json.RawMessage(text) }
	return one[any](g, nil, true, 0, -1, 1.5, []any{}, map[string]any{}, []any{nil}, map[string]any{"": nil}, "x", 7,
		raw("1e400"), raw("-0"), raw("99999999999999999999999"), raw("1e-400"), raw("9223372036854775808"), raw(`"\ud800"`), raw(`"\u0000"`),
		one(g, odd()...), []any{[]any{[]any{}}}, map[string]any{"spec": map[string]any{"spec": nil}})
}

// spoilTree changes places in a body of JSON.
func (g *generator) spoilTree(r *request) {
	var tree any
	if r.header.Get("Content-Type") == planType || json.Unmarshal(r.body, &tree) != nil {
		g.spoilText(r)
		return
	}
	r.body = encode(jsonType, g.changed(tree, 1+g.IntN(30)))
}

// changed is a tree in which so many of a hundred places have something else.
func (g *generator) changed(tree any, percent int) any {
	if g.chance(percent) {
		return g.strange()
	}
	switch tree := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			if g.chance(percent) {
				delete(tree, key)
				continue
			}
			tree[key] = g.changed(tree[key], percent)
		}
		if g.chance(percent) {
			tree[one(g, odd()...)] = g.strange()
		}
	case []any:
		for i := range tree {
			tree[i] = g.changed(tree[i], percent)
		}
		if g.chance(percent) && len(tree) > 0 {
			for range g.IntN(50) {
				tree = append(tree, tree[0])
			}
		}
		return tree
	}
	return tree
}

// deep is nested so many levels, and closed or not.
func deep(begin, end string, levels int) []byte {
	return []byte(strings.Repeat(begin, levels) + "1" + strings.Repeat(end, levels))
}

// spoilText changes a body as text.
func (g *generator) spoilText(r *request) {
	at := g.IntN(len(r.body))
	r.body = one(g,
		r.body[:at],
		slices.Concat(r.body[:at], []byte(one(g, "\x00", "\xff", "{", "]", `"`, "\\u", "\ufeff", ",", "/*")), r.body[at:]),
		slices.Concat([]byte("\ufeff"), r.body),
		slices.Concat(r.body, []byte(one(g, "x", "{}", "\n\n", "null", "---\n"))),
		bytes.Replace(r.body, []byte("{"), []byte(`{"spec": {}, "spec": null, `), 1),
		bytes.Replace(r.body, []byte(`"spec":{`), []byte(`"spec":{"cidrs": [], "tier": "web", "tier": "app", `), 1),
		deep("[", "]", one(g, 100, 9_999, 200_000)), deep(`{"spec":`, "}", one(g, 100, 9_999, 50_000)), deep("[", "", 100_000),
		[]byte("null"), []byte("[]"), []byte(`"x"`), []byte("1"), []byte(" "), []byte(`{"items": null}`), []byte(`{"items": {}}`), []byte(`{"items": [null, 1, "x", []]}`), []byte("{}"))
	if g.chance(1) {
		r.body = append(bytes.Repeat([]byte(" "), 8<<20), "{}"...) // too large
	}
}

// spoilYAML sends YAML that JSON has nothing like.
func (g *generator) spoilYAML(r *request) {
	if r.header.Get("Content-Type") == planType {
		return
	}
	r.header.Set("Content-Type", yamlType)
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 10), ", ") + "]\n"
	}
	r.body = []byte(one(g,
		bomb, "spec: "+strings.ReplaceAll("{"+bomb+"}", "\n", ", "), "a: &a [*a]\n", "spec: &s\n  tier: web\n  x: *s\n", "spec: *nosuch\n",
		"spec: &s {cidrs: [10.10.0.0/16]}\nmetadata: *s\n", "base: &b {tier: web}\nspec: {<<: *b}\n", "spec: {<<: [1, 2]}\n", "<<: 1\n",
		"spec: {tier: !!binary d2Vi}\n", "spec: {tier: !!int web}\n", "spec: !!python/object:os.system {}\n", "? {a: b}\n: c\n", "1: 2\ntrue: false\nnull: x\n",
		"spec:\n\ttier: web\n", "--- \n...\n---\n", "%YAML 9.9\n---\nspec: {}\n", "spec: {tier: web}\nspec: {tier: app}\n", "spec: |\n  text\n", "spec: {tier: ~}\n",
		"spec: {tier: 2001-01-01, hostname: 0o17, mac: 12:34:56}\n", "- spec\n- {}\n", string(deep("[", "]", 9_999)), string(deep("- ", "", 9_999)), "\x00", "\xff\xfes\x00", "&a", "*", "@", "`",
		"spec: {cidrs: [.inf, -.nan, 1_000]}\n", "items: &i\n- kind: VPC\n- *i\n"))
}
