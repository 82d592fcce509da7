package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// dhcpPatience bounds an exchange with the servers of all families.
	dhcpPatience = 12 * time.Second
	// dhcpFirst is how long the first message waits for its answer; each of
	// dhcpTries waits twice as long as the one before.
	dhcpFirst = 200 * time.Millisecond
	dhcpTries = 5
)

// errNoAnswer says that nobody has answered.
var errNoAnswer = errors.New("no DHCP answer")

// exchange asks the tier's DHCP servers for all that they have for the guest.
// It asks from the start also where there is a lease: OVN's servers keep no
// state, that of DHCPv6 knows no renewal, and so it is seen what has changed.
func (k kernel) exchange(ctx context.Context, r record) (*Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, dhcpPatience)
	defer cancel()
	ns, err := openNetns(r.netnsPath(k.netnsDir), k.mark(r))
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	lease := &Lease{Seconds: forever}
	for _, x := range []struct {
		name   string
		family func(netip.Addr) bool
		ask    func(context.Context, netns.NsHandle, record) error
	}{{"IPv4", netip.Addr.Is4, lease.ask4}, {"IPv6", netip.Addr.Is6, lease.ask6}} {
		if !slices.ContainsFunc(r.Net.Addresses, func(p netip.Prefix) bool { return x.family(p.Addr()) }) {
			continue
		}
		if err := x.ask(ctx, ns, r); err != nil {
			return nil, fmt.Errorf("asking for the %s address of %s: %w", x.name, guestPort, err)
		}
	}
	return lease, nil
}

func unanswered(err error) error {
	if errors.Is(err, nclient4.ErrNoResponse) || errors.Is(err, nclient6.ErrNoResponse) || errors.Is(err, context.DeadlineExceeded) {
		return errNoAnswer
	}
	return err
}

// give adds an address to the lease, which has to be one of the attachment's:
// other guests of the tier could answer too.
func (l *Lease) give(r record, address netip.Prefix, server string, seconds int64) error {
	if !slices.ContainsFunc(r.Net.Addresses, func(p netip.Prefix) bool { return p.Addr() == address.Addr() }) {
		return fmt.Errorf("the server %s gives %s, which is not the attachment's", server, address.Addr())
	}
	if seconds <= 0 {
		return fmt.Errorf("the server %s gives %s for no time", server, address.Addr())
	}
	l.Addresses, l.Servers, l.Seconds = append(l.Addresses, address), append(l.Servers, server), min(l.Seconds, seconds)
	return nil
}

func (l *Lease) ask4(ctx context.Context, ns netns.NsHandle, r record) error {
	var client *nclient4.Client
	err := inside(ns, func() (err error) {
		client, err = nclient4.New(guestPort, nclient4.WithTimeout(dhcpFirst), nclient4.WithRetry(dhcpTries))
		return err
	})
	if err != nil {
		return err
	}
	defer client.Close()
	got, err := client.Request(ctx, dhcpv4.WithRequestedOptions(dhcpv4.OptionInterfaceMTU, dhcpv4.OptionClasslessStaticRoute))
	if err != nil {
		return unanswered(err)
	}
	return l.take4(r, got.ACK)
}

// take4 reads an answer (RFC 2131).
func (l *Lease) take4(r record, ack *dhcpv4.DHCPv4) error {
	bits, _ := ack.SubnetMask().Size()
	server := address(ack.ServerIdentifier())
	if err := l.give(r, netip.PrefixFrom(address(ack.YourIPAddr), bits), server.String(), int64(ack.IPAddressLeaseTime(0).Seconds())); err != nil {
		return err
	}
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, ack.Options); err == nil {
		l.MTU = int(mtu)
	}
	for _, ip := range ack.DNS() {
		l.DNS = append(l.DNS, address(ip))
	}
	routes := ack.ClasslessStaticRoute()
	for _, x := range routes {
		ones, _ := x.Dest.Mask.Size()
		to := route{To: netip.PrefixFrom(address(x.Dest.IP), ones).Masked()}
		if !x.Router.IsUnspecified() {
			to.Via = address(x.Router)
		}
		l.Routes = append(l.Routes, to)
	}
	// A client that takes classless routes ignores routers (RFC 3442).
	if routers := ack.Router(); len(routes) == 0 && len(routers) > 0 {
		l.Routes = append(l.Routes, route{netip.PrefixFrom(netip.IPv4Unspecified(), 0), address(routers[0])})
	}
	return nil
}

// ask6 asks for the address; routes and prefixes are what the kernel hears from
// the router, for which it waits.
func (l *Lease) ask6(ctx context.Context, ns netns.NsHandle, r record) error {
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("looking into the network namespace: %w", err)
	}
	defer h.Close()
	link, err := h.LinkByName(guestPort)
	if err != nil {
		return err
	}
	if err := until(ctx, func() (bool, error) { return linkLocal(h, link) }); err != nil {
		return fmt.Errorf("waiting for the link-local address: %w", err)
	}
	var conn net.PacketConn
	err = inside(ns, func() (err error) {
		conn, err = listen6(ctx)
		return err
	})
	if err != nil {
		return err
	}
	mac := link.Attrs().HardwareAddr
	client, err := nclient6.NewWithConn(conn, mac, nclient6.WithTimeout(dhcpFirst), nclient6.WithRetry(dhcpTries))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer client.Close()
	offer, err := client.Solicit(ctx, dhcpv6.WithClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: mac}))
	if err != nil {
		return unanswered(err)
	}
	reply, err := client.Request(ctx, offer)
	if err != nil {
		return unanswered(err)
	}
	if err := l.take6(r, reply); err != nil {
		return err
	}
	if err := until(ctx, func() (bool, error) { return advertised(h, link) }); err != nil {
		return fmt.Errorf("no router advertisement: %w", err)
	}
	return nil
}

// take6 reads an answer (RFC 8415).
func (l *Lease) take6(r record, reply *dhcpv6.Message) error {
	var given *dhcpv6.OptIAAddress
	if ia := reply.Options.OneIANA(); ia != nil {
		given = ia.Options.OneAddress()
	}
	if given == nil || reply.MessageType != dhcpv6.MessageTypeReply {
		return fmt.Errorf("the answer has no address: %s", reply)
	}
	a := address(given.IPv6Addr)
	server := "unknown"
	if id := reply.Options.ServerID(); id != nil {
		server = id.String()
	}
	for _, ip := range reply.Options.DNS() {
		l.DNS = append(l.DNS, address(ip))
	}
	return l.give(r, netip.PrefixFrom(a, a.BitLen()), server, int64(given.ValidLifetime.Seconds()))
}

// listen6 opens the client's socket on the guest's interface. It is bound to
// the interface, not to its link-local address: Go keeps the numbers of zones
// for the process, and here they differ by namespace.
func listen6(ctx context.Context) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var bound error
		err := c.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), guestPort) })
		return errors.Join(err, bound)
	}}
	return config.ListenPacket(ctx, "udp6", fmt.Sprintf("[::]:%d", dhcpv6.DefaultClientPort))
}

func linkLocal(h *netlink.Handle, link netlink.Link) (bool, error) {
	addresses, err := h.AddrList(link, netlink.FAMILY_V6)
	return slices.ContainsFunc(addresses, func(a netlink.Addr) bool {
		return a.IP.IsLinkLocalUnicast() && a.Flags&unix.IFA_F_TENTATIVE == 0
	}), err
}

// advertised tells whether the kernel has a default route from a router's
// advertisement.
func advertised(h *netlink.Handle, link netlink.Link) (bool, error) {
	routes, err := h.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: unix.RTPROT_RA},
		netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	return slices.ContainsFunc(routes, func(r netlink.Route) bool {
		if r.Dst == nil {
			return true
		}
		ones, _ := r.Dst.Mask.Size()
		return ones == 0
	}), err
}

// address is the zero value for what is none.
func address(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
