package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
)

// Options say what a lab consists of.
type Options struct {
	// Dir is the folder for databases, sockets and logs: a new or empty one,
	// which stays. "" is a temporary one that goes with the lab.
	Dir string
	// Hypervisors is how many there are, named hv1, hv2 and so on.
	Hypervisors int
	// Encap is the type of the tunnels between them: "vxlan" (the default) or
	// "geneve".
	Encap string
	// Root takes the programs of OVN and Open vSwitch from an unpacked Debian;
	// see Binaries.
	Root string
}

// Lab is an OVN with hypervisors on this machine, for root alone: a network
// namespace with the databases, ovn-northd and a bridge that is the underlay;
// one for each hypervisor; one for each guest. Nothing of it is visible in
// the machine's own namespace.
type Lab struct {
	// Hypervisors are hv1, hv2 and so on: their names are those of the chassis.
	Hypervisors []*Hypervisor

	id      string
	dir     string
	options Options
	bin     *Binaries
	sandbox *Sandbox
	central *namespace
	bridge  netlink.Link

	mu     sync.Mutex
	guests map[string]*Guest
	plugs  int // guests plugged so far: gives their interfaces short names
}

const (
	// namePrefix begins the names of a lab's namespaces and of its temporary
	// folder; the id of the process that made the lab follows.
	namePrefix = "ovnlab"
	// underlayBridge is the central namespace's bridge.
	underlayBridge = "underlay"
	// underlayMTU is that of an ordinary Ethernet.
	underlayMTU = 1500
	// maxHypervisors is what the last byte of an underlay address leaves.
	maxHypervisors = 200
	// sbPort is the TCP port of the southbound database (IANA: ovsdb is 6640;
	// OVN's own habit is 6642).
	sbPort = 6642
	// labTimeout bounds each step of a lab where the context has no deadline
	// before it.
	labTimeout = 2 * time.Minute
)

// underlayAddr is the underlay address of the central namespace (0) or of a
// hypervisor (1...), in a range for the tests of networks (RFC 2544, RFC 5735)
// of which nothing leaves the lab.
func underlayAddr(hypervisor int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, byte(1 + hypervisor)}), 24)
}

// Up starts a lab and returns when all its chassis are registered. When it
// fails it removes what it made. Several labs may stand side by side.
func Up(ctx context.Context, o Options) (*Lab, error) {
	ctx, cancel := context.WithTimeout(ctx, labTimeout)
	defer cancel()
	if o.Encap == "" {
		o.Encap = "vxlan"
	}
	if _, err := encapPort(o.Encap); err != nil {
		return nil, fmt.Errorf("start a lab: %w", err)
	}
	if o.Hypervisors < 1 || o.Hypervisors > maxHypervisors {
		return nil, fmt.Errorf("start a lab: %d hypervisors asked for, 1 to %d are possible", o.Hypervisors, maxHypervisors)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("start a lab: network namespaces need root")
	}
	l := &Lab{options: o, guests: map[string]*Guest{}}
	if err := l.up(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a lab: %w", err), l.Down(context.WithoutCancel(ctx)))
	}
	return l, nil
}

func (l *Lab) up(ctx context.Context) error {
	if _, err := FindBinaries("", "", "ethtool", "ping"); err != nil {
		return err
	}
	if err := l.claim(ctx); err != nil {
		return err
	}
	bin, err := FindBinaries(l.options.Root, l.dir, "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovn-controller", "ovn-trace")
	if err != nil {
		return err
	}
	l.bin = bin
	if err := l.startCentral(ctx); err != nil {
		return err
	}
	for i := range l.options.Hypervisors {
		l.Hypervisors = append(l.Hypervisors, l.newHypervisor(i+1))
	}
	return l.each(func(h *Hypervisor) error { return h.start(ctx) })
}

// each runs f for all hypervisors at once.
func (l *Lab) each(f func(*Hypervisor) error) error {
	errs := make([]error, len(l.Hypervisors))
	var wg sync.WaitGroup
	for i, h := range l.Hypervisors {
		wg.Go(func() { errs[i] = f(h) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// claim takes the first identity of this process that is free, by making the
// central namespace of that name, and the folder.
func (l *Lab) claim(ctx context.Context) error {
	for n := 0; l.central == nil; n++ {
		id := fmt.Sprintf("%s%d-%d", namePrefix, os.Getpid(), n)
		central, err := newNamespace(ctx, id+"-central")
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		l.id, l.central = id, central
	}
	if l.options.Dir == "" {
		l.dir = filepath.Join(os.TempDir(), l.id)
		if err := os.Mkdir(l.dir, 0o700); err != nil {
			l.dir = "" // not ours to remove
			return fmt.Errorf("make the lab's folder: %w", err)
		}
		return nil
	}
	dir, err := filepath.Abs(l.options.Dir)
	if err != nil {
		return fmt.Errorf("find the folder %s: %w", l.options.Dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the lab's folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the lab's folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the folder %s holds %q: choose an empty one", dir, entries[0].Name())
	}
	l.dir = dir
	return nil
}

// startCentral makes the underlay and a sandbox in the central namespace,
// whose southbound database listens on the underlay too.
func (l *Lab) startCentral(ctx context.Context) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: underlayBridge, MTU: underlayMTU}}
	if err := l.central.link.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make the underlay: %w", err)
	}
	l.bridge = bridge
	if err := errors.Join(l.central.address(underlayBridge, underlayAddr(0)), l.central.checksums(ctx, underlayBridge), l.central.up(underlayBridge)); err != nil {
		return fmt.Errorf("make the underlay: %w", err)
	}
	sandbox, err := newSandbox(SandboxOptions{Dir: filepath.Join(l.dir, "central"), Root: l.options.Root})
	if err != nil {
		return err
	}
	sandbox.inside = l.central.do
	sandbox.sbRemote = fmt.Sprintf("ptcp:%d:%s", sbPort, underlayAddr(0).Addr())
	l.sandbox = sandbox
	return sandbox.up(ctx)
}

// Down ends the lab's processes and removes its namespaces, and its folder if
// that is a temporary one. What can't be removed is in the error; the rest is
// removed all the same. A lab that is down may be taken down again.
func (l *Lab) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, labTimeout)
	defer cancel()
	var errs []error
	for _, g := range l.Guests() {
		errs = append(errs, g.remove(ctx))
	}
	errs = append(errs, l.each(func(h *Hypervisor) error { return h.stop(ctx) }))
	l.Hypervisors = nil
	if l.sandbox != nil {
		errs = append(errs, l.sandbox.Down(ctx))
		l.sandbox = nil
	}
	if l.central != nil {
		errs = append(errs, l.central.delete(ctx))
		l.central = nil
	}
	if l.id != "" && l.options.Dir == "" && l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
		l.dir = ""
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take the lab %s down: %w", l.id, err)
	}
	return nil
}

// Sweep removes what labs have left behind whose process has ended without
// Down: their namespaces with the processes in them, and temporary folders.
func Sweep(ctx context.Context) error {
	ours := regexp.MustCompile(`^` + namePrefix + `([0-9]+)-[0-9]+(-.*)?$`)
	var errs []error
	for _, dir := range []string{netnsDir, os.TempDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, entry := range entries {
			match := ours.FindStringSubmatch(entry.Name())
			if match == nil || exists(filepath.Join("/proc", match[1])) {
				continue
			}
			if dir == netnsDir {
				errs = append(errs, removeNetns(ctx, entry.Name()))
			} else {
				errs = append(errs, os.RemoveAll(filepath.Join(dir, entry.Name())))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what labs have left: %w", err)
	}
	return nil
}

// NB is the remote of the northbound database, reachable from outside the
// lab.
func (l *Lab) NB() string { return l.sandbox.NB() }

// SB is the remote of the southbound database, reachable from outside the lab.
func (l *Lab) SB() string { return l.sandbox.SB() }

// Sandbox is the lab's central part.
func (l *Lab) Sandbox() *Sandbox { return l.sandbox }

// Dir is the lab's folder, absolute.
func (l *Lab) Dir() string { return l.dir }

// WaitHV waits until every hypervisor has realised what is in the northbound
// database (ovn-nbctl(8), --wait=hv), and its datapath no more acts by older
// flows that it has cached. It says nothing of guests that were plugged since:
// see Guest.WaitInstalled.
func (l *Lab) WaitHV(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, labTimeout)
	defer cancel()
	_, err := l.sandbox.NBCtl(ctx, "--wait=hv", "sync")
	if err == nil {
		err = l.each(func(h *Hypervisor) error {
			_, err := h.Appctl(ctx, "revalidator/wait")
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("wait for the hypervisors: %w", err)
	}
	return nil
}

// Trace runs ovn-trace(8). What it writes on its standard error is a finding
// of its own: a match that doesn't parse is reported there, with success.
func (l *Lab) Trace(ctx context.Context, datapath, microflow string, args ...string) (stdout, stderr string, err error) {
	args = append(append([]string{"--db=" + l.SB()}, args...), datapath, microflow)
	cmd := l.bin.Command(ctx, "ovn-trace", args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := run(cmd, "ovn-trace", args)
	return out, complaints.String(), err
}
