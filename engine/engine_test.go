package engine_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// fixture is an engine on a real database.
type fixture struct {
	*engine.Engine
	t       *testing.T
	ctx     context.Context
	sandbox *lab.Sandbox
}

func newFixture(t *testing.T, northd bool) *fixture {
	t.Helper()
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: !northd})
	return connect(t, s, "default")
}

func connect(t *testing.T, s *lab.Sandbox, owner string) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	c, err := nbdb.Dial(ctx, nbdb.Options{Remotes: s.NB()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	e := engine.New(c, owner, "cli")
	e.SchemaVersion = c.Schema().Version
	return &fixture{Engine: e, t: t, ctx: ctx, sandbox: s}
}

// mirror gives the engine a mirror, and waits until it is complete.
func (f *fixture) mirror() {
	f.t.Helper()
	f.Mirror = engine.NewMirror(f.Owner)
	ctx, cancel := context.WithCancel(context.Background())
	come, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- f.Watch(ctx, &counter{come: come}) }()
	f.t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case <-come:
	case <-time.After(time.Minute):
		f.t.Fatal("the mirror stays empty")
	}
	require.Eventually(f.t, func() bool { return f.Mirror.Current(f.ctx) }, time.Minute, time.Millisecond)
}

func load(t *testing.T, text string) *model.Set {
	t.Helper()
	set, ds := model.Load(model.Input{Name: "spec.yaml", Data: []byte(text)})
	require.False(t, ds.HasErrors(), ds.String())
	return set
}

func example(t *testing.T, name string) *model.Set {
	t.Helper()
	inputs, ds := model.ReadPaths([]string{"../examples/" + name}, strings.NewReader(""))
	require.Empty(t, ds)
	set, ds := model.Load(inputs...)
	require.False(t, ds.HasErrors(), ds.String())
	return set
}

func (f *fixture) apply(text string) *engine.Result {
	f.t.Helper()
	r, err := f.Apply(f.ctx, load(f.t, text), false, engine.WaitNone)
	require.NoError(f.t, err)
	return r
}

// refused applies what must be refused, with all the words in its diagnostics.
func (f *fixture) refused(text string, words ...string) {
	f.t.Helper()
	before := f.dump()
	_, err := f.Apply(f.ctx, load(f.t, text), false, engine.WaitNone)
	var invalid *engine.InvalidError
	require.ErrorAs(f.t, err, &invalid)
	for _, w := range words {
		require.Contains(f.t, err.Error(), w)
	}
	require.Equal(f.t, before, f.dump(), "a refused input has written something")
}

func (f *fixture) nbctl(args ...string) string {
	f.t.Helper()
	out, err := f.sandbox.Binaries().Run(f.ctx, "ovn-nbctl", append([]string{"--db=" + f.sandbox.NB(), "--no-leader-only"}, args...)...)
	require.NoError(f.t, err, out)
	return out
}

// dump is the whole database as text.
func (f *fixture) dump() string {
	f.t.Helper()
	out, err := f.sandbox.Binaries().Run(f.ctx, "ovsdb-client", "--format=list", "dump", f.sandbox.NB(), nbdb.Northbound)
	require.NoError(f.t, err, out)
	return out
}

func (f *fixture) noDrift() {
	f.t.Helper()
	d, err := f.Drift(f.ctx, "", false, engine.WaitNone)
	require.NoError(f.t, err)
	require.Empty(f.t, d.Faults)
}

func (f *fixture) attachments(vpc string) map[string]*model.AttachmentSpec {
	f.t.Helper()
	objects, err := f.Get(f.ctx, engine.Filter{Kind: model.KindAttachment, VPC: vpc})
	require.NoError(f.t, err)
	out := map[string]*model.AttachmentSpec{}
	for _, o := range objects {
		out[o.Resource.Metadata.Name] = o.Resource.Spec.(*model.AttachmentSpec)
	}
	return out
}

func TestMain(m *testing.M) {
	if remote := os.Getenv(writerEnv); remote != "" {
		os.Exit(writer(remote))
	}
	goleak.VerifyTestMain(m)
}

// vpc, tier and att are documents.
func vpc(name, cidrs string) string {
	return "---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: " + name + "}, spec: {cidrs: [" + cidrs + "]}}\n"
}

func tier(vpc, name, cidrs string) string { return tierWith(vpc, name, "cidrs: ["+cidrs+"]") }

func tierWith(vpc, name, spec string) string { return document("Tier", vpc, name, spec) }

func att(vpc, name, tier string) string { return document("Attachment", vpc, name, "tier: "+tier) }

func document(kind, vpc, name, spec string) string {
	return "---\n{apiVersion: ovn-vpc/v1, kind: " + kind + ", metadata: {name: " + name + ", vpc: " + vpc + "}, spec: {" + spec + "}}\n"
}
