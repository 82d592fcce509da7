package agent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/agent"
)

func (r *rig) saidOfAll(t *testing.T, hv int) []agent.Status {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), r.binary, "agent", "status", "--ovs", r.ovs(hv), "-o", "json").Output()
	require.NoError(t, err)
	var list struct{ Items []agent.Status }
	require.NoError(t, json.Unmarshal(out, &list))
	return list.Items
}

// said is what `ovn-vpc agent status` says of an attachment, by its state.
func (r *rig) said(t *testing.T, hv int, name string) map[string]agent.Status {
	t.Helper()
	found := map[string]agent.Status{}
	for _, s := range r.saidOfAll(t, hv) {
		if s.Attachment == "shop/"+name {
			found[s.State] = s
		}
	}
	return found
}

// status: what a tool on the hypervisor sees of attachments with and without an
// interface, whether the agent runs or not.
func (r *rig) status(t *testing.T) {
	vsctl := func(args ...string) string {
		out, err := r.hv(1).Vsctl(t.Context(), args...)
		require.NoError(t, err)
		return out
	}
	ours := `'{"owner":"default","error":"of yesterday","since":"2026-01-02T03:04:05Z"}'`
	theirs := strings.ReplaceAll(ours, "default", "other")
	vsctl("set", "Bridge", "br-int", "external_ids:foreign=stays", `external_ids:"ovn-vpc:failed/shop/gone"=`+ours,
		`external_ids:"ovn-vpc:failed/shop/theirs"=`+theirs)
	vsctl("add-port", "br-int", "taken", "--", "set", "Interface", "taken", "type=internal")
	script := r.script(t, "status", "echo first; echo \"it is $1\"; exit $2\n")
	p := r.agent(t, 1, "--allowed-programs", script)
	r.apply(t, attachment("y1", "web", "hv1", "plug: {type: netns, postCreateExec: ["+script+", bad, '3']}")+
		attachment("y2", "web", "hv1", "plug: {type: internal, name: taken}")+attachment("y3", "web", "hv1", "plug: {type: internal, name: taken}")+
		attachment("y4", "web", "hv1", "plug: {type: tap, name: tap-y4, postDeleteExec: ["+script+", done, '0']}")+attachment("y5", "web", "hv1", byDHCP))
	for _, name := range []string{"y1", "y4", "y5"} {
		r.plugged(t, 1, name)
	}
	require.True(t, waits(func() bool {
		return r.said(t, 1, "y2")["failed"].Error != "" && r.said(t, 1, "y3")["failed"].Error != ""
	}))
	since := r.said(t, 1, "y2")["failed"].Since
	require.True(t, waits(func() bool { return len(r.said(t, 1, "gone")) == 0 }), "a note that no longer holds")

	y1 := r.said(t, 1, "y1")["plugged"]
	require.False(t, y1.Since.IsZero())
	require.Equal(t, 3, *y1.PostCreate.Exit)
	require.Equal(t, "first\nit is bad\n", y1.PostCreate.Output)
	require.Contains(t, y1.Addresses[0].String(), r.address(t, "y1").String()+"/24")
	y5 := r.said(t, 1, "y5")["plugged"]
	require.Equal(t, y5.Lease.Addresses, y5.Addresses)
	require.Equal(t, "interface taken: it exists, and this agent has not made it", r.said(t, 1, "y2")["failed"].Error)

	r.delete(t, "y2", "y4")
	r.gone(t, 1, "y4")
	require.True(t, waits(func() bool { return len(r.said(t, 1, "y2")) == 0 }), "it fails no longer")
	y4 := r.said(t, 1, "y4")["unplugged"]
	require.Equal(t, "tap-y4", y4.Interface)
	require.Equal(t, 0, *y4.PostDelete.Exit)
	require.Equal(t, "first\nit is done\n", y4.PostDelete.Output)
	require.NotEmpty(t, y4.PostDelete.Started)

	p.kill(t)
	r.agent(t, 1)
	require.Equal(t, since, r.said(t, 1, "y3")["failed"].Since)
	vsctl("del-port", "br-int", "taken")
	r.plugged(t, 1, "y3")
	require.True(t, waits(func() bool { return len(r.said(t, 1, "y3")) == 1 }), "plugged, and no longer failed")
	r.delete(t, "y1", "y3", "y5")

	var many, names []string
	for n := range 23 {
		names = append(names, fmt.Sprintf("y%d", 10+n))
		many = append(many, attachment(names[n], "web", "hv1", "plug: {type: netns}"))
	}
	r.apply(t, strings.Join(many, ""))
	for _, name := range names {
		r.plugged(t, 1, name)
	}
	r.delete(t, names...)
	for _, name := range names {
		r.gone(t, 1, name)
	}
	notes := func() string { return vsctl("get", "Bridge", "br-int", "external_ids") }
	require.True(t, waits(func() bool { return strings.Count(notes(), "ovn-vpc:unplugged/") == 20 }))
	require.Empty(t, r.said(t, 1, "y4"), "the oldest went")
	require.Contains(t, notes(), "foreign=stays")
	require.Contains(t, notes(), "failed/shop/theirs")
	vsctl("remove", "Bridge", "br-int", "external_ids", `"ovn-vpc:failed/shop/theirs"`)

	out, err := exec.CommandContext(t.Context(), r.binary, "agent", "status", "--ovs", r.ovs(1)).Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "ATTACHMENT")
	out, err = exec.CommandContext(t.Context(), r.binary, "agent", "status", "--ovs", r.ovs(1), "-o", "yaml").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "\n---\n")
}

// example: examples/plugged on a hypervisor.
func (r *rig) example(t *testing.T) {
	up, down := r.script(t, "guest-up", "echo \"$1 has the MAC $2 and the address $3\"\n"), r.script(t, "guest-down", "echo \"$1 is gone\"\n")
	files, err := filepath.Glob("../../examples/plugged/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	slices.Reverse(files) // the network first
	t.Cleanup(func() {
		if t.Failed() {
			r.deleteVPC(t, "edge")
		}
	})
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		r.apply(t, strings.NewReplacer("chassis: h1", "chassis: hv1", "/usr/local/bin/guest-up", up, "/usr/local/bin/guest-down", down).Replace(string(text)))
	}
	r.agent(t, 1, "--allowed-programs", up, "--allowed-programs", down)
	state := func(attachment, state string) (found agent.Status) {
		require.True(t, waits(func() bool {
			for _, s := range r.saidOfAll(t, 1) {
				if s.Attachment == attachment && s.State == state && s.Error == "" {
					found = s
				}
			}
			return found.State != "" && (found.PostCreate == nil || found.PostCreate.Exit != nil)
		}), "%s is not %s", attachment, state)
		return found
	}
	for _, name := range []string{"edge/static", "edge/dynamic", "edge/machine", "edge/monitor"} {
		state(name, "plugged")
	}
	require.NotNil(t, state("edge/dynamic", "plugged").Lease)
	machine := state("edge/machine", "plugged")
	require.Regexp(t, `^tap-machine has the MAC 0a:58:0a:3c:02:.. and the address 10\.60\.2\.\d+\n$`, machine.PostCreate.Output)
	for _, args := range [][]string{{"static", "ping", "-c", "1", "-W", "2", "10.60.1.1"}, {"dynamic", "ping", "-c", "1", "-W", "2", "fd00:60:0:1::1"}} {
		require.True(t, waits(func() bool {
			return exec.CommandContext(t.Context(), "nsenter", append([]string{"--net=" + filepath.Join(r.netnsDir(1), "edge."+args[0])}, args[1:]...)...).Run() == nil
		}), args)
	}
	r.deleteVPC(t, "edge")
	require.Equal(t, "tap-machine is gone\n", state("edge/machine", "unplugged").PostDelete.Output)
	for _, name := range []string{"edge/static", "edge/dynamic", "edge/monitor"} {
		state(name, "unplugged")
	}
}
