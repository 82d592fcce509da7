package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

const (
	// markerPort is the UDP port, source and destination, of markers: packets
	// that every list lets through. One that arrives after a probe tells that
	// the probe would have arrived by then.
	markerPort = 4444
	// servedPort has an echo service on every guest.
	servedPort = 80
	// lull is how long nothing has to come back after a packet that must not be
	// answered; answers take some milliseconds.
	lull = 300 * time.Millisecond
)

// family selects the addresses of a packet.
type family int

const (
	ipv4 family = 4
	ipv6 family = 6
)

func (g *guest) addr(f family) netip.Addr {
	if f == ipv4 {
		return g.v4
	}
	return g.v6
}

// to puts a packet into a frame to another guest: straight to a neighbour,
// else to the router.
func (g *guest) to(other *guest, p lab.Packet) lab.Packet {
	if g.tier == other.tier {
		return p.Via(g.mac, other.mac)
	}
	return g.route(p)
}

// route puts a packet into a frame to the router.
func (g *guest) route(p lab.Packet) lab.Packet { return p.Via(g.mac, g.gwMAC) }

// id is a number that no other packet has.
func (w *wire) id() uint32 { return w.serial.Add(1) }

// token is a payload that no other packet has.
func (w *wire) token() []byte { return binary.BigEndian.AppendUint32([]byte("token"), w.id()) }

// The source ports of probes: below those that the kernel takes for itself.
const (
	firstPort = 10000
	lastPort  = 32000
)

// port is a source port, or the identity of an echo, that is new or was used
// long ago.
func (w *wire) port() uint16 { return uint16(firstPort + w.id()%(lastPort-firstPort)) }

// tcpPort is a source port that no connection of the test had before.
// Open vSwitch 3.1 with the userspace datapath ends by an assertion
// (conn_update_state) when a connection that was reset is begun again from the
// same port.
func (w *wire) tcpPort() uint16 { return uint16(firstPort + w.connections.Add(1)) }

// udp, syn and echo are packets from one guest to another.
func (w *wire) udp(from, to *guest, f family, port uint16) lab.Packet {
	src, dst := netip.AddrPortFrom(from.addr(f), w.port()), netip.AddrPortFrom(to.addr(f), port)
	return from.to(to, lab.UDP(src, dst, w.token()))
}

func (w *wire) syn(from, to *guest, f family, port uint16) lab.Packet {
	src, dst := netip.AddrPortFrom(from.addr(f), w.tcpPort()), netip.AddrPortFrom(to.addr(f), port)
	return from.to(to, lab.TCP(src, dst, lab.FlagSYN, w.id(), 0, nil))
}

func (w *wire) echo(from, to *guest, f family) lab.Packet {
	return from.to(to, w.ping(from.addr(f), to.addr(f)))
}

// ping is an echo request (RFC 792, RFC 4443).
func (w *wire) ping(src, dst netip.Addr, data ...byte) lab.Packet {
	kind := uint8(8)
	if dst.Is6() {
		kind = 128
	}
	id := w.port()
	body := []byte{byte(id >> 8), byte(id), 0, 1}
	return lab.ICMP(src, dst, kind, 0, append(append(body, w.token()...), data...))
}

// same selects the frames that carry one of the packets, also after a router.
func same(packets ...lab.Packet) func(lab.Packet) bool {
	return func(p lab.Packet) bool {
		for _, q := range packets {
			if p.Src == q.Src && p.Dst == q.Dst && p.Proto == q.Proto && p.FragmentOffset == q.FragmentOffset && bytes.Equal(p.Payload, q.Payload) {
				return true
			}
		}
		return false
	}
}

// incoming selects received frames by their packet.
func incoming(match func(lab.Packet) bool) func(lab.Frame) bool {
	return func(f lab.Frame) bool {
		if f.Outgoing {
			return false
		}
		p, err := lab.ParsePacket(f.Data)
		return err == nil && match(p)
	}
}

// arrived sends packets from one guest, and a marker behind them, and returns
// how many of them another guest has when the marker arrives.
func (w *wire) arrived(t *testing.T, from, to *guest, packets ...lab.Packet) int {
	t.Helper()
	frames := make([][]byte, len(packets))
	for i, p := range packets {
		frames[i] = p.Frame()
	}
	return w.seen(t, from, to, to, incoming(same(packets...)), frames...)
}

// seen is arrived for any frames: it counts those that watcher gets and match
// selects, when the marker has arrived from `from` at `to`, and a second one
// from there at the watcher, if that is another guest.
func (w *wire) seen(t *testing.T, from, to, watcher *guest, match func(lab.Frame) bool, frames ...[]byte) int {
	t.Helper()
	capture, err := watcher.Capture(match)
	require.NoError(t, err)
	for _, frame := range frames {
		require.NoError(t, from.Send(frame))
	}
	w.marker(t, from, to)
	if watcher != to {
		w.marker(t, w.neighbour(watcher), watcher)
	}
	got, err := capture.Stop()
	require.NoError(t, err)
	return len(got)
}

// neighbour is a guest that can send markers to g.
func (w *wire) neighbour(g *guest) *guest {
	if g == w.mirrorApp {
		return w.mirrorWeb
	}
	if g == w.mirrorWeb {
		return w.mirrorApp
	}
	if g == w.app1 {
		return w.app2
	}
	return w.app1
}

func all(lab.Frame) bool { return true }

// marker sends a marker and waits for it; one that is lost is sent again.
func (w *wire) marker(t *testing.T, from, to *guest) {
	t.Helper()
	at := func(g *guest) netip.AddrPort { return netip.AddrPortFrom(g.v4, markerPort) }
	marker := from.to(to, lab.UDP(at(from), at(to), w.token()))
	capture, err := to.Capture(incoming(same(marker)))
	require.NoError(t, err)
	for tries := 0; ; tries++ {
		require.NoError(t, from.Send(marker.Frame()))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err = capture.Wait(ctx, all)
		cancel()
		if err == nil || tries == 5 {
			break
		}
	}
	require.NoError(t, err, "no marker from %s at %s", from.Spec.Name, to.Spec.Name)
	_, err = capture.Stop()
	require.NoError(t, err)
}

// requireArrived requires packets to arrive, or none of them to.
func (w *wire) requireArrived(t *testing.T, want bool, from, to *guest, p lab.Packet, what string) {
	t.Helper()
	require.Equal(t, want, w.arrived(t, from, to, p) > 0, "%s: %s -> %s %v", what, from.Spec.Name, to.Spec.Name, p.Dst)
}

// answered sends frames and reports whether what match selects comes back,
// within patience, or within the lull where it must not.
func (w *wire) answered(t *testing.T, want bool, from *guest, match func(lab.Packet) bool, frames ...[]byte) bool {
	t.Helper()
	_, ok := w.answer(t, want, from, match, frames...)
	return ok
}

// answer returns what came back as well.
func (w *wire) answer(t *testing.T, want bool, from *guest, match func(lab.Packet) bool, frames ...[]byte) (lab.Packet, bool) {
	t.Helper()
	frame, ok := w.answerFrame(t, want, from, incoming(match), frames...)
	if !ok {
		return lab.Packet{}, false
	}
	p, err := lab.ParsePacket(frame.Data)
	require.NoError(t, err)
	return p, true
}

func (w *wire) answerFrame(t *testing.T, want bool, from *guest, match func(lab.Frame) bool, frames ...[]byte) (lab.Frame, bool) {
	t.Helper()
	capture, err := from.Capture(match)
	require.NoError(t, err)
	limit := lull
	if want {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for _, frame := range frames {
		require.NoError(t, from.Send(frame))
	}
	frame, waited := capture.Wait(ctx, all)
	_, err = capture.Stop()
	require.NoError(t, err)
	return frame, waited == nil
}

// refusal selects the RST or the ICMP error that answers a packet.
func refusal(p lab.Packet) func(lab.Packet) bool {
	return func(a lab.Packet) bool {
		if a.Dst != p.Src {
			return false
		}
		if p.Proto == lab.ProtoTCP {
			src, dst := p.Ports()
			from, to := a.Ports()
			return a.Src == p.Dst && from == dst && to == src && a.Payload[13]&lab.FlagRST != 0
		}
		unreachable := 3
		if p.Dst.Is6() {
			unreachable = 1
		}
		return a.ICMPType() == unreachable && bytes.Contains(a.Payload, p.Payload[:8])
	}
}

// reply selects what a service answers to a packet.
func reply(p lab.Packet) func(lab.Packet) bool {
	src, dst := p.Ports()
	return func(a lab.Packet) bool {
		from, to := a.Ports()
		return a.Proto == p.Proto && a.Src == p.Dst && a.Dst == p.Src && from == dst && to == src
	}
}

// verdict sends a packet once and reports whether it arrives and whether it
// is refused, which is waited for when it must be.
func (w *wire) verdict(t *testing.T, wantRefused bool, from, to *guest, p lab.Packet) (arrives, refused bool) {
	t.Helper()
	return w.exchange(t, wantRefused, from, to, p, refusal(p))
}

// exchange sends a packet once and reports whether it arrives, and whether
// what match selects comes back.
func (w *wire) exchange(t *testing.T, wantBack bool, from, to *guest, p lab.Packet, match func(lab.Packet) bool) (arrives, back bool) {
	t.Helper()
	there, err := to.Capture(incoming(same(p)))
	require.NoError(t, err)
	_, back = w.answer(t, wantBack, from, match, p.Frame())
	w.marker(t, from, to)
	got, err := there.Stop()
	require.NoError(t, err)
	return len(got) > 0, back
}
