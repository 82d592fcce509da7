package client_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/server"
)

// fixture is an engine on a real database, and clients of servers on it.
type fixture struct {
	t      *testing.T
	ctx    context.Context
	engine *engine.Engine
}

func newFixture(t *testing.T) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	nb, err := nbdb.Dial(ctx, nbdb.Options{Remotes: labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true}).NB()})
	require.NoError(t, err)
	t.Cleanup(nb.Close)
	return &fixture{t, ctx, engine.New(nb, "default", "robot")}
}

// client is one of a further server.
func (f *fixture) client() *client.Client { return f.clientWith(client.Options{}) }

func (f *fixture) clientWith(o client.Options) *client.Client {
	f.t.Helper()
	return f.clientThrough(o, func(s http.Handler) http.Handler { return s })
}

// clientThrough is one that something stands before the server of.
func (f *fixture) clientThrough(o client.Options, proxy func(http.Handler) http.Handler) *client.Client {
	f.t.Helper()
	s, err := server.New(server.Options{Engine: f.engine, Insecure: true, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(f.t.Output(), nil)), Now: time.Now, Rand: rand.Uint64})
	require.NoError(f.t, err)
	web := httptest.NewServer(proxy(s))
	f.t.Cleanup(web.Close)
	o.URL, o.Manager = web.URL, "robot"
	c, err := client.New(o)
	require.NoError(f.t, err)
	f.t.Cleanup(c.Close)
	return c
}

func (f *fixture) load(paths ...string) *model.Set {
	f.t.Helper()
	inputs, found := model.ReadPaths(paths, strings.NewReader(""))
	require.Empty(f.t, found)
	set, found := model.Load(inputs...)
	require.False(f.t, found.HasErrors(), found.String())
	return set
}

func (f *fixture) text(text string) *model.Set {
	set, _ := model.Load(model.Input{Name: "a.yaml", Data: []byte(text)})
	return set
}

// same holds what the client returns against what the engine does.
func same[T any](t *testing.T, theirs func() (T, error)) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		want, wanted := theirs()
		if wanted != nil {
			require.EqualError(t, err, wanted.Error())
			require.IsType(t, wanted, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, asJSON(t, want), asJSON(t, got))
	}
}

func asJSON(t *testing.T, v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(data)
}

// The client returns what the engine returns, to the last field, for every
// example and for inputs that are refused.
func TestSameAsEngine(t *testing.T) {
	for _, example := range []string{"three-tier", "dual-stack", "shared-acl", "centralised", "migration", "offering"} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.t = t
			now := time.Now() // a plan holds when it was made
			f.engine.Now = func() time.Time { return now }
			c, e, ctx := f.client(), f.engine, f.ctx
			set := f.load("../examples/" + example)
			same(t, func() (*engine.Plan, error) { return e.Plan(ctx, set, false) })(c.Plan(ctx, set, false))
			done, err := c.Apply(ctx, set, false, engine.WaitNone)
			require.NoError(t, err)
			require.True(t, done.Changed())
			same(t, func() (*engine.Result, error) { return e.Apply(ctx, set, true, engine.WaitNone) })(c.Apply(ctx, set, true, engine.WaitNone))
			for _, filter := range []engine.Filter{{}, {Kind: model.KindTier}, {VPC: set.VPCs()[0]}, {Kind: model.KindAttachment, Labels: map[string]string{"no": "where"}}} {
				same(t, func() ([]engine.Object, error) { return e.Get(ctx, filter) })(c.Get(ctx, filter))
			}
			same(t, func() ([]string, error) { return e.Names(ctx, model.KindTier, "") })(c.Names(ctx, model.KindTier, ""))
			same(t, func() (*engine.DriftReport, error) { return e.Drift(ctx, "", false, engine.WaitNone) })(c.Drift(ctx, "", false, engine.WaitNone))
			exported, err := c.Export(ctx, "")
			require.NoError(t, err)
			want, err := e.Export(ctx, "")
			require.NoError(t, err)
			require.Len(t, exported, len(want))
			for i, r := range want {
				require.Equal(t, model.Envelope(r, nil), model.Envelope(exported[i], nil))
			}
			used := []model.ID{{Kind: model.KindVPC, Name: set.VPCs()[0]}}
			same(t, func() (*engine.Result, error) { return e.Delete(ctx, used, false, engine.WaitNone) })(c.Delete(ctx, used, false, engine.WaitNone))
			done, err = c.Delete(ctx, used, true, engine.WaitNone)
			require.NoError(t, err)
			require.True(t, done.Changed())
			same(t, func() (*engine.Result, error) { return e.Delete(ctx, used, false, engine.WaitNone) })(c.Delete(ctx, used, false, engine.WaitNone))
			same(t, func() (*engine.Result, error) { return e.ReplaceACL(ctx, "a", "b", "c", engine.WaitNone) })(c.ReplaceACL(ctx, "a", "b", "c", engine.WaitNone))
		})
	}
}

const refused = `
apiVersion: ovn-vpc/v1
kind: Tier
metadata: {name: app, vpc: shop}
spec: {cidrs: [10.10.1.0/25, 10.99.0.0/24]}
---
apiVersion: ovn-vpc/v1
kind: Tier
metadata: {name: more, vpc: shop}
spec: {cidrs: [10.10.77.0/24], acl: nosuch}
---
apiVersion: ovn-vpc/v1
kind: Tier
metadata: {name: less, vpc: shop}
spec: {cidrs: [10.10.77.0/25]}
---
apiVersion: ovn-vpc/v1
kind: Attachment
metadata: {name: web-1, vpc: shop}
spec: {tier: db, addresses: [10.10.77.7]}
---
apiVersion: ovn-vpc/v1
kind: Attachment
metadata: {name: new, vpc: shop}
spec: {tier: wep, portSecurity: false, allowedAddresses: [192.0.2.0/24]}
---
apiVersion: ovn-vpc/v1
kind: Attachment
metadata: {name: elsewhere, vpc: nosuch}
spec: {tier: web}
`

// Faults stand at the same places, those that name another resource of the
// input too.
func TestSameFaults(t *testing.T) {
	f := newFixture(t)
	c, e, ctx := f.client(), f.engine, f.ctx
	_, err := e.Apply(ctx, f.load("../examples/three-tier"), false, engine.WaitNone)
	require.NoError(t, err)
	set := f.text(refused)
	_, err = e.Plan(ctx, set, false)
	var want, got *engine.InvalidError
	require.ErrorAs(t, err, &want)
	require.Greater(t, len(want.Diagnostics), 4)
	require.Contains(t, err.Error(), "(a.yaml:")
	_, err = c.Plan(ctx, set, false)
	require.ErrorAs(t, err, &got)
	// The server has also read the input: its warnings come with the faults.
	require.Equal(t, asJSON(t, want.Diagnostics.Errors()), asJSON(t, got.Diagnostics.Errors()))
	_, err = c.Apply(ctx, set, false, engine.WaitNone)
	require.EqualError(t, err, want.Error())

	broken := f.text(refused + "---\napiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: shop}\nspec: {cidrs: [x, 10.0.0.0/24]}\n")
	for _, set := range []*model.Set{set, broken, f.text("apiVersion: ovn-vpc/v1\nkind: VPCOffering\nmetadata: {name: small}\nspec: {}\n")} {
		same(t, func() (model.Diagnostics, error) { return e.Faults(ctx, set) })(c.Faults(ctx, set))
	}
}

// One resource after the other, by two servers.
func TestLifeOfAnAttachment(t *testing.T) {
	f := newFixture(t)
	one, two, ctx := f.client(), f.client(), f.ctx
	_, err := one.Apply(ctx, f.load("../examples/three-tier/"), false, engine.WaitNone)
	require.NoError(t, err)
	spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
	spec.Tier = "web"
	nic := &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: "shop"}, Spec: spec}

	made, err := one.Create(ctx, nic, client.CreateOptions{IdempotencyKey: "vm 7 nic 0"})
	require.NoError(t, err)
	require.True(t, made.Created)
	id := made.Resource.ID()
	require.NotEmpty(t, id.Name)
	require.Len(t, made.Status.(*engine.AttachmentStatus).Addresses, 1)
	again, err := two.Create(ctx, nic, client.CreateOptions{IdempotencyKey: "vm 7 nic 0"})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.False(t, again.Created)
	require.Equal(t, made.Object, again.Object)
	spec.Hostname = "other"
	_, err = two.Create(ctx, nic, client.CreateOptions{IdempotencyKey: "vm 7 nic 0"})
	var other *client.Error
	require.ErrorAs(t, err, &other)
	require.Equal(t, "urn:ovn-vpc:problem:key-reused", other.Type)
	require.NotEmpty(t, other.RequestID)

	named := *nic
	named.Metadata.Name = id.Name
	_, err = two.Create(ctx, &named, client.CreateOptions{})
	require.ErrorAs(t, err, &other)
	require.Equal(t, 409, other.Status)
	_, err = two.Put(ctx, &named, client.WriteOptions{New: true})
	var precondition *client.PreconditionError
	require.ErrorAs(t, err, &precondition)
	put, err := two.Put(ctx, &named, client.WriteOptions{Version: made.Version})
	require.NoError(t, err)
	require.False(t, put.Created)
	require.NotEqual(t, made.Version, put.Version)
	require.Equal(t, made.Resource.Spec.(*model.AttachmentSpec).Addresses, put.Resource.Spec.(*model.AttachmentSpec).Addresses)
	_, err = one.Patch(ctx, id, map[string]any{"spec": map[string]any{"chassis": "h1"}}, client.WriteOptions{Version: made.Version})
	require.ErrorAs(t, err, &precondition)
	patched, err := one.Patch(ctx, id, map[string]any{"spec": map[string]any{"chassis": "h1"}}, client.WriteOptions{Version: put.Version})
	require.NoError(t, err)
	got, err := two.GetOne(ctx, id)
	require.NoError(t, err)
	require.Equal(t, patched.Object, got.Object)
	require.Equal(t, patched.Version, got.Version)

	waiting, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	late, err := one.Patch(waiting, id, map[string]any{"spec": map[string]any{"chassis": nil}}, client.WriteOptions{Wait: engine.WaitHV})
	require.NoError(t, err)
	require.Equal(t, engine.WaitHV, late.Pending.For, "nobody brings it to hypervisors")
	require.NotEqual(t, patched.Version, late.Version)

	_, err = two.DeleteOne(ctx, id, client.WriteOptions{Version: patched.Version})
	require.ErrorAs(t, err, &precondition)
	done, err := two.DeleteOne(ctx, id, client.WriteOptions{})
	require.NoError(t, err)
	require.True(t, done.Changed())
	_, err = two.DeleteOne(ctx, id, client.WriteOptions{})
	var missing *engine.NotFoundError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, id, missing.ID)
	_, err = one.DeleteOne(ctx, model.ID{Kind: model.KindVPC, Name: "shop"}, client.WriteOptions{})
	var invalid *engine.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, model.CodeInUse, invalid.Diagnostics[0].Code)
	_, err = one.DeleteOne(ctx, model.ID{Kind: model.KindVPC, Name: "shop"}, client.WriteOptions{Cascade: true})
	require.NoError(t, err)
}
