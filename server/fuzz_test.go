package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// fuzzed is what is stored when a call comes.
const fuzzed = `
{"items": [
{"apiVersion": "ovn-vpc/v1", "kind": "VPCOffering", "metadata": {"name": "small"}, "spec": {"limits": {"tiers": 3}}},
{"apiVersion": "ovn-vpc/v1", "kind": "VPC", "metadata": {"name": "v"}, "spec": {"cidrs": ["10.0.0.0/8", "fd00::/48"]}},
{"apiVersion": "ovn-vpc/v1", "kind": "ACL", "metadata": {"name": "l", "vpc": "v"}, "spec": {"rules": [{"protocol": "tcp", "ports": [80]}]}},
{"apiVersion": "ovn-vpc/v1", "kind": "Tier", "metadata": {"name": "t", "vpc": "v"}, "spec": {"cidrs": ["10.0.1.0/24"], "acl": "l"}},
{"apiVersion": "ovn-vpc/v1", "kind": "Attachment", "metadata": {"name": "a", "vpc": "v"}, "spec": {"tier": "t"}},
{"apiVersion": "ovn-vpc/v1", "kind": "Expectation", "metadata": {"name": "e", "vpc": "v"}, "spec": {"from": "outside", "to": "t", "traffic": "tcp 22", "expect": "deny"}}
]}`

// FuzzCall: whatever is asked, the server answers, as its document says, and
// the fault is the caller's. Each call finds the same database.
func FuzzCall(f *testing.F) {
	methods := []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete}
	const get, put, patch, post, remove = 0, 1, 2, 3, 4
	for _, seed := range []struct {
		method             uint8
		target, kind, body string
	}{
		{get, "/v1/resources?kind=tier&labels=a%3Db&limit=1", "", ""},
		{get, "/v1/drift?vpc=v", "", ""},
		{get, "/v1/vpcs/v/attachments?tier=t&up=false", "", ""},
		{put, "/v1/vpcs/v", "application/json", `{"spec": {"cidrs": ["10.0.0.0/8"], "mtu": 1400}}`},
		{put, "/v1/vpcs/v/tiers/u", "application/yaml", "spec:\n  cidrs: [10.0.2.0/24]\n"},
		{put, "/v1/vpcs/v/acls/l", "application/x-www-form-urlencoded", `{"spec": {"rules": [{"number": 1, "cidrs": ["::/0"], "tiers": ["t"], "log": true}]}}`},
		{put, "/v1/offerings/small", "application/json", `{"metadata": {"labels": {"a/b": "c"}}, "spec": {"limits": {"tiers": 1}}}`},
		{patch, "/v1/vpcs/v/attachments/a", "application/merge-patch+json", `{"spec": {"hostname": "h", "mac": null}, "metadata": {"labels": {"a": "b"}}}`},
		{post, "/v1/vpcs/v/attachments", "application/json; charset=utf-8", `{"spec": {"tier": "t", "addresses": ["10.0.1.9"]}}`},
		{post, "/v1/vpcs/v/tiers/t/acl", "application/json", `{"acl": "default-allow"}`},
		{post, "/v1/validate?strict=true", "application/json", fuzzed},
		{post, "/v1/plan?prune=true&manager=m", "application/json", fuzzed},
		{post, "/v1/apply?confirmOpens=true", "application/json", fuzzed},
		{post, "/v1/apply", "application/vnd.ovn-vpc.plan+json", `{"vpcs": [], "input": []}`},
		{post, "/v1/delete?cascade=true", "application/json", `{"items": [{"kind": "Tier", "vpc": "v", "name": "t"}]}`},
		{post, "/v1/explain", "application/json", `{"text": "name=\"v/l/ingress/1\"", "items": []}`},
		{post, "/v1/trace", "application/json", `{"from": "a", "to": "10.0.1.7", "traffic": "tcp/80", "vpc": "v"}`},
		{post, "/v1/verify", "application/json", `{"items": []}`},
		{post, "/v1/drift/repair", "", ""},
		{remove, "/v1/vpcs/v?cascade=true", "", ""},
	} {
		f.Add(seed.method, seed.target, seed.kind, []byte(seed.body))
	}
	s := newFixture(f, lab.SandboxOptions{NoNorthd: true})
	set, found := model.Load(model.Input{Name: "fuzzed", Data: []byte(fuzzed)})
	require.Empty(f, found)
	// What no client of HTTP would send, or Go's server answers by itself.
	unsent := func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar }
	committed := int64(-1)
	f.Fuzz(func(t *testing.T, method uint8, target, kind string, body []byte) {
		address, err := url.Parse(s.url + target)
		switch {
		case err != nil, !strings.HasPrefix(target, "/"), strings.ContainsFunc(target, unsent), strings.ContainsFunc(kind, unicode.IsControl),
			strings.HasPrefix(address.Path, "/v1/watch"), // which does not end
			strings.Contains(address.RawQuery, "wait"):   // for what does not run here
			return
		}
		s := *s
		s.t = t // that of f may not be used in here
		if committed != s.nb.commits.Load() {
			s.restore(set)
			committed = s.nb.commits.Load()
		}
		r, err := s.try(methods[int(method)%len(methods)], target, string(body), "Content-Type", kind)
		require.NoError(t, err)
		require.Less(t, r.status, 500, r.text)
	})
}

// restore brings the database to a state, whatever it holds.
func (f *fixture) restore(set *model.Set) {
	f.t.Helper()
	args := []string{"clear", "NB_Global", ".", "external_ids"}
	for _, table := range []string{"Logical_Router", "Logical_Switch", "Port_Group", "DHCP_Options"} {
		args = append(args, "--", "--all", "destroy", table)
	}
	_, err := f.sandbox.NBCtl(f.t.Context(), args...)
	require.NoError(f.t, err)
	_, err = f.engine.Apply(f.t.Context(), set, false, engine.WaitNone)
	require.NoError(f.t, err)
}
