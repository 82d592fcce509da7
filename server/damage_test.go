package server_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/server"
)

// A row whose stored spec can't be read is overwritten by no call that doesn't ask
// for it; calls that don't touch it go on.
func TestDamageIsNotOverwritten(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	const path, web = "/v1/vpcs/shop/attachments/", `{"spec": {"tier": "web"}}`
	f.call("PUT", path+"web-1", web).is(201)
	f.call("PUT", path+"web-2", web).is(201)
	for _, name := range []string{"web-1", "web-2"} {
		_, err := f.sandbox.NBCtl(t.Context(), "set", "Logical_Switch_Port", "shop/"+name, `external_ids:"ovn-vpc:spec"=nonsense`)
		require.NoError(t, err)
	}
	document := `{"apiVersion": "ovn-vpc/v1", "kind": "Attachment", "metadata": {"name": "web-1", "vpc": "shop"}, "spec": {"tier": "web"}}`
	for _, refused := range []reply{f.call("PUT", path+"web-1", web), f.call("POST", "/v1/apply", document)} {
		p := refused.problem(409, "damaged")
		require.Contains(t, p.Detail, "Attachment shop/web-1: the spec stored in Logical_Switch_Port address/shop/10.")
		require.NotContains(t, p.Detail, "web-2")
	}
	f.call("PUT", path+"web-3", web).is(201)
	f.call("PUT", path+"web-1?repair=true", web).is(200)
	f.call("POST", "/v1/apply?repair=true", document).is(200)
	f.call("POST", "/v1/drift/repair", "").is(200)
	f.call("PUT", path+"web-2", web).is(200)

	// What somebody has deleted leaves its second copy: it is repaired, not created.
	_, err := f.sandbox.NBCtl(t.Context(), "lsp-del", "shop/web-3")
	require.NoError(t, err)
	f.call("PUT", path+"web-3", web).is(200)
	f.call("PUT", path+"web-4", web).is(201)

	// It is also deleted, with that copy.
	for _, name := range []string{"web-3", "web-4"} {
		tag := f.call("GET", path+name, "").is(200).header.Get("ETag")
		_, err = f.sandbox.NBCtl(t.Context(), "lsp-del", "shop/"+name)
		require.NoError(t, err)
		f.call("DELETE", path+name, "", "If-Match", `"other"`).problem(412, "precondition")
		f.call("DELETE", path+name, "", "If-Match", tag).is(200)
		f.call("DELETE", path+name, "").problem(404, "not-found")
	}
	f.call("PUT", "/v1/vpcs/shop/expectations/e", `{"spec": {"from": "outside", "to": "web", "traffic": "tcp 9", "expect": "deny"}}`).is(201)
	_, err = f.sandbox.NBCtl(t.Context(), "remove", "Logical_Router", "shop", "external_ids", `"ovn-vpc-expectation:e"`)
	require.NoError(t, err)
	f.call("DELETE", "/v1/vpcs/shop/expectations/e", "").is(200)
	require.Contains(t, f.call("GET", "/v1/drift", "").is(200).text, `"faults": []`)

	// A list has no second copy: it takes leave to delete it.
	_, err = f.sandbox.NBCtl(t.Context(), "set", "Port_Group", "ovnvpc.shop.open", `external_ids:"ovn-vpc:spec"=nonsense`)
	require.NoError(t, err)
	const open = "/v1/vpcs/shop/acls/open"
	f.call("DELETE", open, "").problem(409, "damaged")
	f.call("DELETE", open+"?repair=true", "").problem(409, "in-use")
	f.call("POST", "/v1/delete?cascade=true", `{"items": [{"kind": "ACL", "vpc": "shop", "name": "open"}]}`).problem(409, "damaged")
	f.call("DELETE", open+"?repair=true&cascade=true", "").is(200)
	f.call("DELETE", open+"?repair=true&cascade=true", "").problem(404, "not-found")
	require.Contains(t, f.call("GET", "/v1/drift", "").is(200).text, `"faults": []`)
}

// Nor does it go with what is deleted; and a name that somebody has taken meanwhile is
// told, before anything is written.
func TestDamageGoesWithNothing(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	nbctl := func(args ...string) {
		t.Helper()
		_, err := f.sandbox.NBCtl(t.Context(), args...)
		require.NoError(t, err)
	}
	const vpc, registry = "/v1/vpcs/shop", "ovnvpc.shop.web.attachments"
	f.call("PUT", vpc+"/attachments/web-1", `{"spec": {"tier": "web"}}`).is(201)
	nbctl("pg-del", registry, "--", "pg-add", registry)
	document := `{"apiVersion": "ovn-vpc/v1", "kind": "Attachment", "metadata": {"name": "web-2", "vpc": "shop"}, "spec": {"tier": "web"}}`
	for _, refused := range []reply{f.call("POST", "/v1/plan", document), f.call("POST", "/v1/apply", document), f.call("POST", "/v1/drift/repair", ""),
		f.call("POST", vpc+"/tiers/web/acl", `{"acl": "default-allow"}`), f.call("PUT", vpc+"/attachments/web-2", `{"spec": {"tier": "web"}}`)} {
		require.Contains(t, refused.problem(409, "taken").Detail, `Tier shop/web: metadata.name: the name "`+registry+`" is taken by a row of Port_Group of another tool`)
	}
	require.Contains(t, f.call("GET", "/v1/drift", "").is(200).text, "is taken by a row of Port_Group of another tool")
	nbctl("pg-del", registry)
	f.call("POST", "/v1/drift/repair", "").is(200)

	nbctl("set", "Logical_Switch", "shop/web", `external_ids:"ovn-vpc:spec"=nonsense`)
	nbctl("set", "Port_Group", registry, `external_ids:"ovn-vpc:tier-spec"=nonsense`)
	for _, refused := range []reply{f.call("DELETE", vpc+"?cascade=true", ""), f.call("POST", "/v1/delete?cascade=true", `{"items": [{"kind": "VPC", "name": "shop"}]}`)} {
		require.Contains(t, refused.problem(409, "damaged").Detail, "Tier shop/web: the spec stored in Logical_Switch tier/shop/web can't be read: ")
	}
	f.call("DELETE", vpc+"?cascade=true&repair=true", "").is(200)
	f.call("GET", vpc, "").problem(404, "not-found")
}

// Lists and an export tell what they leave out, on their first page and to those alone
// who may view it.
func TestListsTellWhatTheyLeaveOut(t *testing.T) {
	f, tokens := restricted(t, server.Principal{Name: "ours", Role: server.Viewer, VPCs: []string{"shop"}},
		server.Principal{Name: "theirs", Role: server.Viewer, VPCs: []string{"other"}}, server.Principal{Name: "all", Role: server.Admin, VPCs: []string{"*"}})
	as := func(name string) []string { return []string{"Authorization", "Bearer " + tokens[name]} }
	f.call("PUT", "/v1/vpcs/other", `{"spec": {"cidrs": ["10.10.0.0/16"]}}`, as("all")...).is(201)
	f.call("PUT", "/v1/vpcs/shop", `{"spec": {"cidrs": ["10.10.0.0/16"]}}`, as("all")...).is(201)
	for _, name := range []string{"a", "b", "c"} {
		f.call("PUT", "/v1/vpcs/shop/tiers/"+name, `{"spec": {"cidrs": ["10.10.`+strconv.Itoa(int(name[0]))+`.0/24"]}}`, as("all")...).is(201)
	}
	f.call("PUT", "/v1/vpcs/shop/acls/open", `{"spec": {}}`, as("all")...).is(201)
	_, err := f.sandbox.NBCtl(t.Context(), "set", "Port_Group", "ovnvpc.shop.open", `external_ids:"ovn-vpc:spec"=nonsense`)
	require.NoError(t, err)
	type list struct {
		Continue    string
		Diagnostics model.Diagnostics
	}
	ask := func(path, who string) (l list) {
		require.NoError(t, json.Unmarshal([]byte(f.call("GET", path, "", as(who)...).is(200).text), &l))
		return l
	}
	for _, path := range []string{"/v1/vpcs/shop/acls", "/v1/resources?kind=acls", "/v1/resources", "/v1/resources?limit=1", "/v1/export?vpc=shop"} {
		for _, who := range []string{"ours", "all"} {
			found := ask(path, who).Diagnostics
			require.Len(t, found, 1, path)
			require.Equal(t, "ACL shop/open", found[0].Resource)
			require.Equal(t, model.LevelWarning, found[0].Severity)
			require.Equal(t, model.CodeDamaged, found[0].Code)
			require.Contains(t, found[0].Problem, "left out, since the spec stored in Port_Group acl/shop/open can't be read: ")
		}
	}
	require.Empty(t, ask("/v1/resources?limit=1&continue="+ask("/v1/resources?limit=1", "ours").Continue, "ours").Diagnostics)
	require.Empty(t, ask("/v1/vpcs/shop/tiers", "ours").Diagnostics)
	require.Empty(t, ask("/v1/resources", "theirs").Diagnostics)
}
