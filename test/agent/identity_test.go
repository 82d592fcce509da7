package agent_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chassisRenamed: what was made under the old name is known as the agent's
// own, made anew under the new one, and removed.
func (r *rig) chassisRenamed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	rename := func(from, to string) {
		require.NoError(t, r.hv(1).Kill(ctx, "controller"))
		_, err := r.lab.Sandbox().SBCtl(ctx, "--if-exists", "chassis-del", from)
		require.NoError(t, err)
		_, err = r.hv(1).Vsctl(ctx, "set", "Open_vSwitch", ".", "external_ids:system-id="+to)
		require.NoError(t, err)
		require.NoError(t, r.hv(1).Start(ctx, "controller"))
		_, err = r.lab.Sandbox().SBCtl(ctx, "wait-until", "Chassis", to)
		require.NoError(t, err)
	}
	links := r.links(t, 1)
	p := r.agent(t, 1)
	r.apply(t, attachment("id1", "web", "hv1", "plug: {type: netns}")+attachment("id2", "web", "hv1", "plug: {type: tap}")+
		attachment("id3", "web", "hv1", "plug: {type: netns}"))
	for _, name := range []string{"id1", "id2", "id3"} {
		r.plugged(t, 1, name)
	}
	p.kill(t)
	rename("hv1", "renamed")
	defer rename("renamed", "hv1")
	r.apply(t, attachment("id1", "web", "renamed", "plug: {type: netns}")+attachment("id2", "web", "renamed", "plug: {type: tap}"))
	r.delete(t, "id3")
	r.agent(t, 1)
	r.gone(t, 1, "id3")
	for _, name := range []string{"id1", "id2"} {
		require.True(t, waits(func() bool {
			i := r.interfaces(t, 1)[name]
			return strings.Contains(i.ExternalIDs["ovn-vpc:plug"], "renamed") && i.ExternalIDs["ovn-vpc:state"] == "plugged"
		}))
	}
	r.up(t, "id1", "id2")
	r.delete(t, "id1", "id2")
	r.gone(t, 1, "id1")
	r.gone(t, 1, "id2")
	require.Equal(t, links, r.links(t, 1))
}

// secondAgent: one that is started by mistake does nothing, until the first
// has ended.
func (r *rig) secondAgent(t *testing.T) {
	note := r.script(t, "second", "echo $1 >>"+r.dir+"/second-seen\nsleep 0.2\n")
	first := r.agent(t, 1, "--allowed-programs", note)
	delete(r.agents, r.hv(1).Name)
	defer first.kill(t)
	require.True(t, waits(func() bool { return strings.Contains(first.log.String(), "msg=watching") }), first.log)
	second := r.agent(t, 1, "--allowed-programs", note)
	require.True(t, waits(func() bool {
		return strings.Contains(second.log.String(), "another agent of this owner and chassis runs here")
	}), second.log)
	var docs strings.Builder
	var names, once []string
	for n := range 10 {
		name := fmt.Sprintf("so%d", n)
		names, once = append(names, name), append(once, "up-"+name, "down-"+name)
		docs.WriteString(attachment(name, "web", "hv1", "plug: {type: netns, postCreateExec: ["+note+", up-"+name+"], postDeleteExec: ["+note+", down-"+name+"]}"))
	}
	r.apply(t, docs.String())
	for _, name := range names {
		r.plugged(t, 1, name)
	}
	first.kill(t)
	r.delete(t, names...)
	for _, name := range names {
		r.gone(t, 1, name)
	}
	require.ElementsMatch(t, once, lines(t, r.dir+"/second-seen"))
}

// killedBeforePlugged: a guest that was given an address before the agent died
// does not keep it beside the one that its spec says by then.
func (r *rig) killedBeforePlugged(t *testing.T) {
	ctx := t.Context()
	require.NoError(t, r.hv(1).Kill(ctx, "vswitchd")) // interfaces wait for it
	p := r.agent(t, 1, "--sb", r.lab.SB())            // the underlay is down too
	r.apply(t, attachment("kb", "web", "hv1", "addresses: [10.10.1.150], plug: {type: netns}"))
	addresses := func() string {
		out, err := r.inside(ctx, 1, "kb", "ip", "-o", "-4", "address", "show", "eth0")
		if _, exited := err.(*exec.ExitError); !exited {
			require.NoError(t, err)
		}
		return out
	}
	require.True(t, waits(func() bool { return strings.Contains(addresses(), "10.10.1.150/24") }))
	p.kill(t)
	require.Equal(t, "plugging", r.interfaces(t, 1)["kb"].ExternalIDs["ovn-vpc:state"])
	r.apply(t, attachment("kb", "web", "hv1", "addresses: [10.10.1.151], plug: {type: netns}"))
	require.NoError(t, r.hv(1).Start(ctx, "vswitchd"))
	r.agent(t, 1)
	r.plugged(t, 1, "kb")
	require.Contains(t, addresses(), "10.10.1.151/24")
	require.NotContains(t, addresses(), "10.10.1.150/24")
	r.delete(t, "kb")
	r.gone(t, 1, "kb")
}

// foreignInPlace: somebody takes the name of an internal port while
// ovs-vswitchd is away. It stays as it is.
func (r *rig) foreignInPlace(t *testing.T) {
	ctx := t.Context()
	p := r.agent(t, 1, "--sb", r.lab.SB())
	r.apply(t, attachment("fp", "web", "hv1", "plug: {type: internal, name: vpc-fp}"))
	r.plugged(t, 1, "fp")
	p.kill(t)
	ip := func(args ...string) string {
		out, err := r.hv(1).Run(ctx, "ip", args...)
		require.NoError(t, err)
		return out
	}
	require.NoError(t, r.hv(1).Kill(ctx, "vswitchd"))
	ip("link", "del", "vpc-fp")
	ip("link", "add", "vpc-fp", "type", "bridge")
	before := ip("-o", "address", "show", "vpc-fp") + ip("-o", "link", "show", "vpc-fp")
	r.agent(t, 1, "--sb", r.lab.SB())
	require.True(t, waits(func() bool {
		return strings.Contains(r.interfaces(t, 1)["fp"].ExternalIDs["ovn-vpc:error"], "this agent has not made it")
	}))
	require.Equal(t, before, ip("-o", "address", "show", "vpc-fp")+ip("-o", "link", "show", "vpc-fp"))
	ip("link", "del", "vpc-fp")
	require.NoError(t, r.hv(1).Start(ctx, "vswitchd"))
	require.True(t, waits(func() bool { return r.interfaces(t, 1)["fp"].ExternalIDs["ovn-vpc:error"] == "" }))
	r.plugged(t, 1, "fp")
	r.delete(t, "fp")
	r.gone(t, 1, "fp")
}
