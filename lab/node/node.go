// Package node lets scenes be played on a hypervisor from elsewhere: a service
// over net/rpc that lets the guests of one hypervisor talk, and its client. In the
// namespace lab both are in one process, and the service plugs the guests too; in
// the containers' lab it runs on each hypervisor, and an agent plugs them.
package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/rpc"
	"sync"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// service is the name under which the methods are called.
const service = "Node"

// None stands for no result: gob knows no empty struct.
type None bool

// Stretch names a guest and the address that it talks to.
type Stretch struct {
	Guest string
	To    netip.AddrPort // the port is 0 where there is none
}

// Tally is what an activity has come to.
type Tally struct {
	// Sent and Received are requests and their answers; of a count they are the
	// packets that the hypervisor's interface sent and received.
	Sent, Received int
	// Gap is the longest time between two answers that followed each other.
	Gap time.Duration
}

// activity goes on beside other calls until it is stopped.
type activity interface {
	stop() (Tally, error)
}

// guest is a guest with the ports that it serves.
type guest struct {
	*lab.Guest
	listening map[uint16]bool
}

// Host is a hypervisor with the guests that calls have asked for. They stay
// when those who called have gone.
type Host struct {
	hv   *lab.Hypervisor
	plug func(context.Context, lab.GuestSpec) (*lab.Guest, error)

	mu     sync.Mutex
	guests map[string]*guest
}

// NewPluggingHost is a host without guests, which plugs them by itself.
func NewPluggingHost(hv *lab.Hypervisor) *Host {
	return &Host{hv: hv, plug: hv.Plug, guests: map[string]*guest{}}
}

// NewAdoptingHost is a host whose guests an agent plugs and unplugs.
func NewAdoptingHost(hv *lab.Hypervisor) *Host {
	return &Host{hv: hv, plug: hv.Adopt, guests: map[string]*guest{}}
}

// Serve carries out the calls of a Client at the other end of conn until that
// ends, and then ends the activities that are left. The end of ctx ends what
// calls wait for.
func (h *Host) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := &calls{Host: h, ctx: ctx, activities: map[int]activity{}}
	server := rpc.NewServer()
	if err := server.RegisterName(service, n); err != nil {
		return fmt.Errorf("serve %s: %w", h.hv.Name, err)
	}
	server.ServeConn(conn)
	for _, a := range n.activities {
		_, _ = a.stop() // nobody is left to hear of it
	}
	return nil
}

// calls are those of one client. The exported methods are for net/rpc.
type calls struct {
	*Host
	ctx context.Context // net/rpc hands none to a call

	mu         sync.Mutex
	activities map[int]activity
	last       int // the activity begun last
}

// Plug starts a guest, or waits until an agent has; one that is there as asked
// for stays.
func (n *calls) Plug(spec lab.GuestSpec, _ *None) error {
	n.Host.mu.Lock()
	defer n.Host.mu.Unlock()
	if g := n.guests[spec.Name]; g != nil {
		stands, err := g.Stands()
		if err != nil || stands && same(g.Spec, spec) {
			return err
		}
		if err := n.unplug(spec.Name); err != nil {
			return err
		}
	}
	g, err := n.plug(n.ctx, spec)
	if err == nil {
		n.guests[spec.Name] = &guest{g, map[uint16]bool{}}
	}
	return err
}

// same reports whether two guests are plugged alike.
func same(a, b lab.GuestSpec) bool {
	return fmt.Sprint(a.InterfaceID, a.MAC, a.Addresses, a.Gateways, a.Routes) == fmt.Sprint(b.InterfaceID, b.MAC, b.Addresses, b.Gateways, b.Routes)
}

// Unplug removes a guest, or waits until an agent has, if it is there.
func (n *calls) Unplug(name string, _ *None) error {
	n.Host.mu.Lock()
	defer n.Host.mu.Unlock()
	if g := n.guests[name]; g != nil {
		if err := g.WaitGone(n.ctx); err != nil {
			return err
		}
	}
	return n.unplug(name)
}

func (n *calls) unplug(name string) error {
	g := n.guests[name]
	if g == nil {
		return nil
	}
	delete(n.guests, name)
	return g.Unplug(n.ctx)
}

func (n *calls) guest(name string) (*guest, error) {
	n.Host.mu.Lock()
	defer n.Host.mu.Unlock()
	if g := n.guests[name]; g != nil {
		return g, nil
	}
	return nil, fmt.Errorf("%s has no guest %q", n.hv.Name, name)
}

// Settle waits until the flows of the guest's port are installed, or with ""
// until the datapath acts by no older flows that it has cached.
func (n *calls) Settle(name string, _ *None) error {
	if name == "" {
		_, err := n.hv.Appctl(n.ctx, "revalidator/wait")
		return err
	}
	g, err := n.guest(name)
	if err != nil {
		return err
	}
	return g.WaitInstalled(n.ctx)
}

// Listen serves an echo on a TCP port of the guest for as long as it is
// there.
func (n *calls) Listen(at Stretch, _ *None) error {
	g, err := n.guest(at.Guest)
	if err != nil {
		return err
	}
	n.Host.mu.Lock()
	defer n.Host.mu.Unlock()
	if port := at.To.Port(); !g.listening[port] {
		if _, err := g.Guest.Listen("tcp", port); err != nil {
			return err
		}
		g.listening[port] = true
	}
	return nil
}

// Probe tries an echo by TCP.
func (n *calls) Probe(s Stretch, outcome *lab.Outcome) error {
	g, err := n.guest(s.Guest)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(n.ctx, patience)
	defer cancel()
	*outcome, err = g.Probe(ctx, "tcp", s.To)
	return err
}

// patience bounds one probe: long enough for a first packet that is lost.
const patience = 1500 * time.Millisecond

// Pings asks Ping for a number of echo requests.
type Pings struct {
	Stretch
	Count int
}

// Ping sends echo requests and tells how many were answered.
func (n *calls) Ping(p Pings, received *int) error {
	g, err := n.guest(p.Guest)
	if err != nil {
		return err
	}
	*received, err = g.Ping(n.ctx, p.To.Addr(), p.Count)
	return err
}

// WaitPing pings until one request is answered.
func (n *calls) WaitPing(s Stretch, _ *None) error {
	g, err := n.guest(s.Guest)
	if err != nil {
		return err
	}
	return g.WaitPing(n.ctx, s.To.Addr())
}

// Announce sends the frame by which a guest that has migrated makes itself
// known.
func (n *calls) Announce(name string, _ *None) error {
	g, err := n.guest(name)
	if err != nil {
		return err
	}
	mac, err := net.ParseMAC(g.Spec.MAC)
	if err != nil {
		return fmt.Errorf("announce %s: %w", name, err)
	}
	return g.Send(lab.RARP(mac))
}

// begin keeps an activity under a number.
func (n *calls) begin(a activity, id *int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	*id, n.activities[n.last] = n.last, a
}

// Stream begins to send echoes over one TCP connection.
func (n *calls) Stream(s Stretch, id *int) error {
	g, err := n.guest(s.Guest)
	if err != nil {
		return err
	}
	conn, err := g.Dial(n.ctx, "tcp", s.To)
	if err != nil {
		return err
	}
	n.begin(newStream(conn), id)
	return nil
}

// Pinging begins to ping.
func (n *calls) Pinging(s Stretch, id *int) error {
	g, err := n.guest(s.Guest)
	if err != nil {
		return err
	}
	p, err := startPing(n.ctx, g.Guest, s.To.Addr())
	if err == nil {
		n.begin(p, id)
	}
	return err
}

// Pair is two addresses that talk to each other.
type Pair [2]netip.Addr

// Count begins to count the tunnelled echo requests and replies between two
// addresses at the hypervisor's interface to the underlay.
func (n *calls) Count(between Pair, id *int) error {
	c, err := n.hv.CountUnderlay(func(inner []byte) bool {
		p, err := lab.ParsePacket(inner)
		if err != nil || p.ICMPType() < 0 {
			return false
		}
		return p.Src == between[0] && p.Dst == between[1] || p.Src == between[1] && p.Dst == between[0]
	})
	if err == nil {
		n.begin(count{c}, id)
	}
	return err
}

// Look tells what a stream has come to so far.
func (n *calls) Look(id int, t *Tally) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := n.activities[id].(*stream)
	if !ok {
		return fmt.Errorf("%s: there is no stream %d", n.hv.Name, id)
	}
	*t = s.tally()
	return nil
}

// Stop ends an activity and tells what it came to.
func (n *calls) Stop(id int, t *Tally) error {
	n.mu.Lock()
	a := n.activities[id]
	delete(n.activities, id)
	n.mu.Unlock()
	if a == nil {
		return fmt.Errorf("%s: there is no activity %d", n.hv.Name, id)
	}
	var err error
	*t, err = a.stop()
	return err
}

// count is the activity of Count.
type count struct{ *lab.UnderlayCount }

func (c count) stop() (Tally, error) {
	in, out, err := c.Stop()
	return Tally{Sent: out, Received: in}, err
}
