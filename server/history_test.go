package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// What was changed in a VPC, the way back, and changes that wait for a confirmation.
func TestHistory(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	const shop = "/v1/vpcs/shop"
	f.shop()
	f.call("PATCH", shop, `{"metadata": {"labels": {"a": "b"}}}`).is(200)
	require.Contains(t, f.call("GET", shop+"/history", "").is(200).text, `"through": "edit"`)
	state := f.call("GET", shop+"/history/1", "", "Accept", "application/yaml").is(200).text
	require.Contains(t, state, "kind: VPC\n")
	require.NotContains(t, state, "a: b")
	require.Contains(t, f.call("GET", shop+"/rollback", "").is(200).text, `"metadata.labels.a"`)
	f.call("POST", shop+"/rollback?manager=ops", "").is(200)
	require.Contains(t, f.call("GET", shop+"/history", "").is(200).text, `"manager": "ops"`)
	for path, status := range map[string]int{"/history/99": 404, "/history/0": 404, "/history/x": 404, "/history/-1": 404, "/rollback?to=99": 422, "/rollback?to=0": 400, "/rollback?to=x": 400} {
		require.Equal(t, status, f.call("GET", shop+path, "").status, path)
	}
	f.call("GET", "/v1/vpcs/nosuch/history", "").problem(404, "not-found")
	f.call("GET", "/v1/vpcs/nosuch/history/1", "").problem(404, "not-found")
	p := f.call("GET", shop+"/history/99", "").problem(404, "not-found")
	require.Contains(t, p.Detail, "there is no state 99 in its history")
	f.call("POST", shop+"/rollback?allowOpen=x", "").problem(400, "malformed")
	f.call("POST", shop+"/rollback?unconfirmed=1", "").problem(409, "conflict")
	f.call("POST", shop+"/confirm", "").problem(409, "conflict")

	const change = `{"apiVersion": "ovn-vpc/v1", "kind": "VPC", "metadata": {"name": "shop", "labels": {"a": "c"}}, "spec": {"cidrs": ["10.10.0.0/16"]}}`
	for _, within := range []string{"0s", "25h", "1.5s", "500ms", "x", ""} {
		f.call("POST", "/v1/apply?confirmWithin="+within, `{"items": []}`).problem(400, "malformed")
	}
	require.Contains(t, f.call("POST", "/v1/apply?confirmWithin=10m", change).is(200).text, `"unconfirmed": [`)
	f.call("PATCH", shop, `{"metadata": {"labels": {"a": "d"}}}`).problem(409, "conflict")
	f.call("PUT", shop+"/attachments/web-1", `{"spec": {"tier": "web"}}`).is(http.StatusCreated)
	f.call("POST", shop+"/confirm", "").is(200)

	// The server itself takes back what nobody confirms.
	f.call("POST", "/v1/apply?confirmWithin=1s", strings.Replace(change, `"c"`, `"e"`, 1)).is(200)
	require.Eventually(t, func() bool { return strings.Contains(f.call("GET", shop+"/history", "").text, `"through": "expiry"`) },
		time.Minute, 50*time.Millisecond)
	require.Contains(t, f.call("GET", shop, "").is(200).text, `"a": "c"`)
	require.NotContains(t, f.call("GET", shop+"/history", "").text, `"unconfirmed"`)
}
