package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/server"
)

// restricted is a server that knows these callers, and their tokens by name.
func restricted(t *testing.T, callers ...server.Principal) (*fixture, map[string]string) {
	t.Helper()
	tokens, lines := map[string]string{}, ""
	for i, p := range callers {
		token, credential, err := server.NewToken(strings.NewReader(strings.Repeat(string(rune('a'+i)), 64)))
		require.NoError(t, err)
		tokens[p.Name] = token
		lines += server.Grant{Principal: p, Credential: credential}.String() + "\n"
	}
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	return serve(t, box, server.Options{Tokens: file}), tokens
}

// begin is the status of an answer that has begun; it is not read.
func (f *fixture) begin(path string, headers ...string) int {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+path, nil)
	require.NoError(f.t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(f.t, err)
	require.NoError(f.t, response.Body.Close())
	return response.StatusCode
}

// TestAuthorisation holds every operation that is documented against who may do it.
func TestAuthorisation(t *testing.T) {
	principals := []server.Principal{
		{Name: "viewer of shop", Role: server.Viewer, VPCs: []string{"shop"}},
		{Name: "editor of shop", Role: server.Editor, VPCs: []string{"sh*"}},
		{Name: "admin of shop", Role: server.Admin, VPCs: []string{"other", "shop"}},
		{Name: "editor of another", Role: server.Editor, VPCs: []string{"other"}},
		{Name: "viewer of all", Role: server.Viewer, VPCs: []string{"*"}},
		{Name: "editor of all", Role: server.Editor, VPCs: []string{"*"}},
		{Name: "admin of all", Role: server.Admin, VPCs: []string{"*"}},
	}
	for i := range principals {
		principals[i].Name = strings.ReplaceAll(principals[i].Name, " ", "-")
	}
	viewers := []string{"viewer-of-shop", "editor-of-shop", "admin-of-shop", "viewer-of-all", "editor-of-all", "admin-of-all"}
	editors := []string{"editor-of-shop", "admin-of-shop", "editor-of-all", "admin-of-all"}
	admins := []string{"admin-of-shop", "admin-of-all"}
	changers := append([]string{"editor-of-another"}, editors...)
	watchers := []string{"viewer-of-all", "editor-of-all", "admin-of-all"}
	anybody := append([]string{"editor-of-another"}, viewers...)
	everybody := append([]string{""}, anybody...)
	const vpc = `{"apiVersion": "ovn-vpc/v1", "kind": "VPC", "metadata": {"name": "shop"}, "spec": {"cidrs": ["10.0.0.0/8"]}}`
	const offering = `{"apiVersion": "ovn-vpc/v1", "kind": "VPCOffering", "metadata": {"name": "shop"}}`
	type expectation struct {
		path, body string
		who        []string
	}
	table := map[string][]expectation{
		"GET /healthz":      {{"", "", everybody}},
		"GET /readyz":       {{"", "", everybody}},
		"GET /version":      {{"", "", everybody}},
		"GET /openapi.json": {{"", "", everybody}},
		"GET /docs":         {{"", "", everybody}},
		"GET /metrics":      {{"", "", watchers}},
		"GET /v1/watch":     {{"/v1/watch?vpc=shop", "", viewers}},

		"GET /v1/vpcs":                {{"", "", anybody}},
		"GET /v1/resources":           {{"", "", anybody}, {"/v1/resources?vpc=shop", "", viewers}},
		"GET /v1/offerings":           {{"", "", anybody}},
		"GET /v1/offerings/{name}":    {{"", "", anybody}},
		"POST /v1/offerings":          {{"", `{"spec": {}}`, []string{"admin-of-all"}}},
		"PUT /v1/offerings/{name}":    {{"", `{"spec": {}}`, []string{"admin-of-all"}}},
		"PATCH /v1/offerings/{name}":  {{"", `{"spec": {}}`, []string{"admin-of-all"}}},
		"DELETE /v1/offerings/{name}": {{"", "", []string{"admin-of-all"}}},
		"POST /v1/vpcs":               {{"", vpc, editors}},
		"POST /v1/validate":           {{"", vpc, viewers}, {"", offering, anybody}},
		"POST /v1/plan":               {{"", vpc, viewers}},
		"POST /v1/apply":              {{"", vpc, editors}, {"", offering, []string{"admin-of-all"}}, {"/v1/apply?wait=sb&timeout=1ms", `{"items": []}`, changers}},
		"POST /v1/delete":             {{"/v1/delete?wait=sb&timeout=1ms", `{"items": []}`, changers}, {"", `{"items": [{"kind": "VPC", "name": "shop"}]}`, editors}, {"", `{"items": [{"kind": "VPCOffering", "name": "shop"}]}`, []string{"admin-of-all"}}},
		"POST /v1/explain":            {{"", `{"text": "x"}`, anybody}, {"", `{"text": "x", "items": [` + vpc + `]}`, viewers}},
		"POST /v1/trace": {{"", `{"vpc": "shop", "from": "a", "to": "b"}`, viewers}, {"", `{"from": "a", "to": "b"}`, watchers},
			{"", `{"from": "a", "to": "b", "items": [` + vpc + `]}`, viewers}},
		"GET /v1/export":                       {{"", "", watchers}, {"/v1/export?vpc=shop", "", viewers}},
		"GET /v1/reach":                        {{"", "", watchers}, {"/v1/reach?vpc=shop", "", viewers}},
		"POST /v1/reach":                       {{"", vpc, viewers}, {"/v1/reach?vpc=other", vpc, append([]string{"admin-of-shop"}, watchers...)}},
		"GET /v1/verify":                       {{"", "", watchers}, {"/v1/verify?vpc=shop", "", viewers}},
		"POST /v1/verify":                      {{"", vpc, viewers}, {"/v1/verify?vpc=other", vpc, append([]string{"admin-of-shop"}, watchers...)}},
		"GET /v1/drift":                        {{"", "", watchers}, {"/v1/drift?vpc=shop", "", viewers}},
		"POST /v1/drift/repair":                {{"", "", []string{"admin-of-all"}}, {"/v1/drift/repair?vpc=shop", "", admins}},
		"GET /v1/vpcs/{vpc}":                   {{"", "", viewers}},
		"PUT /v1/vpcs/{vpc}":                   {{"", vpc, editors}},
		"PATCH /v1/vpcs/{vpc}":                 {{"", `{}`, editors}},
		"DELETE /v1/vpcs/{vpc}":                {{"", "", editors}},
		"POST /v1/vpcs/{vpc}/tiers/{tier}/acl": {{"", `{"acl": "x"}`, editors}},
		"GET /v1/vpcs/{vpc}/history":           {{"", "", viewers}},
		"GET /v1/vpcs/{vpc}/history/{number}":  {{"", "", viewers}},
		"GET /v1/vpcs/{vpc}/rollback":          {{"", "", viewers}},
		"POST /v1/vpcs/{vpc}/rollback":         {{"", "", editors}},
		"POST /v1/vpcs/{vpc}/confirm":          {{"", "", editors}},
	}
	for _, word := range []string{"tiers", "acls", "attachments", "expectations"} {
		table["GET /v1/vpcs/{vpc}/"+word] = []expectation{{"", "", viewers}}
		table["POST /v1/vpcs/{vpc}/"+word] = []expectation{{"", `{"spec": {}}`, editors}}
		table["GET /v1/vpcs/{vpc}/"+word+"/{name}"] = []expectation{{"", "", viewers}}
		table["PUT /v1/vpcs/{vpc}/"+word+"/{name}"] = []expectation{{"", `{"spec": {}}`, editors}}
		table["PATCH /v1/vpcs/{vpc}/"+word+"/{name}"] = []expectation{{"", `{}`, editors}}
		table["DELETE /v1/vpcs/{vpc}/"+word+"/{name}"] = []expectation{{"", "", editors}}
	}
	const rules = " /v1/vpcs/{vpc}/acls/{name}/rules"
	for _, operation := range []string{"GET" + rules, "GET" + rules + "/{number}"} {
		table[operation] = []expectation{{"", "", viewers}}
	}
	for _, operation := range []string{"POST" + rules, "PUT" + rules + "/{number}"} {
		table[operation] = []expectation{{"", `{}`, editors}}
	}
	table["DELETE"+rules+"/{number}"] = []expectation{{"", "", editors}}
	f, tokens := restricted(t, principals...)
	var doc struct{ Paths map[string]map[string]any }
	require.NoError(t, json.Unmarshal([]byte(f.call("GET", "/openapi.json", "").text), &doc))
	for pattern, methods := range doc.Paths {
		for method := range methods {
			operation := strings.ToUpper(method) + " " + pattern
			require.NotEmpty(t, table[operation], "who may %s?", operation)
			for _, e := range table[operation] {
				path := e.path
				if path == "" {
					path = strings.NewReplacer("{vpc}", "shop", "{name}", "shop", "{tier}", "web", "{number}", "1").Replace(pattern)
				}
				for _, who := range append([]string{""}, anybody...) {
					var headers []string
					if who != "" {
						headers = []string{"Authorization", "Bearer " + tokens[who]}
					}
					var r reply
					if pattern == "/v1/watch" && slices.Contains(e.who, who) {
						r.status = f.begin(path, headers...) // it has no end
					} else {
						r = f.call(strings.ToUpper(method), path, e.body, headers...)
					}
					switch {
					case slices.Contains(e.who, who):
						require.NotContains(t, []int{401, 403}, r.status, "%s as %q: %s", operation, who, r.text)
					case who == "":
						r.problem(401, "unauthenticated")
						require.Equal(t, "Bearer", r.header.Get("WWW-Authenticate"))
					default:
						require.Equal(t, 403, r.status, "%s as %q: %s", operation, who, r.text)
						r.problem(403, "forbidden")
					}
				}
			}
			delete(table, operation)
		}
	}
	require.Empty(t, table, "these are not documented")
}

// What a caller may not see does not show, not even whether it is there.
func TestOthersVPCsDoNotShow(t *testing.T) {
	f, tokens := restricted(t, server.Principal{Name: "all", Role: server.Admin, VPCs: []string{"*"}}, server.Principal{Name: "mine", Role: server.Editor, VPCs: []string{"mine*"}})
	all, mine := []string{"Authorization", "Bearer " + tokens["all"]}, []string{"Authorization", "Bearer " + tokens["mine"]}
	for _, vpc := range []string{"mine", "theirs"} {
		f.call("PUT", "/v1/vpcs/"+vpc, `{"spec": {"cidrs": ["10.10.0.0/16"]}}`, all...).is(201)
		f.call("PUT", "/v1/vpcs/"+vpc+"/tiers/web", `{"spec": {"cidrs": ["10.10.1.0/24"]}}`, all...).is(201)
	}
	f.call("PUT", "/v1/offerings/small", `{"spec": {}}`, all...).is(201)
	require.Equal(t, []string{"mine"}, f.call("GET", "/v1/vpcs", "", mine...).is(200).names())
	require.Equal(t, []string{"small", "mine", "web"}, f.call("GET", "/v1/resources", "", mine...).is(200).names())
	there := f.call("GET", "/v1/vpcs/theirs", "", mine...).problem(403, "forbidden")
	absent := f.call("GET", "/v1/vpcs/absent", "", mine...).problem(403, "forbidden")
	there.Instance, absent.Instance = "", ""
	absent.Detail = strings.ReplaceAll(absent.Detail, "absent", "theirs") // which the caller has said
	require.Equal(t, absent, there)
	f.call("POST", "/v1/vpcs", `{"spec": {"cidrs": ["10.0.0.0/8"]}}`, mine...).problem(403, "forbidden")
	f.call("POST", "/v1/vpcs", `{"metadata": {"name": "mine-2"}, "spec": {"cidrs": ["10.0.0.0/8"]}}`, mine...).is(201)

	// Nor among those who use an offering.
	f.call("PUT", "/v1/offerings/small", `{"spec": {"capabilities": {"distributedRouting": true}}}`, all...).is(200)
	for _, vpc := range []string{"mine", "theirs"} {
		f.call("PATCH", "/v1/vpcs/"+vpc, `{"spec": {"offering": "small"}}`, all...).is(200)
	}
	require.Equal(t, []any{"mine", "theirs"}, f.call("GET", "/v1/offerings/small", "", all...).document().Status["usedBy"])
	require.Equal(t, []any{"mine"}, f.call("GET", "/v1/offerings/small", "", mine...).document().Status["usedBy"])
	for _, list := range []string{"/v1/offerings", "/v1/resources?kind=offerings"} {
		require.Contains(t, f.call("GET", list, "", all...).text, "theirs")
		require.NotContains(t, f.call("GET", list, "", mine...).text, "theirs")
	}

	// Nor can an interface of theirs be taken, whether or not it is there.
	f.call("PUT", "/v1/vpcs/theirs/attachments/vm", `{"spec": {"tier": "web"}}`, all...).is(201)
	for _, id := range []string{"theirs/vm", "theirs/absent", "absent/vm"} {
		claim := `{"spec": {"tier": "web", "interfaceID": "` + id + `"}}`
		f.call("PUT", "/v1/vpcs/mine/attachments/vm", claim, mine...).problem(403, "forbidden")
		f.call("POST", "/v1/vpcs/mine/attachments", claim, mine...).problem(403, "forbidden")
		for _, path := range []string{"/v1/apply", "/v1/plan", "/v1/validate"} {
			f.call("POST", path, `{"apiVersion": "ovn-vpc/v1", "kind": "Attachment", "metadata": {"name": "vm", "vpc": "mine"}, `+claim[1:], mine...).problem(403, "forbidden")
		}
	}
	f.call("PUT", "/v1/vpcs/mine/attachments/vm", `{"spec": {"tier": "web", "interfaceID": "mine/other"}}`, mine...).is(201)
	f.call("PATCH", "/v1/vpcs/mine/attachments/vm", `{"spec": {"interfaceID": "theirs/absent"}}`, mine...).problem(403, "forbidden")
	f.call("PATCH", "/v1/vpcs/mine/attachments/vm", `{"spec": {"interfaceID": "theirs/absent"}}`, all...).is(200)
	f.call("PATCH", "/v1/vpcs/mine/attachments/vm", `{"spec": {"hostname": "vm"}}`, mine...).is(200)

	// Who has a name that is neither's by its form is not told.
	const uuid = `{"spec": {"tier": "web", "interfaceID": "0bdf1f2e-54a4-4fb1-a27b-7de4c1ab0001"}}`
	f.call("PUT", "/v1/vpcs/theirs/attachments/uuid", uuid, all...).is(201)
	require.NotContains(t, f.call("PUT", "/v1/vpcs/mine/attachments/uuid", uuid, mine...).is(409).text, "theirs")
	require.Contains(t, f.call("PUT", "/v1/vpcs/mine/attachments/uuid", uuid, all...).is(409).text, "theirs")

	// One caller's key is not another's.
	body := `{"spec": {"tier": "web"}}`
	first := f.call("POST", "/v1/vpcs/mine/attachments", body, append(mine, "Idempotency-Key", "k")...).is(201)
	second := f.call("POST", "/v1/vpcs/mine/attachments", body, append(all, "Idempotency-Key", "k")...).is(201)
	require.NotEqual(t, first.header.Get("Location"), second.header.Get("Location"))
}
