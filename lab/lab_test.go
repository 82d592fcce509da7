package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

// leftovers are the lab's traces on the machine.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("/run/netns", filepath.Base(dir)+"-*"))
	require.NoError(t, err)
	if _, err := os.Stat(dir); err == nil {
		names = append(names, dir)
	}
	return names
}

var (
	web1 = lab.GuestSpec{Name: "web1", InterfaceID: "vpc/web1", MAC: "0a:58:0a:0a:01:05",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.5/24"), netip.MustParsePrefix("fd00::5/64")}}
	web2 = lab.GuestSpec{Name: "web2", InterfaceID: "vpc/web2", MAC: "0a:58:0a:0a:01:06",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.6/24"), netip.MustParsePrefix("fd00::6/64")}}
)

// plugPair makes a switch by hand and two guests on it, on hv1 and hv2.
func plugPair(t *testing.T, l *lab.Lab) (one, two *lab.Guest) {
	t.Helper()
	ctx := t.Context()
	// Apart from its ports: ovn-northd 26.03 makes no multicast groups for a
	// switch that comes with ports, without a router, in one transaction.
	_, err := l.Sandbox().NBCtl(ctx, "--wait=sb", "ls-add", "sw")
	require.NoError(t, err)
	_, err = l.Sandbox().NBCtl(ctx,
		"lsp-add", "sw", "vpc/web1", "--", "lsp-set-addresses", "vpc/web1", "0a:58:0a:0a:01:05 10.10.1.5 fd00::5",
		"--", "lsp-add", "sw", "vpc/web2", "--", "lsp-set-addresses", "vpc/web2", "0a:58:0a:0a:01:06 10.10.1.6 fd00::6")
	require.NoError(t, err)
	one, err = l.Hypervisors[0].Plug(ctx, web1)
	require.NoError(t, err)
	two, err = l.Hypervisors[1].Plug(ctx, web2)
	require.NoError(t, err)
	require.NoError(t, one.WaitInstalled(ctx))
	require.NoError(t, two.WaitInstalled(ctx))
	require.NoError(t, l.WaitHV(ctx))
	return one, two
}

// isEcho selects what a count of pings counts.
func isEcho(frame []byte) bool {
	p, err := lab.ParsePacket(frame)
	return err == nil && (p.ICMPType() == 8 || p.ICMPType() == 0)
}

func TestLabPackets(t *testing.T) {
	for _, encap := range []string{"vxlan", "geneve"} {
		t.Run(encap, func(t *testing.T) {
			ctx := t.Context()
			l := labtest.NewTestLab(t, lab.Options{Hypervisors: 3, Encap: encap})
			one, two := plugPair(t, l)
			addr := netip.MustParseAddr("10.10.1.6")
			require.NoError(t, one.WaitPing(ctx, addr))
			require.NoError(t, one.WaitPing(ctx, netip.MustParseAddr("fd00::6")))

			require.Equal(t, [][2]int{{3, 3}, {3, 3}, {0, 0}}, countPings(t, l, one, addr, 3))
			requireServices(t, one, two)
			requireFrames(t, one, two)
			requireAnswers(t, one, two)
			flows, err := l.Hypervisors[0].Flows(ctx)
			require.NoError(t, err)
			require.Greater(t, flows, 100)
		})
	}
}

// countPings pings and returns what each hypervisor received and sent
// meanwhile. On a busy machine a packet may be lost, and the counts say
// nothing: then it tries again.
func countPings(t *testing.T, l *lab.Lab, from *lab.Guest, to netip.Addr, n int) [][2]int {
	t.Helper()
	for range 5 {
		counts := make([]*lab.UnderlayCount, len(l.Hypervisors))
		for i, h := range l.Hypervisors {
			var err error
			counts[i], err = h.CountUnderlay(isEcho)
			require.NoError(t, err)
		}
		received, err := from.Ping(t.Context(), to, n)
		require.NoError(t, err)
		result := make([][2]int, len(counts))
		for i, count := range counts {
			in, out, err := count.Stop()
			require.NoError(t, err)
			result[i] = [2]int{in, out}
		}
		if received == n {
			return result
		}
	}
	require.FailNow(t, "packets get lost again and again")
	return nil
}

// requireServices checks the outcomes of probes over both families.
func requireServices(t *testing.T, one, two *lab.Guest) {
	t.Helper()
	ctx := t.Context()
	for _, network := range []string{"tcp", "udp"} {
		stop, err := two.Listen(network, 8080)
		require.NoError(t, err)
		probe := func(to string) lab.Outcome {
			outcome, err := one.Probe(ctx, network, netip.MustParseAddrPort(to))
			require.NoError(t, err)
			return outcome
		}
		require.Equal(t, lab.Answered, probe("10.10.1.6:8080"), network)
		require.Equal(t, lab.Answered, probe("[fd00::6]:8080"), network)
		require.Equal(t, lab.Refused, probe("10.10.1.6:9090"), network)
		require.Equal(t, lab.Unreachable, probe("203.0.113.1:8080"), network)
		require.NoError(t, stop())
		require.Equal(t, lab.Refused, probe("10.10.1.6:8080"), network)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	outcome, err := one.Probe(short, "tcp", netip.MustParseAddrPort("10.10.1.7:80"))
	require.NoError(t, err)
	require.Equal(t, lab.TimedOut, outcome)
}

// requireFrames sends what no kernel would, and looks at what arrives.
func requireFrames(t *testing.T, one, two *lab.Guest) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	src, dst := mac(t, one), mac(t, two)
	from, to := netip.MustParseAddrPort("10.10.1.5:7"), netip.MustParseAddrPort("10.10.1.6:7777")
	capture, err := two.Capture(nil)
	require.NoError(t, err)
	whole := lab.UDP(from, to, []byte(strings.Repeat("x", 64))).Via(src, dst)
	whole.FragmentID = 4711
	for _, fragment := range whole.Fragments(32) {
		require.NoError(t, one.Send(fragment.Frame()))
	}
	frame, err := capture.Wait(ctx, func(f lab.Frame) bool {
		p, err := lab.ParsePacket(f.Data)
		return err == nil && p.FragmentID == 4711 && !p.MoreFragments
	})
	require.NoError(t, err)
	require.False(t, frame.Outgoing)
	require.NoError(t, one.Send(lab.RARP(src)))
	frame, err = capture.Wait(ctx, func(f lab.Frame) bool { return string(f.Data[12:14]) == "\x80\x35" })
	require.NoError(t, err)
	require.Equal(t, lab.RARP(src), frame.Data)
	frames, err := capture.Stop()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(frames), 4, "three fragments and a RARP")
}

func mac(t *testing.T, g *lab.Guest) net.HardwareAddr {
	t.Helper()
	address, err := net.ParseMAC(g.Spec.MAC)
	require.NoError(t, err)
	return address
}

// requireAnswers sends crafted packets that a kernel only answers when every
// header and checksum is right.
func requireAnswers(t *testing.T, one, two *lab.Guest) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := two.Listen("udp", 7)
	require.NoError(t, err)
	for i := range one.Spec.Addresses {
		from, to := netip.AddrPortFrom(one.Spec.Addresses[i].Addr(), 1000), netip.AddrPortFrom(two.Spec.Addresses[i].Addr(), 7)
		echo, answer := uint8(8), 0
		if to.Addr().Is6() {
			echo, answer = 128, 129
		}
		split := lab.UDP(from, to, []byte("in three fragments"))
		split.FragmentID = 42
		for name, c := range map[string]struct {
			packets []lab.Packet
			answers func(lab.Packet) bool
		}{
			"echo":      {[]lab.Packet{lab.ICMP(from.Addr(), to.Addr(), echo, 0, []byte{0, 1, 0, 1, 'x'})}, func(p lab.Packet) bool { return p.ICMPType() == answer }},
			"udp":       {[]lab.Packet{lab.UDP(from, to, []byte("whole"))}, func(p lab.Packet) bool { return strings.HasSuffix(string(p.Payload), "whole") }},
			"tcp":       {[]lab.Packet{lab.TCP(from, to, lab.FlagSYN, 99, 0, nil)}, func(p lab.Packet) bool { return p.Proto == lab.ProtoTCP && p.Payload[13]&lab.FlagRST != 0 }},
			"fragments": {split.Fragments(16), func(p lab.Packet) bool { return strings.HasSuffix(string(p.Payload), "fragments") }},
		} {
			capture, err := one.Capture(func(f lab.Frame) bool { return !f.Outgoing })
			require.NoError(t, err)
			for _, p := range c.packets {
				require.NoError(t, one.Send(p.Via(mac(t, one), mac(t, two)).Frame()))
			}
			_, err = capture.Wait(ctx, func(f lab.Frame) bool {
				p, err := lab.ParsePacket(f.Data)
				return err == nil && p.Src == to.Addr() && c.answers(p)
			})
			require.NoError(t, err, "%s to %s", name, to)
			_, err = capture.Stop()
			require.NoError(t, err)
		}
	}
}

func TestLabsSideBySide(t *testing.T) {
	ctx := t.Context()
	a, b := labtest.NewTestLab(t, lab.Options{Hypervisors: 1}), labtest.NewTestLab(t, lab.Options{Hypervisors: 1})
	require.NotEqual(t, a.NB(), b.NB())
	_, err := a.Sandbox().NBCtl(ctx, "ls-add", "mine")
	require.NoError(t, err)
	out, err := b.Sandbox().NBCtl(ctx, "ls-list")
	require.NoError(t, err)
	require.Empty(t, out)
	dir := a.Dir()
	require.NoError(t, a.Down(ctx))
	require.Empty(t, leftovers(t, dir))
	require.NoError(t, b.WaitHV(ctx), "the other lab lives on")
}

func TestLabTrace(t *testing.T) {
	ctx := t.Context()
	l := labtest.NewTestLab(t, lab.Options{Hypervisors: 2})
	plugPair(t, l)
	flow := `inport == "vpc/web1" && eth.src == 0a:58:0a:0a:01:05 && eth.dst == 0a:58:0a:0a:01:06 && ip4 && ip.ttl == 64`
	out, complaints, err := l.Trace(ctx, "sw", flow, "--minimal")
	require.NoError(t, err)
	require.Empty(t, complaints)
	require.Contains(t, out, `output("vpc/web2")`)

	_, err = l.Sandbox().NBCtl(ctx, "--wait=sb", "acl-add", "sw", "from-lport", "100", "tcp.dst == 65536", "drop")
	require.NoError(t, err)
	_, complaints, err = l.Trace(ctx, "sw", flow, "--minimal")
	require.NoError(t, err)
	require.Contains(t, complaints, "parsing expression failed")
}

func TestLabSurvivesACrash(t *testing.T) {
	ctx := t.Context()
	l := labtest.NewTestLab(t, lab.Options{Hypervisors: 2})
	one, _ := plugPair(t, l)
	addr := netip.MustParseAddr("10.10.1.6")
	require.NoError(t, one.WaitPing(ctx, addr))
	require.NoError(t, l.Hypervisors[1].Kill(ctx, "controller"))
	received, err := one.Ping(ctx, addr, 3)
	require.NoError(t, err)
	require.Equal(t, 3, received, "the flows stay")
	require.NoError(t, l.Hypervisors[1].Kill(ctx, "vswitchd"))
	received, err = one.Ping(ctx, addr, 2)
	require.NoError(t, err)
	require.Zero(t, received)
	require.NoError(t, l.Hypervisors[1].Start(ctx, "vswitchd", "controller"))
	require.NoError(t, one.WaitPing(ctx, addr))
}

// A southbound database that was stopped is found again by the hypervisors: it
// listens on the underlay as before.
func TestLabSouthboundStartsAgain(t *testing.T) {
	l := labtest.NewTestLab(t, lab.Options{Hypervisors: 1})
	require.NoError(t, l.Sandbox().Stop(t.Context(), "sb"))
	require.NoError(t, l.Sandbox().Start(t.Context()))
	_, err := l.Sandbox().NBCtl(t.Context(), "--timeout=30", "--wait=hv", "ls-add", "sw")
	require.NoError(t, err)
}

func TestLabEstablishedConnections(t *testing.T) {
	ctx := t.Context()
	l := labtest.NewTestLab(t, lab.Options{Hypervisors: 2})
	one, two := plugPair(t, l)
	_, err := l.Sandbox().NBCtl(ctx, "acl-add", "sw", "to-lport", "100", "ip", "allow-related")
	require.NoError(t, err)
	require.NoError(t, l.WaitHV(ctx))
	for _, network := range []string{"tcp", "udp"} {
		_, err := two.Listen(network, 8080)
		require.NoError(t, err)
		conn, err := one.Dial(ctx, network, netip.MustParseAddrPort("10.10.1.6:8080"))
		require.NoError(t, err)
		requireEcho(t, lab.Answered, conn)
		_, err = l.Sandbox().NBCtl(ctx, "acl-add", "sw", "to-lport", "200", network, "drop")
		require.NoError(t, err)
		require.NoError(t, l.WaitHV(ctx))
		requireEcho(t, lab.TimedOut, conn)
		_, err = l.Sandbox().NBCtl(ctx, "acl-del", "sw", "to-lport", "200", network)
		require.NoError(t, err)
		require.NoError(t, l.WaitHV(ctx))
		requireEcho(t, lab.Answered, conn)
	}
}

func requireEcho(t *testing.T, want lab.Outcome, conn net.Conn) {
	t.Helper()
	ctx := t.Context()
	if want == lab.TimedOut {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		ctx = short
	}
	have, err := lab.Echo(ctx, conn)
	require.NoError(t, err)
	require.Equal(t, want, have)
}

// abandon is the environment variable that makes the test's program start a
// lab and tell its folder, to be killed then.
const abandon = "OVN_VPC_LAB_TEST_ABANDON"

func TestMain(m *testing.M) {
	if os.Getenv(abandon) == "" {
		goleak.VerifyTestMain(m)
	}
	l, err := lab.Up(context.Background(), lab.Options{Hypervisors: 1, Root: labtest.Root()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Dir())
	select {}
}

func TestSweep(t *testing.T) {
	kept := labtest.NewTestLab(t, lab.Options{Hypervisors: 1})
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), abandon+"=1"), os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	dir := strings.TrimSpace(line)
	require.NoError(t, lab.Sweep(t.Context()))
	require.Len(t, leftovers(t, dir), 3, "a lab whose process lives is left alone")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Len(t, leftovers(t, dir), 3)
	pids, err := filepath.Glob(filepath.Join(dir, "*", "*.pid"))
	require.NoError(t, err)
	require.Len(t, pids, 6)
	processes := make([]string, 0, len(pids))
	for _, file := range pids {
		pid, err := os.ReadFile(file)
		require.NoError(t, err)
		processes = append(processes, filepath.Join("/proc", strings.TrimSpace(string(pid)), "exe"))
	}

	require.NoError(t, lab.Sweep(t.Context()))
	require.Empty(t, leftovers(t, dir))
	gone := func() bool {
		return !slices.ContainsFunc(processes, func(exe string) bool { _, err := os.Readlink(exe); return err == nil })
	}
	require.Eventually(t, gone, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, kept.WaitHV(t.Context()))
}

func TestLabRefuses(t *testing.T) {
	foreign := labtest.TempDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "letter"), nil, 0o600))
	for want, o := range map[string]lab.Options{
		"0 hypervisors asked for": {},
		`encapsulation "gre"`:     {Hypervisors: 1, Encap: "gre"},
		`holds "letter"`:          {Hypervisors: 1, Dir: foreign},
		"not found under":         {Hypervisors: 1, Root: foreign},
	} {
		before := namespaces(t)
		_, err := lab.Up(t.Context(), o)
		require.ErrorContains(t, err, want)
		require.FileExists(t, filepath.Join(foreign, "letter"))
		require.Equal(t, before, namespaces(t))
	}
}

func TestLabCleansUpWhenInterrupted(t *testing.T) {
	before := namespaces(t)
	interrupted := 0
	for wait := 10 * time.Millisecond; wait < time.Second; wait = wait * 3 / 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		l, err := lab.Up(ctx, lab.Options{Hypervisors: 2, Root: labtest.Root()})
		cancel()
		if err == nil {
			require.NoError(t, l.Down(t.Context()))
		} else {
			interrupted++
		}
		require.Equal(t, before, namespaces(t))
		folders, err := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("ovnlab%d-*", os.Getpid())))
		require.NoError(t, err)
		require.Empty(t, folders)
	}
	require.GreaterOrEqual(t, interrupted, 3)
}

func TestLabRefusesGuests(t *testing.T) {
	ctx := t.Context()
	h := labtest.NewTestLab(t, lab.Options{Hypervisors: 1}).Hypervisors[0]
	_, err := h.Plug(ctx, web1)
	require.NoError(t, err)
	before := namespaces(t)
	for want, change := range map[string]func(*lab.GuestSpec){
		"a guest of this name": func(s *lab.GuestSpec) { s.Name = web1.Name },
		"no name for a guest":  func(s *lab.GuestSpec) { s.Name = "a/b" },
		"read its MAC":         func(s *lab.GuestSpec) { s.MAC = "0a:58" },
		"the route to":         func(s *lab.GuestSpec) { s.Gateways = []netip.Addr{netip.MustParseAddr("192.0.2.1")} },
	} {
		spec := web2
		change(&spec)
		_, err := h.Plug(ctx, spec)
		require.ErrorContains(t, err, want)
		require.Equal(t, before, namespaces(t))
	}
	_, err = h.Plug(ctx, web2)
	require.NoError(t, err, "a refused guest doesn't keep its name")
}

func TestLabUnplug(t *testing.T) {
	ctx := t.Context()
	l := labtest.NewTestLab(t, lab.Options{Hypervisors: 2})
	one, two := plugPair(t, l)
	addr := netip.MustParseAddr("10.10.1.6")
	_, err := two.Listen("tcp", 80)
	require.NoError(t, err)
	require.NoError(t, one.WaitPing(ctx, addr))
	capture, err := two.Capture(nil)
	require.NoError(t, err)
	require.NoError(t, two.Unplug(ctx))
	_, err = capture.Wait(ctx, func(lab.Frame) bool { return false })
	require.ErrorContains(t, err, "the capture has ended")
	_, err = capture.Stop()
	require.NoError(t, err)
	received, err := one.Ping(ctx, addr, 2)
	require.NoError(t, err)
	require.Zero(t, received)
	again, err := l.Hypervisors[0].Plug(ctx, web2)
	require.NoError(t, err)
	require.Equal(t, l.Hypervisors[0], again.Hypervisor())
	require.NoError(t, one.WaitPing(ctx, addr), "it has moved to the other hypervisor")
}

// namespaces are the names of this process's network namespaces.
func namespaces(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/run/netns/ovnlab%d-*", os.Getpid()))
	require.NoError(t, err)
	return names
}
