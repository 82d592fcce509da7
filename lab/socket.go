package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

// Outcome is what a probe of a service found.
type Outcome string

// The outcomes.
const (
	Answered    Outcome = "answered"    // the echo came back
	Refused     Outcome = "refused"     // RST, or ICMP port unreachable
	Unreachable Outcome = "unreachable" // another ICMP error, or no route in the guest
	TimedOut    Outcome = "timed out"   // nothing came back
)

const (
	// probeTimeout is how long a probe waits where its context has no earlier
	// deadline: two retransmissions of a SYN (RFC 6298, 2.1) and some.
	probeTimeout = 4 * time.Second
	// probeInterval is the time between two datagrams of a probe by UDP.
	probeInterval = 200 * time.Millisecond
)

// Listen serves an echo on a port of each of the guest's addresses, until the
// returned function is called or the guest is unplugged. network is "tcp" or
// "udp". A guest without addresses in its spec listens on all it comes to have.
func (g *Guest) Listen(network string, port uint16) (stop func() error, err error) {
	addresses := []netip.Addr{netip.IPv6Unspecified()}
	if len(g.Spec.Addresses) > 0 {
		addresses = nil
		for _, prefix := range g.Spec.Addresses {
			addresses = append(addresses, prefix.Addr())
		}
	}
	var servers closers
	for _, address := range addresses {
		server, err := g.serve(network, netip.AddrPortFrom(address, port))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen in %s: %w", g.Spec.Name, err), servers.Close())
		}
		servers = append(servers, server)
	}
	g.ns.closeAtEnd(servers)
	return servers.Close, nil
}

// serve answers at one address until what it returns is closed.
func (g *Guest) serve(network string, at netip.AddrPort) (server io.Closer, err error) {
	err = g.ns.do(func() error {
		switch network {
		case "tcp":
			listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
			if err != nil {
				return err
			}
			go acceptEchoes(listener)
			server = listener
		case "udp":
			conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
			if err != nil {
				return err
			}
			go echoDatagrams(conn)
			server = conn
		default:
			return fmt.Errorf("network %q is neither tcp nor udp", network)
		}
		return nil
	})
	return server, err
}

func acceptEchoes(listener *net.TCPListener) {
	for {
		conn, err := listener.AcceptTCP()
		if err != nil {
			return // closed
		}
		defer conn.Close()
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, conn) // the client sees how far it came
		}()
	}
}

func echoDatagrams(conn *net.UDPConn) {
	buffer := make([]byte, 65535)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = conn.WriteToUDPAddrPort(buffer[:n], from) // an echo may be lost
		}
	}
}

// Dial connects to a service from inside the guest. network is "tcp" or
// "udp"; the connection closes with the guest at the latest.
func (g *Guest) Dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var conn net.Conn
	err := g.ns.do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, to.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dial from %s: %w", g.Spec.Name, err)
	}
	g.ns.closeAtEnd(conn)
	return conn, nil
}

// Probe finds out whether the guest reaches an echo service: by TCP with a
// connection and bytes there and back, by UDP with datagrams until one
// comes back. It takes up to 4 seconds, or to the deadline of ctx. An error
// is a fault of the probe itself.
func (g *Guest) Probe(ctx context.Context, network string, to netip.AddrPort) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	outcome, err := g.probe(ctx, network, to)
	if err != nil || outcome == TimedOut && errors.Is(ctx.Err(), context.Canceled) {
		return "", fmt.Errorf("probe %s %s from %s: %w", network, to, g.Spec.Name, errors.Join(err, ctx.Err()))
	}
	return outcome, nil
}

func (g *Guest) probe(ctx context.Context, network string, to netip.AddrPort) (Outcome, error) {
	var conn net.Conn
	err := g.ns.do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, to.String())
		return err
	})
	if err != nil {
		return classify(err)
	}
	defer conn.Close()
	return Echo(ctx, conn)
}

// Echo sends over a connection to an echo service and waits until that comes
// back, and not what an earlier call sent; datagrams are sent again meanwhile.
// The deadline is as with Probe.
func Echo(ctx context.Context, conn net.Conn) (Outcome, error) {
	deadline := time.Now().Add(probeTimeout)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(deadline) {
		deadline = earlier
	}
	token := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	for {
		until := deadline
		if next := time.Now().Add(probeInterval); strings.HasPrefix(conn.LocalAddr().Network(), "udp") && next.Before(deadline) {
			until = next
		}
		err := echo(conn, token, until)
		if err == nil {
			return Answered, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || until.Equal(deadline) {
			return classify(err)
		}
	}
}

// echo sends the token once and waits for it.
func echo(conn net.Conn, token []byte, until time.Time) error {
	if err := conn.SetDeadline(until); err != nil {
		return err
	}
	if _, err := conn.Write(token); err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	for received := []byte(nil); !bytes.Contains(received, token); {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		received = append(received, buffer[:n]...)
	}
	return nil
}

// classify is the outcome that an error of a socket stands for; others are
// returned.
func classify(err error) (Outcome, error) {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return Refused, nil
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EACCES):
		return Unreachable, nil
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return TimedOut, nil
	}
	return "", err
}
