// Package labtest gives tests a real OVN.
package labtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// RootEnv is the environment variable that names the unpacked Debian whose
// OVN all tests use; unset, they use this machine's. `make test-compat` sets
// it.
const RootEnv = "OVN_VPC_TEST_ROOT"

// Root is the value of RootEnv: for lab.Options.Root.
func Root() string { return os.Getenv(RootEnv) }

// NewTestCluster starts a cluster of three servers with links, for root, that
// is purged when the test ends.
func NewTestCluster(t testing.TB, o lab.SandboxOptions) *lab.Cluster {
	t.Helper()
	require.NoError(t, lab.Sweep(t.Context()))
	o.Root, o.Dir, o.NBServers = Root(), TempDir(t), 3
	c, err := lab.ClusterUp(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { purge(t, c.Purge) })
	return c
}

// NewTestSandbox starts a sandbox that is purged when the test ends. Dir
// defaults to a new short one (a test's own TempDir can be too long for
// sockets), Root to that of RootEnv.
func NewTestSandbox(t testing.TB, o lab.SandboxOptions) *lab.Sandbox {
	t.Helper()
	if o.Root == "" {
		o.Root = Root()
	}
	if o.Dir == "" {
		o.Dir = TempDir(t)
	}
	s, err := lab.SandboxUp(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { purge(t, s.Purge) })
	return s
}

func purge(t testing.TB, do func(context.Context) error) {
	// The test's own context has ended by now.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, do(ctx))
}

// TempDir is t.TempDir with a path short enough for unix sockets.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ovn")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
