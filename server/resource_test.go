package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func TestPutGetDelete(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	body := `{"metadata": {"labels": {"env": "prod"}}, "spec": {"cidrs": ["10.10.0.0/16"]}}`
	first := f.call("PUT", "/v1/vpcs/shop", body).is(201)
	require.Equal(t, "/v1/vpcs/shop", first.header.Get("Location"))
	require.Regexp(t, `^"[^"]+"$`, first.header.Get("ETag"))
	require.Equal(t, model.Metadata{Name: "shop", Labels: map[string]string{"env": "prod"}}, first.document().Metadata)

	commits := f.nb.commits.Load()
	again := f.call("PUT", "/v1/vpcs/shop", body).is(200)
	require.Equal(t, first.header.Get("ETag"), again.header.Get("ETag"))
	require.Empty(t, again.header.Get("Location"))
	require.Equal(t, commits, f.nb.commits.Load(), "a PUT that changes nothing writes nothing")

	got := f.call("GET", "/v1/vpcs/shop", "").is(200)
	require.Equal(t, again.header.Get("ETag"), got.header.Get("ETag"))
	require.JSONEq(t, again.text, got.text, "a change answers with what is then read")

	full := `{"apiVersion": "ovn-vpc/v1", "kind": "VPC", "metadata": {"name": "shop"}, "spec": {"cidrs": ["10.10.0.0/16", "10.11.0.0/16"]}, "status": {"tiers": 7}}`
	changed := f.call("PUT", "/v1/vpcs/shop", full).is(200)
	require.NotEqual(t, first.header.Get("ETag"), changed.header.Get("ETag"))
	require.Empty(t, changed.document().Metadata.Labels)

	var result engine.Result
	f.call("DELETE", "/v1/vpcs/shop", "").is(200).into(&result)
	require.Equal(t, engine.Remove, result.VPCs[0].Changes[0].Action)
	f.call("DELETE", "/v1/vpcs/shop", "").problem(404, "not-found")
	f.call("GET", "/v1/vpcs/shop", "").problem(404, "not-found")
	f.noDrift()
}

func TestEveryKind(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.call("PUT", "/v1/offerings/small", `{"spec": {"limits": {"tiers": 3}}}`).is(201)
	nic := f.call("PUT", "/v1/vpcs/shop/attachments/web-1", `{"spec": {"tier": "web"}}`).is(201).document()
	require.Len(t, nic.Status["addresses"], 1)
	require.Regexp(t, "^0a:58:0a:0a:01:", nic.Status["mac"])
	require.Equal(t, "shop/web-1", nic.Status["interfaceID"])
	same := f.call("PUT", "/v1/vpcs/shop/attachments/web-1", `{"spec": {"tier": "web", "hostname": "one"}}`).is(200).document()
	require.Equal(t, nic.Status["addresses"], same.Status["addresses"], "an attachment keeps what it got")
	for _, path := range []string{"/v1/offerings/small", "/v1/vpcs/shop", "/v1/vpcs/shop/acls/open", "/v1/vpcs/shop/tiers/web", "/v1/vpcs/shop/attachments/web-1"} {
		read := f.call("GET", path, "").is(200)
		require.NotEmpty(t, read.header.Get("ETag"))
		f.call("PUT", path, read.text).is(200)
		require.Equal(t, read.header.Get("ETag"), f.call("GET", path, "").header.Get("ETag"), "what is read can be written")
	}
	require.Equal(t, []string{"web"}, f.call("GET", "/v1/vpcs/shop/tiers", "").is(200).names())
	require.Equal(t, []string{"open"}, f.call("GET", "/v1/vpcs/shop/acls", "").is(200).names(), "built-in lists are left out")
	require.Equal(t, []string{"small"}, f.call("GET", "/v1/offerings", "").is(200).names())

	problem := f.call("DELETE", "/v1/vpcs/shop/tiers/web", "").problem(409, "in-use")
	require.Contains(t, problem.Diagnostics[0].Problem, "Attachment shop/web-1")
	require.Equal(t, model.CodeInUse, problem.Diagnostics[0].Code)
	f.call("DELETE", "/v1/vpcs/shop/tiers/web?cascade=true", "").is(200)
	f.call("GET", "/v1/vpcs/shop/attachments/web-1", "").problem(404, "not-found")
	f.noDrift()
}

func TestBuiltinLists(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	path := "/v1/vpcs/shop/acls/default-deny"
	f.call("GET", path, "").is(200)
	f.call("PUT", path, `{"spec": {}}`).problem(422, "invalid")
	f.call("PATCH", path, `{"spec": {"stateless": true}}`).problem(422, "invalid")
	f.call("DELETE", path, "").problem(422, "invalid")
}

// A document that says otherwise than the path, and those that are wrong.
func TestRefusedBodies(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	const tiers = "/v1/vpcs/shop/tiers/db"
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		status     int
		slug       string
		words      string
	}{
		"another name":     {tiers, `{"metadata": {"name": "other"}, "spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 422, "invalid", "metadata.name"},
		"another VPC":      {tiers, `{"metadata": {"vpc": "other"}, "spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 422, "invalid", "metadata.vpc"},
		"another kind":     {tiers, `{"kind": "ACL", "spec": {}}`, nil, 422, "invalid", "kind"},
		"another version":  {tiers, `{"apiVersion": "v2", "spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 422, "invalid", "apiVersion"},
		"unknown field":    {tiers, `{"spec": {"cidr": ["10.10.2.0/24"]}}`, nil, 422, "invalid", "spec.cidr"},
		"wrong type":       {tiers, `{"spec": {"cidrs": 7}}`, nil, 422, "invalid", "spec.cidrs"},
		"outside":          {tiers, `{"spec": {"cidrs": ["10.11.2.0/24"]}}`, nil, 422, "invalid", "10.11.2.0/24"},
		"a list":           {tiers, `[]`, nil, 422, "invalid", "a list"},
		"null":             {tiers, `null`, nil, 422, "invalid", "0 documents"},
		"items":            {tiers, `{"items": []}`, nil, 422, "invalid", "items"},
		"deep":             {tiers, `{"spec": ` + strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500) + `}`, nil, 422, "invalid", "levels"},
		"truncated":        {tiers, `{"spec": {"cidrs": ["10.10.2.0/24"]`, nil, 400, "malformed", "JSON"},
		"no JSON, line 2":  {tiers, "{\n \"spec\": {\"cidrs\": [\"10.10.2.0/24\"}\n}", nil, 400, "malformed", "line 2, column 35"},
		"empty":            {tiers, ` `, nil, 400, "malformed", "empty"},
		"no JSON":          {tiers, `spec: {cidrs: [10.10.2.0/24]}`, nil, 400, "malformed", "JSON"},
		"no YAML":          {tiers, "spec: [", []string{"Content-Type", "application/yaml"}, 400, "malformed", "YAML"},
		"two documents":    {tiers, "spec: {}\n---\nspec: {}\n", []string{"Content-Type", "application/yaml"}, 422, "invalid", "2 documents"},
		"control":          {tiers, "spec: \"\x01\"", []string{"Content-Type", "application/yaml"}, 400, "malformed", "text"},
		"XML":              {tiers, `<spec/>`, []string{"Content-Type", "application/xml"}, 415, "unsupported-media-type", "application/xml"},
		"one of two types": {tiers, `<spec/>`, []string{"Content-Type", "application/xml"}, 415, "unsupported-media-type", "application/json or application/yaml"},
		"a type unread":    {tiers, `{}`, []string{"Content-Type", ";;"}, 415, "unsupported-media-type", ";;"},
		"compressed":       {tiers, `{}`, []string{"Content-Encoding", "gzip"}, 415, "unsupported-media-type", "Content-Encoding"},
		"huge":             {tiers, `{"spec": {"cidrs": ["` + strings.Repeat("x", 8<<20) + `"]}}`, nil, 413, "too-large", "8388608"},
		"no name":          {"/v1/vpcs/shop/tiers/DB", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 422, "invalid", "DNS label"},
		"Accept":           {tiers, `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, []string{"Accept", "text/html"}, 406, "not-acceptable", "application/yaml"},
		"unknown query":    {tiers + "?waiting=hv", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 400, "malformed", "waiting"},
		"query twice":      {tiers + "?wait=sb&wait=hv", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 400, "malformed", "2 times"},
		"bad query":        {tiers + "?wait=%zz", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 400, "malformed", "query"},
		"bad wait":         {tiers + "?wait=long", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 400, "malformed", "wait"},
		"bad timeout":      {tiers + "?wait=sb&timeout=-1s", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 400, "malformed", "timeout"},
		"long timeout":     {tiers + "?wait=sb&timeout=61s", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 400, "malformed", "timeout"},
		"no such VPC":      {"/v1/vpcs/none/tiers/db", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, nil, 422, "invalid", "none"},
		"bad precondition": {tiers, `{"spec": {"cidrs": ["10.10.2.0/24"]}}`, []string{"If-Match", "abc"}, 400, "malformed", "If-Match"},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.call("PUT", c.path, c.body, c.headers...)
			r.t = t
			r.problem(c.status, c.slug)
			require.Contains(t, r.text, c.words)
		})
	}
	f.call("GET", tiers, "").problem(404, "not-found")
}

func TestMethodsAndPaths(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	r := f.call("DELETE", "/v1/vpcs", "")
	r.problem(405, "method-not-allowed")
	require.Equal(t, "GET, HEAD, POST", r.header.Get("Allow"))
	for _, path := range []string{"/", "/v1", "/v1/nothing", "/v1/vpcs/", "/v1//vpcs", "/v1/x/../vpcs", "/v1/vpcs/a%2fb", "/v1/vpcs/a%00b", "/v1/vpcs/%ff"} {
		f.call("GET", path, "").problem(404, "not-found")
	}
	require.Equal(t, "mine-7", f.call("GET", "/v1/vpcs", "", "X-Request-Id", "mine-7").header.Get("X-Request-Id"))
	require.NotEqual(t, "not mine", f.call("GET", "/v1/vpcs", "", "X-Request-Id", "not mine").header.Get("X-Request-Id"))
	f.call("PUT", "/v1/vpcs/shop", `{}`, "Sec-Fetch-Site", "cross-site").problem(403, "forbidden")
}

func TestYAML(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	r := f.call("PUT", "/v1/vpcs/shop", "spec:\n  cidrs: [10.10.0.0/16]\n", "Content-Type", "application/yaml", "Accept", "application/yaml").is(201)
	require.Equal(t, "application/yaml", r.header.Get("Content-Type"))
	require.Contains(t, r.text, "apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata:\n  name: shop\n")
	f.call("PUT", "/v1/vpcs/shop", r.text, "Content-Type", "application/yaml; charset=utf-8").is(200)
	require.Contains(t, f.call("GET", "/v1/vpcs", "", "Accept", "application/yaml").is(200).text, "items:\n  - apiVersion")
	export := f.call("GET", "/v1/export", "", "Accept", "application/yaml").is(200).text
	require.NotContains(t, export, "items")
	set, found := model.Load(model.Input{Data: []byte(export)})
	require.Empty(t, found)
	require.Len(t, set.Resources, 1)
	f.call("GET", "/v1/vpcs/none", "", "Accept", "application/yaml").problem(404, "not-found")
	for _, accept := range []string{"*/*", "application/*", "application/json, application/problem+json", "text/html, */*;q=0.1"} {
		r := f.call("GET", "/v1/vpcs", "", "Accept", accept).is(200)
		require.Equal(t, "application/json", r.header.Get("Content-Type"))
		require.Equal(t, strings.Contains(accept, "json"), !strings.Contains(r.text, "\n  "), "indented for people alone")
	}
	// As curl -d sends it.
	f.call("PUT", "/v1/vpcs/shop", `{"spec": {"cidrs": ["10.10.0.0/16"]}}`, "Content-Type", "application/x-www-form-urlencoded").is(200)
}

func TestPreconditions(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	const path, body, other = "/v1/vpcs/shop", `{"spec": {"cidrs": ["10.10.0.0/16"]}}`, `{"spec": {"cidrs": ["10.20.0.0/16"]}}`
	f.call("PUT", path, body, "If-Match", "*").problem(412, "precondition")
	f.call("PATCH", path, `{}`, "If-Match", `"x"`).problem(412, "precondition")
	f.call("DELETE", path, "", "If-Match", `"x"`).problem(412, "precondition")
	old := f.call("PUT", path, body, "If-None-Match", "*").is(201).header.Get("ETag")
	f.call("PUT", path, body, "If-None-Match", "*").problem(412, "precondition")
	f.call("PUT", path, other, "If-Match", `"stale", "older"`).problem(412, "precondition")
	now := f.call("PUT", path, other, "If-Match", `"stale", `+old).is(200).header.Get("ETag")
	f.call("PUT", path, body, "If-Match", old).problem(412, "precondition")
	f.call("PATCH", path, `{"metadata": {"labels": {"a": "b"}}}`, "If-Match", old).problem(412, "precondition")
	f.call("DELETE", path, "", "If-Match", old).problem(412, "precondition")
	f.call("PUT", path, other, "If-Match", "W/"+now).problem(412, "precondition")
	patched := f.call("PATCH", path, `{"metadata": {"labels": {"a": "b"}}}`, "If-Match", now).is(200).header.Get("ETag")
	f.call("PUT", path, other, "If-Match", "*").is(200)
	f.call("PUT", path, other, "If-None-Match", patched).is(200)
	now = f.call("GET", path, "").header.Get("ETag")
	f.call("PUT", path, body, "If-None-Match", "W/"+now).problem(412, "precondition")
	f.call("PUT", path, other, "If-Match", `, "stale",,`+now+" ,").is(200)
	for _, nothing := range []string{"", " ", ",", now[1:], now + now, "*, " + now} {
		f.call("PUT", path, body, "If-Match", nothing).problem(400, "malformed")
		f.call("DELETE", path, "", "If-None-Match", nothing).problem(400, "malformed")
	}
	require.Equal(t, now, f.call("GET", path, "").header.Get("ETag"))
	f.call("DELETE", path, "", "If-Match", f.call("GET", path, "").header.Get("ETag")).is(200)
}

// Of writers that read, change and write with If-Match none undoes another's change.
func TestNoLostUpdate(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	const writers, each = 6, 5
	servers := []*fixture{f, serveInsecure(t, f.sandbox)}
	parallel(t, writers, func(w int) error {
		f := servers[w%len(servers)]
		for n := 0; n < each; {
			read, err := f.try("GET", "/v1/vpcs/shop", "")
			if err != nil {
				return err
			}
			patch := fmt.Sprintf(`{"metadata": {"labels": {"w%d-%d": "x"}}}`, w, n)
			r, err := f.try("PATCH", "/v1/vpcs/shop", patch, "If-Match", read.header.Get("ETag"))
			switch {
			case err != nil:
				return err
			case r.status == http.StatusOK:
				n++
			case r.status != http.StatusPreconditionFailed && r.status != http.StatusConflict:
				return fmt.Errorf("%d %s", r.status, r.text)
			}
		}
		return nil
	})
	require.Len(t, f.call("GET", "/v1/vpcs/shop", "").document().Metadata.Labels, writers*each)
}

func TestPatch(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	const path = "/v1/vpcs/shop/attachments/web-1"
	f.call("PATCH", path, `{"spec": {"hostname": "a"}}`).problem(404, "not-found")
	before := f.call("PUT", path, `{"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"tier": "web", "hostname": "one", "chassis": "hv1"}}`).is(201).document()
	d := f.call("PATCH", path, `{"metadata": {"labels": {"a": null, "c": "3"}}, "spec": {"hostname": null, "migratingTo": "hv2"}}`,
		"Content-Type", "application/merge-patch+json").is(200).document()
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, d.Metadata.Labels)
	require.NotContains(t, d.Spec, "hostname")
	require.Equal(t, "hv2", d.Spec["migratingTo"])
	require.Equal(t, before.Status["addresses"], d.Status["addresses"])
	f.call("PATCH", path, `{"status": {"up": true}, "metadata": {"name": "web-1", "vpc": "shop"}}`).is(200)

	f.call("PATCH", path, `{"metadata": {"name": "other"}}`).problem(422, "invalid")
	f.call("PATCH", path, `{"kind": "Tier"}`).problem(422, "invalid")
	f.call("PATCH", path, `{"spec": {"hostname": "a", "hostname": "b"}}`).problem(422, "invalid")
	f.call("PATCH", path, `{"spec": {"hostnam": "a"}}`).problem(422, "invalid")
	f.call("PATCH", path, `{"spec": null}`).problem(422, "invalid")
	f.call("PATCH", path, `{"spec": {"tier": "other"}}`).problem(422, "invalid")
	f.call("PATCH", path, `{"spec": `+strings.Repeat(`{"plug":`, 9000)+"1"+strings.Repeat("}", 9000)+`}`).problem(422, "invalid")
	f.call("PATCH", path, `[]`).problem(400, "malformed")
	f.call("PATCH", path, `"x"`).problem(400, "malformed")
	f.call("PATCH", path, `{"spec"`).problem(400, "malformed")
	f.call("PATCH", path, `{}`, "Content-Type", "application/yaml").problem(415, "unsupported-media-type")
	require.Equal(t, d.Spec, f.call("GET", path, "").document().Spec)
}
