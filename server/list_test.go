package server_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

func TestLists(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	require.JSONEq(t, `{"items": []}`, f.call("GET", "/v1/vpcs", "").is(200).text)
	f.call("GET", attachments, "").problem(404, "not-found")
	f.shop()
	require.Empty(t, f.call("GET", attachments, "").is(200).names())
	f.call("PUT", "/v1/vpcs/shop/tiers/db", `{"spec": {"cidrs": ["10.10.2.0/24"]}}`).is(201)
	f.call("PUT", attachments+"/a", `{"metadata": {"labels": {"env": "prod", "n": "1"}}, "spec": {"tier": "web", "chassis": "hv1"}}`).is(201)
	f.call("PUT", attachments+"/b", `{"metadata": {"labels": {"env": "prod"}}, "spec": {"tier": "db", "chassis": "hv2", "migratingTo": "hv1"}}`).is(201)
	f.call("PUT", attachments+"/c", `{"spec": {"tier": "db"}}`).is(201)
	for query, want := range map[string][]string{
		"":                        {"a", "b", "c"},
		"labels=env=prod":         {"a", "b"},
		"labels=env%3Dprod%2Cn=1": {"a"},
		"tier=db":                 {"b", "c"},
		"chassis=hv1":             {"a", "b"},
		"tier=db&chassis=hv1":     {"b"},
		"tier=none":               {},
		"up=true":                 {},
	} {
		require.Equal(t, want, f.call("GET", attachments+"?"+query, "").is(200).names(), query)
	}
	for query, want := range map[string][]string{
		"":                            {"shop", "open", "db", "web", "a", "b", "c"},
		"kind=acls":                   {"open"},
		"kind=acl&builtins=true":      {"default-allow", "default-deny", "open"},
		"vpc=shop&kind=Tier":          {"db", "web"},
		"vpc=none":                    {},
		"kind=attachments&name=b":     {"b"},
		"kind=offerings":              {},
		"labels=env=prod&chassis=hv1": {"a", "b"},
	} {
		require.Equal(t, want, f.call("GET", "/v1/resources?"+query, "").is(200).names(), query)
	}
	for _, query := range []string{"labels=x", "labels=env!=prod", "limit=0", "limit=1001", "limit=x", "limit=", "continue=x", "continue=eA", "up=yes", "kind=nothing", "vpc=A", "builtin=true"} {
		f.call("GET", "/v1/resources?"+query, "").problem(400, "malformed")
	}
}

// Pages go on where the one before ended, whatever came and went meanwhile.
func TestPagesUnderChange(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	for i := range 10 {
		f.call("PUT", fmt.Sprintf("%s/n%d", attachments, i), `{"spec": {"tier": "web"}}`).is(201)
	}
	page := func(query string) (names []string, next string) {
		r := f.call("GET", attachments+"?limit=4"+query, "").is(200)
		var l list
		r.into(&l)
		return r.names(), l.Continue
	}
	names, next := page("")
	require.Equal(t, []string{"n0", "n1", "n2", "n3"}, names)
	for _, gone := range []string{"n1", "n3", "n4"} {
		f.call("DELETE", attachments+"/"+gone, "").is(200)
	}
	f.call("PUT", attachments+"/n00", `{"spec": {"tier": "web"}}`).is(201)
	f.call("PUT", attachments+"/n55", `{"spec": {"tier": "web"}}`).is(201)
	names, next = page("&continue=" + url.QueryEscape(next))
	require.Equal(t, []string{"n5", "n55", "n6", "n7"}, names)
	names, next = page("&continue=" + next)
	require.Equal(t, []string{"n8", "n9"}, names)
	require.Empty(t, next)
}
