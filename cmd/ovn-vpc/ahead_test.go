package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

// For a large input the database is read while that is still being read: nobody
// gets to see it, whatever is wrong with the one or the other.
func TestLargeInput(t *testing.T) {
	good := []byte("apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: shop}\nspec: {cidrs: [10.0.0.0/16]}\n" +
		"---\napiVersion: ovn-vpc/v1\nkind: Tier\nmetadata: {name: web, vpc: shop}\nspec: {cidrs: [10.0.0.0/24]}\n")
	for i := range 100 {
		good = fmt.Appendf(good, "---\napiVersion: ovn-vpc/v1\nkind: Attachment\nmetadata: {name: a-%d, vpc: shop}\nspec: {tier: web}\n", i)
	}
	bad := append(bytes.Clone(good), "---\nkind: Nonsense\n"...)
	dir := labtest.TempDir(t)
	run := func(nb, command string, input []byte) (code int, stdout, stderr string) {
		cmd := exec.Command("ovn-vpc", command, "--nb", nb, "--timeout", "2s", "-f", "-")
		if command == "apply" {
			cmd.Args = append(cmd.Args, "--timeout", "2m")
		}
		var out, faults bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &faults
		cmd.Env = append(os.Environ(), "OVN_VPC_SERVER=", "OVN_SB_DB=")
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String(), faults.String()
	}
	silent := filepath.Join(dir, "silent.sock")
	listener, err := net.Listen("unix", silent)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	for _, nb := range []string{filepath.Join(dir, "none.sock"), silent} {
		code, _, stderr := run("unix:"+nb, "plan", bad)
		require.Equal(t, 3, code)
		require.Contains(t, stderr, "there is no kind")
		require.NotContains(t, stderr, "connecting")
		code, _, stderr = run("unix:"+nb, "plan", good)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "connecting to OVN_Northbound at unix:"+nb)
	}
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	code, _, stderr := run(box.NB(), "apply", bad)
	require.Equal(t, 3, code, stderr)
	for _, want := range []string{"102 created", "No changes."} {
		code, stdout, stderr := run(box.NB(), "apply", good)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, want)
	}
}

// Who has not said where the database is learns how to.
func TestDatabaseThatNobodyHasNamed(t *testing.T) {
	for variable, hint := range map[string]bool{"": true, "OVN_NB_DB": false} {
		a := newApp(nil, io.Discard, io.Discard, func(name string) string {
			if name == variable {
				return "unix:/somewhere"
			}
			return ""
		})
		a.flags.given = func(string) bool { return false }
		a.early = &ahead{done: make(chan struct{}), err: errors.New("nobody is there")}
		close(a.early.done)
		_, _, err := a.connect(t.Context(), false)
		require.ErrorContains(t, err, "nobody is there")
		require.Equal(t, hint, strings.Contains(err.Error(), "--nb or $OVN_NB_DB, or a server by --server"))
	}
}
