package lab_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

// A server of a cluster loses its lead when it is killed, when it hangs, and
// when its link is down, and is a member again afterwards.
func TestClusterFaults(t *testing.T) {
	c := labtest.NewTestCluster(t, lab.SandboxOptions{NoNorthd: true})
	ctx := t.Context()
	leader := func(other string) string {
		t.Helper()
		found := ""
		require.Eventually(t, func() bool {
			found = c.Leader(ctx)
			return found != "" && found != other
		}, time.Minute, 50*time.Millisecond)
		return found
	}
	faults := map[string]struct{ begin, end func(server string) error }{
		"killed": {func(s string) error { return c.Signal(ctx, s, syscall.SIGKILL) }, func(string) error { return c.Start(ctx) }},
		"hangs":  {func(s string) error { return c.Signal(ctx, s, syscall.SIGSTOP) }, func(s string) error { return c.Signal(ctx, s, syscall.SIGCONT) }},
		"cut":    {func(s string) error { return c.SetLink(s, false) }, func(s string) error { return c.SetLink(s, true) }},
	}
	for name, fault := range faults {
		old := leader("")
		require.NoError(t, fault.begin(old), name)
		leader(old)
		require.NoError(t, fault.end(old), name)
		require.NoError(t, c.Start(ctx), "all servers are members")
	}
	require.ErrorContains(t, c.Signal(ctx, "nb4", syscall.SIGSTOP), "no process")
	require.ErrorContains(t, c.SetLink("nb4", false), "no such server")
}
