package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const yamlType = "application/yaml"

// example is a folder of examples as one stream.
func example(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob("../examples/" + name + "/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var b strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		b.WriteString("---\n" + string(data) + "\n")
	}
	return b.String()
}

func TestPlanApplyExportDrift(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	docs := example(t, "three-tier")
	var found struct{ Diagnostics model.Diagnostics }
	f.call("POST", "/v1/validate", docs, "Content-Type", yamlType).is(200).into(&found)
	require.Empty(t, found.Diagnostics.Errors())

	var plan engine.Plan
	planned := f.call("POST", "/v1/plan", docs, "Content-Type", yamlType).is(200)
	planned.into(&plan)
	require.Len(t, plan.VPCs, 1)
	require.Equal(t, []string{}, f.call("GET", "/v1/vpcs", "").names(), "a plan writes nothing")

	var result engine.Result
	f.call("POST", "/v1/apply", planned.text, "Content-Type", "application/vnd.ovn-vpc.plan+json").is(200).into(&result)
	require.True(t, result.VPCs[0].Done)
	f.call("POST", "/v1/apply", planned.text, "Content-Type", "application/vnd.ovn-vpc.plan+json").problem(409, "conflict")
	f.call("POST", "/v1/apply", docs, "Content-Type", yamlType).is(200).into(&result)
	require.Empty(t, result.VPCs, "applied again it changes nothing")

	export := f.call("GET", "/v1/export?vpc=shop", "").is(200).text
	f.call("POST", "/v1/plan", export).is(200).into(&plan)
	require.True(t, plan.Empty())
	f.call("GET", "/v1/export?vpc=none", "").problem(404, "not-found")
	f.call("GET", "/v1/drift?vpc=none", "").problem(404, "not-found")

	_, err := f.sandbox.NBCtl(t.Context(), "acl-del", "shop/db")
	require.NoError(t, err)
	var report engine.DriftReport
	f.call("GET", "/v1/drift", "").is(200).into(&report)
	require.NotEmpty(t, report.Faults)
	f.call("POST", "/v1/drift/repair?vpc=shop", "").is(200).into(&report)
	require.True(t, report.Repaired)
	f.noDrift()
}

func TestApplyPrunesByManager(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	one := `{"apiVersion": "ovn-vpc/v1", "kind": "Attachment", "metadata": {"name": "one", "vpc": "shop"}, "spec": {"tier": "web"}}`
	two := strings.ReplaceAll(one, "one", "two")
	f.call("POST", "/v1/apply?manager=mine", `{"items": [`+one+`,`+two+`]}`).is(200)
	f.call("POST", "/v1/apply?manager=mine&prune=true", one).is(200)
	require.Equal(t, []string{"one"}, f.call("GET", attachments, "").names())
	require.Equal(t, []string{"web"}, f.call("GET", "/v1/vpcs/shop/tiers", "").names(), "others' resources stay")
	f.call("POST", "/v1/apply?manager=~", one).problem(400, "malformed")
}

func TestBulkRefuses(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	bad := `{"items": [{"apiVersion": "ovn-vpc/v1", "kind": "Tier", "metadata": {"name": "x", "vpc": "shop"}, "spec": {"cidrs": ["10.10.1.0/25"], "acl": "none", "mtu": 9}}]}`
	for _, path := range []string{"/v1/plan", "/v1/apply"} {
		p := f.call("POST", path, bad).problem(422, "invalid")
		require.Greater(t, len(p.Diagnostics), 1, "all faults at once")
		f.call("POST", path, `{"items": `).problem(400, "malformed")
		f.call("POST", path, "a: [", "Content-Type", yamlType).problem(400, "malformed")
		f.call("POST", path, `7`).problem(422, "invalid")
	}
	var found struct{ Diagnostics model.Diagnostics }
	f.call("POST", "/v1/validate", bad).is(200).into(&found)
	require.Greater(t, len(found.Diagnostics), 1)
	const plan = "application/vnd.ovn-vpc.plan+json"
	for _, body := range []string{`{}`, `{"vpcs": null}`, `{"database": "x", "owner": "default", "vpcs": []}`} {
		f.call("POST", "/v1/apply", body, "Content-Type", plan).problem(409, "conflict")
	}
	f.call("POST", "/v1/apply", `{"vpc": []}`, "Content-Type", plan).problem(422, "invalid")
	f.call("POST", "/v1/apply", `[`, "Content-Type", plan).problem(400, "malformed")

	f.call("POST", "/v1/delete", `{"items": [{"kind": "VPC", "name": "none"}]}`).problem(404, "not-found")
	f.call("POST", "/v1/delete", `{"items": [{"kind": "Thing", "name": "none"}]}`).problem(422, "invalid")
	f.call("POST", "/v1/delete", `{"items": [{"kind": "ACL", "vpc": "shop", "name": "default-deny"}]}`).problem(422, "invalid")
	f.call("POST", "/v1/delete", `{"items": [{"kind": "ACL", "vpc": "shop", "name": "open"}]}`).problem(409, "in-use")
	f.call("POST", "/v1/delete", `{"items": [], "more": 1}`).problem(422, "invalid")
	f.call("POST", "/v1/delete", `{"items": []}`).is(200)
	f.call("POST", "/v1/delete?cascade=true", `{"items": [{"kind": "VPC", "name": "shop"}, {"kind": "VPC", "name": "shop"}]}`).is(200)
	require.Empty(t, f.call("GET", "/v1/resources", "").names())
}

func TestReplaceACL(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	const path = "/v1/vpcs/shop/tiers/web/acl"
	var result engine.Result
	f.call("POST", path, `{"acl": "default-allow"}`).is(200).into(&result)
	require.Equal(t, "spec.acl", result.VPCs[0].Changes[0].Fields[0].Field)
	require.Equal(t, "default-allow", f.call("GET", "/v1/vpcs/shop/tiers/web", "").document().Spec["acl"])
	f.call("POST", path, `{"acl": "none"}`).problem(422, "invalid")
	f.call("POST", path, `{}`).problem(422, "invalid")
	f.call("POST", path, `null`).problem(422, "invalid")
	f.call("POST", path, `{"list": "x"}`).problem(422, "invalid")
	f.call("POST", "/v1/vpcs/shop/tiers/none/acl", `{"acl": "open"}`).problem(404, "not-found")
	f.call("POST", "/v1/vpcs/none/tiers/web/acl", `{"acl": "open"}`).problem(404, "not-found")
}
