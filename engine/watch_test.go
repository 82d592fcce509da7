package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// feed keeps what Watch tells, and holds it to what it promises.
type feed struct {
	f      *fixture
	cancel context.CancelFunc
	ended  chan error

	mu     sync.Mutex // guards what follows
	state  map[model.ID]engine.Object
	events []string // such as "+Tier shop/web", "-" for gone, "~" for modified
	resets int
	lost   []error
	failed string // the first promise that was broken
}

func (w *feed) Reset(all []engine.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resets++
	w.state = map[model.ID]engine.Object{}
	for _, o := range all {
		w.state[o.Resource.ID()] = o
	}
}

func (w *feed) Change(events []engine.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[model.ID]bool{}
	for _, e := range events {
		sign, o := "~", e.After
		switch {
		case e.Before == nil:
			sign = "+"
		case e.After == nil:
			sign, o = "-", e.Before
		}
		id := o.Resource.ID()
		had, ok := w.state[id]
		if seen[id] || ok != (e.Before != nil) || ok && !reflect.DeepEqual(had, *e.Before) {
			w.failed = fmt.Sprintf("%s%s: it was %v, and is said to have been %v", sign, id, had, e.Before)
		}
		seen[id] = true
		w.events = append(w.events, sign+id.String())
		if delete(w.state, id); e.After != nil {
			w.state[id] = *e.After
		}
	}
}

func (w *feed) Lost(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, err)
}

func (f *fixture) watch() *feed {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &feed{f: f, cancel: cancel, ended: make(chan error, 1)}
	go func() { w.ended <- f.Watch(ctx, w) }()
	f.t.Cleanup(func() {
		cancel()
		require.ErrorIs(f.t, <-w.ended, context.Canceled)
	})
	w.until(func() bool { return w.resets > 0 })
	return w
}

// until waits for what the feed is to be told.
func (w *feed) until(happened func() bool) {
	w.f.t.Helper()
	require.Eventually(w.f.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return happened()
	}, time.Minute, 20*time.Millisecond)
}

// text is all that matters of objects, for comparison.
func text(t *testing.T, o engine.Object) string {
	t.Helper()
	if _, ok := o.Resource.Spec.(*model.AttachmentSpec); !ok {
		o.Status = nil
	}
	var b strings.Builder
	require.NoError(t, model.EncodeYAML(&b, model.Envelope(o.Resource, o.Status)))
	return b.String() + o.Resource.Manager
}

// agrees waits until what was told is what is read.
func (w *feed) agrees() {
	w.f.t.Helper()
	objects, err := w.f.Get(w.f.ctx, engine.Filter{})
	require.NoError(w.f.t, err)
	want := map[model.ID]string{}
	for _, o := range objects {
		if o.Resource.Kind != model.KindACL || model.BuiltinACL(o.Resource.Metadata.Name) == nil {
			want[o.Resource.ID()] = text(w.f.t, o)
		}
	}
	have := map[model.ID]string{}
	w.until(func() bool {
		clear(have)
		for id, o := range w.state {
			have[id] = text(w.f.t, o)
		}
		return fmt.Sprint(have) == fmt.Sprint(want)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(w.f.t, want, have)
	require.Empty(w.f.t, w.failed)
}

// told are the events since the last call, once the present state is known.
func (w *feed) told() []string {
	w.f.t.Helper()
	w.agrees()
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

func offering(name string) string {
	return "---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: " + name + "}, spec: {limits: {tiers: 2}}}\n"
}

func TestWatchTellsEachChangeOnce(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24"))
	w := f.watch()
	require.Empty(t, w.told())

	f.apply(document("Attachment", "shop", "a", "tier: web, addresses: [10.0.0.9]"))
	require.Equal(t, []string{"+Attachment shop/a"}, w.told())
	f.apply(document("Attachment", "shop", "a", "tier: web, addresses: [10.0.0.10]")) // another row
	require.Equal(t, []string{"~Attachment shop/a"}, w.told())
	f.apply(document("ACL", "shop", "open", "rules: [{protocol: tcp}]") + offering("small"))
	require.Equal(t, []string{"+VPCOffering small", "+ACL shop/open"}, w.told())
	f.apply(document("ACL", "shop", "open", "rules: [{protocol: udp}]"))
	require.Equal(t, []string{"~ACL shop/open"}, w.told())
	_, err := f.ReplaceACL(f.ctx, "shop", "web", "open", engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, []string{"~Tier shop/web"}, w.told())

	// Others' rows and notes are none of it, nor is bookkeeping.
	f.nbctl("set", "Logical_Router", "shop", "external_ids:note=1")
	f.nbctl("set", "NB_Global", ".", "external_ids:note=1", "options:note=1")
	f.nbctl("ls-add", "foreign")
	f.nbctl("set", "Logical_Switch", "foreign", `external_ids:ovn-vpc\:owner=else`, `external_ids:ovn-vpc\:spec={}`)
	connect(t, f.sandbox, "else").apply(vpc("theirs", "10.9.0.0/16") + offering("theirs"))
	require.Empty(t, w.told())

	f.nbctl("set", "Logical_Switch_Port", "shop/a", "up=true")
	require.Equal(t, []string{"~Attachment shop/a"}, w.told())
	require.True(t, *w.state[model.ID{Kind: model.KindAttachment, VPC: "shop", Name: "a"}].Status.(*engine.AttachmentStatus).Up)

	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPCOffering, Name: "small"}, {Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"-VPCOffering small", "-VPC shop", "-ACL shop/open", "-Tier shop/web", "-Attachment shop/a"}, w.told())
	require.Equal(t, 1, w.resets)
}

func TestWatchWhatIsDoneByHand(t *testing.T) {
	f := newFixture(t, false)
	var log strings.Builder
	f.Log = slog.New(slog.NewTextHandler(&log, nil))
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24") + att("shop", "a", "web") + att("shop", "b", "web"))
	w := f.watch()

	f.nbctl("lsp-del", "shop/a")
	require.Equal(t, []string{"-Attachment shop/a"}, w.told())
	_, err := f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, []string{"+Attachment shop/a"}, w.told())

	f.nbctl("remove", "Logical_Switch_Port", "shop/a", "external_ids", `ovn-vpc\:owner`)
	require.Equal(t, []string{"-Attachment shop/a"}, w.told())
	_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, []string{"+Attachment shop/a"}, w.told())

	// A copy of a row is no second resource; which of the two counts is decided as in Get.
	ids := f.nbctl("get", "Logical_Switch_Port", "shop/b", "external_ids")
	spec, err := strconv.Unquote(strings.TrimSpace(f.nbctl("get", "Logical_Switch_Port", "shop/b", `external_ids:ovn-vpc\:spec`)))
	require.NoError(t, err)
	for range 6 { // the copies' UUIDs are random
		f.nbctl("lsp-add", "shop/web", "copy", "--", "set", "Logical_Switch_Port", "copy", "external_ids="+strings.TrimSpace(ids),
			`external_ids:ovn-vpc\:manager=hand`, `external_ids:ovn-vpc\:digest="`+translate.Digest([]byte(spec), "hand")+`"`)
		w.told()
		f.nbctl("lsp-del", "copy")
		w.told()
	}
	f.nbctl("lsp-add", "shop/web", "copy", "--", "set", "Logical_Switch_Port", "copy", "external_ids="+strings.TrimSpace(ids))
	f.nbctl("lsp-del", "shop/b")
	w.told()
	f.nbctl("lsp-del", "copy")
	require.Contains(t, w.told(), "-Attachment shop/b")

	f.nbctl("set", "Logical_Switch_Port", "shop/a", `external_ids:ovn-vpc\:spec={`)
	w.until(func() bool { return len(w.state) == 2 })
	f.nbctl("set", "Logical_Switch_Port", "shop/a", `external_ids:ovn-vpc\:spec=[`)
	_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	w.agrees()
	require.Equal(t, 1, strings.Count(log.String(), "can't be read"))
}

// jumble changes a VPC at random for a while.
func (f *fixture) jumble(name string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	text := vpc(name, "10.0.0.0/16") + tier(name, "web", "10.0.0.0/24") + tier(name, "app", "10.0.1.0/24")
	f.apply(text)
	for i := range 60 {
		a := fmt.Sprintf("a%d", r.IntN(6))
		var err error
		switch r.IntN(7) {
		case 0, 1:
			_, err = f.Apply(f.ctx, load(f.t, document("Attachment", name, a, fmt.Sprintf("tier: web, addresses: [10.0.0.%d]", 10+r.IntN(20)))), false, engine.WaitNone)
		case 2:
			_, err = f.Apply(f.ctx, load(f.t, att(name, a, "app")), false, engine.WaitNone)
		case 3:
			_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindAttachment, VPC: name, Name: a}}, false, engine.WaitNone)
		case 4:
			_, err = f.Apply(f.ctx, load(f.t, document("ACL", name, "list", fmt.Sprintf("rules: [{protocol: tcp, ports: [%d]}]", 1+r.IntN(9)))), false, engine.WaitNone)
		case 5:
			_, err = f.Apply(f.ctx, load(f.t, offering(fmt.Sprintf("%s-%d", name, r.IntN(2)))), false, engine.WaitNone)
		case 6:
			if i%5 == 0 {
				_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: name}}, true, engine.WaitNone)
				require.NoError(f.t, err)
				f.apply(text)
			}
		}
		var invalid *engine.InvalidError
		var missing *engine.NotFoundError
		if err != nil && !errors.As(err, &invalid) && !errors.As(err, &missing) {
			f.t.Error(err)
			return
		}
	}
}

func TestWatchTellsWhatIsRead(t *testing.T) {
	f := newFixture(t, false)
	w := f.watch()
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { connect(t, f.sandbox, "default").jumble(fmt.Sprintf("v%d", i), uint64(i)) })
	}
	late := f.watch()
	wg.Wait()
	w.agrees()
	late.agrees()
	require.Greater(t, len(w.told()), 100)
	require.Equal(t, 1, w.resets)
}

func TestWatchThroughLostConnections(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24") + att("shop", "a", "web"))
	file := filepath.Join(f.sandbox.Dir(), "nb.db")
	older, err := os.ReadFile(file)
	require.NoError(t, err)
	w := f.watch()
	f.apply(att("shop", "b", "web"))
	w.agrees()

	require.NoError(t, f.sandbox.Stop(f.ctx, "nb"))
	w.until(func() bool { return len(w.lost) > 1 }) // and tries again
	require.NoError(t, f.sandbox.Start(f.ctx))
	w.until(func() bool { return w.resets == 2 })
	require.Len(t, w.state, 4)
	w.agrees()

	require.NoError(t, f.sandbox.Stop(f.ctx, "nb"))
	require.NoError(t, os.WriteFile(file, older, 0o600))
	require.NoError(t, f.sandbox.Start(f.ctx))
	w.until(func() bool { return w.resets == 3 })
	require.Len(t, w.state, 3)
	f.apply(att("shop", "c", "web"))
	w.agrees()
	for _, err := range w.lost {
		require.ErrorContains(t, err, f.sandbox.NB())
	}
}

func TestWatchACluster(t *testing.T) {
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true, NBServers: 3})
	f := connect(t, s, "default")
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24"))
	w := f.watch()
	for i := range 3 {
		name := fmt.Sprintf("nb%d", i+1)
		require.NoError(t, s.Stop(f.ctx, name))
		f.apply(att("shop", fmt.Sprintf("a%d", i), "web"))
		w.agrees()
		require.NoError(t, s.Start(f.ctx))
	}
	require.Greater(t, w.resets, 1, "one of the three was the leader")
}

func TestWatchLeavesNoGoroutine(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16"))
	before := runtime.NumGoroutine()
	for range 10 {
		w := f.watch()
		w.cancel()
		w.ended <- <-w.ended
	}
	// One goroutine is that of the condition.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, 20*time.Millisecond)
}
