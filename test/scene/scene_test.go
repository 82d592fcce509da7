// Package scene_test plays the scenes of lab/scene and holds them to what they
// have to come to: on hypervisors in network namespaces, or with -compose on the
// containers of docker-compose.yml.
package scene_test

import (
	"context"
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/compose"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/lab/scene"
)

const root = "../.."

var containers = flag.Bool("compose", false, "play on the containers of docker-compose.yml, which are up")

func open(t *testing.T) scene.Stage {
	t.Helper()
	if *containers {
		stage, err := compose.Open(context.WithoutCancel(t.Context()), root)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, stage.Close()) })
		return stage
	}
	program := filepath.Join(t.TempDir(), "ovn-vpc")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, root+"/cmd/ovn-vpc").CombinedOutput()
	require.NoError(t, err, string(out))
	stage := scene.NewNamespaces(context.WithoutCancel(t.Context()), labtest.NewTestLab(t, lab.Options{Hypervisors: 3}), program, root)
	t.Cleanup(func() { require.NoError(t, stage.Close()) })
	return stage
}

func TestScenes(t *testing.T) {
	if *containers {
		t.Run("hypervisor starts again", startsAgain)
	}
	report, err := scene.Run(t.Context(), open(t), t.Output())
	require.NoError(t, err)
	t.Run("reach", func(t *testing.T) { requireReach(t, report.Reach) })
	t.Run("replacement", func(t *testing.T) { requireReplacement(t, report.Replacement) })
	t.Run("migration", func(t *testing.T) { requireMigration(t, report.Migration) })
	t.Run("paths", func(t *testing.T) { requirePaths(t, report.Paths) })
}

// requireReach holds every pair of guests to what the example's README says.
func requireReach(t *testing.T, all []scene.Reach) {
	ports := []uint16{9, 80, 443, 5432, 8080}
	type passes struct {
		ping bool
		tcp  map[uint16]lab.Outcome // what is absent is denied
	}
	across := map[string]passes{
		"web-app": {ping: true, tcp: map[uint16]lab.Outcome{8080: lab.Answered}},
		"web-db":  {tcp: map[uint16]lab.Outcome{5432: lab.Refused}},
		"app-web": {ping: true, tcp: map[uint16]lab.Outcome{80: lab.Answered, 443: lab.Answered}},
		"app-db":  {tcp: map[uint16]lab.Outcome{5432: lab.Answered}},
		"db-web":  {},
		"db-app":  {},
	}
	require.Len(t, all, 5*4)
	for _, r := range all {
		from, _, _ := strings.Cut(r.From, "-")
		to, _, _ := strings.Cut(r.To, "-")
		want, differ := across[from+"-"+to]
		require.True(t, differ || from == to, "%s to %s", r.From, r.To)
		require.Equal(t, want.ping || from == to, r.Ping, "ping from %s to %s", r.From, r.To)
		require.Len(t, r.TCP, len(ports))
		for _, port := range ports {
			outcome := lab.TimedOut
			if from == to {
				outcome = lab.Answered
			} else if special, ok := want.tcp[port]; ok {
				outcome = special
			}
			require.Equal(t, outcome, r.TCP[port], "tcp %d from %s to %s", port, r.From, r.To)
		}
	}
}

func requireReplacement(t *testing.T, r scene.Replacement) {
	require.Greater(t, r.Echoes, 100)
	require.Less(t, r.Gap, time.Second, "the stream stood still under a list that allows it")
	require.Zero(t, r.Denied, "tokens passed a list that denies them")
	require.Equal(t, lab.TimedOut, r.NewConnection)
	require.True(t, r.Resumed)
}

func requireMigration(t *testing.T, m scene.Migration) {
	require.Equal(t, [3]string{"hv1", "hv3", "hv3"}, [3]string{m.From, m.To, m.Chassis})
	require.Greater(t, m.Sent, 10)
	require.GreaterOrEqual(t, m.Received, m.Sent*9/10, "of %d pings", m.Sent)
}

func requirePaths(t *testing.T, all []scene.Path) {
	const n = scene.Pings
	type crossings = []scene.Crossing
	require.Equal(t, []scene.Path{
		{From: "web-1", To: "app-1", Distributed: true, Crossings: crossings{{}, {}, {}}},
		{From: "web-1", To: "app-2", Distributed: true, Crossings: crossings{{In: n, Out: n}, {In: n, Out: n}, {}}},
		{From: "web-1", To: "app-1", Crossings: crossings{{In: 2 * n, Out: 2 * n}, {}, {In: 2 * n, Out: 2 * n}}},
		{From: "web-1", To: "app-2", Crossings: crossings{{In: n, Out: n}, {In: n, Out: n}, {In: 2 * n, Out: 2 * n}}},
	}, all)
}
