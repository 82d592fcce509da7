package node

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"net/rpc"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// Client calls a hypervisor's service.
type Client struct {
	// Name is the chassis' name.
	Name string
	rpc  *rpc.Client
}

// NewClient calls the service at the other end of conn, which it closes with
// Close.
func NewClient(name string, conn io.ReadWriteCloser) *Client {
	return &Client{Name: name, rpc: rpc.NewClient(conn)}
}

// Close ends the connection. Guests stay, and so do activities that nobody has
// stopped.
func (c *Client) Close() error { return c.rpc.Close() }

// call calls a method; the end of ctx does not end it on the hypervisor.
func call[Result any](ctx context.Context, c *Client, method string, args any) (Result, error) {
	var result Result
	pending := c.rpc.Go(service+"."+method, args, &result, make(chan *rpc.Call, 1))
	select {
	case <-ctx.Done():
		return *new(Result), fmt.Errorf("%s on %s: %w", method, c.Name, ctx.Err())
	case <-pending.Done:
	}
	if pending.Error != nil {
		return *new(Result), fmt.Errorf("%s on %s: %w", method, c.Name, pending.Error)
	}
	return result, nil
}

func do(ctx context.Context, c *Client, method string, args any) error {
	_, err := call[None](ctx, c, method, args)
	return err
}

// Plug starts a guest, or waits until an agent has; one that is there as asked
// for stays.
func (c *Client) Plug(ctx context.Context, spec lab.GuestSpec) error { return do(ctx, c, "Plug", spec) }

// Unplug removes a guest, or waits until an agent has, if it is there.
func (c *Client) Unplug(ctx context.Context, guest string) error { return do(ctx, c, "Unplug", guest) }

// WaitInstalled waits until the flows of the guest's port are installed.
func (c *Client) WaitInstalled(ctx context.Context, guest string) error {
	return do(ctx, c, "Settle", guest)
}

// Revalidate waits until the datapath acts by no older flows than those that
// ovn-controller has installed.
func (c *Client) Revalidate(ctx context.Context) error { return do(ctx, c, "Settle", "") }

// Listen serves an echo by TCP on a port of the guest for as long as it is
// there.
func (c *Client) Listen(ctx context.Context, guest string, port uint16) error {
	return do(ctx, c, "Listen", Stretch{guest, netip.AddrPortFrom(netip.IPv4Unspecified(), port)})
}

// Probe tries an echo by TCP from the guest.
func (c *Client) Probe(ctx context.Context, guest string, to netip.AddrPort) (lab.Outcome, error) {
	return call[lab.Outcome](ctx, c, "Probe", Stretch{guest, to})
}

// Ping sends echo requests, a tenth of a second apart, and returns how many
// were answered.
func (c *Client) Ping(ctx context.Context, guest string, to netip.Addr, count int) (int, error) {
	return call[int](ctx, c, "Ping", Pings{Stretch{guest, netip.AddrPortFrom(to, 0)}, count})
}

// WaitPing pings until one request is answered.
func (c *Client) WaitPing(ctx context.Context, guest string, to netip.Addr) error {
	return do(ctx, c, "WaitPing", Stretch{guest, netip.AddrPortFrom(to, 0)})
}

// Announce sends the frame by which a guest that has migrated makes itself
// known (RARP); a hypervisor does so on its behalf.
func (c *Client) Announce(ctx context.Context, guest string) error {
	return do(ctx, c, "Announce", guest)
}

// Activity is a stream, a ping or a count that goes on until Stop.
type Activity struct {
	client *Client
	id     int
}

func (c *Client) begin(ctx context.Context, method string, args any) (*Activity, error) {
	id, err := call[int](ctx, c, method, args)
	if err != nil {
		return nil, err
	}
	return &Activity{c, id}, nil
}

// Stream begins to send echoes over one TCP connection.
func (c *Client) Stream(ctx context.Context, guest string, to netip.AddrPort) (*Activity, error) {
	return c.begin(ctx, "Stream", Stretch{guest, to})
}

// Pinging begins to ping, 20 times a second.
func (c *Client) Pinging(ctx context.Context, guest string, to netip.Addr) (*Activity, error) {
	return c.begin(ctx, "Pinging", Stretch{guest, netip.AddrPortFrom(to, 0)})
}

// Count begins to count the tunnelled messages of ICMP between two addresses
// at the hypervisor's interface to the underlay.
func (c *Client) Count(ctx context.Context, a, b netip.Addr) (*Activity, error) {
	return c.begin(ctx, "Count", Pair{a, b})
}

// Look tells what a stream has come to so far.
func (a *Activity) Look(ctx context.Context) (Tally, error) {
	return call[Tally](ctx, a.client, "Look", a.id)
}

// Stop ends the activity and tells what it came to.
func (a *Activity) Stop(ctx context.Context) (Tally, error) {
	return call[Tally](ctx, a.client, "Stop", a.id)
}
