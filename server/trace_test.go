package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
)

func TestTrace(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.call("PUT", "/v1/vpcs/shop/attachments/web-1", `{"spec": {"tier": "web"}}`).is(201)
	ask := func(body string) engine.TraceReport {
		var r engine.TraceReport
		f.call("POST", "/v1/trace", body).is(200).into(&r)
		return r
	}
	stored := ask(`{"from": "outside", "to": "web-1", "traffic": "tcp/22"}`)
	require.Equal(t, "shop", stored.VPC)
	require.False(t, stored.Planned)
	closed := `{"from": "outside", "to": "web-1", "traffic": "tcp/22", "items": [{"apiVersion": "ovn-vpc/v1", "kind": "Tier",
		"metadata": {"name": "web", "vpc": "shop"}, "spec": {"cidrs": ["10.10.1.0/24"], "acl": "%s"}}]}`
	for list, open := range map[string]bool{"default-allow": true, "default-deny": false} {
		planned := ask(strings.Replace(closed, "%s", list, 1))
		require.True(t, planned.Planned)
		require.Equal(t, open, planned.Reachable, list)
		require.Equal(t, list, planned.Paths[0].Hops[1].Decision.List)
	}
	f.call("POST", "/v1/trace", `{"from": "x", "to": "web-1"}`).problem(404, "not-found")
	f.call("POST", "/v1/trace", `{"from": "web-1", "to": "web-1", "via": 1}`).problem(422, "invalid")
	f.call("POST", "/v1/trace", `{"vpc": "none", "from": "x", "to": "web-1"}`).problem(404, "not-found")
	f.call("POST", "/v1/trace", `{"from": "outside", "to": "web-1", "items": [{"kind": "Tier"}]}`).problem(422, "invalid")
	f.call("POST", "/v1/trace", `{"from": "outside", "to": "web-1", "items": 1}`).problem(422, "invalid")
}
