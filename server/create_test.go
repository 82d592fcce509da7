package server_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

const attachments = "/v1/vpcs/shop/attachments"

func TestCreate(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	r := f.call("POST", attachments, `{"spec": {"tier": "web"}}`).is(201)
	d := r.document()
	require.Regexp(t, `^a-[0-9a-z]{10}$`, d.Metadata.Name)
	require.Equal(t, attachments+"/"+d.Metadata.Name, r.header.Get("Location"))
	require.NotEmpty(t, r.header.Get("ETag"))
	address := d.Status["addresses"].([]any)[0].(string)
	require.Regexp(t, `^10\.10\.1\.`, address)
	require.Equal(t, "shop/"+d.Metadata.Name, d.Status["interfaceID"])
	require.JSONEq(t, r.text, f.call("GET", r.header.Get("Location"), "").is(200).text)

	named := `{"metadata": {"name": "web-1"}, "spec": {"tier": "web"}}`
	f.call("POST", attachments, named).is(201)
	f.call("POST", attachments, named).problem(409, "exists")
	f.call("POST", attachments, `{"kind": "Tier", "spec": {}}`).problem(422, "invalid")
	f.call("POST", attachments, `{"metadata": {"vpc": "other"}, "spec": {"tier": "web"}}`).problem(422, "invalid")
	taken := f.call("POST", attachments, `{"spec": {"tier": "web", "addresses": ["`+address+`"]}}`)
	taken.problem(409, "taken")
	require.Contains(t, taken.text, d.Metadata.Name)
	f.call("POST", "/v1/vpcs", `{"spec": {"cidrs": ["10.0.0.0/8"]}}`).is(201)
	f.call("POST", "/v1/offerings", `{"spec": {}}`).is(201)
	f.call("POST", "/v1/vpcs/shop/acls", `{"spec": {}}`).is(201)
	f.call("POST", "/v1/vpcs/shop/tiers", `{"spec": {"cidrs": ["10.10.9.0/24"]}}`).is(201)
	f.noDrift()
}

// The same key is the same attachment, whichever server it reaches, and when.
func TestIdempotencyKey(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	const body = `{"spec": {"tier": "web"}}`
	first := f.call("POST", attachments, body, "Idempotency-Key", "nic 7").is(201)
	require.Empty(t, first.header.Get("Idempotency-Replayed"))
	other := serveInsecure(t, f.sandbox)
	again := other.call("POST", attachments, `{"apiVersion": "ovn-vpc/v1", "spec": {"tier": "web", "enabled": true}}`, "Idempotency-Key", "nic 7").is(201)
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
	require.JSONEq(t, first.text, again.text)

	f.call("PATCH", first.header.Get("Location"), `{"spec": {"hostname": "later"}}`).is(200)
	changed := other.call("POST", attachments, body, "Idempotency-Key", "nic 7").is(201).document()
	require.Equal(t, "later", changed.Spec["hostname"], "the resource as it is now")
	f.call("POST", attachments, `{"spec": {"tier": "web", "hostname": "x"}}`, "Idempotency-Key", "nic 7").problem(422, "key-reused")

	next := f.call("POST", attachments, body, "Idempotency-Key", "nic 8").is(201)
	require.NotEqual(t, first.header.Get("Location"), next.header.Get("Location"))
	f.call("DELETE", first.header.Get("Location"), "").is(200)
	f.call("POST", attachments, body, "Idempotency-Key", "nic 7").is(201)

	named := `{"metadata": {"name": "web-1"}, "spec": {"tier": "web"}}`
	f.call("POST", attachments, named, "Idempotency-Key", "named").is(201)
	require.Equal(t, "true", f.call("POST", attachments, named, "Idempotency-Key", "named").is(201).header.Get("Idempotency-Replayed"))
	f.call("POST", attachments, named, "Idempotency-Key", "another").problem(409, "exists")
	renamed := `{"metadata": {"name": "web-2"}, "spec": {"tier": "web"}}`
	f.call("POST", attachments, renamed, "Idempotency-Key", "named").problem(422, "key-reused")
	f.call("POST", attachments, body, "Idempotency-Key", "named").problem(422, "key-reused")
	f.call("POST", "/v1/vpcs/shop/tiers", `{"spec": {"cidrs": ["10.10.77.0/24"]}}`, "Idempotency-Key", "named").is(201)
	f.call("POST", attachments, body, "Idempotency-Key", strings.Repeat("k", 256)).problem(400, "malformed")
	f.call("POST", attachments, body, "Idempotency-Key", "a\tb").problem(400, "malformed")
	f.noDrift()
}

// Calls with few keys, sent to two servers at once, make one attachment for each key.
func TestIdempotencyKeyAtOnce(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	servers := []*fixture{f, serveInsecure(t, f.sandbox)}
	var mu sync.Mutex
	locations := map[string]map[string]bool{}
	parallel(t, 40, func(i int) error {
		key := fmt.Sprint("key ", i%5)
		r, err := servers[i%2].try("POST", attachments, `{"spec": {"tier": "web"}}`, "Idempotency-Key", key)
		if err != nil || r.status != 201 {
			return fmt.Errorf("%d %s %w", r.status, r.text, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if locations[key] == nil {
			locations[key] = map[string]bool{}
		}
		locations[key][r.header.Get("Location")] = true
		return nil
	})
	for key, all := range locations {
		require.Len(t, all, 1, key)
	}
	require.Len(t, f.call("GET", attachments, "").names(), 5)
	f.noDrift()
}

// Calls that arrive together are committed together, and one that fails fails alone.
func TestGroupCommit(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.call("PUT", "/v1/vpcs/shop/tiers/web", `{"spec": {"cidrs": ["10.10.1.0/24"], "acl": "open", "reserved": ["10.10.1.77"]}}`).is(200)
	before := f.nb.commits.Load()
	var mu sync.Mutex
	statuses, addresses := map[int]int{}, map[string]bool{}
	parallel(t, 64, func(i int) error {
		body := `{"spec": {"tier": "web"}}`
		switch i % 16 {
		case 1:
			body = `{"spec": {"tier": "none"}}`
		case 2:
			body = `{"spec": {"tier": "web", "addresses": ["10.10.1.77"]}}`
		case 3:
			body = `{"spec": {"tier": "web", "addresses": ["10.99.1.77"]}}`
		}
		r, err := f.try("POST", attachments, body)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		statuses[r.status]++
		if r.status == 201 {
			addresses[r.document().Status["addresses"].([]any)[0].(string)] = true
		}
		return nil
	})
	require.Equal(t, map[int]int{201: 52 + 1, 409: 3, 422: 8}, statuses)
	require.Len(t, addresses, 53, "no address twice")
	commits := f.nb.commits.Load() - before
	t.Logf("%d transactions for 64 calls", commits)
	require.Less(t, commits, int64(32))
	f.noDrift()
}

// Calls on one resource at once are carried out one after the other.
func TestCallsOnOneAttachment(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.call("PUT", attachments+"/one", `{"spec": {"tier": "web"}}`).is(201)
	parallel(t, 32, func(i int) error {
		r, err := f.try("PATCH", attachments+"/one", fmt.Sprintf(`{"metadata": {"labels": {"l%d": "x"}}}`, i))
		if err == nil && r.status != 200 {
			err = fmt.Errorf("%d %s", r.status, r.text)
		}
		return err
	})
	labels := f.call("GET", attachments+"/one", "").document().Metadata.Labels
	require.Len(t, slices.Collect(maps.Keys(labels)), 32)
}
