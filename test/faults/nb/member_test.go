package nb_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/test/program"
)

// A server of a cluster whose link is down tells what it knew, to its end. A command
// for which it is the only one that is named is told so instead, whether it led or
// not, as soon as the server knows it, and hears the truth when the link is up.
func TestMemberThatIsCutOff(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := labtest.NewTestCluster(t, lab.SandboxOptions{NoNorthd: true})
	ctx := t.Context()
	binary := program.Build(t, "../../..")
	whole := &stage{t: t, nb: c.NB(), program: binary, dir: t.TempDir()}
	for name, leads := range map[string]bool{"leader": true, "follower": false} {
		first := leader(ctx, t, c)
		i := slices.IndexFunc(c.Servers(), func(server string) bool { return (server == first) == leads })
		member := c.Servers()[i]
		alone := &stage{t: t, nb: c.Socket(member), program: binary, dir: t.TempDir()}
		_, err := alone.command(ctx, "get", "vpcs")
		require.NoError(t, err)

		require.NoError(t, c.SetLink(member, false))
		require.Eventually(t, func() bool { return c.Leader(ctx) != "" && c.Leader(ctx) != member }, patience, pause)
		require.NoError(t, whole.apply(ctx, document("VPC", name, "", "cidrs: [10.10.0.0/16]")))
		for _, command := range []string{"get vpcs --timeout 1s", "drift --repair --timeout 1s"} {
			require.Eventually(t, func() bool {
				_, err := alone.command(ctx, strings.Fields(command)...)
				return err != nil && strings.Contains(err.Error(), "the server has lost its cluster")
			}, patience, pause, command)
		}

		require.NoError(t, c.SetLink(member, true))
		require.Eventually(t, func() bool {
			_, err := alone.command(ctx, "get", "vpc", name)
			return err == nil
		}, patience, pause)
	}
}
