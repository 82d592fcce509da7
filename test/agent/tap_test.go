package agent_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// tap: a machine of the test's own is at the other end, and is reached from
// another hypervisor.
func (r *rig) tap(t *testing.T) {
	r.agent(t, 1)
	r.agent(t, 2)
	r.apply(t, attachment("t1", "web", "hv1", "interfaceID: 2f9a1e64-8a3c-4f4e-9a51-6d2f3e0c7b1d, plug: {type: tap, name: tap-t1}")+attachment("t2", "db", "hv2", "plug: {type: netns}"))
	i := r.plugged(t, 1, "t1")
	require.Equal(t, "tap-t1", i.Name)
	r.plugged(t, 2, "t2")
	r.up(t, "t1", "t2")
	mac, err := net.ParseMAC(i.ExternalIDs["attached-mac"])
	require.NoError(t, err)
	machine := r.openTap(t, 1, "tap-t1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer(machine, mac, r.address(t, "t1"))
	}()
	r.reach(t, 2, "t2", r.address(t, "t1"))
	require.Equal(t, 3, r.ping(t, 2, "t2", r.address(t, "t1"), 3))
	require.NoError(t, machine.Close())
	<-done
	require.Contains(t, r.links(t, 1), "tap-t1", "it stays when the machine ends")
	r.delete(t, "t1", "t2")
	r.gone(t, 1, "t1")
	require.NotContains(t, r.links(t, 1), "tap-t1")
}

// openTap opens a tap of a hypervisor as a virtual machine's monitor does.
func (r *rig) openTap(t *testing.T, hv int, name string) *os.File {
	t.Helper()
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		ns, err := netns.GetFromPath("/run/netns/" + filepath.Base(r.lab.Dir()) + "-" + r.hv(hv).Name)
		if err == nil {
			err = netns.Set(ns)
		}
		var fd int
		if err == nil {
			fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		}
		var req *unix.Ifreq
		if err == nil {
			req, err = unix.NewIfreq(name)
		}
		if err == nil {
			req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
		}
		opened <- result{os.NewFile(uintptr(fd), name), err}
	}()
	o := <-opened
	require.NoError(t, o.err)
	return o.file
}

// answer answers ARP (RFC 826) and echo requests (RFC 792) until the tap is closed.
func answer(tap *os.File, mac net.HardwareAddr, address netip.Addr) {
	frame := make([]byte, 2048)
	for {
		n, err := tap.Read(frame)
		if err != nil {
			return
		}
		f, own := frame[:n], address.AsSlice()
		switch {
		case n >= 42 && bytes.Equal(f[12:14], []byte{8, 6}) && f[21] == 1 && bytes.Equal(f[38:42], own):
			copy(f[32:42], f[22:32])
			copy(f[22:], mac)
			copy(f[28:], own)
			f[21] = 2
		case n >= 42 && bytes.Equal(f[12:14], []byte{8, 0}) && f[23] == 1 && f[34] == 8 && bytes.Equal(f[30:34], own):
			copy(f[30:34], f[26:30])
			copy(f[26:30], own)
			f[34] = 0
			sum := uint32(binary.BigEndian.Uint16(f[36:])) + 0x0800
			binary.BigEndian.PutUint16(f[36:], uint16(sum+sum>>16))
		default:
			continue
		}
		copy(f, f[6:12])
		copy(f[6:], mac)
		if _, err := tap.Write(f); err != nil {
			return
		}
	}
}
