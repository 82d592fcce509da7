package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const (
	// rounds times together watches are opened: 10,000. One caller may have 1000.
	rounds, together = 20, 500
	// slack is how many goroutines more or less mean nothing: connections of
	// the test's own that are kept, and what the runtime does.
	slack = 10
	// leak is how much memory the rounds after the first may add: a few KB for
	// each watch would pass it.
	leak = 48 << 20
	// used is what Go has from the system, without the race detector's own.
	used = "go_memstats_sys_bytes"
)

// A server is as before when those who watched have gone, however they went.
func TestWatchesLeaveNothing(t *testing.T) {
	t.Setenv("GOGC", "100") // a server collects garbage seldom by itself, which hides a leak
	f := newFleet(t, 1, lab.SandboxOptions{NoNorthd: true})
	s, c, ctx := f.servers[0], f.clients[0], t.Context()
	require.NoError(t, f.command(ctx, "apply", "-f", "../../examples/three-tier", "--nb", f.box.NB()))
	before, err := s.Metrics(ctx)
	require.NoError(t, err)
	var memory float64
	for round := range rounds {
		require.NoError(t, watches(ctx, s.URL(), func() error {
			_, err := c.Patch(ctx, model.ID{Kind: model.KindVPC, Name: vpc}, map[string]any{"metadata": map[string]any{"labels": map[string]string{"round": fmt.Sprint(round)}}}, client.WriteOptions{})
			return err
		}), "round %d", round)
		if round == 0 {
			after, err := s.Metrics(ctx)
			require.NoError(t, err)
			memory = after[used]
		}
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		after, err := s.Metrics(ctx)
		require.NoError(t, err)
		require.Zero(t, after["ovn_vpc_watch_subscribers"])
		require.InDelta(t, before["go_goroutines"], after["go_goroutines"], slack)
		require.LessOrEqual(t, after[used], memory+leak)
	}, patience, 200*time.Millisecond)
	after, err := s.Metrics(ctx)
	require.NoError(t, err)
	t.Logf("goroutines %.0f, then %.0f; memory %.1f MiB, after a round %.1f, then %.1f", before["go_goroutines"], after["go_goroutines"],
		before[used]/(1<<20), memory/(1<<20), after[used]/(1<<20))
	f.healthy()
}

// watches opens many watches, makes a change, and leaves each when it has told
// of that.
func watches(ctx context.Context, url string, change func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	errs := make(chan error, together)
	var synced sync.WaitGroup
	synced.Add(together)
	for range together {
		go func() { errs <- watchOnce(ctx, transport, url, &synced) }()
	}
	synced.Wait()
	err := change()
	for range together {
		if e := <-errs; err == nil {
			err = e
		}
	}
	return err
}

func watchOnce(ctx context.Context, transport *http.Transport, url string, synced *sync.WaitGroup) error {
	tell := sync.OnceFunc(synced.Done)
	defer tell()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/watch", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // hangs up
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("watching: %s", resp.Status)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		switch event, _ := strings.CutPrefix(lines.Text(), "event: "); event {
		case "synced":
			tell()
		case "modified":
			return nil
		}
	}
	return fmt.Errorf("watching: the stream ends: %w", ctx.Err())
}

// Who watches a chassis hears of what comes to it, changes there and leaves it,
// and of nothing else.
func TestChassisHearsItsOwn(t *testing.T) {
	f := newFleet(t, 1, lab.SandboxOptions{NoNorthd: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, f.command(ctx, "apply", "-f", "../../examples/three-tier", "--nb", f.box.NB()))
	c := f.clients[0]
	put := func(name, chassis, migratingTo, hostname string) {
		t.Helper()
		spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
		spec.Tier, spec.Chassis, spec.MigratingTo, spec.Hostname = "web", chassis, migratingTo, hostname
		_, err := c.Put(ctx, &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: vpc, Name: name}, Spec: spec}, client.WriteOptions{})
		require.NoError(t, err)
	}
	remove := func(name string) {
		t.Helper()
		_, err := c.DeleteOne(ctx, model.ID{Kind: model.KindAttachment, VPC: vpc, Name: name}, client.WriteOptions{})
		require.NoError(t, err)
	}
	put("n1", "hv1", "", "")
	put("n2", "hv2", "", "")
	put("n3", "", "", "")
	heard := make(chan string)
	go func() {
		defer close(heard)
		for event, err := range c.Watch(ctx, client.WatchOptions{Filter: engine.Filter{Chassis: "hv1"}}) {
			if err != nil {
				return
			}
			text := string(event.Type)
			if event.Object.Resource != nil {
				text += " " + event.Object.Resource.Metadata.Name
			}
			select {
			case heard <- text:
			case <-ctx.Done():
				return
			}
		}
	}()
	hears := func(events ...string) {
		t.Helper()
		for _, want := range events {
			require.Equal(t, want, <-heard)
		}
	}
	hears("added n1", "synced")
	put("n2", "hv2", "", "two") // another's
	put("n3", "hv3", "", "")
	put("n4", "hv2", "hv3", "")
	remove("n4")
	_, err := c.ReplaceACL(ctx, vpc, "web", "default-allow", engine.WaitNone)
	require.NoError(t, err)
	put("n1", "hv1", "", "one")
	hears("modified n1")
	put("n1", "hv1", "hv2", "one") // a migration away
	hears("modified n1")
	put("n1", "hv2", "", "one")
	hears("deleted n1")
	put("n2", "hv2", "hv1", "two") // and one that comes
	hears("added n2")
	put("n2", "hv1", "", "two")
	hears("modified n2")
	put("n1", "hv2", "", "again")
	remove("n1")
	remove("n2")
	hears("deleted n2")
}
