package nb_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
)

// In a cluster the leader whose disk is full gives up, and another one carries on:
// nothing that was acknowledged is lost. A command for which the one that gave up is
// the only one that is named is told so. Started again with room it takes part again.
func TestFullDiskOfALeader(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := labtest.NewTestCluster(t, lab.SandboxOptions{NoNorthd: true})
	ctx := t.Context()
	disks := ontoDisks(ctx, t, c)
	s := newStage(t, c.NB())
	s.found()
	l := s.begin()
	tried := 3
	for range tried {
		full := leader(ctx, t, c)
		filler := filepath.Join(disks[full], "filler")
		fill(t, filler)
		require.Eventually(t, func() bool {
			now := c.Leader(ctx)
			return now != "" && now != full
		}, patience, pause)
		t.Logf("%s is full: the servers serve %s after there is another leader", full, s.serves(ctx))
		require.Eventually(t, func() bool { return cutOff(ctx, c.Socket(full)) }, patience, pause)
		alone := &stage{t: t, nb: c.Socket(full), program: s.program, dir: t.TempDir()}
		for _, command := range [][]string{{"get", "vpcs"}, {"drift", "--repair"}} {
			var err error
			require.Eventually(t, func() bool { // a server that is still busy with its disk may not answer
				_, err = alone.command(ctx, append(command, "--timeout", "1s")...)
				return err == nil || strings.Contains(err.Error(), "the server has lost its cluster")
			}, patience, pause)
			require.Error(t, err)
		}
		require.NoError(t, os.Remove(filler))
		require.NoError(t, c.Stop(ctx, full))
		require.NoError(t, c.Start(ctx))
	}
	s.serves(ctx)
	l.end(c.NBCtl)
	faults.Audit(t, tried, files(c)...)
}

// cutOff tells whether a server says of itself that it has lost its cluster. It is busy
// while it gives up.
func cutOff(ctx context.Context, remote string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", strings.TrimPrefix(remote, "unix:"))
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	var state json.RawMessage
	_, err = io.WriteString(conn, `{"method": "transact", "id": 1, "params": ["_Server",
		{"op": "select", "table": "Database", "where": [["name", "==", "OVN_Northbound"]], "columns": ["connected"]}]}`)
	return err == nil && json.NewDecoder(conn).Decode(&state) == nil && strings.Contains(string(state), `"connected":false`)
}

// ontoDisks moves the database of each server of a cluster onto a small disk, a tmpfs
// in a mount namespace of its own, and gives the disks' folders.
func ontoDisks(ctx context.Context, t *testing.T, c *lab.Cluster) map[string]string {
	t.Helper()
	require.NoError(t, c.Stop(ctx, c.Servers()...))
	disks := map[string]string{}
	for _, server := range c.Servers() {
		dir := labtest.TempDir(t)
		holder := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=32m tmpfs "$0" && echo && read _`, dir)
		ready, err := holder.StdoutPipe()
		require.NoError(t, err)
		ends, err := holder.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, holder.Start())
		t.Cleanup(func() {
			require.NoError(t, ends.Close())
			_ = holder.Wait() // it has read nothing
		})
		_, err = io.ReadFull(ready, make([]byte, 1))
		require.NoError(t, err)
		disks[server] = filepath.Join("/proc", strconv.Itoa(holder.Process.Pid), "root", dir)
		from, to := database(c.Dir(), server), database(disks[server], server)
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, data, 0o600))
		require.NoError(t, os.Remove(from))
		require.NoError(t, os.Symlink(to, from))
	}
	require.NoError(t, c.Start(ctx))
	return disks
}
