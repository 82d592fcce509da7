package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// netnsDir is where ip-netns(8) keeps the names of network namespaces, so
// that `ip netns exec` reaches ours.
const netnsDir = "/run/netns"

// namespace is a named network namespace of the lab.
type namespace struct {
	name   string
	handle netns.NsHandle
	link   *netlink.Handle // acts inside the namespace

	mu      sync.Mutex
	sockets closers // those of this process, which would keep the namespace alive
}

// newNamespace makes a namespace; a name in use is an fs.ErrExist. Its
// interfaces have no IPv6 unless sysctl turns it on.
func newNamespace(ctx context.Context, name string) (*namespace, error) {
	n := &namespace{name: name, handle: netns.None()}
	err := onThread(func() (err error) {
		n.handle, err = netns.NewNamed(name)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err == nil {
		n.link, err = netlink.NewHandleAt(n.handle, unix.NETLINK_ROUTE)
	}
	if err == nil {
		err = n.sysctl("net/ipv6/conf/default/disable_ipv6", "1")
	}
	if err == nil {
		err = n.up("lo")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the network namespace %s: %w", name, err), n.delete(ctx))
	}
	return n, nil
}

// openNamespace opens the namespace that a path stands for.
func openNamespace(path string) (*namespace, error) {
	n := &namespace{name: filepath.Base(path)}
	var err error
	if n.handle, err = netns.GetFromPath(path); err != nil {
		return nil, fmt.Errorf("open the network namespace %s: %w", path, err)
	}
	if n.link, err = netlink.NewHandleAt(n.handle, unix.NETLINK_ROUTE); err != nil {
		return nil, errors.Join(fmt.Errorf("open the network namespace %s: %w", path, err), n.handle.Close())
	}
	return n, nil
}

// closeAtEnd closes c when the namespace is deleted, at the latest.
func (n *namespace) closeAtEnd(c io.Closer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sockets = append(n.sockets, c)
}

func (n *namespace) closeSockets() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sockets.Close()
}

// closers are closed as one; to close them again is no error.
type closers []io.Closer

// Close closes all.
func (c closers) Close() error {
	var errs []error
	for _, closer := range c {
		if err := closer.Close(); !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// delete closes this process's sockets in the namespace, ends the processes
// there, and takes its name away: the namespace goes, with its interfaces.
func (n *namespace) delete(ctx context.Context) error {
	return errors.Join(n.release(), removeNetns(ctx, n.name))
}

// release lets go of the namespace, which stays.
func (n *namespace) release() error {
	err := n.closeSockets()
	if n.link != nil {
		n.link.Close()
	}
	if n.handle.IsOpen() {
		err = errors.Join(err, n.handle.Close())
	}
	return err
}

// stands reports whether the namespace is still the one of its name.
func (n *namespace) stands() (bool, error) {
	var named, ours unix.Stat_t
	err := unix.Stat(filepath.Join(netnsDir, n.name), &named)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err = errors.Join(err, unix.Fstat(int(n.handle), &ours)); err != nil {
		return false, fmt.Errorf("look at the network namespace %s: %w", n.name, err)
	}
	return named.Dev == ours.Dev && named.Ino == ours.Ino, nil
}

// removeNetns ends the processes in a namespace and removes it. It is no error
// if there is none.
func removeNetns(ctx context.Context, name string) error {
	members, err := processes(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, process := range members {
		err = errors.Join(err, kill(ctx, process))
	}
	path := filepath.Join(netnsDir, name)
	// EINVAL: a file that never became a mount.
	if e := unix.Unmount(path, unix.MNT_DETACH); e != nil && !errors.Is(e, unix.EINVAL) && !errors.Is(e, unix.ENOENT) {
		err = errors.Join(err, e)
	}
	if err = errors.Join(err, remove(path)); err != nil {
		return fmt.Errorf("remove the network namespace %s: %w", name, err)
	}
	return nil
}

// processes returns the processes in the namespace of that name, without this
// one: a thread of it may be passing through.
func processes(name string) ([]*os.Process, error) {
	var want unix.Stat_t
	if err := unix.Stat(filepath.Join(netnsDir, name), &want); err != nil {
		return nil, fmt.Errorf("look at the network namespace %s: %w", name, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var members []*os.Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// The handle first, then the look, as with a daemon.
		process, err := os.FindProcess(pid)
		if err != nil {
			return nil, fmt.Errorf("find process %d: %w", pid, err)
		}
		var have unix.Stat_t
		if unix.Stat(filepath.Join("/proc", entry.Name(), "ns/net"), &have) == nil && have.Dev == want.Dev && have.Ino == want.Ino {
			members = append(members, process)
		} else if err := process.Release(); err != nil {
			return nil, fmt.Errorf("release process %d: %w", pid, err)
		}
	}
	return members, nil
}

// kill ends a process by SIGKILL and releases it.
func kill(ctx context.Context, process *os.Process) error {
	err := process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return process.Release()
	}
	ended := false
	if err == nil {
		ended, err = ends(ctx, process, patience)
	}
	if err == nil && !ended {
		err = fmt.Errorf("it runs %v after SIGKILL", patience)
	}
	if err = errors.Join(err, process.Release()); err != nil {
		return fmt.Errorf("kill process %d: %w", process.Pid, err)
	}
	return nil
}

// onThread runs f on an operating system's thread that may change its network
// namespace: it runs nothing else until it is back in the one it began in.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("read the thread's network namespace: %w", err)
			return
		}
		defer home.Close()
		result <- f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread() // else the thread ends with the goroutine
		}
	}()
	return <-result
}

// do runs f inside the namespace. Sockets that f opens and processes that it
// starts on its own goroutine belong to the namespace for good.
func (n *namespace) do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("enter the network namespace %s: %w", n.name, err)
		}
		return f()
	})
}

// output runs cmd inside the namespace to its end. A failure holds the
// command and its standard error.
func (n *namespace) output(cmd *exec.Cmd) (string, error) {
	var out string
	err := n.do(func() (err error) {
		out, err = run(cmd, filepath.Base(cmd.Path), cmd.Args[1:])
		return err
	})
	return out, err
}

// sysctl sets a kernel parameter of the namespace, named by its path under
// /proc/sys.
func (n *namespace) sysctl(path, value string) error {
	return n.do(func() error {
		if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644); err != nil {
			return fmt.Errorf("set sysctl: %w", err)
		}
		return nil
	})
}

// up sets an interface up.
func (n *namespace) up(name string) error {
	link, err := n.link.LinkByName(name)
	if err == nil {
		err = n.link.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("set %s up in %s: %w", name, n.name, err)
	}
	return nil
}

// address gives an interface an address at once, without the wait for
// duplicates of IPv6.
func (n *namespace) address(name string, address netip.Prefix) error {
	link, err := n.link.LinkByName(name)
	if err == nil {
		err = n.link.AddrAdd(link, &netlink.Addr{IPNet: ipNet(address), Flags: unix.IFA_F_NODAD})
	}
	if err != nil {
		return fmt.Errorf("give %s of %s the address %s: %w", name, n.name, address, err)
	}
	return nil
}

// ipNet is p in the terms of netlink, host bits kept.
func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// checksums makes the kernel compute the checksums of what the interface
// sends. The userspace datapath takes frames from the kernel's packet sockets
// as they are, without the checksum that offload leaves to a card: TCP across
// it would hang.
func (n *namespace) checksums(ctx context.Context, name string) error {
	_, err := n.output(exec.CommandContext(ctx, "ethtool", "-K", name, "tx", "off"))
	return err
}

// veth connects n's new interface local with peer's new interface remote, up
// and with checksums of their own. remoteMAC may be nil.
func (n *namespace) veth(ctx context.Context, local string, peer *namespace, remote string, remoteMAC net.HardwareAddr, mtu int) error {
	err := n.link.LinkAdd(&netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: local, MTU: mtu},
		PeerName:         remote,
		PeerNamespace:    netlink.NsFd(int(peer.handle)),
		PeerHardwareAddr: remoteMAC,
		PeerMTU:          uint32(mtu),
	})
	if err != nil {
		return fmt.Errorf("connect %s of %s with %s of %s: %w", local, n.name, remote, peer.name, err)
	}
	return errors.Join(n.checksums(ctx, local), peer.checksums(ctx, remote), n.up(local), peer.up(remote))
}
