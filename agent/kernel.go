package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// guestPort is the interface in a namespace.
const guestPort = "eth0"

// errForeign says that something of a name exists that the agent has not made.
var errForeign = errors.New("it exists, and this agent has not made it")

// onThread runs f on a thread of its own, which may change its network
// namespace: it ends with f if it can't come back.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("reading the thread's network namespace: %w", err)
			return
		}
		defer home.Close()
		err = f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// inside runs f in a network namespace.
func inside(ns netns.NsHandle, f func() error) error {
	return onThread(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("entering the network namespace: %w", err)
		}
		return f()
	})
}

// makeNetns makes a named namespace that bears the mark from its first moment:
// as the alias of its loopback. A name in use is an fs.ErrExist.
func makeNetns(path, mark string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of namespaces: %w", err)
	}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.LinkSetAlias(lo, mark), netlink.LinkSetUp(lo)); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	})
	if err != nil {
		return fmt.Errorf("making the network namespace %s: %w", path, err)
	}
	return nil
}

// openNetns opens a named namespace that bears the mark. A name that leads to
// none, since a namespace was removed in part or never finished, is taken away.
func openNetns(path, mark string) (netns.NsHandle, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return netns.None(), fmt.Errorf("opening the network namespace: %w", &fs.PathError{Op: "statfs", Path: path, Err: err})
	}
	if st.Type != unix.NSFS_MAGIC {
		if info, err := os.Lstat(path); err != nil || info.Size() != 0 || !info.Mode().IsRegular() {
			return netns.None(), fmt.Errorf("network namespace %s: %w", path, errForeign)
		}
		if err := os.Remove(path); err != nil {
			return netns.None(), err
		}
		return netns.None(), fmt.Errorf("opening the network namespace %s: %w", path, fs.ErrNotExist)
	}
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return netns.None(), fmt.Errorf("opening the network namespace %s: %w", path, err)
	}
	alias, err := loopbackAlias(ns)
	if err == nil && alias != mark {
		err = fmt.Errorf("network namespace %s: %w", path, errForeign)
	}
	if err != nil {
		return netns.None(), errors.Join(err, ns.Close())
	}
	return ns, nil
}

func loopbackAlias(ns netns.NsHandle) (string, error) {
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return "", fmt.Errorf("looking into a network namespace: %w", err)
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return "", fmt.Errorf("looking into a network namespace: %w", err)
	}
	return lo.Attrs().Alias, nil
}

// removeNetns takes away the name of a namespace that bears the mark; it is no
// error if there is none. Processes inside stay, without a network.
func removeNetns(path, mark string) error {
	ns, err := openNetns(path, mark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = ns.Close()
	if err == nil {
		err = unix.Unmount(path, unix.MNT_DETACH)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("removing the network namespace %s: %w", path, err)
	}
	return nil
}

// findLink is nil where there is no interface of that name.
func findLink(h *netlink.Handle, name string) (netlink.Link, error) {
	link, err := h.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the interface %s: %w", name, err)
	}
	return link, nil
}

// removeLink removes an interface that bears the mark; it is no error if there
// is none.
func removeLink(h *netlink.Handle, name, mark string) error {
	link, err := findLink(h, name)
	if err != nil || link == nil {
		return err
	}
	if link.Attrs().Alias != mark {
		return fmt.Errorf("interface %s: %w", name, errForeign)
	}
	if err := h.LinkDel(link); err != nil {
		return fmt.Errorf("removing the interface %s: %w", name, err)
	}
	return nil
}

// sysctls sets parameters of the present namespace, by their paths below
// /proc/sys.
func sysctls(values ...[2]string) error {
	var errs []error
	for _, v := range values {
		err := os.WriteFile(filepath.Join("/proc/sys", v[0]), []byte(v[1]), 0o644)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// quiet keeps the hypervisor's own network stack off an interface: with the
// userspace datapath it sees every frame too, and would answer.
func quiet(name string) error {
	return sysctls([2]string{"net/ipv6/conf/" + name + "/disable_ipv6", "1"},
		[2]string{"net/ipv4/conf/" + name + "/arp_ignore", "8"})
}

// The values of accept_ra (Linux, networking/ip-sysctl).
const (
	ignoreRA = "0"
	acceptRA = "2" // also where the guest forwards packets
)

// own lets a guest's interface have what it is given and nothing else: none of
// its addresses is kept back by a look for duplicates, which OVN prevents.
// Where router advertisements are accepted they are asked for at once.
func own(name, ra string) error {
	dir := "net/ipv6/conf/" + name
	return sysctls([2]string{dir + "/disable_ipv6", "0"}, [2]string{dir + "/accept_ra", ra},
		[2]string{dir + "/addr_gen_mode", "0"}, [2]string{dir + "/accept_dad", "0"},
		[2]string{dir + "/router_solicitation_delay", "0"}, [2]string{dir + "/router_solicitation_interval", "1"})
}

// checksums makes the kernel compute the checksums of what an interface of the
// present namespace sends (ethtool -K IF tx off): the userspace datapath
// takes frames as they are, without those that offload leaves to a card.
func checksums(name string) error {
	type value struct{ command, data uint32 }
	type request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}
	off := value{command: unix.ETHTOOL_STXCSUM}
	req := request{data: unsafe.Pointer(&off)}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("switching off the checksum offload of %s: %w", name, err)
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	runtime.KeepAlive(&off)
	err = unix.Close(fd)
	if errno != 0 {
		err = errno
	}
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("switching off the checksum offload of %s: %w", name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// settings are what an interface has for the guest's use. An MTU of 0 is left
// as it is.
type settings struct {
	mtu       int
	addresses []netip.Prefix
	routes    []route
}

// static are the settings by the specs, nil those of nothing.
func (r *record) static(routes func(record) []route) settings {
	if r == nil {
		return settings{}
	}
	return settings{r.Net.MTU, r.Net.Addresses, routes(*r)}
}

// configure gives an interface its MAC and settings, and takes away those that
// it had before.
func configure(h *netlink.Handle, name string, address model.MAC, now, old settings) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking for the interface %s: %w", name, err)
	}
	mac, err := net.ParseMAC(string(address))
	if err != nil {
		return fmt.Errorf("reading the MAC: %w", err)
	}
	if link.Attrs().HardwareAddr.String() != mac.String() {
		if err := h.LinkSetHardwareAddr(link, mac); err != nil {
			return fmt.Errorf("giving %s the MAC %s: %w", name, mac, err)
		}
	}
	if now.mtu != 0 && link.Attrs().MTU != now.mtu {
		if err := h.LinkSetMTU(link, now.mtu); err != nil {
			return fmt.Errorf("giving %s the MTU %d: %w", name, now.mtu, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	if err := setAddresses(h, link, now.addresses, old.addresses); err != nil {
		return err
	}
	return setRoutes(h, link, now.routes, old.routes)
}

func setAddresses(h *netlink.Handle, link netlink.Link, addresses, old []netip.Prefix) error {
	for _, a := range addresses {
		if err := h.AddrReplace(link, &netlink.Addr{IPNet: ipNet(a), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("giving %s the address %s: %w", link.Attrs().Name, a, err)
		}
	}
	for _, a := range old {
		if slices.Contains(addresses, a) {
			continue
		}
		if err := h.AddrDel(link, &netlink.Addr{IPNet: ipNet(a)}); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("taking the address %s from %s: %w", a, link.Attrs().Name, err)
		}
	}
	return nil
}

// route is a route of a guest; without Via it is on the link.
type route struct {
	To  netip.Prefix `json:"to"`
	Via netip.Addr   `json:"via,omitzero"`
}

// guestRoutes are those of a namespace: everything goes by the gateways.
func guestRoutes(r record) []route {
	var out []route
	for _, p := range r.Net.OnLink {
		out = append(out, route{To: p})
	}
	for _, g := range r.Net.Gateways {
		everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if g.Is6() {
			everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if !slices.ContainsFunc(out, func(x route) bool { return x.To == everywhere }) {
			out = append(out, route{To: everywhere, Via: g})
		}
	}
	return out
}

// hostRoutes are those of an interface in the hypervisor's own namespace: what
// lies in the VPC goes by the gateways, all else as before.
func hostRoutes(r record) []route {
	var out []route
	for _, p := range r.Net.OnLink {
		out = append(out, route{To: p})
	}
	for _, p := range r.Net.VPC {
		for _, g := range r.Net.Gateways {
			if g.Is4() == p.Addr().Is4() && !slices.ContainsFunc(r.Net.Addresses, func(a netip.Prefix) bool { return a.Masked() == p }) {
				out = append(out, route{To: p, Via: g})
				break
			}
		}
	}
	return out
}

func setRoutes(h *netlink.Handle, link netlink.Link, routes, old []route) error {
	of := func(r route) *netlink.Route {
		x := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(r.To)}
		if r.Via.IsValid() {
			x.Gw = r.Via.AsSlice()
		} else {
			x.Scope = netlink.SCOPE_LINK
		}
		return x
	}
	for _, r := range routes {
		if err := h.RouteReplace(of(r)); err != nil {
			return fmt.Errorf("giving %s the route to %s: %w", link.Attrs().Name, r.To, err)
		}
	}
	for _, r := range old {
		if slices.ContainsFunc(routes, func(x route) bool { return x.To == r.To }) {
			continue
		}
		if err := h.RouteDel(of(r)); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("taking the route to %s from %s: %w", r.To, link.Attrs().Name, err)
		}
	}
	return nil
}
