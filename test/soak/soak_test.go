// Package soak_test runs a server under changes that never end, and watches what
// it and the database use.
package soak_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/test/program"
)

var (
	duration = flag.Duration("duration", 10*time.Second, "how long to churn; memory is judged from 10m on")
	rate     = flag.Int("rate", 20, "calls in a second")
)

const (
	vpc = "soak"
	// names is how many attachments there are at most.
	names = 200
	// samples are taken in a run, a second apart at least.
	samples = 60
	// judged is from how long on a trend tells something.
	judged = 10 * time.Minute
)

// spec is the VPC as it is applied the n-th time.
func spec(n int) string {
	text := fmt.Sprintf("apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: %s}\nspec: {cidrs: [10.10.0.0/16]}\n", vpc)
	for i := range 4 {
		text += fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: Tier\nmetadata: {name: t%d, vpc: %s}\nspec: {cidrs: [10.10.%d.0/24], acl: l%d}\n", i, vpc, i+1, (i+n)%2)
	}
	for i := range 2 {
		text += fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: ACL\nmetadata: {name: l%d, vpc: %s}\nspec: {rules: [{protocol: tcp, ports: [%d]}, {tiers: [t0, t1]}]}\n", i, vpc, 8000+n%100)
	}
	return text
}

// soak is a server under churn.
type soak struct {
	box     *lab.Sandbox
	server  *program.Server
	client  *client.Client
	program string
	file    string
	done    atomic.Int64 // calls
	events  atomic.Int64
}

func TestSoak(t *testing.T) {
	t.Setenv("GOGC", "100") // a server collects garbage seldom by itself, which hides a leak
	s := &soak{box: labtest.NewTestSandbox(t, lab.SandboxOptions{}), program: program.Build(t, "../.."), file: filepath.Join(t.TempDir(), "spec.yaml")}
	s.server = program.Serve(t, s.program, "--nb", s.box.NB(), "--sb", s.box.SB())
	var err error
	s.client, err = client.New(client.Options{URL: s.server.URL()})
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	ctx, stop := context.WithTimeout(t.Context(), *duration)
	defer stop()
	require.NoError(t, s.apply(t.Context(), 0))

	work, ctx := errgroup.WithContext(ctx)
	const attachers = 4
	for i := range attachers {
		work.Go(func() error {
			return repeat(ctx, time.Second*attachers/time.Duration(*rate), func(int) error { return s.attach(ctx, i, attachers) })
		})
	}
	work.Go(func() error { return repeat(ctx, 2*time.Second, func(n int) error { return s.replace(ctx, n) }) })
	work.Go(func() error { return repeat(ctx, 10*time.Second, func(n int) error { return s.apply(ctx, n+1) }) })
	for range 3 {
		work.Go(func() error { return repeat(ctx, time.Second, func(int) error { return s.watch(ctx) }) })
	}
	var table table
	work.Go(func() error {
		start := time.Now()
		return repeat(ctx, max(*duration/samples, time.Second), func(int) error { return s.sample(ctx, start, &table) })
	})
	if err := work.Wait(); !errors.Is(err, context.DeadlineExceeded) {
		require.NoError(t, err)
	}
	fmt.Print(table.String())
	require.NotEmpty(t, table)
	require.Positive(t, s.events.Load())
	require.Empty(t, s.server.Complaints())
	if *duration >= judged {
		require.Empty(t, table.growth())
	}
}

// repeat does something again and again, until the context ends.
func repeat(ctx context.Context, every time.Duration, do func(n int) error) error {
	for n := 0; ; n++ {
		if err := do(n); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// attach creates, changes or deletes one of an attacher's own attachments.
func (s *soak) attach(ctx context.Context, i, of int) error {
	s.done.Add(1)
	id := model.ID{Kind: model.KindAttachment, VPC: vpc, Name: fmt.Sprintf("a%d", rand.IntN(names/of)*of+i)}
	stored, err := s.client.GetOne(ctx, id)
	var missing *engine.NotFoundError
	switch {
	case errors.As(err, &missing):
		spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
		spec.Tier = fmt.Sprintf("t%d", rand.IntN(4))
		_, err = s.client.Put(ctx, &model.Resource{Kind: id.Kind, Metadata: model.Metadata{Name: id.Name, VPC: id.VPC}, Spec: spec}, client.WriteOptions{})
	case err != nil:
	case rand.IntN(2) == 0:
		_, err = s.client.DeleteOne(ctx, id, client.WriteOptions{})
	default:
		_, err = s.client.Patch(ctx, stored.Resource.ID(), map[string]any{"metadata": map[string]any{"labels": map[string]string{"n": fmt.Sprint(rand.IntN(1000))}}}, client.WriteOptions{})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	return nil
}

// replace exchanges the list of a tier.
func (s *soak) replace(ctx context.Context, n int) error {
	_, err := s.client.ReplaceACL(ctx, vpc, fmt.Sprintf("t%d", n%4), fmt.Sprintf("l%d", rand.IntN(2)), engine.WaitNone)
	var conflict *engine.ConflictError
	if errors.As(err, &conflict) {
		return nil // an apply beside it
	}
	return err
}

// apply changes the rules by a process of its own.
func (s *soak) apply(ctx context.Context, n int) error {
	if err := os.WriteFile(s.file, []byte(spec(n)), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, s.program, "--nb", s.box.NB(), "apply", "-f", s.file).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 4 {
		return nil // a conflict
	}
	if err != nil {
		return fmt.Errorf("applying: %w: %s", err, out)
	}
	return nil
}

// watch is a client that comes and goes.
func (s *soak) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(10_000))*time.Millisecond)
	defer cancel()
	for _, err := range s.client.Watch(ctx, client.WatchOptions{}) {
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("watching: %w", err)
		}
		s.events.Add(1)
	}
	return nil
}

// sample notes what is used now. The database is compacted first: what is left
// is what it holds.
func (s *soak) sample(ctx context.Context, start time.Time, t *table) error {
	values, err := s.server.Metrics(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.box.NB()[len("unix:"):])
	if out, err := s.box.Binaries().Run(ctx, "ovs-appctl", "-t", filepath.Join(dir, "nb.ctl"), "ovsdb-server/compact"); err != nil {
		return fmt.Errorf("compacting the database: %w: %s", err, out)
	}
	file, err := os.Stat(filepath.Join(dir, "nb.db"))
	if err != nil {
		return err
	}
	*t = append(*t, row{after: time.Since(start), calls: float64(s.done.Load()), rss: values["process_resident_memory_bytes"], heap: values["go_memstats_heap_inuse_bytes"],
		goroutines: values["go_goroutines"], files: values["process_open_fds"], nb: float64(file.Size())})
	return nil
}
