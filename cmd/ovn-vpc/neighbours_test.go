package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

// ours is what is stored before others lay hands on it.
const ours = `
{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {capabilities: {distributedRouting: true}, limits: {tiers: 9}}}
---
{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/8, "fd00::/32"], offering: small}}
---
{apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: l, vpc: shop}, spec: {rules: [{protocol: tcp, ports: [80, 8000-9000], tiers: [web], log: true}, {protocol: icmp, icmp: {type: 8}, cidrs: [192.0.2.0/24]}]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: web, vpc: shop}, spec: {cidrs: [10.0.1.0/24], reserved: [10.0.1.9-10.0.1.20]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: db, vpc: shop}, spec: {cidrs: [10.0.2.0/24, "fd00:0:0:2::/64"], acl: l, dhcp: {dnsServers: [10.0.1.3]}}}
---
{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: web-1, vpc: shop, labels: {a: b}}, spec: {tier: web, allowedAddresses: [10.9.0.0/24]}}
---
{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: db-1, vpc: shop}, spec: {tier: db}}
---
{apiVersion: ovn-vpc/v1, kind: Expectation, metadata: {name: e, vpc: shop}, spec: {from: outside, to: db, traffic: tcp 22, expect: deny}}
---
{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: other}, spec: {cidrs: [10.0.0.0/8]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: web, vpc: other}, spec: {cidrs: [10.0.1.0/24]}}
`

// neighbourhood is a database with ours in it, and a server on it.
type neighbourhood struct {
	nb   string
	url  string
	file string // holds ours
	good string // the documents with all that was left open, a file too
}

// Whatever others do to our rows and put beside them, every command and every
// route ends in a result or a word on what is wrong. None that only reads
// writes, and none touches what belongs to others. What is wrong with a row of
// ours drift names; a repair, and applying the specs again, mends it.
func TestBadNeighbours(t *testing.T) {
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	n := &neighbourhood{nb: s.NB(), file: filepath.Join(t.TempDir(), "ours.yaml"), good: filepath.Join(t.TempDir(), "good.yaml")}
	require.NoError(t, os.WriteFile(n.file, []byte(ours), 0o600))
	n.url, _ = serve(t, s, "--insecure")
	// A case takes a second. Unless the flags are given, they are few, and the same
	// each time.
	for name, few := range map[string]string{"rapid.checks": "30", "rapid.seed": "1"} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			require.NoError(t, f.Value.Set(few))
			t.Cleanup(func() { require.NoError(t, f.Value.Set(f.DefValue)) })
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		db := dialRaw(t, n.nb)
		defer db.Close()
		db.empty(t)
		n.command(t, exitDone, "apply", "-f", n.file)
		require.NoError(t, os.WriteFile(n.good, []byte(n.command(t, exitDone, "export")), 0o600))
		d := &vandal{T: t, db: db, acts: rapid.IntRange(1, 4).Draw(t, "damages")}
		for range d.acts {
			d.act()
		}
		n.checkReading(t, db, d)
		n.checkWriting(t, db)
	})
}

// checkReading runs what is to write nothing.
func (n *neighbourhood) checkReading(t *rapid.T, db *rawNB, d *vandal) {
	before := db.dump(t)
	drift := n.command(t, exitDone, "drift", "-o", "json")
	if len(d.blamed) == 1 && d.acts == 1 {
		require.Contains(t, drift, d.blamed[0].id, "drift is silent on it")
	}
	for _, args := range some(t, 6,
		"get all -o yaml", "get attachments -o wide", "get vpc shop", "get acl shop/l -o json", "get expectations -o json", "get offerings",
		"describe vpc shop", "describe tier shop/db", "describe attachment shop/web-1", "describe acl shop/l",
		"plan --rows -f "+n.file, "plan --prune -o json -f "+n.file, "plan -f "+n.good, "validate -f "+n.file,
		"drift", "drift --vpc shop --exit-code", "export", "export --vpc shop", "reach --vpc shop --rules", "reach --vpc shop --by attachment -o json",
		"reach -f "+n.file, "verify --vpc shop", "verify -f "+n.file, "trace web-1 db-1 tcp/80 --vpc shop", "trace tier/db outside --vpc shop -o json",
		"trace web-1 tier/db --vpc shop -f "+n.file, "explain shop/l/ingress/1", "explain shop/l/ingress/1 -f "+n.file,
	) {
		n.command(t, anyExit, strings.Fields(args)...)
	}
	for _, path := range some(t, 6, "/metrics", "/v1/resources?builtins=true&managers=true", "/v1/resources?kind=attachment&up=false", "/v1/vpcs", "/v1/offerings/small", "/v1/vpcs/shop",
		"/v1/vpcs/shop/tiers", "/v1/vpcs/shop/tiers/db", "/v1/vpcs/shop/acls/l", "/v1/vpcs/shop/attachments?tier=web", "/v1/vpcs/shop/attachments/web-1",
		"/v1/vpcs/shop/expectations", "/v1/vpcs/shop/expectations/e", "/v1/export", "/v1/drift", "/v1/drift?vpc=shop", "/v1/verify", "/v1/reach?vpc=shop") {
		n.call(t, http.MethodGet, path, "")
	}
	for _, path := range some(t, 2, "/v1/plan?prune=true", "/v1/validate?strict=true", "/v1/verify") {
		n.call(t, http.MethodPost, path, ours)
	}
	n.call(t, http.MethodPost, "/v1/trace", `{"from": "web-1", "to": "db-1", "traffic": "tcp/80", "vpc": "shop"}`)
	n.call(t, http.MethodPost, "/v1/explain", `{"text": "shop/l/ingress/1"}`)
	require.Equal(t, before, db.dump(t), "what only reads has written")
}

// some are a few of many, so that a case is over soon.
func some(t *rapid.T, few int, of ...string) []string {
	return rapid.Permutation(of).Draw(t, "some")[:few]
}

// checkWriting changes, repairs, applies and deletes.
func (n *neighbourhood) checkWriting(t *rapid.T, db *rawNB) {
	foreign := db.foreign(t)
	switch rapid.IntRange(0, 3).Draw(t, "change") {
	case 0:
		n.command(t, anyExit, "acl", "replace", "shop", "web", "l")
		n.command(t, anyExit, "delete", "attachment", "shop/web-1")
	case 1:
		n.call(t, http.MethodPost, "/v1/vpcs/shop/attachments", `{"spec": {"tier": "web"}}`)
		n.call(t, http.MethodPut, "/v1/vpcs/shop/attachments/db-1", `{"spec": {"tier": "db", "enabled": false}}`)
		n.call(t, http.MethodPatch, "/v1/vpcs/shop/tiers/db", `{"metadata": {"labels": {"a": "b"}}}`)
		n.call(t, http.MethodPost, "/v1/vpcs/shop/tiers/web/acl", `{"acl": "l"}`)
		n.call(t, http.MethodPut, "/v1/offerings/small", `{"spec": {"capabilities": {"distributedRouting": true}}}`)
		n.call(t, http.MethodDelete, "/v1/vpcs/shop/attachments/db-1", "")
	case 2:
		n.command(t, anyExit, "delete", "vpc", "shop", "--cascade")
		n.command(t, anyExit, "delete", "-f", n.file)
	}
	n.command(t, anyExit, "drift", "--repair")
	n.call(t, http.MethodPost, "/v1/drift/repair", "")
	n.checkSparing(t, db)
	if run([]string{"--nb", n.nb, "apply", "--repair", "-f", n.good}, strings.NewReader(""), io.Discard, io.Discard) == exitDone {
		n.command(t, anyExit, "drift", "--repair")
		var left engine.DriftReport
		require.NoError(t, json.Unmarshal([]byte(n.command(t, exitDone, "drift", "-o", "json")), &left))
		for _, fault := range left.Faults {
			if !strings.Contains(fault.Problem, "it stays: it holds what somebody else made") {
				require.Equal(t, engine.DriftUnreadable, fault.Kind, "not mended: %+v", fault)
			}
		}
	}
	require.Equal(t, foreign, db.foreign(t), "rows of others have changed")
}

// checkSparing applies without leave to overwrite what can't be read.
func (n *neighbourhood) checkSparing(t *rapid.T, db *rawNB) {
	var found engine.DriftReport
	require.NoError(t, json.Unmarshal([]byte(n.command(t, exitDone, "drift", "-o", "json")), &found))
	damaged := map[string]bool{}
	for _, fault := range found.Faults {
		damaged[string(fault.Row)] = fault.Kind == engine.DriftUnreadable && fault.Table != "NB_Global"
	}
	specs := func() map[string]string {
		all := map[string]string{}
		for _, r := range db.all(t) {
			if damaged[r.id] {
				all[r.id] = r.ids["ovn-vpc:spec"]
			}
		}
		return all
	}
	before := specs()
	n.command(t, anyExit, "apply", "-f", n.good)
	require.Equal(t, before, specs(), "what can't be read was overwritten")
}

// anyExit is any code that a command that did not crash ends with.
const anyExit = -1

// command runs a command and returns its results.
func (n *neighbourhood) command(t *rapid.T, want int, args ...string) string {
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"--nb", n.nb, "--timeout", "1m"}, args...), strings.NewReader(""), &stdout, &stderr)
	if want != anyExit {
		require.Equal(t, want, code, "%v: %s%s", args, shorten(stdout.String()), shorten(stderr.String()))
	}
	require.Contains(t, []int{exitDone, exitFailure, exitPending, exitInvalid, exitConflict}, code)
	if code != exitDone && code != exitPending {
		require.Contains(t, stderr.String(), "error", "%v", args)
	}
	return stdout.String()
}

func shorten(text string) string { return text[:min(len(text), 2000)] }

func (n *neighbourhood) call(t *rapid.T, method, path, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, n.url+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	if body == ours {
		request.Header.Set("Content-Type", "application/yaml")
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err, "%s %s", method, path)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Less(t, response.StatusCode, http.StatusInternalServerError, "%s %s: %s", method, path, shorten(string(text)))
}

// row is one of the database, as JSON.
type row struct {
	table string
	id    string
	name  string
	ids   map[string]string
	raw   map[string]any
}

func (r row) ours() bool { return r.ids["ovn-vpc:owner"] == "default" }

func keysOf[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func tables() []string {
	return []string{"Logical_Router", "Logical_Router_Port", "Logical_Router_Policy", "Logical_Switch", "Logical_Switch_Port", "ACL", "Port_Group", "DHCP_Options"}
}

// jsonText is a value as JSON.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("plain data: %w", err))
	}
	return string(text)
}
