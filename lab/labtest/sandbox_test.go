package labtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

func TestSandboxUpDownUp(t *testing.T) {
	ctx := t.Context()
	o := lab.SandboxOptions{Dir: filepath.Join(labtest.TempDir(t), "box"), Root: labtest.Root()}
	s := labtest.NewTestSandbox(t, o)
	_, err := s.NBCtl(ctx, "--wait=sb", "ls-add", "kept")
	require.NoError(t, err)
	first := pids(t, s)
	require.Len(t, first, 3)

	again := labtest.NewTestSandbox(t, o)
	require.Equal(t, first, pids(t, again), "a second start leaves the processes alone")
	require.Equal(t, []string{"OVN_NB_DB=" + s.NB(), "OVN_SB_DB=" + s.SB()}, again.Env())

	require.NoError(t, s.Down(ctx))
	requireRunning(t, s, false)
	for _, pid := range first {
		line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		require.Truef(t, err != nil || len(line) == 0, "process %s runs: %q", pid, line)
	}
	for _, left := range []string{"*.sock", "*.ctl", "*.pid"} {
		require.Empty(t, glob(t, s, left))
	}
	require.NoError(t, s.Down(ctx), "twice is as good as once")

	opened, err := lab.OpenSandbox(s.Dir())
	require.NoError(t, err)
	require.NoError(t, opened.Start(ctx))
	requireRunning(t, opened, true)
	out, err := opened.NBCtl(ctx, "--bare", "--columns=name", "list", "Logical_Switch")
	require.NoError(t, err)
	require.Equal(t, "kept", strings.TrimSpace(out), "databases outlive Down")

	require.NoError(t, opened.Purge(ctx))
	require.NoDirExists(t, s.Dir())
	_, err = lab.OpenSandbox(s.Dir())
	require.ErrorContains(t, err, "there is none")
}

func TestSandboxVXLAN(t *testing.T) {
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{VXLAN: true})
	out, err := s.NBCtl(t.Context(), "get", "NB_Global", ".", "options:max_tunid")
	require.NoError(t, err)
	require.Equal(t, `"4095"`, strings.TrimSpace(out))
}

func TestSandboxCluster(t *testing.T) {
	ctx := t.Context()
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{NBServers: 3})
	require.Len(t, pids(t, s), 5)
	_, err := s.NBCtl(ctx, "--wait=sb", "ls-add", "kept")
	require.NoError(t, err)
	require.NoError(t, s.Stop(ctx, "nb1"))
	require.Eventually(t, func() bool {
		_, err := s.NBCtl(ctx, "--wait=sb", "--may-exist", "ls-add", "more")
		return err == nil
	}, 30*time.Second, 100*time.Millisecond, "two of three are a majority: they choose a new leader")
	require.NoError(t, s.Start(ctx))
	requireRunning(t, s, true)
}

func TestSandboxWithoutNorthd(t *testing.T) {
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	require.Len(t, pids(t, s), 1)
	require.Empty(t, s.SB())
	require.Equal(t, []string{"OVN_NB_DB=" + s.NB()}, s.Env())
	_, err := s.NBCtl(t.Context(), "get", "NB_Global", ".", "nb_cfg")
	require.NoError(t, err, "the single row is there")
	require.ErrorContains(t, s.Stop(t.Context(), "northd"), `no process "northd"`)
}

func TestSandboxRefuses(t *testing.T) {
	ctx := t.Context()
	foreign := labtest.TempDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "letter"), nil, 0o600))
	_, err := lab.SandboxUp(ctx, lab.SandboxOptions{Dir: foreign})
	require.ErrorContains(t, err, `holds "letter"`)
	require.FileExists(t, filepath.Join(foreign, "letter"))
	require.NoFileExists(t, filepath.Join(foreign, "sandbox.json"))

	_, err = lab.SandboxUp(ctx, lab.SandboxOptions{Dir: "/tmp/" + strings.Repeat("x", 120)})
	require.ErrorContains(t, err, "107 is the limit")
	_, err = lab.SandboxUp(ctx, lab.SandboxOptions{})
	require.ErrorContains(t, err, "no folder")

	s := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	_, err = lab.SandboxUp(ctx, lab.SandboxOptions{Dir: s.Dir(), VXLAN: true, Root: labtest.Root()})
	require.ErrorContains(t, err, "made without --vxlan")
	requireRunning(t, s, true)
}

// A pid file may be old: its number belongs to somebody else by now.
func TestSandboxEndsOnlyItsOwn(t *testing.T) {
	ctx := t.Context()
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	other := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	require.NoError(t, s.Down(ctx))
	stolen := pids(t, other)[0]
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "nb.pid"), []byte(stolen+"\n"), 0o600))

	requireRunning(t, s, false)
	require.NoError(t, s.Down(ctx))
	requireRunning(t, other, true)
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "nb.pid"), []byte(stolen+"\n"), 0o600))
	require.NoError(t, s.Start(ctx), "and a start isn't misled")
	require.NotEqual(t, pids(t, other), pids(t, s))
}

func TestPurgeSandboxes(t *testing.T) {
	ctx := t.Context()
	outside := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	folder := labtest.TempDir(t)
	for _, dir := range []string{"a", "deep/b"} {
		labtest.NewTestSandbox(t, lab.SandboxOptions{Dir: filepath.Join(folder, dir), NoNorthd: true})
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "letter"), nil, 0o600))
	require.NoError(t, lab.PurgeSandboxes(ctx, folder))
	require.NoDirExists(t, filepath.Join(folder, "a"))
	require.NoDirExists(t, filepath.Join(folder, "deep/b"))
	require.FileExists(t, filepath.Join(folder, "letter"))
	requireRunning(t, outside, true)
}

// What fails to come up leaves no process behind.
func TestSandboxFailedStart(t *testing.T) {
	ctx := t.Context()
	o := lab.SandboxOptions{Dir: labtest.TempDir(t), Root: labtest.Root()}
	s := labtest.NewTestSandbox(t, o)
	require.NoError(t, s.Down(ctx))
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "sb.db"), []byte("no database"), 0o600))
	_, err := lab.SandboxUp(ctx, o)
	require.ErrorContains(t, err, "sb.db")
	require.Empty(t, glob(t, s, "*.pid"))
}

func TestMissingProgramsNameTheirPackages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := lab.FindBinaries("", "", "ovsdb-server")
	require.NoError(t, err, "found where a plain user's PATH doesn't lead")

	bin := &lab.Binaries{}
	_, err = bin.Run(t.Context(), "ovn-no-such-thing", "x")
	var missing *lab.MissingError
	require.ErrorAs(t, err, &missing)

	err = &lab.MissingError{Programs: []string{"ovn-northd", "ovsdb-server", "ovn-nbctl"}}
	require.ErrorContains(t, err, "apt-get install --no-install-recommends openvswitch-common ovn-central ovn-common")
}

func requireRunning(t *testing.T, s *lab.Sandbox, want bool) {
	t.Helper()
	running, err := s.Running()
	require.NoError(t, err)
	require.Equal(t, want, running)
}

// pids are the numbers in the sandbox's pid files.
func pids(t *testing.T, s *lab.Sandbox) []string {
	t.Helper()
	var pids []string
	for _, file := range glob(t, s, "*.pid") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		pids = append(pids, strings.TrimSpace(string(text)))
	}
	return pids
}

func glob(t *testing.T, s *lab.Sandbox, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir(), pattern))
	require.NoError(t, err)
	return files
}
