package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// GuestSpec says what a guest is.
type GuestSpec struct {
	// Name is unique on the hypervisor. It is part of a namespace's name, so it
	// holds no slash.
	Name string
	// InterfaceID is external_ids:iface-id, the name of the logical port. Two
	// guests on two hypervisors may have the same, as in a live migration.
	InterfaceID string
	// MAC is that of eth0.
	MAC string
	// Addresses are those of eth0 with the length of the prefix that is on-link.
	Addresses []netip.Prefix
	// Gateways are the next hops of default routes.
	Gateways []netip.Addr
	// Routes are further routes.
	Routes []GuestRoute
	// MTU of eth0 in bytes; 0 is 1400, which fits any tunnel.
	MTU int
	// AcceptRA lets the guest configure itself by IPv6 router advertisements.
	AcceptRA bool
}

// GuestRoute is a route of a guest; without Via, Destination is on-link.
type GuestRoute struct {
	Destination netip.Prefix
	Via         netip.Addr
}

// Guest is a guest of a hypervisor: a network namespace with one interface,
// eth0, plugged into the integration bridge.
type Guest struct {
	Spec GuestSpec

	hypervisor *Hypervisor
	port       string // its interface on the hypervisor
	ns         *namespace
	adopted    bool // an agent has made it: see Hypervisor.Adopt
}

const (
	guestPort       = "eth0"
	defaultGuestMTU = 1400
)

// Plug starts a guest on the hypervisor. Its port need not exist in OVN yet;
// see Guest.WaitInstalled.
func (h *Hypervisor) Plug(ctx context.Context, spec GuestSpec) (*Guest, error) {
	if spec.MTU == 0 {
		spec.MTU = defaultGuestMTU
	}
	g := &Guest{Spec: spec, hypervisor: h}
	if err := h.lab.admit(g); err != nil {
		return nil, fmt.Errorf("plug the guest %s into %s: %w", spec.Name, h.Name, err)
	}
	if err := g.plug(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("plug the guest %s into %s: %w", spec.Name, h.Name, err), g.Unplug(context.WithoutCancel(ctx)))
	}
	return g, nil
}

// admit enters g among the lab's guests and names its interface.
func (l *Lab) admit(g *Guest) error {
	if g.Spec.Name == "" || strings.Contains(g.Spec.Name, "/") {
		return fmt.Errorf("%q is no name for a guest", g.Spec.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guests[g.namespace()] != nil {
		return errors.New("there is a guest of this name")
	}
	l.plugs++
	g.port = "g" + strconv.Itoa(l.plugs)
	l.guests[g.namespace()] = g
	return nil
}

// namespace is the name of the guest's namespace. Others have labs on this
// machine too.
func (g *Guest) namespace() string {
	return g.hypervisor.lab.id + "-" + g.hypervisor.Name + "-" + g.Spec.Name
}

// Guests are all guests of the lab.
func (l *Lab) Guests() []*Guest {
	l.mu.Lock()
	defer l.mu.Unlock()
	guests := make([]*Guest, 0, len(l.guests))
	for _, g := range l.guests {
		guests = append(guests, g)
	}
	return guests
}

func (g *Guest) plug(ctx context.Context) (err error) {
	mac, err := net.ParseMAC(g.Spec.MAC)
	if err != nil {
		return fmt.Errorf("read its MAC: %w", err)
	}
	if g.ns, err = newNamespace(ctx, g.namespace()); err != nil {
		return err
	}
	acceptRA := "0"
	if g.Spec.AcceptRA {
		acceptRA = "1"
	}
	for _, set := range [][2]string{{"disable_ipv6", "0"}, {"accept_ra", acceptRA}, {"accept_dad", "0"}, {"dad_transmits", "0"}} {
		if err := g.ns.sysctl("net/ipv6/conf/default/"+set[0], set[1]); err != nil {
			return err
		}
	}
	if err := g.hypervisor.ns.veth(ctx, g.port, g.ns, guestPort, mac, g.Spec.MTU); err != nil {
		return err
	}
	if err := g.configure(); err != nil {
		return err
	}
	_, err = g.hypervisor.Vsctl(ctx, "add-port", "br-int", g.port, "--", "set", "Interface", g.port,
		"external_ids:iface-id="+strconv.Quote(g.Spec.InterfaceID))
	return err
}

// configure sets addresses and routes.
func (g *Guest) configure() error {
	for _, address := range g.Spec.Addresses {
		if err := g.ns.address(guestPort, address); err != nil {
			return err
		}
	}
	routes := append([]GuestRoute(nil), g.Spec.Routes...)
	for _, gateway := range g.Spec.Gateways {
		everywhere := netip.IPv4Unspecified()
		if gateway.Is6() {
			everywhere = netip.IPv6Unspecified()
		}
		routes = append(routes, GuestRoute{Destination: netip.PrefixFrom(everywhere, 0), Via: gateway})
	}
	for _, route := range routes {
		if err := g.AddRoute(route); err != nil {
			return err
		}
	}
	return nil
}

// AddRoute gives the guest a further route.
func (g *Guest) AddRoute(route GuestRoute) error {
	link, err := g.ns.link.LinkByName(guestPort)
	if err == nil {
		err = g.ns.link.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(route.Destination), Gw: route.Via.AsSlice()})
	}
	if err != nil {
		return fmt.Errorf("give %s the route to %s: %w", g.Spec.Name, route.Destination, err)
	}
	return nil
}

// AddAddress gives eth0 a further address.
func (g *Guest) AddAddress(address netip.Prefix) error { return g.ns.address(guestPort, address) }

// Unplug takes the guest out of the hypervisor and removes it, with the
// processes that run inside. One that was adopted stays, as its agent's.
func (g *Guest) Unplug(ctx context.Context) error {
	if g.adopted {
		return g.ns.release()
	}
	_, err := g.hypervisor.Vsctl(ctx, "--if-exists", "del-port", "br-int", g.port)
	if err = errors.Join(err, g.remove(ctx)); err != nil {
		return fmt.Errorf("unplug the guest %s: %w", g.Spec.Name, err)
	}
	return nil
}

// remove removes the guest, whatever the hypervisor still says of it.
func (g *Guest) remove(ctx context.Context) error {
	var errs []error
	if g.ns != nil {
		errs = append(errs, g.ns.closeSockets())
		// The kernel takes its time with the namespace; the interface goes now.
		link, err := g.ns.link.LinkByName(guestPort)
		if err == nil {
			err = g.ns.link.LinkDel(link)
		}
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			err = nil
		}
		errs = append(errs, err, g.ns.delete(ctx))
		g.ns = nil
	}
	l := g.hypervisor.lab
	l.mu.Lock()
	delete(l.guests, g.namespace())
	l.mu.Unlock()
	return errors.Join(errs...)
}

// Hypervisor is where the guest is.
func (g *Guest) Hypervisor() *Hypervisor { return g.hypervisor }

// WaitInstalled waits until ovn-controller has the flows of the guest's port
// (ovn-controller(8), external_ids:ovn-installed).
func (g *Guest) WaitInstalled(ctx context.Context) error {
	_, err := g.hypervisor.Vsctl(ctx, "wait-until", "Interface", g.port, "external_ids:ovn-installed=true")
	if err != nil {
		return fmt.Errorf("wait for the port of %s: %w", g.Spec.Name, err)
	}
	return nil
}

// Do runs f inside the guest: sockets that f opens and processes that it starts
// are the guest's, if it does so on its own goroutine.
func (g *Guest) Do(f func() error) error { return g.ns.do(f) }

// Exec runs a program of this machine inside the guest and returns its
// standard output and standard error.
func (g *Guest) Exec(ctx context.Context, program string, args ...string) (string, error) {
	var out []byte
	err := g.ns.do(func() (err error) {
		out, err = exec.CommandContext(ctx, program, args...).CombinedOutput()
		return err
	})
	if err != nil {
		return string(out), fmt.Errorf("in %s: %s %s: %w", g.Spec.Name, filepath.Base(program), strings.Join(args, " "), err)
	}
	return string(out), nil
}

// Ping sends count echo requests, a tenth of a second apart, and returns how
// many were answered within a second of the last.
func (g *Guest) Ping(ctx context.Context, to netip.Addr, count int) (received int, err error) {
	// ping's status is 1 when nothing came back, which is no failure here.
	out, err := g.Exec(ctx, "ping", "-n", "-q", "-i", "0.1", "-W", "1", "-c", strconv.Itoa(count), to.String())
	match := regexp.MustCompile(`(\d+) received`).FindStringSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(out))
	}
	return strconv.Atoi(match[1])
}

// WaitPing pings until one request is answered, or ctx ends. The first
// packets of a path may be lost while neighbours are resolved.
func (g *Guest) WaitPing(ctx context.Context, to netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, labTimeout)
	defer cancel()
	for {
		received, err := g.Ping(ctx, to, 1)
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %s to answer %s: %w", to, g.Spec.Name, ctx.Err())
		}
		if err != nil || received > 0 {
			return err
		}
	}
}
