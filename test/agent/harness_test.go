// Package agent_test proves what the agent promises, on hypervisors in network
// namespaces: guests that it plugs reach each other, its own death costs no
// packet, and it touches nothing that it has not made.
package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// patience bounds the wait for anything that has to happen.
const patience = 30 * time.Second

// rig is a lab whose hypervisors have agents.
type rig struct {
	lab    *lab.Lab
	engine *engine.Engine
	binary string
	dir    string
	agents map[string]*process // by hypervisor
}

const networkYAML = `
{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.10.0.0/16, "fd00:10::/32"], mtu: 1400}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: web, vpc: shop}, spec: {cidrs: [10.10.1.0/24, 10.10.11.0/24, "fd00:10:1::/64"], acl: default-allow}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: db, vpc: shop}, spec: {cidrs: [10.10.2.0/24], acl: default-allow}}
`

func newRig(t *testing.T) *rig {
	t.Helper()
	require.NoError(t, sweep())
	r := &rig{lab: labtest.NewTestLab(t, lab.Options{Hypervisors: 3}), agents: map[string]*process{}}
	ctx := t.Context()
	nb, err := nbdb.Dial(ctx, nbdb.Options{Remotes: r.lab.NB()})
	require.NoError(t, err)
	t.Cleanup(nb.Close)
	r.engine = engine.New(nb, "default", "test")
	r.engine.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	r.dir = filepath.Join(os.TempDir(), fmt.Sprintf("%s%d", dirPrefix, os.Getpid()))
	require.NoError(t, os.Mkdir(r.dir, 0o755))
	t.Cleanup(func() {
		for _, p := range r.agents {
			p.kill(t)
		}
		require.NoError(t, remove(r.dir))
	})
	r.binary = filepath.Join(r.dir, "ovn-vpc")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", r.binary, "../../cmd/ovn-vpc").CombinedOutput()
	require.NoError(t, err, string(out))
	r.apply(t, networkYAML)
	return r
}

// dirPrefix begins the names of the tests' folders; a process id follows.
const dirPrefix = "ovnagent"

// sweep removes folders of tests that were killed.
func sweep() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		pid := strings.TrimPrefix(filepath.Base(dir), dirPrefix)
		if _, err := os.Stat("/proc/" + pid); err != nil {
			if err := remove(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a folder with the network namespaces that are named in it.
func remove(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "netns-*", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := unix.Unmount(file, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// process is a program that runs beside the test.
type process struct {
	cmd  *exec.Cmd
	log  *logged
	done chan struct{} // closed after its end
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(t, err)
	}
	<-p.done
}

// clean ends the agents, which have to have removed all. What a point that
// failed has left goes first, so that the next ones mean something.
func (r *rig) clean(t *testing.T) {
	t.Helper()
	if t.Failed() {
		objects, err := r.engine.Get(context.WithoutCancel(t.Context()), engine.Filter{Kind: model.KindAttachment, VPC: "shop"})
		require.NoError(t, err)
		for _, o := range objects {
			r.delete(t, o.Resource.Metadata.Name)
		}
	}
	for hv := 1; hv <= 2; hv++ {
		pid, err := os.ReadFile(filepath.Join(r.lab.Dir(), r.hv(hv).Name, "controller.pid"))
		require.NoError(t, err, "ovn-controller has ended")
		require.DirExists(t, "/proc/"+strings.TrimSpace(string(pid)), "ovn-controller has ended")
		require.True(t, waits(func() bool { return r.agents[r.hv(hv).Name] == nil || len(r.interfaces(t, hv)) == 0 }), "interfaces are left: %v", r.interfaces(t, hv))
	}
	for name, p := range r.agents {
		p.kill(t)
		delete(r.agents, name)
	}
}

// deleteVPC deletes a VPC with all that it holds.
func (r *rig) deleteVPC(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	_, err := r.engine.Delete(ctx, []model.ID{{Kind: model.KindVPC, Name: name}}, true, engine.WaitSB)
	require.NoError(t, err)
}

// hv is a hypervisor by its number, 1 for the first.
func (r *rig) hv(n int) *lab.Hypervisor { return r.lab.Hypervisors[n-1] }

func (r *rig) netnsDir(hv int) string { return filepath.Join(r.dir, "netns-"+r.hv(hv).Name) }

// privileges are the capabilities that the systemd unit leaves the agent, as
// setpriv(1) takes them.
func (r *rig) privileges(t *testing.T) string {
	t.Helper()
	unit, err := os.ReadFile("../../packaging/ovn-vpc-agent.service")
	require.NoError(t, err)
	match := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.+)$`).FindSubmatch(unit)
	require.NotNil(t, match)
	return "-all," + strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(string(match[1])), "cap_", "+")), ",")
}

// agent starts the agent of a hypervisor.
func (r *rig) agent(t *testing.T, hv int, args ...string) *process {
	t.Helper()
	name := r.hv(hv).Name
	if old := r.agents[name]; old != nil {
		old.kill(t)
	}
	args = append([]string{"--net=/run/netns/" + filepath.Base(r.lab.Dir()) + "-" + name, "setpriv", "--no-new-privs", "--bounding-set", r.privileges(t), r.binary, "agent", "-v",
		"--ovs", r.ovs(hv), "--netns-dir", r.netnsDir(hv)}, args...)
	p := &process{cmd: exec.Command("nsenter", args...), log: &logged{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // killed, as a rule
		close(p.done)
	}()
	r.agents[name] = p
	t.Cleanup(func() {
		if t.Failed() && p.log.String() != "" {
			t.Logf("the agent of %s:\n%s", name, p.log)
		}
	})
	return p
}

func (r *rig) ovs(hv int) string {
	return "unix:" + filepath.Join(r.lab.Dir(), r.hv(hv).Name, "ovsdb.sock")
}

func (r *rig) apply(t *testing.T, yaml string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	set, faults := model.Load(model.Input{Name: "test", Data: []byte(yaml)})
	require.False(t, faults.HasErrors(), faults.String())
	_, err := r.engine.Apply(ctx, set, false, engine.WaitSB)
	require.NoError(t, err)
}

func (r *rig) delete(t *testing.T, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	var ids []model.ID
	for _, name := range names {
		ids = append(ids, model.ID{Kind: model.KindAttachment, VPC: "shop", Name: name})
	}
	_, err := r.engine.Delete(ctx, ids, false, engine.WaitSB)
	require.NoError(t, err)
}

// attachment is a document; more is appended to its spec.
func attachment(name, tier, hv, more string) string {
	return fmt.Sprintf("---\n{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: %s, vpc: shop}, spec: {tier: %s, chassis: %s, %s}}\n", name, tier, hv, more)
}

// address is an attachment's first address.
func (r *rig) address(t *testing.T, name string) netip.Addr {
	t.Helper()
	objects, err := r.engine.Get(t.Context(), engine.Filter{Kind: model.KindAttachment, VPC: "shop", Name: name})
	require.NoError(t, err)
	require.Len(t, objects, 1)
	return objects[0].Status.(*engine.AttachmentStatus).Addresses[0]
}

// up waits until the CLI says that attachments are up.
func (r *rig) up(t *testing.T, names ...string) {
	t.Helper()
	var missing []string
	ok := waits(func() bool {
		missing = nil
		objects, err := r.engine.Get(t.Context(), engine.Filter{Kind: model.KindAttachment, VPC: "shop"})
		require.NoError(t, err)
		state := map[string]bool{}
		for _, o := range objects {
			up := o.Status.(*engine.AttachmentStatus).Up
			state[o.Resource.Metadata.Name] = up != nil && *up
		}
		for _, name := range names {
			if !state[name] {
				missing = append(missing, name)
			}
		}
		return len(missing) == 0
	})
	require.True(t, ok, "not up: %v", missing)
}

// waits waits for a condition.
func waits(ok func() bool) bool {
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// interfaces are the interfaces of a hypervisor's integration bridge that its
// agent has made, by attachment.
func (r *rig) interfaces(t *testing.T, hv int) map[string]nbdb.Interface {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	c, err := nbdb.Dial(ctx, nbdb.Options{Remotes: r.ovs(hv), Database: nbdb.OpenVSwitch})
	require.NoError(t, err)
	defer c.Close()
	vs, err := c.ReadVSwitch(ctx)
	require.NoError(t, err)
	out := map[string]nbdb.Interface{}
	for _, i := range vs.Bridges["br-int"].Interfaces {
		if name, ok := strings.CutPrefix(i.ExternalIDs["ovn-vpc:attachment"], "shop/"); ok {
			require.NotContains(t, out, name, "two interfaces of one attachment")
			out[name] = i
		}
	}
	return out
}

// plugged waits for an interface that is as it should be, hook included.
func (r *rig) plugged(t *testing.T, hv int, name string) nbdb.Interface {
	t.Helper()
	var i nbdb.Interface
	ok := waits(func() bool {
		i = r.interfaces(t, hv)[name]
		hook := execution(t, i.ExternalIDs["ovn-vpc:post-create"]).State
		return i.ExternalIDs["ovn-vpc:state"] == "plugged" && i.OFPort > 0 && hook != "pending" && hook != "running"
	})
	require.True(t, ok, "not plugged: %v", i)
	return i
}

func (r *rig) gone(t *testing.T, hv int, name string) {
	t.Helper()
	ok := waits(func() bool {
		_, there := r.interfaces(t, hv)[name]
		_, err := os.Lstat(filepath.Join(r.netnsDir(hv), "shop."+name))
		return !there && os.IsNotExist(err)
	})
	require.True(t, ok, "%s is still plugged", name)
}

// hook is what became of a hook, as it stands in external_ids.
type hook struct {
	State   string
	Exit    *int
	Error   string
	Started string
	Seconds float64
	Output  string
}

func execution(t *testing.T, text string) hook {
	t.Helper()
	var h hook
	if text != "" {
		require.NoError(t, json.Unmarshal([]byte(text), &h))
	}
	return h
}

// inside runs a program in the namespace of an attachment.
func (r *rig) inside(ctx context.Context, hv int, name, program string, args ...string) (string, error) {
	args = append([]string{"--net=" + filepath.Join(r.netnsDir(hv), "shop."+name), program}, args...)
	out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
	return string(out), err
}

// ping is how many of count requests were answered.
func (r *rig) ping(t *testing.T, hv int, name string, to netip.Addr, count int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	out, err := r.inside(ctx, hv, name, "ping", "-n", "-q", "-i", "0.05", "-W", "1", "-c", strconv.Itoa(count), to.String())
	return received(t, out, err)
}

func received(t *testing.T, out string, err error) int {
	t.Helper()
	match := regexp.MustCompile(`(\d+) received`).FindStringSubmatch(out)
	require.NotNil(t, match, "%v: %s", err, out)
	n, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return n
}

// reach waits until a ping is answered: the first packets of a path may be lost.
func (r *rig) reach(t *testing.T, hv int, name string, to netip.Addr) {
	t.Helper()
	require.True(t, waits(func() bool { return r.ping(t, hv, name, to, 1) == 1 }), "%s does not reach %s", name, to)
}
