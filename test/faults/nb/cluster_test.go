package nb_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
)

// trouble is what befalls a server of the cluster.
type trouble struct {
	what       string
	begin, end func(ctx context.Context, c *lab.Cluster, server string) error
}

func troubles() []trouble {
	signal := func(s syscall.Signal) func(context.Context, *lab.Cluster, string) error {
		return func(ctx context.Context, c *lab.Cluster, server string) error { return c.Signal(ctx, server, s) }
	}
	link := func(up bool) func(context.Context, *lab.Cluster, string) error {
		return func(_ context.Context, c *lab.Cluster, server string) error { return c.SetLink(server, up) }
	}
	nothing := func(context.Context, *lab.Cluster, string) error { return nil } // Start brings it back
	return []trouble{
		{"killed", signal(syscall.SIGKILL), nothing},
		{"stopped", signal(syscall.SIGSTOP), signal(syscall.SIGCONT)},
		{"cut off", link(false), link(true)},
	}
}

// leader waits until there is one.
func leader(ctx context.Context, t *testing.T, c *lab.Cluster) string {
	t.Helper()
	found := ""
	require.Eventually(t, func() bool {
		found = c.Leader(ctx)
		return found != ""
	}, patience, pause, "the cluster has no leader")
	return found
}

// In a cluster whose leader is killed, stopped or cut off again and again nothing
// that was acknowledged is lost, and the servers go on as soon as it does. As long
// as it has no majority they say so.
func TestCluster(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := labtest.NewTestCluster(t, lab.SandboxOptions{NoNorthd: true})
	s, ctx := newStage(t, c.NB()), t.Context()
	s.found()
	l, r := s.begin(), s.ask()
	tried := testflag.Cases(4)
	var outages []outage
	for n := range tried {
		x, servers := troubles()[n%3], []string{leader(ctx, t, c)}
		lasts := time.Second + time.Duration(rand.IntN(int(4*time.Second)))
		if n%4 == 3 { // the majority
			rest := slices.DeleteFunc(c.Servers(), func(name string) bool { return name == servers[0] })
			servers, lasts = append(servers, rest[rand.IntN(2)]), detection+slack+2*time.Second
		}
		o := outage{what: "a cluster without a majority", from: time.Now()}
		for _, server := range servers {
			require.NoError(t, x.begin(ctx, c, server))
		}
		if len(servers) > 1 {
			s.swift()
		}
		<-time.After(lasts - time.Since(o.from))
		if o.until = time.Now(); len(servers) > 1 {
			outages = append(outages, o)
		}
		for _, server := range servers {
			require.NoError(t, x.end(ctx, c, server))
		}
		if len(servers) > 1 { // there is no leader before
			require.NoError(t, c.Start(ctx))
		}
		leader(ctx, t, c)
		took := s.serves(ctx)
		require.NoError(t, c.Start(ctx))
		t.Logf("fault %d: %v %s for %s: the servers serve %s after there is a leader again", n, servers, x.what, o.until.Sub(o.from).Round(time.Millisecond), took.Round(time.Millisecond))
	}
	r.end(outages)
	l.end(c.NBCtl)
	faults.Audit(t, tried, files(c)...)
}

// files are the databases of a cluster's servers.
func files(c *lab.Cluster) []string {
	var paths []string
	for _, server := range c.Servers() {
		paths = append(paths, database(c.Dir(), server))
	}
	return paths
}
