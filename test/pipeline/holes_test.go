package pipeline_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// judgesOf are the judges of a VPC that has been applied; its rows are read
// and an ovn-trace is started when judge is called.
func (o *ovn) judgesOf(t *testing.T, vpc string, set *model.Set) *judges {
	t.Helper()
	state, err := o.rows(t.Context())
	require.NoError(t, err)
	j, err := newJudges(vpc, set, state)
	require.NoError(t, err)
	return j
}

// judge is what the rows and ovn-trace say of a packet now, which must be one,
// and ovn-trace's account.
func (o *ovn) judge(t *testing.T, j *judges, p probe) (verdict, string) {
	t.Helper()
	_, err := o.box.NBCtl(t.Context(), "--wait=sb", "sync")
	require.NoError(t, err)
	state, err := o.rows(t.Context())
	require.NoError(t, err)
	j.tracer, err = o.startTracer(t.Context())
	require.NoError(t, err)
	packet := j.names.packet(p, j.tierOf)
	traced, account, err := j.tracer.judge(match.Microflow(packet), j.vpc, packet.Inport)
	require.NoError(t, err)
	complaints, err := j.tracer.stop(t.Context())
	require.NoError(t, err)
	require.Empty(t, complaints)
	walked, err := trace.Walk(state, trace.Endpoint{Port: packet.Inport}, packet)
	require.NoError(t, err)
	require.Equal(t, traced, coarse(verdict{walked.Outcome, walked.Ports}), account)
	return traced, account
}

// OVN's parser takes every match of the examples. It reads them all when
// ovn-trace starts.
func TestMatchesParse(t *testing.T) {
	o := newOVN(t)
	examples, err := filepath.Glob("../../examples/*")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, dir := range examples {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		if !info.IsDir() {
			continue
		}
		inputs, found := model.ReadPaths([]string{dir}, nil)
		require.False(t, found.HasErrors(), found.String())
		set, found := model.Load(inputs...)
		require.False(t, found.HasErrors(), found.String())
		_, err = o.engine.Apply(t.Context(), set, false, engine.WaitSB)
		require.NoErrorf(t, err, dir)
		tr, err := o.startTracer(t.Context())
		require.NoError(t, err)
		complaints, err := tr.stop(t.Context())
		require.NoError(t, err)
		require.Emptyf(t, complaints, dir)
		for _, vpc := range set.VPCs() {
			require.NoError(t, o.remove(t.Context(), vpc))
		}
	}
	// And it does say what it can't parse.
	_, err = o.box.NBCtl(t.Context(), "--wait=sb", "ls-add", "s", "--", "acl-add", "s", "to-lport", "1", "tcp.dst == 65536", "drop")
	require.NoError(t, err)
	tr, err := o.startTracer(t.Context())
	require.NoError(t, err)
	complaints, err := tr.stop(t.Context())
	require.NoError(t, err)
	require.Contains(t, complaints, "parsing expression failed")
}

// fixed is a VPC of a tier whose list is closed, one whose list is open, and one
// with a stateless list.
func fixed() []document {
	list := func(name, defaults string, more document) document {
		more["defaults"] = document{"ingress": defaults, "egress": defaults}
		return resource("ACL", "v", name, more)
	}
	docs := []document{resource("VPC", "", "v", document{"cidrs": []string{"10.0.0.0/16", "fd00::/48"}}),
		list("closed", "deny", document{}), list("stateless", "deny", document{"stateless": true}),
		list("open", "allow", document{"rules": []document{
			{"number": 1, "action": "deny", "protocol": "tcp", "ports": []int{22}},
			{"number": 2, "action": "reject", "protocol": "icmp", "icmp": document{"type": 8}}}})}
	for i, acl := range []string{"closed", "open", "stateless"} {
		cidrs := []string{fmt.Sprintf("10.0.%d.0/24", i+1), fmt.Sprintf("fd00:0:0:%d::/64", i+1)}
		docs = append(docs, resource("Tier", "v", string(rune('a'+i)), document{"cidrs": cidrs, "acl": acl}))
	}
	for _, g := range []struct {
		name       string
		tier, host int
	}{{"a1", 1, 5}, {"a2", 1, 6}, {"b1", 2, 5}, {"c1", 3, 5}} {
		addresses := []string{fmt.Sprintf("10.0.%d.%d", g.tier, g.host), fmt.Sprintf("fd00:0:0:%d::%d", g.tier, g.host)}
		docs = append(docs, resource("Attachment", "v", g.name, document{"tier": g.name[:1], "addresses": addresses, "portSecurity": g.name != "a2"}))
	}
	return docs
}

func (o *ovn) applyFixed(t *testing.T) *judges {
	t.Helper()
	spec, err := text(fixed())
	require.NoError(t, err)
	set, found := model.Load(model.Input{Name: "fixed", Data: spec})
	require.False(t, found.HasErrors(), found.String())
	_, err = o.engine.Apply(t.Context(), set, false, engine.WaitSB)
	require.NoError(t, err)
	return o.judgesOf(t, "v", set)
}

// hole is a way round the lists, closed by rows of its own.
type hole struct {
	name   string
	packet probe
	passes func(verdict, string) bool // by verdict and account
	open   func(*testing.T, *nbdb.State) []string
	old    bool // OVN after 23.03 has closed it too
}

func delivered(v verdict, _ string) bool { return v.outcome == trace.Delivered }

func holes(linkLocals map[string]netip.Addr) []hole {
	a, b := parse("10.0.1.5", "fd00:0:0:1::5"), parse("10.0.2.5", "fd00:0:0:2::5")
	return []hole{
		{"a multicast frame is routed", probe{From: "a1", Frame: toGroup, Src: a[0], Dst: b[0], TTL: 64, Proto: 17, SrcPort: 1, DstPort: 2},
			delivered, withoutACLs("v/a", 32010, 1), true},
		{"in-tier traffic opens a way back", probe{From: "a2", Frame: toNeighbour, Neighbour: "a1", Src: b[0], Dst: a[0], TTL: 64, Proto: 17, SrcPort: 1, DstPort: 2},
			func(_ verdict, account string) bool { return strings.Contains(account, "ct_next(") }, withoutACLs("v/a", 32009, 2), false},
		{"listener reports are routed", probe{From: "a1", Frame: toRouter, Src: linkLocals["a1"], Dst: b[1], TTL: 64, Proto: 58, Type: 131},
			delivered, withoutPolicies, true},
		{"fragments pass a deny with ports", probe{From: "a", Frame: fromOutside, Src: parse("192.0.2.7")[0], Dst: b[0], TTL: 64, Proto: 6, Frag: true},
			delivered, withoutFragments("acl-rule/v/open/ingress/1"), false},
		{"fragments pass a reject with ICMP types", probe{From: "a", Frame: fromOutside, Src: parse("192.0.2.7")[0], Dst: b[0], TTL: 64, Proto: 1, Frag: true},
			delivered, withoutFragments("acl-rule/v/open/ingress/2"), false},
	}
}

// withoutACLs takes the rows of a priority, which there must be n of, off a
// switch.
func withoutACLs(sw string, priority, n int) func(*testing.T, *nbdb.State) []string {
	return func(t *testing.T, state *nbdb.State) (args []string) {
		t.Helper()
		for _, row := range nbdb.All[*nbdb.ACL](state) {
			if row.Priority == priority && strings.Contains(row.ExternalIDs["ovn-vpc:key"], "/"+sw+"/") {
				n--
				args = append(args, "--", "remove", "Logical_Switch", sw, "acls", string(row.UUID))
			}
		}
		require.Zero(t, n, "rows that are missing")
		return args
	}
}

func withoutPolicies(t *testing.T, state *nbdb.State) []string {
	t.Helper()
	require.Len(t, nbdb.All[*nbdb.LogicalRouterPolicy](state), 1)
	return []string{"lr-policy-del", "v"}
}

// withoutFragments takes the words about fragments out of a row.
func withoutFragments(key string) func(*testing.T, *nbdb.State) []string {
	return func(t *testing.T, state *nbdb.State) []string {
		t.Helper()
		for _, row := range nbdb.All[*nbdb.ACL](state) {
			if row.ExternalIDs["ovn-vpc:key"] == key {
				require.Contains(t, row.Match, " || ip.is_frag")
				match := strings.ReplaceAll(row.Match, " || ip.is_frag", "")
				return []string{"set", "ACL", string(row.UUID), "match=" + strconv.Quote(match)}
			}
		}
		require.Fail(t, "no row "+key)
		return nil
	}
}

// Each hole is closed, is open without the rows that close it, and closed again
// when they are repaired.
func TestHoles(t *testing.T) {
	o := newOVN(t)
	j := o.applyFixed(t)
	newer := o.newer(t)
	for _, h := range holes(j.names.linkLocals) {
		t.Run(h.name, func(t *testing.T) {
			v, account := o.judge(t, j, h.packet)
			require.False(t, h.passes(v, account), account)
			state, err := o.rows(t.Context())
			require.NoError(t, err)
			_, err = o.box.NBCtl(t.Context(), h.open(t, state)...)
			require.NoError(t, err)
			if !h.old || !newer {
				v, account = o.judge(t, j, h.packet)
				require.True(t, h.passes(v, account), account)
			}
			_, err = o.engine.Drift(t.Context(), "", true, engine.WaitSB)
			require.NoError(t, err)
			v, account = o.judge(t, j, h.packet)
			require.False(t, h.passes(v, account), account)
		})
	}
}

// newer tells whether OVN is newer than 23.03.
func (o *ovn) newer(t *testing.T) bool {
	t.Helper()
	out, err := o.bin.Run(t.Context(), "ovn-trace", "--version")
	require.NoError(t, err)
	words := strings.Fields(out)
	require.GreaterOrEqual(t, len(words), 2)
	year, err := strconv.Atoi(strings.Split(words[1], ".")[0])
	require.NoError(t, err)
	return year > 23
}

// What has to work whatever the lists say, under lists that deny everything.
// Neighbour and router discovery and DHCPv6 are missing: the ovn-trace of 23.03
// aborts on their answers.
func TestSystemTraffic(t *testing.T) {
	o := newOVN(t)
	j := o.applyFixed(t)
	for _, tier := range []struct{ name, guest, v4, v6, gateway4, gateway6 string }{
		{"a", "a1", "10.0.1.5", "fd00:0:0:1::5", "10.0.1.1", "fd00:0:0:1::1"},
		{"c", "c1", "10.0.3.5", "fd00:0:0:3::5", "10.0.3.1", "fd00:0:0:3::1"},
	} {
		mac, gateway := hardware(j.names.macs[tier.guest]), hardware(j.names.macs[tier.name])
		from := `inport == "v/` + tier.guest + `" && eth.src == ` + mac + " && "
		for what, flow := range map[string]string{
			"ARP":   "eth.dst == ff:ff:ff:ff:ff:ff && arp.op == 1 && arp.sha == " + mac + " && arp.spa == " + tier.v4 + " && arp.tpa == " + tier.gateway4,
			"DHCP":  "eth.dst == ff:ff:ff:ff:ff:ff && ip4.src == 0.0.0.0 && ip4.dst == 255.255.255.255 && ip.ttl == 64 && udp.src == 68 && udp.dst == 67",
			"ping":  "eth.dst == " + gateway + " && ip4.src == " + tier.v4 + " && ip4.dst == " + tier.gateway4 + " && ip.ttl == 64 && icmp4.type == 8 && icmp4.code == 0",
			"ping6": "eth.dst == " + gateway + " && ip6.src == " + tier.v6 + " && ip6.dst == " + tier.gateway6 + " && ip.ttl == 64 && icmp6.type == 128 && icmp6.code == 0",
		} {
			account := o.trace(t, from+flow, "new", "est,rpl")
			require.Containsf(t, account, `/* output to "v/`+tier.guest+`", type "" */`, "%s from tier %s", what, tier.name)
		}
	}
	// Renewal goes to the gateway's MAC. ovn-trace gives the answer no address.
	require.Contains(t, o.trace(t, `inport == "v/a1" && eth.src == `+hardware(j.names.macs["a1"])+" && eth.dst == "+hardware(j.names.macs["a"])+
		" && ip4.src == 10.0.1.5 && ip4.dst == 10.0.1.1 && ip.ttl == 64 && udp.src == 68 && udp.dst == 67", "new"), "put_dhcp_opts(")
	// An error about a packet that was let out comes back past an ingress list.
	account := o.trace(t, `inport == "v/b1" && eth.src == `+hardware(j.names.macs["b1"])+" && eth.dst == "+hardware(j.names.macs["b"])+
		" && ip4.src == 10.0.2.5 && ip4.dst == 10.0.1.5 && ip.ttl == 1 && udp.src == 1 && udp.dst == 2", "new", "rel")
	require.Contains(t, account, `/* output to "v/b1", type "" */`)
}

func hardware(mac [6]byte) string { return net.HardwareAddr(mac[:]).String() }

// trace is ovn-trace's account of one packet with the states that its
// connections are in.
func (o *ovn) trace(t *testing.T, flow string, states ...string) string {
	t.Helper()
	args := []string{"--db=" + o.box.SB(), "--summary"}
	for _, s := range states {
		args = append(args, "--ct="+s)
	}
	account, err := o.bin.Run(t.Context(), "ovn-trace", append(args, flow)...)
	require.NoError(t, err)
	return account
}
