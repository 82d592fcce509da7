package scene_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab/compose"
)

const (
	// again bounds the wait for the guests of a hypervisor that starts again.
	again = 90 * time.Second
	// attempt bounds one ping: a command in a container that ends may hang.
	attempt = 5 * time.Second
)

// startsAgain ends hv1 in every way. Its guests come back by themselves, and
// reach those of hv2 and are reached by them.
func startsAgain(t *testing.T) {
	l, err := compose.Open(t.Context(), root)
	require.NoError(t, err)
	require.NoError(t, l.Close(), "the connection to hv1 would break")
	for name, commands := range map[string][][]string{
		"restarted":            {{"restart", "hv1"}},
		"killed":               {{"kill", "hv1"}, {"start", "hv1"}},
		"ovs-vswitchd crashed": {{"exec", "-T", "hv1", "bash", "-c", "kill -KILL $(cat /run/openvswitch/ovs-vswitchd.pid)"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range commands {
				_, err := l.Compose(t.Context(), command...)
				require.NoError(t, err)
			}
			for _, way := range [][3]string{{"hv1", "web-1", "app-2"}, {"hv2", "web-2", "app-1"}} {
				to := address(t, l, way[2])
				require.Eventually(t, func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), attempt)
					defer cancel()
					_, err := l.Compose(ctx, "exec", "-T", way[0], "ip", "netns", "exec", way[1], "ping", "-n", "-c1", "-W1", to)
					return err == nil
				}, again, 100*time.Millisecond, "%s on %s does not reach %s", way[1], way[0], way[2])
			}
		})
	}
}

func address(t *testing.T, l *compose.Lab, attachment string) string {
	t.Helper()
	out, err := l.OVNVPC(t.Context(), "", "get", "attachment", attachment, "--vpc", "shop", "-o", "json")
	require.NoError(t, err)
	var found struct{ Status struct{ Addresses []string } }
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.NotEmpty(t, found.Status.Addresses, out)
	return found.Status.Addresses[0]
}
