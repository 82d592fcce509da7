package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/test/program"
)

// fleet is an OVN with several servers on it, and the program for commands.
type fleet struct {
	t       *testing.T
	box     *lab.Sandbox
	program string
	servers []*program.Server
	clients []*client.Client // of each server
	retries atomic.Int64     // calls that were made again

	mu     sync.Mutex
	kills  int
	counts map[string]float64 // metrics of processes that were killed
}

func newFleet(t *testing.T, servers int, o lab.SandboxOptions) *fleet {
	t.Helper()
	f := &fleet{t: t, box: labtest.NewTestSandbox(t, o), program: program.Build(t, "../.."), counts: map[string]float64{}}
	flags := []string{"--nb", f.box.NB()}
	if f.box.SB() != "" {
		flags = append(flags, "--sb", f.box.SB())
	}
	for range servers {
		s := program.Serve(t, f.program, flags...)
		// One attempt each: the test itself goes on with another server.
		c, err := client.New(client.Options{URL: s.URL(), Attempts: 1})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		f.servers, f.clients = append(f.servers, s), append(f.clients, c)
	}
	return f
}

// call makes a call on one server, and when there is no answer, or none that
// settles it, the same call on another one, until it is settled. One answer in
// so many is treated as lost.
func (f *fleet) call(ctx context.Context, do func(*client.Client) error) error {
	lost := rand.IntN(lossy) == 0
	for i := rand.IntN(len(f.clients)); ; i++ {
		err := do(f.clients[i%len(f.clients)])
		switch {
		case err == nil && lost:
			lost = false
		case err == nil || !unsettled(err):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("calling: %w: %w", ctx.Err(), err)
		}
		f.retries.Add(1)
	}
}

const lossy = 20

// unsettled tells whether the same call may do on another server, or later.
func unsettled(err error) bool {
	var invalid *engine.InvalidError
	var missing *engine.NotFoundError
	var refused *client.Error
	switch {
	case errors.As(err, &invalid), errors.As(err, &missing):
		return false
	case errors.As(err, &refused):
		return refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusGatewayTimeout
	}
	return true // a conflict, or the network
}

// kill ends a server at once, by chance one of them, and starts it again.
func (f *fleet) kill(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.servers[rand.IntN(len(f.servers))]
	counts, err := s.Metrics(ctx)
	if err != nil {
		return err
	}
	if err := s.Kill(); err != nil {
		return err
	}
	f.kills++
	f.add(counts)
	return s.Start(ctx)
}

func (f *fleet) add(counts map[string]float64) {
	for name, value := range counts {
		f.counts[name] += value
	}
}

// metrics are those of all servers together, as far as they add up.
func (f *fleet) metrics() map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := maps.Clone(f.counts)
	for _, s := range f.servers {
		counts, err := s.Metrics(f.t.Context())
		require.NoError(f.t, err)
		for name, value := range counts {
			all[name] += value
		}
	}
	return all
}

// exitConflict is the exit code of a command when the database kept changing.
const exitConflict = 4

// command runs a command of the program, again where the database kept changing.
func (f *fleet) command(ctx context.Context, args ...string) error {
	for {
		out, err := exec.CommandContext(ctx, f.program, args...).CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && errors.As(err, &exit) && exit.ExitCode() == exitConflict:
			f.retries.Add(1)
			continue
		}
		return fmt.Errorf("ovn-vpc %s: %w: %s", strings.Join(args, " "), err, out)
	}
}

// healthy demands that no server's log has a fault, and that there is no drift.
func (f *fleet) healthy() {
	f.t.Helper()
	for _, s := range f.servers {
		require.Empty(f.t, s.Complaints())
	}
	require.NoError(f.t, f.command(f.t.Context(), "drift", "--exit-code", "--nb", f.box.NB()))
}

// ports are the names of guests' ports in a database's table.
func ports(out string, err error) ([]string, error) {
	names := strings.Fields(out)
	slices.Sort(names)
	return names, err
}
