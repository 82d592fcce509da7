package wire_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// probe tries a service with the guest's own kernel.
func (w *wire) probe(t *testing.T, from *guest, network string, to netip.Addr, port uint16) lab.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	outcome, err := from.Probe(ctx, network, netip.AddrPortFrom(to, port))
	require.NoError(t, err)
	return outcome
}

// acrossTiers: a packet passes to another tier when a rule of the sender's
// list lets it out and one of the receiver's lets it in.
func (w *wire) acrossTiers(t *testing.T) {
	rules := func(direction string) list {
		return list{rules: []string{
			"{number: 10, direction: " + direction + ", protocol: tcp, ports: [80]}",
			"{number: 20, direction: " + direction + ", protocol: udp, ports: [80, 8000-9000]}",
			"{number: 30, direction: " + direction + ", protocol: icmp, icmp: {type: 8}}",
			"{number: 1000000000, direction: " + direction + ", protocol: icmpv6, icmp: {type: 128}}",
		}}
	}
	for _, c := range []struct {
		name    string
		out, in list
		pass    bool
	}{
		{"neither", list{}, list{}, false},
		{"egress alone", rules("egress"), list{}, false},
		{"ingress alone", list{}, rules("ingress"), false},
		{"both", rules("egress"), rules("ingress"), true},
		{"egress rule, ingress by default", rules("egress"), list{ingress: "allow"}, true},
	} {
		w.lists(t, c.out, c.in, list{})
		for _, to := range []*guest{w.app1, w.app2} {
			for _, f := range []family{ipv4, ipv6} {
				w.requireArrived(t, c.pass, w.web1, to, w.syn(w.web1, to, f, 80), c.name+": TCP")
				w.requireArrived(t, c.pass, w.web1, to, w.udp(w.web1, to, f, 80), c.name+": UDP")
				w.requireArrived(t, c.pass, w.web1, to, w.udp(w.web1, to, f, 8500), c.name+": UDP, a range")
				w.requireArrived(t, c.pass, w.web1, to, w.echo(w.web1, to, f), c.name+": echo")
				w.requireArrived(t, false, w.web1, to, w.syn(w.web1, to, f, 81), c.name+": TCP, another port")
				w.requireArrived(t, false, w.web1, to, w.udp(w.web1, to, f, 9001), c.name+": UDP, beyond the range")
				w.requireArrived(t, false, to, w.web1, w.echo(to, w.web1, f), c.name+": the other way")
			}
		}
	}
	w.farSide(t)
}

// farSide: prefixes and tiers of a rule name the far side, the lowest number
// that matches decides, and an IPv4 prefix says nothing about IPv6.
func (w *wire) farSide(t *testing.T) {
	w.lists(t, open(), list{rules: []string{
		"{number: 10, action: deny, cidrs: [10.10.1.12/32]}",
		"{number: 20, protocol: tcp, cidrs: [10.10.1.0/24]}",
		"{number: 30, protocol: udp, tiers: [web]}",
		"{number: 40, protocol: udp, cidrs: [10.10.3.0/24], tiers: [web]}",
	}}, open())
	for _, c := range []struct {
		name string
		from *guest
		p    func(from, to *guest, f family, port uint16) lab.Packet
		f    family
		want bool
	}{
		{"prefix", w.web1, w.syn, ipv4, true},
		{"prefix of the other family", w.web1, w.syn, ipv6, false},
		{"beside the prefix", w.web3, w.syn, ipv4, false},
		{"tier", w.web1, w.udp, ipv4, true},
		{"tier, second prefix", w.web3, w.udp, ipv4, true},
		{"tier, IPv6", w.web1, w.udp, ipv6, true},
		{"denied before", w.web2, w.syn, ipv4, false},
		{"denied before", w.web2, w.udp, ipv4, false},
		{"denied for IPv4 alone", w.web2, w.udp, ipv6, true},
		{"union", w.db1, w.udp, ipv4, true},
		{"no rule", w.db1, w.udp, ipv6, false},
		{"no rule", w.db1, w.syn, ipv4, false},
	} {
		// The marker of a guest that rule 10 denies is let through before it.
		w.requireArrived(t, c.want, c.from, w.app1, c.p(c.from, w.app1, c.f, 80), c.name)
	}
}

// rejectAndDeny: reject answers with RST or ICMP unreachable, deny with
// nothing; in both directions.
func (w *wire) rejectAndDeny(t *testing.T) {
	rules := func(direction string) list {
		return list{ingress: "allow", egress: "allow", rules: []string{
			"{number: 10, direction: " + direction + ", action: reject, protocol: tcp, ports: [90]}",
			"{number: 20, direction: " + direction + ", action: reject, protocol: udp, ports: [90]}",
			"{number: 30, direction: " + direction + ", action: deny, protocol: tcp, ports: [91]}",
			"{number: 40, direction: " + direction + ", action: deny, protocol: udp, ports: [91]}",
		}}
	}
	for _, stateless := range []bool{false, true} {
		out, in := rules("egress"), rules("ingress")
		out.stateless, in.stateless = stateless, stateless
		for name, lists := range map[string][2]list{"ingress": {open(), in}, "egress": {out, open()}} {
			w.lists(t, lists[0], lists[1], list{})
			for _, to := range []*guest{w.app1, w.app2} {
				for _, f := range []family{ipv4, ipv6} {
					for _, build := range []func(from, to *guest, f family, port uint16) lab.Packet{w.syn, w.udp} {
						for port, told := range map[uint16]bool{90: true, 91: false} {
							p := build(w.web1, to, f, port)
							arrives, refused := w.verdict(t, told, w.web1, to, p)
							require.False(t, arrives, "%s: %v", name, p.Dst)
							require.Equal(t, told, refused, "%s: the answer of %v to port %d", name, p.Dst, port)
						}
					}
				}
			}
		}
	}
}

// repliesPass: replies and ICMP errors pass lists that deny that direction.
func (w *wire) repliesPass(t *testing.T) {
	w.lists(t, list{egress: "allow"}, list{ingress: "allow"}, list{})
	for _, to := range []*guest{w.app1, w.app2} {
		for _, f := range []family{ipv4, ipv6} {
			for _, network := range []string{"tcp", "udp"} {
				require.Equal(t, lab.Answered, w.probe(t, w.web1, network, to.addr(f), servedPort))
			}
			received, err := w.web1.Ping(t.Context(), to.addr(f), 2)
			require.NoError(t, err)
			require.Equal(t, 2, received)
			closed := w.udp(w.web1, to, f, 81)
			require.True(t, w.answered(t, true, w.web1, refusal(closed), closed.Frame()), "the error of the guest's kernel, %v", closed.Dst)
			w.requireArrived(t, false, to, w.web1, w.udp(to, w.web1, f, 81), "no reply")
		}
	}
}

// stateless: each packet is judged alone, so replies need a rule of their own.
func (w *wire) stateless(t *testing.T) {
	in := list{stateless: true, rules: []string{"{number: 10, protocol: tcp, ports: [80]}", "{number: 20, protocol: udp, ports: [80]}"}}
	both := in
	both.rules = append([]string{
		"{number: 30, direction: egress, protocol: tcp, ports: [1024-65535]}",
		"{number: 40, direction: egress, protocol: udp, ports: [1024-65535]}"}, in.rules...)
	for _, c := range []struct {
		name string
		app  list
		want bool
	}{{"ingress alone", in, false}, {"both", both, true}} {
		w.lists(t, open(), c.app, list{})
		for _, to := range []*guest{w.app1, w.app2} {
			for _, f := range []family{ipv4, ipv6} {
				for _, p := range []lab.Packet{w.syn(w.web1, to, f, 80), w.udp(w.web1, to, f, 80)} {
					arrives, answers := w.exchange(t, c.want, w.web1, to, p, reply(p))
					require.True(t, arrives, c.name)
					require.Equal(t, c.want, answers, "%s: the reply to %v", c.name, p.Dst)
				}
			}
		}
	}
}

// denyStopsEstablished: after a change that denies a connection it stops at
// its next packet in the original direction; a flow of replies alone runs on
// until then. When it is allowed again, it goes on.
func (w *wire) denyStopsEstablished(t *testing.T) {
	allow := list{ingress: "allow", egress: "deny"}
	deny := list{ingress: "allow", rules: []string{"{number: 10, action: deny, protocol: tcp}", "{number: 20, action: deny, protocol: udp, ports: [1-4000]}"}}
	w.lists(t, list{egress: "allow"}, allow, list{})
	var conns []net.Conn
	for _, to := range []*guest{w.app1, w.app2} {
		for _, f := range []family{ipv4, ipv6} {
			for _, network := range []string{"tcp", "udp"} {
				conn, err := w.web1.Dial(t.Context(), network, netip.AddrPortFrom(to.addr(f), servedPort))
				require.NoError(t, err)
				defer conn.Close()
				requireEcho(t, lab.Answered, conn)
				conns = append(conns, conn)
			}
		}
	}
	request := w.udp(w.web1, w.app2, ipv4, 2000)
	src, dst := request.Ports()
	reply := func() lab.Packet {
		return w.app2.route(lab.UDP(netip.AddrPortFrom(w.app2.v4, dst), netip.AddrPortFrom(w.web1.v4, src), w.token()))
	}
	w.requireArrived(t, true, w.web1, w.app2, request, "allowed")
	w.requireArrived(t, true, w.app2, w.web1, reply(), "reply")

	w.lists(t, list{egress: "allow"}, deny, list{})
	w.requireArrived(t, true, w.app2, w.web1, reply(), "replies alone run on")
	w.requireArrived(t, false, w.web1, w.app2, request, "denied")
	w.requireArrived(t, false, w.app2, w.web1, reply(), "a reply after it")
	for _, conn := range conns {
		requireEcho(t, lab.TimedOut, conn)
	}
	w.lists(t, list{egress: "allow"}, allow, list{})
	for _, conn := range conns {
		requireEcho(t, lab.Answered, conn)
	}
}

// requireEcho sends over a connection that is open already.
func requireEcho(t *testing.T, want lab.Outcome, conn net.Conn) {
	t.Helper()
	limit := patience // TCP sends again after longer and longer times
	if want == lab.TimedOut {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		have, err := lab.Echo(ctx, conn)
		require.NoError(t, err)
		if want == lab.Answered && have == lab.TimedOut && ctx.Err() == nil {
			continue
		}
		require.Equal(t, want, have, "%s %v", conn.LocalAddr().Network(), conn.RemoteAddr())
		return
	}
}

// rejectOnEstablished: reject answers new connections. An established one it
// stops as deny does, without an answer.
func (w *wire) rejectOnEstablished(t *testing.T) {
	w.lists(t, list{egress: "allow"}, list{ingress: "allow"}, list{})
	conn, err := w.web1.Dial(t.Context(), "tcp", netip.AddrPortFrom(w.app1.v4, servedPort))
	require.NoError(t, err)
	defer conn.Close()
	requireEcho(t, lab.Answered, conn)
	w.lists(t, list{egress: "allow"}, list{ingress: "allow", rules: []string{"{number: 10, action: reject, protocol: tcp}"}}, list{})
	require.Equal(t, lab.Refused, w.probe(t, w.web1, "tcp", w.app1.v4, servedPort))
	requireEcho(t, lab.TimedOut, conn)
}
