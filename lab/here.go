package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
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
// else's. Guests can be plugged there and packets counted; the guests'
// namespaces bear the guests' names alone. Down removes the guests, and nothing
// else. There is no central part: Sandbox, NB, SB and WaitHV are not for it.
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
	ns := &namespace{}
	if ns.handle, err = netns.Get(); err == nil {
		ns.link, err = netlink.NewHandleAt(ns.handle, unix.NETLINK_ROUTE)
	}
	if err != nil {
		return nil, fmt.Errorf("use this hypervisor's network namespace: %w", err)
	}
	l := &Lab{options: Options{Encap: o.Encap, Hypervisors: 1}, dir: o.Dir, bin: bin, guests: map[string]*Guest{}}
	l.Hypervisors = []*Hypervisor{{
		Name: o.Name, lab: l, dir: o.Dir, db: "unix:" + filepath.Join(o.Dir, "db.sock"), vswitchd: "ovs-vswitchd", port: o.Port, ns: ns,
	}}
	return l, nil
}
