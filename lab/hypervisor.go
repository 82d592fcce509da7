package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Hypervisor is one chassis: Open vSwitch with the userspace datapath and
// ovn-controller, in a network namespace.
type Hypervisor struct {
	// Name is the chassis' name, as requested-chassis takes it.
	Name string

	lab      *Lab
	dir      string // of its sockets
	db       string // the remote of its Open vSwitch database
	vswitchd string // the control of its ovs-vswitchd, as ovs-appctl takes it
	port     string // its interface to the underlay
	underlay netip.Prefix
	ns       *namespace
}

// underlayPort is the hypervisor's interface to the underlay.
const underlayPort = "phy0"

// schemaOVS is the schema of Open vSwitch's own database.
const schemaOVS = "/usr/share/openvswitch/vswitch.ovsschema"

func (l *Lab) newHypervisor(number int) *Hypervisor {
	name := "hv" + strconv.Itoa(number)
	dir := filepath.Join(l.dir, name)
	return &Hypervisor{
		Name: name, lab: l, dir: dir, db: "unix:" + filepath.Join(dir, "ovsdb.sock"), vswitchd: filepath.Join(dir, "vswitchd.ctl"),
		port: underlayPort, underlay: underlayAddr(number),
	}
}

// daemons are the hypervisor's processes in the order of their start.
func (h *Hypervisor) daemons() []daemon {
	db, remote := filepath.Join(h.dir, "ovsdb.db"), h.db
	none := func(context.Context) error { return nil }
	return []daemon{
		{
			name: "ovsdb", program: "ovsdb-server", args: []string{"--remote=p" + remote, db}, dir: h.dir, bin: h.lab.bin,
			prepare: func(ctx context.Context) error {
				if exists(db) {
					return nil
				}
				_, err := h.lab.bin.Run(ctx, "ovsdb-tool", "create", db, schemaOVS)
				return err
			},
		},
		// The kernel's datapath is not for it to look at.
		{name: "vswitchd", program: "ovs-vswitchd", args: []string{"--disable-system", remote}, dir: h.dir, bin: h.lab.bin, prepare: none},
		{name: "controller", program: "ovn-controller", args: []string{remote}, noUnixctl: true, dir: h.dir, bin: h.lab.bin, prepare: none},
	}
}

func (h *Hypervisor) start(ctx context.Context) error {
	if err := h.attach(ctx); err != nil {
		return fmt.Errorf("start %s: %w", h.Name, err)
	}
	if err := h.Start(ctx, "ovsdb"); err != nil {
		return err
	}
	id := func(key, value string) string { return "external_ids:" + key + "=" + strconv.Quote(value) }
	if _, err := h.Vsctl(ctx, "--no-wait", "init", "--", "set", "Open_vSwitch", ".",
		id("system-id", h.Name), id("hostname", h.Name),
		id("ovn-remote", fmt.Sprintf("tcp:%s:%d", underlayAddr(0).Addr(), sbPort)),
		id("ovn-encap-type", h.lab.options.Encap), id("ovn-encap-ip", h.underlay.Addr().String()),
		id("ovn-bridge-datapath-type", "netdev")); err != nil {
		return fmt.Errorf("start %s: %w", h.Name, err)
	}
	if err := h.Start(ctx, "vswitchd"); err != nil {
		return err
	}
	if _, err := h.Vsctl(ctx, "add-br", "br-phy", "--", "set", "Bridge", "br-phy", "datapath_type=netdev", "--", "add-port", "br-phy", h.port); err != nil {
		return fmt.Errorf("start %s: %w", h.Name, err)
	}
	if err := errors.Join(h.ns.checksums(ctx, "br-phy"), h.ns.address("br-phy", h.underlay), h.ns.up("br-phy")); err != nil {
		return fmt.Errorf("start %s: %w", h.Name, err)
	}
	if err := h.Start(ctx, "controller"); err != nil {
		return err
	}
	if _, err := h.lab.sandbox.SBCtl(ctx, "wait-until", "Chassis", h.Name); err != nil {
		return fmt.Errorf("start %s: wait for the chassis to register: %w", h.Name, err)
	}
	return nil
}

// attach makes the hypervisor's folder and namespace, and its cable to the
// underlay.
func (h *Hypervisor) attach(ctx context.Context) (err error) {
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return fmt.Errorf("make its folder: %w", err)
	}
	if h.ns, err = newNamespace(ctx, h.lab.id+"-"+h.Name); err != nil {
		return err
	}
	central := h.lab.central
	if err := h.ns.veth(ctx, h.port, central, h.Name, nil, underlayMTU); err != nil {
		return err
	}
	port, err := central.link.LinkByName(h.Name)
	if err == nil {
		err = central.link.LinkSetMaster(port, h.lab.bridge)
	}
	if err != nil {
		return fmt.Errorf("put %s into the underlay: %w", h.Name, err)
	}
	return nil
}

// Start starts those of the hypervisor's processes "ovsdb", "vswitchd" and
// "controller" that are named and don't run, in this order.
func (h *Hypervisor) Start(ctx context.Context, names ...string) error {
	for _, d := range h.daemons() {
		if !slices.Contains(names, d.name) {
			continue
		}
		err := h.ns.do(func() error {
			if running, err := d.running(); err != nil || running {
				return err
			}
			return d.start(ctx)
		})
		if err != nil {
			return fmt.Errorf("start %s of %s: %w", d.name, h.Name, err)
		}
	}
	return nil
}

// Kill ends those of the hypervisor's processes that are named (see Start) by
// SIGKILL, as a crash would: what they have set up elsewhere stays.
func (h *Hypervisor) Kill(ctx context.Context, names ...string) error {
	var errs []error
	for _, d := range slices.Backward(h.daemons()) {
		if slices.Contains(names, d.name) {
			process, err := d.find()
			if process != nil {
				err = kill(ctx, process)
			}
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kill processes of %s: %w", h.Name, err)
	}
	return nil
}

// stop removes the hypervisor.
func (h *Hypervisor) stop(ctx context.Context) error {
	switch {
	case h.ns == nil:
		return nil
	case h.lab.id == "": // that of Here
		return h.ns.release()
	}
	return h.ns.delete(ctx)
}

// Run runs a program of OVN or Open vSwitch on the hypervisor and returns its
// standard output; see Binaries.Run.
func (h *Hypervisor) Run(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, labTimeout)
	defer cancel()
	cmd := h.lab.bin.Command(ctx, program, args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+h.dir, "OVN_RUNDIR="+h.dir)
	var out string
	err := h.ns.do(func() (err error) {
		out, err = run(cmd, program, args)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("on %s: %w", h.Name, err)
	}
	return out, nil
}

// Vsctl runs ovs-vsctl(8) on the hypervisor's database.
func (h *Hypervisor) Vsctl(ctx context.Context, args ...string) (string, error) {
	return h.Run(ctx, "ovs-vsctl", append([]string{"--db=" + h.db}, args...)...)
}

// Appctl runs ovs-appctl(8) on the hypervisor's ovs-vswitchd.
func (h *Hypervisor) Appctl(ctx context.Context, args ...string) (string, error) {
	return h.Run(ctx, "ovs-appctl", append([]string{"--target=" + h.vswitchd}, args...)...)
}

// Flows is the number of OpenFlow flows on the integration bridge (ovs-ofctl(8),
// dump-aggregate).
func (h *Hypervisor) Flows(ctx context.Context) (int, error) {
	out, err := h.Run(ctx, "ovs-ofctl", "--protocols=OpenFlow15", "dump-aggregate", "br-int")
	if err != nil {
		return 0, err
	}
	match := regexp.MustCompile(`flow_count=(\d+)`).FindStringSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("on %s: ovs-ofctl dump-aggregate names no flow_count: %q", h.Name, out)
	}
	return strconv.Atoi(match[1])
}
