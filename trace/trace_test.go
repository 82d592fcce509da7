package trace_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// lab is a router r with switches a (10.0.1.0/24) and b (10.0.2.0/24), guests
// a1, a2 and b1, b2.
type lab struct {
	rows    []nbdb.Row
	acls    map[string][]nbdb.UUID
	router  nbdb.LogicalRouter
	disable string // a guest
}

func newLab() *lab {
	return &lab{acls: map[string][]nbdb.UUID{}, router: nbdb.LogicalRouter{UUID: "r", Name: "r"}}
}

func (l *lab) acl(sw, direction string, priority int, text, action string) *lab {
	id := nbdb.UUID(fmt.Sprintf("%s-%s-%d", sw, direction, priority))
	l.rows = append(l.rows, &nbdb.ACL{UUID: id, Priority: priority, Direction: direction, Match: text, Action: action,
		ExternalIDs: map[string]string{"ovn-vpc:key": string(id)}})
	l.acls[sw] = append(l.acls[sw], id)
	return l
}

func (l *lab) state() *nbdb.State {
	yes, no := true, false
	rows := append([]nbdb.Row{}, l.rows...)
	for i, sw := range []string{"a", "b"} {
		n := i + 1
		s := &nbdb.LogicalSwitch{UUID: nbdb.UUID(sw), Name: sw, ACLs: l.acls[sw]}
		for k := 1; k <= 2; k++ {
			name := fmt.Sprintf("%s%d", sw, k)
			text := fmt.Sprintf("0a:00:00:00:%02x:%02x 10.0.%d.1%d fd00:%d::1%d", n, k, n, k, n, k)
			p := &nbdb.LogicalSwitchPort{UUID: nbdb.UUID(name), Name: name, Addresses: []string{text}, PortSecurity: []string{text + " 172.16.0.0/24"}, Enabled: &yes}
			if name == l.disable {
				p.Enabled = &no
			}
			rows = append(rows, p)
			s.Ports = append(s.Ports, p.UUID)
		}
		up := &nbdb.LogicalSwitchPort{UUID: nbdb.UUID(sw + "-rtr"), Name: sw + "-rtr", Type: "router", Addresses: []string{"router"},
			Options: map[string]string{"router-port": sw + "-gw"}}
		s.Ports = append(s.Ports, up.UUID)
		gw := &nbdb.LogicalRouterPort{UUID: nbdb.UUID(sw + "-gw"), Name: sw + "-gw", MAC: fmt.Sprintf("0e:58:00:00:00:%02x", n),
			Networks: []string{fmt.Sprintf("10.0.%d.1/24", n), fmt.Sprintf("fd00:%d::1/64", n)}}
		l.router.Ports = append(l.router.Ports, gw.UUID)
		rows = append(rows, s, up, gw)
	}
	return nbdb.NewState(append(rows, &l.router)...)
}

// guest is the MAC and IPv4 address of one.
func guest(name string) (mac [6]byte, addr netip.Addr) {
	n, k := name[0]-'a'+1, name[1]-'0'
	return [6]byte{0x0a, 0, 0, 0, n, k}, netip.AddrFrom4([4]byte{10, 0, n, 10 + k})
}

func router(sw byte) [6]byte { return [6]byte{0x0e, 0x58, 0, 0, 0, sw - 'a' + 1} }

// udp is a datagram from a guest through its router.
func udp(from, to string) match.Packet {
	p := match.Packet{EthDst: router(from[0]), EthType: 0x800, Proto: 17, TTL: 64, SrcPort: 1, DstPort: 53}
	p.EthSrc, p.Src = guest(from)
	if a, err := netip.ParseAddr(to); err == nil {
		p.Dst = a
	} else {
		_, p.Dst = guest(to)
	}
	return p
}

func with(p match.Packet, change func(*match.Packet)) match.Packet {
	change(&p)
	return p
}

func TestWalk(t *testing.T) {
	const from, to = "from-lport", "to-lport"
	ping := func(p *match.Packet) { p.Proto, p.ICMPType = 1, 8 }
	for name, c := range map[string]struct {
		lab    *lab
		start  string // default a1
		packet match.Packet
		want   trace.Outcome
		ports  []string
		reason string
		steps  []string // keys
	}{
		"without a row everything passes": {lab: newLab(), packet: udp("a1", "b1"), want: trace.Delivered, ports: []string{"b1"}},
		"the highest priority decides": {lab: newLab().acl("b", to, 1, "ip4", "drop").acl("b", to, 2, "udp.dst == 53", "allow-related"),
			packet: udp("a1", "b1"), want: trace.Delivered, ports: []string{"b1"}, steps: []string{"b-to-lport-2"}},
		"drop":   {lab: newLab().acl("b", to, 1, "ip4", "drop"), packet: udp("a1", "b1"), want: trace.Dropped, steps: []string{"b-to-lport-1"}},
		"reject": {lab: newLab().acl("a", from, 1, "udp", "reject"), packet: udp("a1", "b1"), want: trace.Rejected, steps: []string{"a-from-lport-1"}},
		"rows see the MAC of the router": {lab: newLab().acl("b", to, 1, "eth.src == 0e:58:00:00:00:00/ff:fe:00:00:00:00", "drop"),
			packet: udp("a1", "b1"), want: trace.Dropped, steps: []string{"b-to-lport-1"}},
		"a neighbour": {lab: newLab(), packet: with(udp("a1", "a2"), func(p *match.Packet) { p.EthDst, _ = guest("a2") }),
			want: trace.Delivered, ports: []string{"a2"}},
		"nobody's MAC":         {lab: newLab(), packet: with(udp("a1", "a2"), func(p *match.Packet) { p.EthDst[5] = 9 }), want: trace.NoHost},
		"nobody's address":     {lab: newLab(), packet: udp("a1", "10.0.2.99"), want: trace.NoHost},
		"no route":             {lab: newLab(), packet: udp("a1", "192.0.2.1"), want: trace.NoRoute},
		"from beyond":          {lab: newLab(), start: "a-gw", packet: udp("a1", "b2"), want: trace.Delivered, ports: []string{"b2"}},
		"port security":        {lab: newLab(), packet: with(udp("a1", "b1"), func(p *match.Packet) { _, p.Src = guest("a2") }), want: trace.Dropped, reason: trace.PortSecurity},
		"an allowed prefix":    {lab: newLab(), packet: with(udp("a1", "b1"), func(p *match.Packet) { p.Src = netip.MustParseAddr("172.16.0.9") }), want: trace.Delivered, ports: []string{"b1"}},
		"not for the receiver": {lab: newLab(), packet: with(udp("a1", "b1"), func(p *match.Packet) { p.EthDst, _ = guest("a2") }), want: trace.Dropped, reason: trace.PortSecurity},
		"a disabled sender":    {lab: &lab{disable: "a1"}, packet: udp("a1", "b1"), want: trace.Dropped, reason: "the port is disabled"},
		"a disabled receiver":  {lab: &lab{disable: "b1"}, packet: udp("a1", "b1"), want: trace.NoHost},
		"broadcast": {lab: newLab(), packet: with(udp("a1", "b1"), func(p *match.Packet) { p.EthDst = [6]byte{255, 255, 255, 255, 255, 255} }),
			want: trace.Delivered, ports: []string{"a2"}},
		"a multicast frame is routed": {lab: newLab(), packet: with(udp("a1", "b1"), func(p *match.Packet) { p.EthDst = [6]byte{1, 0, 0x5e, 0, 0, 1} }),
			want: trace.Delivered, ports: []string{"a2", "b1"}},
		"ping of the gateway": {lab: newLab(), packet: with(udp("a1", "10.0.1.1"), ping), want: trace.Answered},
		"its answer is judged where nothing is tracked": {lab: newLab().acl("a", to, 7, "icmp4", "drop"),
			packet: with(udp("a1", "10.0.1.1"), ping), want: trace.Dropped, steps: []string{"a-to-lport-7"}},
		"and a reply where it is": {lab: newLab().acl("a", from, 8, "ip", "allow-related").acl("a", to, 7, "ip4 && eth.src == 0e:58:00:00:00:01", "drop"),
			packet: with(udp("a1", "10.0.1.1"), ping), want: trace.Answered, steps: []string{"a-from-lport-8"}},
		"a port nobody listens on": {lab: newLab(), packet: udp("a1", "10.0.2.1"), want: trace.Answered},
		"a fragment for the router": {lab: newLab(), packet: with(udp("a1", "10.0.2.1"), func(p *match.Packet) { p.Frag = true }),
			want: trace.Dropped, reason: "a fragment for the router"},
		"a gateway router": {lab: &lab{router: nbdb.LogicalRouter{UUID: "r", Name: "r", Options: map[string]string{"chassis": "h"}}},
			packet: udp("a1", "10.0.2.1"), want: trace.Dropped, reason: "a gateway router answers ping alone"},
		"TTL": {lab: newLab(), packet: with(udp("a1", "b1"), func(p *match.Packet) { p.TTL = 1 }), want: trace.Answered},
		"a policy": {lab: &lab{router: nbdb.LogicalRouter{UUID: "r", Name: "r", Policies: []nbdb.UUID{"p"}},
			rows: []nbdb.Row{&nbdb.LogicalRouterPolicy{UUID: "p", Priority: 1, Match: "ip4.dst == 10.0.2.0/24", Action: "drop",
				ExternalIDs: map[string]string{"ovn-vpc:key": "policy"}}}},
			packet: udp("a1", "b1"), want: trace.Dropped, steps: []string{"policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			start := c.start
			if start == "" {
				start = "a1"
			}
			v, err := trace.Walk(c.lab.state(), trace.Endpoint{Port: start}, c.packet)
			require.NoError(t, err)
			require.Equal(t, c.want, v.Outcome, v)
			require.Equal(t, c.ports, v.Ports)
			require.Equal(t, c.reason, v.Reason)
			var keys []string
			for _, s := range v.Steps {
				keys = append(keys, s.Key)
			}
			require.Equal(t, c.steps, keys)
		})
	}
}

func TestWalkFails(t *testing.T) {
	_, err := trace.Walk(newLab().state(), trace.Endpoint{Port: "nobody"}, udp("a1", "b1"))
	require.ErrorContains(t, err, `"nobody"`)
	_, err = trace.Walk(newLab().acl("b", "to-lport", 1, "ip4.src == $set", "drop").state(), trace.Endpoint{Port: "a1"}, udp("a1", "b1"))
	require.ErrorContains(t, err, "b-to-lport-1")
	broken := newLab()
	broken.rows = append(broken.rows, &nbdb.LogicalSwitch{UUID: "x", Name: "x", Ports: []nbdb.UUID{"x1"}},
		&nbdb.LogicalSwitchPort{UUID: "x1", Name: "x1", Addresses: []string{"unknown", "0a:00 10.0.0.1"}})
	_, err = trace.NewNetwork(broken.state())
	require.ErrorContains(t, err, "addresses of port x1")
}
