package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

func TestWait(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{})
	f.shop()
	d := f.call("PUT", attachments+"/web-1?wait=sb&timeout=60s", `{"spec": {"tier": "web"}}`).is(201).document()
	require.Nil(t, d.Pending)
	out, err := f.sandbox.SBCtl(t.Context(), "--bare", "--columns=logical_port", "find", "Port_Binding", `logical_port="shop/web-1"`)
	require.NoError(t, err)
	require.Contains(t, out, "shop/web-1", "the southbound database has it by now")
	f.call("POST", "/v1/vpcs/shop/tiers/web/acl?wait=sb&timeout=1m", `{"acl": "default-allow"}`).is(200)

	// A hypervisor that never says how far it is.
	_, err = f.sandbox.SBCtl(t.Context(), "chassis-add", "hv9", "geneve", "192.0.2.9",
		"--", "--id=@p", "create", "Chassis_Private", "name=hv9")
	require.NoError(t, err)
	put := f.call("PUT", attachments+"/web-2?wait=hv&timeout=2s", `{"spec": {"tier": "web"}}`).is(202)
	require.NotEmpty(t, put.header.Get("Location"))
	pending := put.document().Pending
	require.Equal(t, engine.WaitHV, pending.For)
	require.Greater(t, pending.Target, pending.Reached)
	require.Equal(t, []string{"hv9"}, pending.Chassis)
	f.call("GET", attachments+"/web-2", "").is(200)

	require.NoError(t, f.sandbox.Stop(t.Context(), "northd"))
	for _, c := range []struct{ method, path, body string }{
		{"POST", attachments, `{"spec": {"tier": "web"}}`},
		{"PATCH", "/v1/vpcs/shop", `{"metadata": {"labels": {"a": "b"}}}`},
		{"POST", "/v1/vpcs/shop/tiers/web/acl", `{"acl": "open"}`},
		{"POST", "/v1/apply", `{"apiVersion": "ovn-vpc/v1", "kind": "ACL", "metadata": {"name": "other", "vpc": "shop"}}`},
		{"POST", "/v1/delete", `{"items": [{"kind": "ACL", "vpc": "shop", "name": "other"}]}`},
		{"POST", "/v1/drift/repair", ""},
		{"DELETE", attachments + "/web-2", ""},
	} {
		r := f.call(c.method, c.path+"?wait=sb&timeout=1s", c.body).is(http.StatusAccepted)
		require.Contains(t, r.text, `"pending": {`)
	}
	f.call("GET", attachments+"/web-2", "").problem(404, "not-found")
	f.noDrift()

	// Where ports are bound is not worth a failure.
	require.NoError(t, f.sandbox.Stop(t.Context(), "sb"))
	require.Contains(t, f.call("GET", attachments, "").is(200).names(), "web-1")
	f.call("PATCH", attachments+"/web-1", `{"spec": {"hostname": "x"}}`).is(200)
}

// A server starts without the database, says so while it is gone, and goes on
// when it is back.
func TestDatabaseGone(t *testing.T) {
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	require.NoError(t, box.Stop(t.Context(), "nb"))
	f := serveInsecure(t, box)
	r := f.call("GET", "/v1/vpcs", "")
	r.problem(503, "unavailable")
	require.NotEmpty(t, r.header.Get("Retry-After"))
	f.call("PUT", "/v1/vpcs/shop", `{"spec": {"cidrs": ["10.10.0.0/16"]}}`).problem(503, "unavailable")
	f.call("GET", "/healthz", "").is(200)
	f.call("GET", "/readyz", "").problem(503, "unavailable")

	require.NoError(t, box.Start(t.Context()))
	f.ready()
	f.shop()
	f.call("POST", attachments, `{"spec": {"tier": "web"}}`).is(201)

	require.NoError(t, box.Stop(t.Context(), "nb"))
	f.call("POST", attachments, `{"spec": {"tier": "web"}}`).problem(503, "unavailable")
	f.call("GET", attachments, "").problem(503, "unavailable")
	f.call("POST", "/v1/plan", `{"items": []}`).problem(503, "unavailable")
	require.Eventually(t, func() bool {
		r, err := f.try("GET", "/readyz", "")
		return err == nil && r.status == 503
	}, time.Minute, 20*time.Millisecond)

	require.NoError(t, box.Start(t.Context()))
	f.ready()
	require.Len(t, f.call("GET", attachments, "").names(), 1)
	f.noDrift()
}
