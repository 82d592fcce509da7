package wire_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

const (
	// replacements is how often the list is exchanged under traffic.
	replacements = 8
	// pace is the time between two packets of a stream.
	pace = 4 * time.Millisecond
)

// replacedUnderTraffic: while a tier's list is exchanged, again and again,
// nothing passes that both lists deny, and nothing is lost that both allow:
// within a connection, and as new connections.
func (w *wire) replacedUnderTraffic(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		w.lists(t, list{egress: "allow"}, list{stateless: stateless, rules: []string{
			"{number: 10, protocol: udp, ports: [7001]}", "{number: 20, action: deny, protocol: udp, ports: [7002]}",
		}}, list{})
		w.apply(t, listYAML("shop", "other", list{stateless: stateless, ingress: "allow", rules: []string{
			"{number: 5, protocol: tcp, ports: [80]}", "{number: 10, action: reject, protocol: udp, ports: [7002]}",
			"{number: 20, protocol: udp, ports: [7000-7001]}", "{number: 30, action: deny, cidrs: [10.10.3.0/24]}",
		}}))
		allowed, denied := w.newStream(t, w.app1, 7001), w.newStream(t, w.app2, 7002)
		fresh := w.newStream(t, w.app2, 7001)
		fresh.fresh = true
		streams := []*stream{allowed, denied, fresh}
		stop := w.run(t, streams)
		for range replacements {
			w.replace(t, "app", "other")
			w.replace(t, "app", "app")
		}
		stop()
		for _, s := range []*stream{allowed, fresh} {
			w.settle(t, s)
			require.Greater(t, s.sent, replacements, "there was traffic")
			require.Equal(t, s.sent, s.received(t), "stateless %t: allowed packets lost", stateless)
		}
		w.marker(t, w.web1, w.app2)
		require.Greater(t, denied.sent, replacements)
		require.Zero(t, denied.received(t), "stateless %t: denied packets passed", stateless)
	}
}

// stream is a flow of datagrams from web1, numbered, and what arrives of it.
type stream struct {
	to      *guest
	port    uint16
	fresh   bool // a new source port for each
	sent    int
	err     error
	capture *lab.Capture
	first   lab.Packet
}

func (w *wire) newStream(t *testing.T, to *guest, port uint16) *stream {
	t.Helper()
	s := &stream{to: to, port: port, first: w.udp(w.web1, to, ipv4, port)}
	var err error
	s.capture, err = to.Capture(incoming(func(p lab.Packet) bool {
		_, dst := p.Ports()
		return p.Src == w.web1.v4 && p.Proto == lab.ProtoUDP && dst == port
	}))
	require.NoError(t, err)
	return s
}

// next is the stream's next packet.
func (s *stream) next(w *wire) lab.Packet {
	if s.fresh {
		return w.udp(w.web1, s.to, ipv4, s.port)
	}
	p := s.first
	p.Payload = binary.BigEndian.AppendUint32(append([]byte{}, p.Payload...), uint32(s.sent))
	binary.BigEndian.PutUint16(p.Payload[4:], uint16(len(p.Payload)))
	binary.BigEndian.PutUint16(p.Payload[6:], 0) // no checksum (RFC 768)
	return p
}

// run sends all streams, until the function it returns is called.
func (w *wire) run(t *testing.T, streams []*stream) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for ctx.Err() == nil {
			for _, s := range streams {
				if s.err = w.web1.Send(s.next(w).Frame()); s.err != nil {
					return
				}
				s.sent++
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		<-done
		for _, s := range streams {
			require.NoError(t, s.err)
		}
	}
}

// settle waits until the last packets have had their time.
func (w *wire) settle(t *testing.T, s *stream) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.capture.Frames()) >= s.sent }, patience/4, 10*time.Millisecond,
		"%d of %d packets to port %d arrived", len(s.capture.Frames()), s.sent, s.port)
}

func (s *stream) received(t *testing.T) int {
	t.Helper()
	frames, err := s.capture.Stop()
	require.NoError(t, err)
	return len(frames)
}
