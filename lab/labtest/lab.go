package labtest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// NewTestLab starts a lab that goes with the test, after it has removed what
// killed ones left. Root defaults to that of RootEnv. The test fails if the lab
// leaves anything behind.
func NewTestLab(t testing.TB, o lab.Options) *lab.Lab {
	t.Helper()
	require.NoError(t, lab.Sweep(t.Context()))
	if o.Root == "" {
		o.Root = Root()
	}
	l, err := lab.Up(t.Context(), o)
	require.NoError(t, err)
	dir := l.Dir()
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, l.Down(ctx))
		left, err := filepath.Glob(filepath.Join("/run/netns", filepath.Base(dir)+"-*"))
		require.NoError(t, err)
		require.Empty(t, left)
		if o.Dir == "" {
			require.NoDirExists(t, dir)
		}
	})
	return l
}
