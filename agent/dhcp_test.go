package agent

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/stretchr/testify/require"
)

func answer4(t *testing.T, options ...dhcpv4.Option) *dhcpv4.DHCPv4 {
	options = append(options, dhcpv4.OptSubnetMask(net.CIDRMask(24, 32)), dhcpv4.OptServerIdentifier(net.IPv4(10, 10, 1, 1)),
		dhcpv4.OptIPAddressLeaseTime(time.Hour), dhcpv4.OptRouter(net.IPv4(10, 10, 1, 254), net.IPv4(10, 10, 1, 253)))
	mods := []dhcpv4.Modifier{dhcpv4.WithYourIP(net.IPv4(10, 10, 1, 5))}
	for _, o := range options {
		mods = append(mods, dhcpv4.WithOption(o))
	}
	ack, err := dhcpv4.New(mods...)
	require.NoError(t, err)
	return ack
}

func TestAnswerOfDHCPv4(t *testing.T) {
	l := &Lease{Seconds: forever}
	require.NoError(t, l.take4(someRecord(), answer4(t)))
	everywhere := netip.MustParsePrefix("0.0.0.0/0")
	require.Equal(t, &Lease{Addresses: someRecord().Net.Addresses, Servers: []string{"10.10.1.1"}, Seconds: 3600,
		Routes: []route{{everywhere, netip.MustParseAddr("10.10.1.254")}}}, l)

	_, all, err := net.ParseCIDR("0.0.0.0/0")
	require.NoError(t, err)
	_, other, err := net.ParseCIDR("10.10.11.0/24")
	require.NoError(t, err)
	l = &Lease{Seconds: forever}
	require.NoError(t, l.take4(someRecord(), answer4(t, dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{5, 120}), dhcpv4.OptClasslessStaticRoute(
		&dhcpv4.Route{Dest: other, Router: net.IPv4zero}, &dhcpv4.Route{Dest: all, Router: net.IPv4(10, 10, 1, 1)}))))
	require.Equal(t, []route{{To: netip.MustParsePrefix("10.10.11.0/24")}, {everywhere, netip.MustParseAddr("10.10.1.1")}}, l.Routes,
		"classless routes replace the routers")
	require.Equal(t, 1400, l.MTU)

	foreign := someRecord()
	foreign.Net.Addresses = []netip.Prefix{netip.MustParsePrefix("10.10.1.6/24")}
	require.ErrorContains(t, (&Lease{}).take4(foreign, answer4(t)), "10.10.1.5, which is not the attachment's")
}

func TestAnswerOfDHCPv6(t *testing.T) {
	r := someRecord()
	r.Net.Addresses = []netip.Prefix{netip.MustParsePrefix("fd00::5/64")}
	reply, err := dhcpv6.NewMessage()
	require.NoError(t, err)
	reply.MessageType = dhcpv6.MessageTypeReply
	require.ErrorContains(t, (&Lease{}).take6(r, reply), "no address")
	dhcpv6.WithIANA(dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("fd00::5"), ValidLifetime: forever * time.Second})(reply)
	l := &Lease{Seconds: forever}
	require.NoError(t, l.take6(r, reply))
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("fd00::5/128")}, l.Addresses, "what is on the link the router says")
	require.True(t, l.Forever())
}
