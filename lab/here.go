package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// HereOptions describe the hypervisor that this process runs on.
type HereOptions struct {
	// Name is the chassis' name.
	Name string
	// Encap is the type of its tunnels: "vxlan" or "geneve".
	Encap string
	// Port is its interface to the underlay.
	Port string
	// Dir is Open vSwitch's OVS_RUNDIR, with db.sock and ovs-vswitchd.pid in it.
	Dir string
}

// Here is a lab of one hypervisor, the one that this process runs on, in a
// container for instance: its Open vSwitch and ovn-controller are somebody
// else's. Guests can be adopted there and packets counted; Down removes
// nothing. There is no central part: Sandbox, NB, SB and WaitHV are not for it.
func Here(o HereOptions) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("use this hypervisor: network namespaces need root")
	}
	if _, err := encapPort(o.Encap); err != nil {
		return nil, fmt.Errorf("use this hypervisor: %w", err)
	}
	bin, err := FindBinaries("", "", "ethtool", "ping", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")
	if err != nil {
		return nil, fmt.Errorf("use this hypervisor: %w", err)
	}
	ns, err := openNamespace("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("use this hypervisor: %w", err)
	}
	l := &Lab{options: Options{Encap: o.Encap, Hypervisors: 1}, dir: o.Dir, bin: bin, guests: map[string]*Guest{}}
	l.Hypervisors = []*Hypervisor{{
		Name: o.Name, lab: l, dir: o.Dir, db: "unix:" + filepath.Join(o.Dir, "db.sock"), vswitchd: "ovs-vswitchd", port: o.Port, ns: ns,
	}}
	return l, nil
}

// Adopt waits until an agent of this machine has plugged spec.InterfaceID into
// the hypervisor, as eth0 of the network namespace spec.Name, and takes that for
// a guest. What it has there, addresses and routes, is the agent's affair.
func (h *Hypervisor) Adopt(ctx context.Context, spec GuestSpec) (*Guest, error) {
	ctx, cancel := context.WithTimeout(ctx, labTimeout)
	defer cancel()
	g := &Guest{Spec: spec, hypervisor: h, adopted: true}
	err := poll(ctx, func() (bool, error) {
		out, err := h.Vsctl(ctx, "--bare", "--columns=name", "find", "Interface",
			"external_ids:iface-id="+strconv.Quote(spec.InterfaceID), `external_ids:"ovn-vpc:state"=plugged`)
		g.port = strings.TrimSpace(out)
		return g.port != "", err
	})
	if err == nil {
		g.ns, err = openNamespace(filepath.Join(netnsDir, spec.Name))
	}
	if err != nil {
		return nil, fmt.Errorf("adopt the guest %s on %s: %w", spec.Name, h.Name, err)
	}
	return g, nil
}

// Stands reports whether the guest has not been removed, or replaced, since it
// was adopted.
func (g *Guest) Stands() (bool, error) { return g.ns.stands() }

// WaitGone waits until the agent has removed the guest, if it was adopted.
func (g *Guest) WaitGone(ctx context.Context) error {
	if !g.adopted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, labTimeout)
	defer cancel()
	err := poll(ctx, func() (bool, error) {
		stands, err := g.Stands()
		return !stands, err
	})
	if err != nil {
		return fmt.Errorf("wait until %s is unplugged from %s: %w", g.Spec.Name, g.hypervisor.Name, err)
	}
	return nil
}

// poll waits until done holds.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
