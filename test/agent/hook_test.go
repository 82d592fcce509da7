package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script writes a program for hooks.
func (r *rig) script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

// lines are those of a file, none if it isn't there.
func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(data)), " ", "_"))
}

// hooks: one that is well, one that fails, hangs, isn't allowed, isn't there.
func (r *rig) hooks(t *testing.T) {
	seen := filepath.Join(r.dir, "seen")
	note := r.script(t, "note", `echo "$@" >>`+seen+"\necho noted; head -c 3000 /dev/zero | tr '\\0' x; echo the end\n")
	fail := r.script(t, "fail", "echo it went wrong >&2\nexit 3\n")
	hang := r.script(t, "hang", "echo waiting\nsleep 600 & echo $! >"+r.dir+"/sleeper\nwait\n")
	start := func() *process {
		return r.agent(t, 1, "--allowed-programs", note+","+fail+","+hang, "--allowed-programs", r.dir+"/absent", "--hook-timeout", "1s")
	}
	p := start()
	hooked := func(name, post string) string {
		return attachment(name, "web", "hv1", "plug: {type: netns, "+post+"}")
	}
	r.apply(t, hooked("h1", `postCreateExec: [`+note+`, up, "${ifname}", "${address}", "${mac}", "$HOME; a b"], postDeleteExec: [`+note+`, down, "${address}"]`)+
		hooked("h2", `postCreateExec: [`+fail+`]`)+hooked("h3", `postCreateExec: [`+hang+`]`)+hooked("h4", `postCreateExec: [/bin/echo, no]`)+
		hooked("h5", `postCreateExec: [`+r.dir+`/absent]`))
	result := func(name string) hook { return execution(t, r.plugged(t, 1, name).ExternalIDs["ovn-vpc:post-create"]) }

	one := r.plugged(t, 1, "h1")
	h := result("h1")
	require.Equal(t, "done", h.State)
	require.Zero(t, *h.Exit)
	require.NotEmpty(t, h.Started)
	require.Len(t, h.Output, 1024)
	require.True(t, strings.HasSuffix(h.Output, "the end\n"), h.Output)
	address := r.address(t, "h1").String()
	up := "up_" + one.Name + "_" + address + "_" + one.ExternalIDs["attached-mac"] + "_$HOME;_a_b"
	require.Equal(t, []string{up}, lines(t, seen))

	h = result("h2")
	require.Equal(t, "failed", h.State)
	require.Equal(t, 3, *h.Exit)
	require.Equal(t, "it went wrong\n", h.Output)
	h = result("h3")
	require.Equal(t, "timeout", h.State)
	require.Equal(t, "waiting\n", h.Output)
	require.GreaterOrEqual(t, h.Seconds, 1.0)
	sleeper := lines(t, r.dir+"/sleeper")
	require.Len(t, sleeper, 1)
	require.True(t, waits(func() bool { return !running(sleeper[0]) }), "the whole process group is killed")
	require.Equal(t, "refused", result("h4").State)
	h = result("h5")
	require.Equal(t, "failed", h.State)
	require.Contains(t, h.Error, "no such file")

	p.kill(t)
	start()
	r.apply(t, hooked("h6", `postDeleteExec: [`+note+`, down, six]`))
	r.plugged(t, 1, "h6")
	require.Equal(t, []string{up}, lines(t, seen), "once per creation")
	r.apply(t, hooked("h6", `postCreateExec: [`+note+`, late], postDeleteExec: [`+note+`, down, six]`))
	require.True(t, waits(func() bool { return strings.Contains(r.interfaces(t, 1)["h6"].ExternalIDs["ovn-vpc:plug"], "late") }))
	r.delete(t, "h1", "h2", "h3", "h4", "h5", "h6")
	for _, name := range []string{"h1", "h2", "h3", "h4", "h5", "h6"} {
		r.gone(t, 1, name)
	}
	require.ElementsMatch(t, []string{up, "down_" + address, "down_six"}, lines(t, seen))
}

func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// hookOfAKilledAgent is not run again, and does not run on.
func (r *rig) hookOfAKilledAgent(t *testing.T) {
	hang := r.script(t, "hang2", "echo $$ >>"+r.dir+"/hung\nexec sleep 600\n")
	p := r.agent(t, 1, "--allowed-programs", hang)
	r.apply(t, attachment("hk", "web", "hv1", "plug: {type: netns, postCreateExec: ["+hang+"]}"))
	require.True(t, waits(func() bool { return len(lines(t, r.dir+"/hung")) == 1 }))
	p.kill(t)
	pid := lines(t, r.dir+"/hung")[0]
	require.True(t, waits(func() bool { return !running(pid) }))
	r.agent(t, 1, "--allowed-programs", hang)
	require.Equal(t, "interrupted", execution(t, r.plugged(t, 1, "hk").ExternalIDs["ovn-vpc:post-create"]).State)
	require.Len(t, lines(t, r.dir+"/hung"), 1)
	began := time.Now()
	r.delete(t, "hk")
	r.gone(t, 1, "hk")
	require.Less(t, time.Since(began), 20*time.Second)
}
