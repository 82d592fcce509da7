package agent_test

import (
	"encoding/json"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/agent"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const dhcpTiers = `
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: leased, vpc: shop}, spec: {cidrs: [10.10.3.0/24, "fd00:10:3::/64"], acl: default-allow, dhcp: {leaseTime: 3600, dnsServers: [192.0.2.53, "2001:db8::53"]}}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: brief, vpc: shop}, spec: {cidrs: [10.10.4.0/24], acl: default-allow, dhcp: {leaseTime: 10}}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: six, vpc: shop}, spec: {cidrs: ["fd00:10:6::/64"], acl: default-allow}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: quiet, vpc: shop}, spec: {cidrs: [10.10.5.0/24], acl: default-allow, dhcp: {enabled: false}}}
`

const byDHCP = "plug: {type: netns, configure: dhcp}"

func (r *rig) lease(t *testing.T, hv int, name string) agent.Lease {
	t.Helper()
	var l agent.Lease
	text := r.interfaces(t, hv)[name].ExternalIDs["ovn-vpc:lease"]
	require.NoError(t, json.Unmarshal([]byte(text), &l), text)
	return l
}

func (r *rig) show(t *testing.T, hv int, name string, args ...string) string {
	t.Helper()
	out, err := r.inside(t.Context(), hv, name, "ip", args...)
	require.NoError(t, err, out)
	return out
}

// dhcp: guests of three tiers and both families that know nothing but what OVN
// answers.
func (r *rig) dhcp(t *testing.T) {
	r.agent(t, 1)
	r.agent(t, 2)
	r.apply(t, dhcpTiers)
	seen := r.dir + "/dhcp-seen"
	note := r.script(t, "dhcp-note", "nsenter --net="+r.netnsDir(1)+"/shop.p1 ip -4 -o address show eth0 >"+seen+"\n")
	r.agent(t, 1, "--allowed-programs", note)
	r.apply(t, attachment("p1", "web", "hv1", "plug: {type: netns, configure: dhcp, postCreateExec: ["+note+"]}")+
		attachment("p2", "leased", "hv2", byDHCP)+attachment("p3", "six", "hv1", byDHCP))
	r.plugged(t, 1, "p1")
	r.plugged(t, 2, "p2")
	r.plugged(t, 1, "p3")
	r.up(t, "p1", "p2", "p3")
	require.Contains(t, strings.Join(lines(t, seen), " "), r.address(t, "p1").String()+"/24", "the hook runs after the answer")

	r.reach(t, 1, "p1", r.address(t, "p2"))
	six := r.lease(t, 1, "p3").Addresses[0].Addr()
	r.reach(t, 2, "p2", six)
	require.Equal(t, 3, r.ping(t, 1, "p3", r.lease(t, 2, "p2").Addresses[1].Addr(), 3))

	require.Contains(t, r.show(t, 1, "p1", "-o", "link", "show", "eth0"), "mtu 1400", "option 26")
	routes := r.show(t, 1, "p1", "-4", "route")
	require.Contains(t, routes, "default via 10.10.1.1 dev eth0", "of option 121: it replaces the routers")
	require.Contains(t, routes, "10.10.11.0/24 dev eth0 scope link", "the tier's other prefix")
	require.Contains(t, r.show(t, 2, "p2", "-4", "route"), "default via 10.10.3.1 dev eth0", "of option 3")
	routes = r.show(t, 2, "p2", "-6", "route")
	require.Contains(t, routes, "fd00:10:3::/64 dev eth0 proto kernel", "on the link by the advertisement")
	require.Regexp(t, `default .*dev eth0 proto ra`, routes)

	l := r.lease(t, 2, "p2")
	require.Equal(t, int64(3600), l.Seconds)
	require.Equal(t, l.ObtainedAt.Add(30*time.Minute), l.RenewAt)
	require.Equal(t, "10.10.3.1", l.Servers[0])
	require.Len(t, l.DNS, 2)
	require.True(t, new(r.lease(t, 1, "p3")).Forever())
	r.delete(t, "p1", "p2", "p3")
	r.gone(t, 1, "p1")
	r.gone(t, 2, "p2")
	r.gone(t, 1, "p3")
}

// dhcpRenewal: a short lease is renewed again and again, what the answer says
// anew is applied, and no packet is lost by it.
func (r *rig) dhcpRenewal(t *testing.T) {
	r.agent(t, 1)
	r.apply(t, dhcpTiers+attachment("q1", "brief", "hv1", byDHCP))
	before := r.plugged(t, 1, "q1")
	first := r.lease(t, 1, "q1")
	require.Equal(t, int64(10), first.Seconds)
	r.reach(t, 1, "q1", netip.MustParseAddr("10.10.4.1"))
	lost := make(chan int, 1)
	go func() { lost <- 300 - r.ping(t, 1, "q1", netip.MustParseAddr("10.10.4.1"), 300) }()
	require.True(t, waits(func() bool { return r.lease(t, 1, "q1").ObtainedAt.After(first.RenewAt) }), "renewed twice")
	require.Zero(t, <-lost)

	r.apply(t, strings.ReplaceAll(networkYAML, "mtu: 1400", "mtu: 1300"))
	require.True(t, waits(func() bool { return strings.Contains(r.show(t, 1, "q1", "link"), "mtu 1300") }))
	r.apply(t, networkYAML+"---"+strings.ReplaceAll(dhcpTiers, "[10.10.4.0/24]", "[10.10.4.0/24, 10.10.14.0/24]"))
	require.True(t, waits(func() bool { return strings.Contains(r.show(t, 1, "q1", "route"), "10.10.14.0/24") }))
	r.apply(t, dhcpTiers)
	require.True(t, waits(func() bool { return !strings.Contains(r.show(t, 1, "q1", "route"), "10.10.14.0/24") }))
	require.Contains(t, r.show(t, 1, "q1", "route"), "default via 10.10.4.1")
	require.Equal(t, before.UUID, r.plugged(t, 1, "q1").UUID)

	r.apply(t, attachment("q1", "brief", "hv1", "plug: {type: netns, configure: static}"))
	require.True(t, waits(func() bool {
		i := r.interfaces(t, 1)["q1"]
		return i.UUID != before.UUID && i.ExternalIDs["ovn-vpc:state"] == "plugged" && i.ExternalIDs["ovn-vpc:lease"] == ""
	}), "configured in another way: made anew")
	r.delete(t, "q1")
	r.gone(t, 1, "q1")
}

// dhcpKilled: an agent that starts again takes a lease over as it is.
func (r *rig) dhcpKilled(t *testing.T) {
	p := r.agent(t, 1)
	r.apply(t, dhcpTiers+attachment("v1", "leased", "hv1", byDHCP))
	before := r.plugged(t, 1, "v1")
	watch := r.watchNetwork(t, 1, "v1")
	p.kill(t)
	r.agent(t, 1)
	r.apply(t, attachment("v2", "leased", "hv1", "plug: {type: netns}"))
	r.plugged(t, 1, "v2")
	after := r.plugged(t, 1, "v1")
	require.Equal(t, before.UUID, after.UUID)
	require.Equal(t, before.ExternalIDs["ovn-vpc:lease"], after.ExternalIDs["ovn-vpc:lease"])
	// The kernel may tell late of the IPv6 address that was there before: what it
	// says then, and nothing else.
	late := regexp.MustCompile(`(?m)^(\d+: eth0 +inet6 fd00:\S+ scope global nodad|\s+valid_lft forever preferred_lft forever|local fd00:\S+ dev eth0 table local proto kernel .*)\s*$`)
	require.Empty(t, strings.TrimSpace(late.ReplaceAllString(watch(), "")), "nothing of it was touched")
	r.delete(t, "v1", "v2")
	r.gone(t, 1, "v1")
	r.gone(t, 1, "v2")
}

// watchNetwork notes what changes of a guest's addresses and routes, until what
// it returns is called.
func (r *rig) watchNetwork(t *testing.T, hv int, name string) func() string {
	t.Helper()
	var said logged
	cmd := exec.CommandContext(t.Context(), "nsenter", "--net="+filepath.Join(r.netnsDir(hv), "shop."+name), "ip", "monitor", "link", "address", "route")
	cmd.Stdout = &said
	require.NoError(t, cmd.Start())
	// It listens once it has told of a change.
	for n := 0; said.String() == ""; n++ {
		require.Less(t, n, 100)
		r.show(t, hv, name, "route", "add", "192.0.2.0/24", "dev", "eth0")
		r.show(t, hv, name, "route", "del", "192.0.2.0/24")
	}
	return func() string {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
		var rest []string
		for line := range strings.Lines(said.String()) {
			if !strings.Contains(line, "192.0.2.0/24") {
				rest = append(rest, line)
			}
		}
		return strings.Join(rest, "")
	}
}

// dhcpSilent: without an answer the error is told and other ports go on; the
// guest that has a lease keeps its address.
func (r *rig) dhcpSilent(t *testing.T) {
	ctx := t.Context()
	r.agent(t, 1)
	r.apply(t, dhcpTiers+attachment("u1", "brief", "hv1", byDHCP))
	r.plugged(t, 1, "u1")
	require.NoError(t, r.hv(1).Kill(ctx, "controller"))
	r.apply(t, attachment("u2", "web", "hv1", byDHCP)+attachment("u3", "web", "hv1", "plug: {type: netns}"))
	require.True(t, waits(func() bool { return r.interfaces(t, 1)["u3"].ExternalIDs["ovn-vpc:state"] == "plugged" }))
	silent := func(name, state string) bool {
		ids := r.interfaces(t, 1)[name].ExternalIDs
		return ids["ovn-vpc:state"] == state && strings.Contains(ids["ovn-vpc:error"], "no DHCP answer")
	}
	require.True(t, waits(func() bool { return silent("u2", "plugging") && silent("u1", "plugged") }))
	ends := r.lease(t, 1, "u1").ObtainedAt.Add(10 * time.Second)
	require.True(t, waits(func() bool { return time.Now().After(ends) }))
	require.Contains(t, r.show(t, 1, "u1", "address"), r.address(t, "u1").String())
	require.NoError(t, r.hv(1).Start(ctx, "controller"))
	for _, name := range []string{"u1", "u2"} {
		r.plugged(t, 1, name)
		require.True(t, waits(func() bool { return r.interfaces(t, 1)[name].ExternalIDs["ovn-vpc:error"] == "" }))
	}
	require.True(t, r.lease(t, 1, "u1").ObtainedAt.After(ends))
	r.delete(t, "u1", "u2", "u3")
	r.gone(t, 1, "u1")
}

// dhcpRefused: a tier without DHCP, before and after.
func (r *rig) dhcpRefused(t *testing.T) {
	r.apply(t, dhcpTiers)
	refused := func(yaml, say string) {
		set, faults := model.Load(model.Input{Name: "test", Data: []byte(yaml)})
		require.Empty(t, faults)
		_, err := r.engine.Apply(t.Context(), set, false, engine.WaitSB)
		var invalid *engine.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Contains(t, invalid.Diagnostics.String(), say)
	}
	refused(attachment("z1", "quiet", "hv1", byDHCP), "spec.plug.configure: Tier shop/quiet serves no DHCP")
	r.apply(t, attachment("z2", "brief", "hv1", byDHCP))
	refused(strings.ReplaceAll(dhcpTiers, "leaseTime: 10}", "enabled: false}"), "Attachment shop/z2 is configured by DHCP")
	r.delete(t, "z2")
}
