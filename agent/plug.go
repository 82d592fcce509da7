package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// kernel makes and removes interfaces in the kernel. All of it can be done
// again at any point, also after it was broken off at any point.
type kernel struct {
	owner     string
	netnsDir  string
	userspace bool // Open vSwitch takes frames from the kernel's interfaces by itself
}

func (k kernel) mark(r record) string { return markOf(k.owner, r.Chassis, r.InterfaceID) }

// openPatience is how long ovs-vswitchd may take to open an interface, or to
// make an internal port.
const openPatience = 5 * time.Second

// taken tells whether a name is that of an interface which is not the
// attachment's own.
func (k kernel) taken(name string, r record) (bool, error) {
	link, err := findLink(&netlink.Handle{}, name)
	return link != nil && link.Attrs().Alias != k.mark(r), err
}

// complete tells whether all that make makes is there.
func (k kernel) complete(r record, ifname string) (bool, error) {
	link, err := findLink(&netlink.Handle{}, ifname)
	if err != nil || link == nil || link.Attrs().Alias != k.mark(r) {
		return false, err
	}
	if r.Plug.Type != model.PlugNetns {
		return true, nil
	}
	end, err := k.guestEnd(r)
	return end, err
}

// guestEnd tells whether the namespace is there, with its interface.
func (k kernel) guestEnd(r record) (bool, error) {
	ns, err := openNetns(r.netnsPath(k.netnsDir), k.mark(r))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return false, fmt.Errorf("looking into a network namespace: %w", err)
	}
	defer h.Close()
	link, err := findLink(h, guestPort)
	return link != nil, err
}

// make brings about what is missing of an attachment's interface, and gives it
// what the record says. old is what it had been given before, nil for nothing.
func (k kernel) make(ctx context.Context, r record, ifname string, old *record) error {
	switch r.Plug.Type {
	case model.PlugNetns:
		return k.makeGuest(r, ifname, old)
	case model.PlugTap:
		return k.makeTap(r, ifname)
	case model.PlugInternal:
		return k.makeInternal(ctx, r, ifname, old)
	}
	return fmt.Errorf("there is no way to make a plug of type %q", r.Plug.Type)
}

func (k kernel) makeGuest(r record, ifname string, old *record) error {
	path, mark := r.netnsPath(k.netnsDir), k.mark(r)
	ns, err := openNetns(path, mark)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeNetns(path, mark); err == nil {
			ns, err = openNetns(path, mark)
		}
	}
	if err != nil {
		return err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("looking into the network namespace %s: %w", path, err)
	}
	defer h.Close()
	if err := k.cable(h, int(ns), r, ifname, mark); err != nil {
		return err
	}
	ra, now, before := ignoreRA, r.static(guestRoutes), old.static(guestRoutes)
	if r.Plug.Configure == model.PlugDHCP {
		ra, now, before = acceptRA, settings{}, settings{}
	}
	if err := inside(ns, func() error { return errors.Join(own(guestPort, ra), k.offload(guestPort)) }); err != nil {
		return fmt.Errorf("preparing %s in %s: %w", guestPort, path, err)
	}
	if err := configure(h, guestPort, r.MAC, now, before); err != nil {
		return err
	}
	return k.hostEnd(ifname, r.Net.MTU)
}

// cable is the pair of interfaces between hypervisor and namespace, the
// hypervisor's end marked. A half of one, whose other end went with another
// namespace, is made anew.
func (k kernel) cable(h *netlink.Handle, ns int, r record, ifname, mark string) error {
	guest, err := findLink(h, guestPort)
	if err != nil {
		return err
	}
	host, err := findLink(&netlink.Handle{}, ifname)
	if err != nil {
		return err
	}
	if host != nil && guest == nil {
		if err := removeLink(&netlink.Handle{}, ifname, mark); err != nil {
			return err
		}
		host = nil
	}
	switch {
	case host == nil && guest != nil:
		return fmt.Errorf("interface %s in the namespace: %w", guestPort, errForeign)
	case host != nil && !paired(host, guest):
		return fmt.Errorf("interface %s: %w", ifname, errForeign)
	case host != nil && host.Attrs().Alias == mark:
		return nil
	case host == nil:
		if err := addCable(ns, r, ifname); err != nil {
			return fmt.Errorf("making the interface %s: %w", ifname, err)
		}
		if host, err = netlink.LinkByName(ifname); err != nil {
			return fmt.Errorf("looking for the interface %s: %w", ifname, err)
		}
	}
	if err := netlink.LinkSetAlias(host, mark); err != nil {
		return fmt.Errorf("marking the interface %s: %w", ifname, err)
	}
	return nil
}

func addCable(ns int, r record, ifname string) error {
	mac, err := net.ParseMAC(string(r.MAC))
	if err != nil {
		return err
	}
	return netlink.LinkAdd(&netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: ifname, MTU: r.Net.MTU},
		PeerName:         guestPort,
		PeerNamespace:    netlink.NsFd(ns),
		PeerHardwareAddr: mac,
		PeerMTU:          uint32(r.Net.MTU),
	})
}

// paired tells whether two interfaces are the ends of one cable.
func paired(a, b netlink.Link) bool {
	return a.Type() == "veth" && b.Type() == "veth" && a.Attrs().ParentIndex == b.Attrs().Index && b.Attrs().ParentIndex == a.Attrs().Index
}

// hostEnd readies the interface that Open vSwitch has.
func (k kernel) hostEnd(ifname string, mtu int) error {
	link, err := netlink.LinkByName(ifname)
	if err != nil {
		return fmt.Errorf("looking for the interface %s: %w", ifname, err)
	}
	if link.Attrs().MTU != mtu {
		if err := netlink.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("giving %s the MTU %d: %w", ifname, mtu, err)
		}
	}
	if err := errors.Join(quiet(ifname), k.offload(ifname), netlink.LinkSetUp(link)); err != nil {
		return fmt.Errorf("preparing the interface %s: %w", ifname, err)
	}
	return nil
}

// up brings the interface that Open vSwitch has up where it is down.
func (k kernel) up(r record, ifname string) error {
	if r.Plug.Type == model.PlugInternal {
		return nil // its flag is set with its addresses
	}
	link, err := netlink.LinkByName(ifname)
	if err == nil && link.Attrs().Flags&net.FlagUp == 0 {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("bringing up the interface %s: %w", ifname, err)
	}
	return nil
}

func (k kernel) offload(name string) error {
	if !k.userspace {
		return nil
	}
	return checksums(name)
}

// makeTap makes a tap that stays when nobody has it open.
func (k kernel) makeTap(r record, ifname string) error {
	mark := k.mark(r)
	link, err := findLink(&netlink.Handle{}, ifname)
	if err != nil {
		return err
	}
	if link == nil {
		tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: ifname}, Mode: netlink.TUNTAP_MODE_TAP,
			Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_ONE_QUEUE, Queues: 1}
		err := netlink.LinkAdd(tap)
		for _, f := range tap.Fds {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("making the tap %s: %w", ifname, err)
		}
	}
	if err := k.markTap(ifname, mark); err != nil {
		return err
	}
	if link, err = netlink.LinkByName(ifname); err != nil {
		return fmt.Errorf("looking for the tap %s: %w", ifname, err)
	}
	if link.Attrs().Alias != mark {
		return fmt.Errorf("interface %s: %w", ifname, errForeign)
	}
	return k.hostEnd(ifname, r.Net.MTU)
}

// markTap marks a tap without a mark: since the name was found free and Open
// vSwitch's database says that it is the agent's, nobody else has made it.
func (k kernel) markTap(ifname, mark string) error {
	link, err := findLink(&netlink.Handle{}, ifname)
	if err != nil || link == nil || link.Attrs().Alias != "" || link.Type() != "tuntap" {
		return err
	}
	if err := netlink.LinkSetAlias(link, mark); err != nil {
		return fmt.Errorf("marking the tap %s: %w", ifname, err)
	}
	return nil
}

// makeInternal readies a port that ovs-vswitchd makes. It marks it last: where
// a restart of the userspace datapath has made it anew, the mark is missing.
func (k kernel) makeInternal(ctx context.Context, r record, ifname string, old *record) error {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	err := until(ctx, func() (bool, error) {
		link, err := findLink(&netlink.Handle{}, ifname)
		if link != nil && !internalPort(link, k.mark(r)) {
			err = errForeign
		}
		return link != nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for ovs-vswitchd to make the port %s: %w", ifname, err)
	}
	if err := errors.Join(own(ifname, ignoreRA), k.offload(ifname)); err != nil {
		return fmt.Errorf("preparing the interface %s: %w", ifname, err)
	}
	if err := configure(&netlink.Handle{}, ifname, r.MAC, r.static(hostRoutes), old.static(hostRoutes)); err != nil {
		return err
	}
	link, err := netlink.LinkByName(ifname)
	if err == nil {
		err = netlink.LinkSetAlias(link, k.mark(r))
	}
	if err != nil {
		return fmt.Errorf("marking the interface %s: %w", ifname, err)
	}
	return nil
}

// internalPort tells whether an interface can be an internal port that is the
// agent's: ovs-vswitchd makes a tap with the userspace datapath.
func internalPort(link netlink.Link, mark string) bool {
	alias := link.Attrs().Alias
	return (alias == "" || alias == mark) && (link.Type() == "openvswitch" || link.Type() == "tuntap")
}

// until waits for a condition.
func until(ctx context.Context, holds func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// remove takes away what make has made, as far as it is there. What somebody
// else has put in its place stays. An internal port goes with its row in Open
// vSwitch's database.
func (k kernel) remove(r record, ifname string) error {
	mark := k.mark(r)
	switch r.Plug.Type {
	case model.PlugNetns:
		path := r.netnsPath(k.netnsDir)
		return errors.Join(ignoreForeign(removeGuestEnd(path, mark)), ignoreForeign(removeLink(&netlink.Handle{}, ifname, mark)),
			ignoreForeign(removeNetns(path, mark)))
	case model.PlugTap:
		return errors.Join(k.markTap(ifname, mark), ignoreForeign(removeLink(&netlink.Handle{}, ifname, mark)))
	}
	return nil
}

// removeGuestEnd removes the interface in a namespace, and with it the other
// end, which may not be marked yet.
func removeGuestEnd(path, mark string) error {
	ns, err := openNetns(path, mark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("looking into the network namespace %s: %w", path, err)
	}
	defer h.Close()
	link, err := findLink(h, guestPort)
	if err != nil || link == nil {
		return err
	}
	if err := h.LinkDel(link); err != nil {
		return fmt.Errorf("removing %s in %s: %w", guestPort, path, err)
	}
	return nil
}

// ignoreForeign leaves what somebody else has made.
func ignoreForeign(err error) error {
	if errors.Is(err, errForeign) {
		return nil
	}
	return err
}
