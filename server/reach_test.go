package server_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

const openToWorld = `{"apiVersion": "ovn-vpc/v1", "kind": "ACL", "metadata": {"name": "db", "vpc": "shop"},
	"spec": {"rules": [{"number": 10, "protocol": "tcp", "ports": [5432]}, {"number": 20, "protocol": "tcp", "ports": [5432], "tiers": ["app"]}], "defaults": {"ingress": "deny", "egress": "deny"}}}`

func TestReach(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.call("GET", "/v1/reach?vpc=shop", "").problem(404, "not-found")
	f.call("POST", "/v1/apply", example(t, "three-tier"), "Content-Type", yamlType).is(200)
	var r engine.ReachReport
	f.call("GET", "/v1/reach?to=db&port=tcp/5432&from=app,outside", "").is(200).into(&r)
	require.Len(t, r.VPCs[0].Paths, 1)
	app, db, outside := reach.End{Kind: reach.Tier, Name: "app"}, reach.End{Kind: reach.Tier, Name: "db"}, reach.End{Kind: reach.Outside}
	require.Equal(t, "tcp 5432", r.VPCs[0].Find(app, db).Traffic)
	f.call("POST", "/v1/reach?rules=true", openToWorld).is(200).into(&r)
	require.Equal(t, "tcp 5432", r.VPCs[0].Find(outside, db).Traffic)
	require.Equal(t, 10, r.VPCs[0].Find(outside, db).Parts[0].Ingress.Rule)
	f.call("GET", "/v1/reach?by=attachment&to=tier/db", "").is(200).into(&r)
	require.Equal(t, reach.Attachment, r.VPCs[0].Paths[0].From.Kind)

	f.call("GET", "/v1/reach?to=nosuch", "").problem(404, "not-found")
	for _, query := range []string{"by=vpc", "to=a/b", "from=app,,db", "port=ssh", "more=1", "rules=x"} {
		f.call("GET", "/v1/reach?"+query, "").problem(400, "malformed")
	}
	f.call("POST", "/v1/reach", `{"apiVersion": "ovn-vpc/v1", "kind": "Tier", "metadata": {"name": "db", "vpc": "shop"}, "spec": {"cidrs": ["10.99.0.0/24"]}}`).problem(422, "invalid")
}

func TestConfirmOpensAndStrict(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.call("POST", "/v1/apply", example(t, "three-tier"), "Content-Type", yamlType).is(200)
	f.call("DELETE", "/v1/vpcs/shop/expectations/db-is-private", "").is(200) // which stands against it
	planned := f.call("POST", "/v1/plan", openToWorld).is(200)
	var plan engine.Plan
	planned.into(&plan)
	require.Contains(t, plan.VPCs[0].Reach.String(), "+ outside -> db tcp 5432   by db/rule 10   OUTSIDE\n")

	const media = "application/vnd.ovn-vpc.plan+json"
	refused := f.call("POST", "/v1/apply?confirmOpens=true", openToWorld).problem(422, "invalid")
	require.Equal(t, "spec.rules[0]", refused.Diagnostics[0].Field)
	f.call("POST", "/v1/apply?confirmOpens=true", planned.text, "Content-Type", media).problem(422, "invalid")
	f.call("POST", "/v1/apply?allowOpen="+url.QueryEscape("outside -> db tcp"), openToWorld).problem(400, "malformed")
	f.call("POST", "/v1/apply?confirmOpens=true&allowOpen=db", openToWorld).problem(400, "malformed")
	f.call("POST", "/v1/apply?confirmOpens=true&allowOpen=db", planned.text, "Content-Type", media).problem(400, "malformed")
	named := "/v1/apply?confirmOpens=true&allowOpen=" + url.QueryEscape("outside -> db tcp 5432\nweb -> db tcp 5432")
	var result engine.Result
	f.call("POST", named, planned.text, "Content-Type", media).is(200).into(&result)
	require.True(t, result.VPCs[0].Done)
	f.call("POST", named, openToWorld).is(200)

	var found struct{ Diagnostics model.Diagnostics }
	for query, severity := range map[string]model.Level{"": model.LevelWarning, "?strict=true": model.LevelError} {
		f.call("POST", "/v1/validate"+query, openToWorld).is(200).into(&found)
		require.Len(t, found.Diagnostics, 1)
		require.Equal(t, severity, found.Diagnostics[0].Severity)
		require.Contains(t, found.Diagnostics[0].Problem, "never reached")
	}
}

// A single write and a removal may break expectations where that is asked for, and
// the VPC keeps a note of it; a single write can be held to what it may open.
func TestSingleWritesAreGated(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	const vpc = "/v1/vpcs/shop"
	f.call("POST", "/v1/apply", example(t, "three-tier"), "Content-Type", yamlType).is(200)
	f.call("PUT", vpc+"/expectations/closed", `{"spec": {"from": "outside", "to": "db", "expect": "deny"}}`).is(201)
	f.call("PUT", vpc+"/expectations/served", `{"spec": {"from": "db-1", "to": "web", "expect": "deny"}}`).is(201)
	note := func(word string) {
		t.Helper()
		text, err := f.sandbox.NBCtl(t.Context(), "get", "Logical_Router", "shop", `external_ids:ovn-vpc-run\:overridden`)
		require.NoError(t, err)
		require.Regexp(t, `\\"expectations\\":\[[^]]*\\"`+word+`\\"`, text)
	}
	const gate, allow = "?confirmOpens=true", "&allowOpen="
	all := allow + "outside+-%3E+db+all%0Aweb+-%3E+db+all%0Aapp+-%3E+db+all%0Adb+-%3E+outside+all%0Adb+-%3E+web+all%0Adb+-%3E+app+all"
	for _, c := range []struct{ method, path, body, noted string }{
		{"PUT", vpc + "/acls/db", `{"spec": {"rules": [{"number": 10, "protocol": "tcp"}]}}`, "closed"},
		{"PATCH", vpc + "/acls/db", `{"spec": {"rules": [{"number": 10, "protocol": "udp"}]}}`, "closed"},
		{"PATCH", vpc + "/tiers/db", `{"spec": {"acl": "default-allow"}}`, "closed"},
		{"POST", vpc + "/tiers/db/acl", `{"acl": "default-allow"}`, "closed"},
	} {
		require.Contains(t, f.call(c.method, c.path, c.body).problem(422, "invalid").Detail, "will not hold", c.path)
		refused := f.call(c.method, c.path+gate+"&overrideExpectations=true", c.body).problem(422, "invalid")
		require.Contains(t, refused.Detail, "the plan opens", c.path)
		f.call(c.method, c.path+gate+all+"&overrideExpectations=true", c.body).is(200)
		note(c.noted)
		f.call("POST", "/v1/apply", example(t, "three-tier"), "Content-Type", yamlType).is(200)
	}
	f.call("PUT", vpc+"/acls/db?allowOpen=x", `{"spec": {}}`).problem(400, "malformed")

	require.Contains(t, f.call("GET", vpc, "").is(200).text, `"expectationsHeld": 4`)

	// A removal takes along what names it; what it breaks otherwise is refused.
	f.call("POST", vpc+"/attachments", `{"metadata": {"name": "vpn"}, "spec": {"tier": "app", "allowedAddresses": ["192.0.2.0/24"]}}`).is(201)
	f.call("PUT", vpc+"/expectations/way", `{"spec": {"from": "192.0.2.1", "to": "outside", "expect": "deny"}}`).problem(422, "invalid")
	noted := f.call("POST", vpc+"/expectations?overrideExpectations=true", `{"metadata": {"name": "way"}, "spec": {"from": "app", "to": "app-1", "expect": "deny"}}`).is(201)
	require.NotEmpty(t, noted.text)
	note("way")
	for _, c := range [][3]string{{"DELETE", vpc + "/attachments/vpn?overrideExpectations=true", ""},
		{"POST", "/v1/delete?overrideExpectations=true", `{"items": [{"kind": "Expectation", "vpc": "shop", "name": "way"}]}`}} {
		f.call(c[0], c[1], c[2]).is(200)
	}
}

// A removal that breaks an expectation which it doesn't take along is refused with
// the rule that decides then, and may break it where that is asked for.
func TestRemovalsBreakExpectations(t *testing.T) {
	const vpc, broken = "/v1/vpcs/shop", "Expectation shop/reserved: allow 10.10.2.200 -> db tcp 5432 will not hold: tcp 5432 is stopped by "
	for name, c := range map[string]struct{ method, path, body, by string }{
		"a tier":                {"DELETE", vpc + "/tiers/app?cascade=true", "", "db/ingress default"},
		"a tier, by a document": {"POST", "/v1/delete?cascade=true", `{"items": [{"kind": "Tier", "vpc": "shop", "name": "app"}]}`, "db/ingress default"},
		"a tier's list":         {"POST", vpc + "/tiers/db/acl?", `{"acl": "default-deny"}`, "default-deny/ingress default"},
		"all rules of a list":   {"PUT", vpc + "/acls/db?", `{"spec": {"defaults": {"egress": "deny"}}}`, "db/ingress default"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
			f.call("POST", "/v1/apply", example(t, "three-tier"), "Content-Type", yamlType).is(200)
			f.call("PUT", vpc+"/expectations/reserved", `{"spec": {"from": "10.10.2.200", "to": "db", "traffic": "tcp/5432", "expect": "allow"}}`).is(201)
			before := f.call("GET", "/v1/export", "").is(200).text
			require.Contains(t, f.call(c.method, c.path, c.body).problem(422, "invalid").Detail, broken+c.by)
			require.Equal(t, before, f.call("GET", "/v1/export", "").is(200).text)
			f.call(c.method, c.path+"&overrideExpectations=true", c.body).is(200)
			text, err := f.sandbox.NBCtl(t.Context(), "get", "Logical_Router", "shop", `external_ids:ovn-vpc-run\:overridden`)
			require.NoError(t, err)
			require.Contains(t, text, `\"expectations\":[\"reserved\"]`)
			f.noDrift()
		})
	}
}

// What an expectation names stays, or takes it along; breaking expectations has no
// part in that.
func TestWhatExpectationsNameIsInUse(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	const db1 = "/v1/vpcs/shop/attachments/db-1"
	f.call("POST", "/v1/apply", example(t, "three-tier"), "Content-Type", yamlType).is(200)
	f.call("PUT", "/v1/vpcs/shop/expectations/served", `{"spec": {"from": "app", "to": "db-1", "traffic": "tcp/5432", "expect": "allow"}}`).is(201)
	for _, query := range []string{"", "?overrideExpectations=true"} {
		require.Contains(t, f.call("DELETE", db1+query, "").problem(409, "in-use").Detail, "it is in use by Expectation shop/served")
	}
	f.call("DELETE", db1+"?cascade=true", "").is(200)
	f.call("GET", "/v1/vpcs/shop/expectations/served", "").problem(404, "not-found")
	f.noDrift()
}

// Where rows are gone that a question needs, the answer names them, or is of what
// is left: it is no fault of the server.
func TestMissingRowsAreNamed(t *testing.T) {
	for table, find := range map[string]string{
		"Port_Group":          `external_ids:ovn-vpc\:key=acl/shop/db`,
		"Logical_Switch":      "name=shop/db",
		"Logical_Router":      "name=shop",
		"Logical_Router_Port": "name=shop/db/gw",
		"Logical_Switch_Port": "name=shop/db/rtr",
		"ACL":                 `external_ids:ovn-vpc\:key=acl-rule/shop/db/ingress/10`,
	} {
		t.Run(table, func(t *testing.T) {
			f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
			f.call("POST", "/v1/apply", example(t, "three-tier"), "Content-Type", yamlType).is(200)
			f.call("PUT", "/v1/vpcs/shop/expectations/closed", `{"spec": {"from": "outside", "to": "db", "expect": "deny"}}`).is(201)
			row, err := f.sandbox.NBCtl(t.Context(), "--bare", "--columns=_uuid", "find", table, find)
			require.NoError(t, err)
			require.NotEmpty(t, row)
			switch table {
			case "Logical_Switch_Port":
				_, err = f.sandbox.NBCtl(t.Context(), "lsp-del", "shop/db/rtr")
			case "Logical_Router_Port":
				_, err = f.sandbox.NBCtl(t.Context(), "lrp-del", "shop/db/gw")
			case "ACL":
				_, err = f.sandbox.NBCtl(t.Context(), "acl-del", "shop/db")
			default:
				_, err = f.sandbox.NBCtl(t.Context(), "destroy", table, strings.TrimSpace(row))
			}
			require.NoError(t, err)
			const trace = `{"vpc": "shop", "from": "app-1", "to": "db-1", "traffic": "tcp/5432"`
			for path, body := range map[string]string{"/v1/reach": "", "/v1/reach?by=attachment": "", "/v1/reach?vpc=shop": "", "/v1/verify": "", "/v1/verify?vpc=shop": "",
				"/v1/trace": trace + "}", "/v1/trace?": trace + `, "items": [` + openToWorld + "]}"} {
				a := f.call(map[bool]string{true: "GET", false: "POST"}[body == ""], path, body)
				require.Less(t, a.status, 500, "%s: %s", path, a.text)
				if a.status >= 400 && path != "/v1/trace?" { // an input is refused by itself
					require.Contains(t, a.text, "ovn-vpc drift", "%s: %s", path, a.text)
				}
				if table == "Port_Group" && body == "" {
					require.Contains(t, a.problem(422, "invalid").Detail, "ACL shop/db is not there", path)
				}
			}
		})
	}
}
