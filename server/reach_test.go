package server_test

import (
	"net/url"
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
