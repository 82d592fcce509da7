package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

// scratchTrace starts a trace that asks a scratch OVN, whose folder will be in
// dir.
func scratchTrace(t *testing.T, dir string) *exec.Cmd {
	cmd := exec.Command("ovn-vpc", "trace", "web-1", "db-1", "tcp/5432", "-f", "../../examples/three-tier", "--ovn", "--timeout", "2m")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "OVN_NB_DB=", "OVN_SB_DB=", "OVN_VPC_SERVER=")
	require.NoError(t, cmd.Start())
	return cmd
}

// processesOf are the processes with dir in their command line or their
// environment as TMPDIR: a scratch's, its keeper and who has started that.
func processesOf(t *testing.T, dir string) map[int]string {
	found := map[int]string{}
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if strings.Contains(string(line), dir) || strings.Contains(string(env), "TMPDIR="+dir) && len(line) > 0 {
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}

func nothingLeft(t *testing.T, dir string) {
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0 && len(processesOf(t, dir)) == 0
	}, time.Minute, 20*time.Millisecond, "left in %s: %v", dir, processesOf(t, dir))
}

// A trace that is killed leaves neither a process nor a file of its scratch
// OVN, wherever it was.
func TestKilledTraceLeavesNothing(t *testing.T) {
	for _, moment := range []string{"", "box", "box/nb.pid", "box/sb.sock", "box/northd.pid"} {
		t.Run(strings.ReplaceAll(moment, "/", "-"), func(t *testing.T) {
			dir := labtest.TempDir(t)
			cmd := scratchTrace(t, dir)
			require.Eventually(t, func() bool {
				there, err := filepath.Glob(filepath.Join(dir, "*", moment))
				return err == nil && len(there) > 0
			}, time.Minute, time.Millisecond)
			require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
			require.Error(t, cmd.Wait())
			nothingLeft(t, dir)
		})
	}
}

// keeperOf is the process that keeps the scratch in dir, 0 for none.
func keeperOf(t *testing.T, dir string) int {
	for pid, line := range processesOf(t, dir) {
		if strings.HasSuffix(line, "sandbox "+keepCommand+" ") {
			return pid
		}
	}
	return 0
}

// Where the keeper is killed, at whatever moment, its processes end too, and the
// next one purges what files it has left.
func TestKeeperKilledAtRandomMoments(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	dir := labtest.TempDir(t)
	for range 12 {
		cmd := scratchTrace(t, dir)
		keeper := 0
		require.Eventually(t, func() bool {
			keeper = keeperOf(t, dir)
			return keeper != 0
		}, time.Minute, time.Millisecond)
		moment := time.Duration(random.IntN(600)) * time.Millisecond
		<-time.After(moment)
		if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
			require.ErrorIs(t, err, syscall.ESRCH, "it was done")
		}
		_ = cmd.Wait() // it fails, or was faster
		require.Eventually(t, func() bool { return len(processesOf(t, dir)) == 0 }, time.Minute, 20*time.Millisecond,
			"killed after %s, left: %v", moment, processesOf(t, dir))
	}
	var exit *exec.ExitError
	require.ErrorAs(t, scratchTrace(t, dir).Wait(), &exit)
	require.Equal(t, exitPending, exit.ExitCode())
	nothingLeft(t, dir)
}

// The next keeper purges after one that was killed in the end.
func TestKilledKeeperIsSweptUp(t *testing.T) {
	dir := labtest.TempDir(t)
	cmd := scratchTrace(t, dir)
	require.Eventually(t, func() bool {
		there, err := filepath.Glob(filepath.Join(dir, "*", "box", "northd.pid"))
		return err == nil && len(there) > 0
	}, time.Minute, time.Millisecond)
	if keeper := keeperOf(t, dir); keeper != 0 {
		require.NoError(t, syscall.Kill(keeper, syscall.SIGKILL))
	}
	_ = cmd.Wait() // it fails, or was faster
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, left, "the keeper was too fast to be killed")
	again := scratchTrace(t, dir)
	var exit *exec.ExitError
	require.ErrorAs(t, again.Wait(), &exit)
	require.Equal(t, exitPending, exit.ExitCode())
	nothingLeft(t, dir)
}
