package nb_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
)

// refuses demands that a change is refused by servers and commands with a reason,
// at once, and that all can be read as before.
func (s *stage) refuses(reason string) {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	for i, c := range s.clients {
		before, err := s.servers[i].Metrics(ctx)
		require.NoError(t, err)
		_, err = c.Put(ctx, attachment("refused"), client.WriteOptions{})
		var refused *client.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, http.StatusServiceUnavailable, refused.Status)
		require.Equal(t, "urn:ovn-vpc:problem:refused", refused.Type)
		require.Contains(t, refused.Detail, reason)
		after, err := s.servers[i].Metrics(ctx)
		require.NoError(t, err)
		require.Equal(t, before["ovn_vpc_replans_total"], after["ovn_vpc_replans_total"], "it was tried again")
		_, err = s.servers[i].Get(ctx, "/readyz")
		require.NoError(t, err)
		_, err = c.GetOne(ctx, attachmentID("there"))
		require.NoError(t, err)
		_, err = c.GetOne(ctx, attachmentID("refused"))
		var missing *engine.NotFoundError
		require.ErrorAs(t, err, &missing)
	}
	err := s.apply(ctx, document("Attachment", "refused", vpc, "tier: web"))
	require.ErrorContains(t, err, reason)
	require.ErrorContains(t, err, "Nothing was changed")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.NotContains(t, err.Error(), "planning again")
}

// takes demands that a change can be made.
func (s *stage) takes(name string) {
	s.t.Helper()
	for _, c := range s.clients {
		_, err := c.Put(s.t.Context(), attachment(name), client.WriteOptions{})
		require.NoError(s.t, err)
	}
}

// start runs a database server until the test ends, in a mount namespace of its
// own, after a script. The folder visible holds all that it reaches.
func start(t *testing.T, visible, dir, script string, args ...string) *os.Process {
	t.Helper()
	bin, err := lab.FindBinaries(labtest.Root(), visible, "ovsdb-server", "ovsdb-tool")
	require.NoError(t, err)
	_, err = bin.Run(t.Context(), "ovsdb-tool", "create", filepath.Join(dir, "nb.db"), "/usr/share/ovn/ovn-nb.ovsschema")
	require.NoError(t, err)
	argv, err := bin.Argv("ovsdb-server", append([]string{"--unixctl=" + dir + "/ctl", "--remote=punix:" + dir + "/sock"}, args...)...)
	require.NoError(t, err)
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", script + `; exec "$@"`, "sh"}, argv...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+dir)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // says that it was killed
	})
	require.Eventually(t, func() bool {
		_, err := bin.Run(t.Context(), "ovsdb-client", "--timeout=1", "list-dbs", "unix:"+dir+"/sock")
		return err == nil
	}, patience, pause)
	return cmd.Process
}

// A full disk is told as that, and all goes on when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := labtest.TempDir(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "disk"), 0o700))
	process := start(t, dir, dir, "mount -t tmpfs -o size=400k tmpfs disk && cp nb.db disk", dir+"/disk/nb.db")
	// The disk as the server sees it.
	disk := filepath.Join("/proc", strconv.Itoa(process.Pid), "root", dir, "disk")
	bin, err := lab.FindBinaries(labtest.Root(), dir, "ovn-nbctl")
	require.NoError(t, err)
	_, err = bin.Run(t.Context(), "ovn-nbctl", "--db=unix:"+dir+"/sock", "init")
	require.NoError(t, err)
	s, ctx := newStage(t, "unix:"+dir+"/sock"), t.Context()
	s.found()
	s.takes("there")
	tried := 2
	for range tried {
		fill(t, filepath.Join(disk, "filler"))
		acknowledged := 0
		for ; ; acknowledged++ { // the file's last page has room
			_, err := s.clients[0].Create(ctx, attachment(""), client.CreateOptions{})
			if err != nil {
				break
			}
		}
		s.refuses("I/O error")
		objects, err := s.clients[1].Get(ctx, engine.Filter{Kind: model.KindAttachment})
		require.NoError(t, err)
		require.NoError(t, os.Remove(filepath.Join(disk, "filler")))
		s.takes("there")
		again, err := s.clients[1].Get(ctx, engine.Filter{Kind: model.KindAttachment})
		require.NoError(t, err)
		require.Len(t, again, len(objects))
		require.Greater(t, len(objects), acknowledged)
	}
	s.takes("another")
	_, err = s.command(ctx, "drift", "--exit-code")
	require.NoError(t, err)
	s.healthy()
	faults.Audit(t, tried, filepath.Join(disk, "nb.db"))
}

// fill writes a file until there is no room left.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 512))
	}
	require.True(t, errors.Is(err, syscall.ENOSPC), "%v", err)
}

// A server that mirrors another one can be read, and says that it takes no
// changes until it is made the active one.
func TestReadOnly(t *testing.T) {
	t.Parallel() // it waits most of the time
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	active := newStage(t, box.NB())
	active.found()
	active.takes("there")
	dir := filepath.Join(box.Dir(), "mirror")
	require.NoError(t, os.Mkdir(dir, 0o700))
	start(t, box.Dir(), dir, ":", "--sync-from="+box.NB(), dir+"/nb.db")
	s, ctx := newStage(t, "unix:"+dir+"/sock"), t.Context()
	for _, c := range s.clients {
		require.Eventually(t, func() bool {
			_, err := c.GetOne(ctx, attachmentID("there"))
			return err == nil
		}, patience, pause)
	}
	s.refuses("read only mode")
	active.takes("another")
	bin, err := lab.FindBinaries(labtest.Root(), dir, "ovs-appctl")
	require.NoError(t, err)
	_, err = bin.Run(context.WithoutCancel(ctx), "ovs-appctl", "-t", dir+"/ctl", "ovsdb-server/disconnect-active-ovsdb-server")
	require.NoError(t, err)
	s.takes("there")
	s.takes("more")
	_, err = s.command(ctx, "drift", "--exit-code")
	require.NoError(t, err)
	s.healthy()
	faults.Audit(t, 1, database(box.Dir(), "nb"), filepath.Join(dir, "nb.db"))
}
