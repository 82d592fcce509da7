package agent_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// TestAgent runs all points on one lab; each has attachments of its own, so
// any of them runs alone too (-run TestAgent/Hooks).
func TestAgent(t *testing.T) {
	r := newRig(t)
	for _, point := range []struct {
		name string
		test func(*testing.T)
	}{
		{"Netns", r.netns},
		{"DHCP", r.dhcp},
		{"DHCPRenewal", r.dhcpRenewal},
		{"DHCPKilled", r.dhcpKilled},
		{"DHCPSilent", r.dhcpSilent},
		{"DHCPRefused", r.dhcpRefused},
		{"DownByHand", r.downByHand},
		{"Internal", r.internal},
		{"Tap", r.tap},
		{"ChangedInPlace", r.changedInPlace},
		{"KilledDuringPing", r.killedDuringPing},
		{"FiftyAtOnce", r.fiftyAtOnce},
		{"ChangesWhileDown", r.changesWhileDown},
		{"Hooks", r.hooks},
		{"HookOfAKilledAgent", r.hookOfAKilledAgent},
		{"Status", r.status},
		{"Example", r.example},
		{"ForeignStays", r.foreignStays},
		{"Leftovers", r.leftovers},
		{"Migration", r.migration},
		{"DatabasesGo", r.databasesGo},
		{"ChassisGoes", r.chassisGoes},
		{"ChassisRenamed", r.chassisRenamed},
		{"SecondAgent", r.secondAgent},
		{"KilledBeforePlugged", r.killedBeforePlugged},
		{"ForeignInPlace", r.foreignInPlace},
		{"Relevance", r.relevance},
		{"Metrics", r.metrics},
	} {
		t.Run(point.name, func(t *testing.T) {
			t.Cleanup(func() { r.clean(t) })
			point.test(t)
		})
	}
}

// netns: guests in two tiers on two hypervisors, of which the agent knows only
// what the specs say.
func (r *rig) netns(t *testing.T) {
	r.agent(t, 1)
	r.agent(t, 2)
	r.apply(t, attachment("n1", "web", "hv1", "plug: {type: netns}")+attachment("n2", "db", "hv2", "plug: {type: netns}"))
	i := r.plugged(t, 1, "n1")
	require.LessOrEqual(t, len(i.Name), 15)
	require.Equal(t, "shop/n1", i.ExternalIDs["iface-id"])
	r.plugged(t, 2, "n2")
	r.up(t, "n1", "n2")
	r.reach(t, 1, "n1", r.address(t, "n2"))
	require.Equal(t, 3, r.ping(t, 2, "n2", r.address(t, "n1"), 3))
	r.reach(t, 1, "n1", netip.MustParseAddr("fd00:10:1::1"))
	out, err := r.inside(t.Context(), 1, "n1", "ip", "-o", "link", "show", "eth0")
	require.NoError(t, err)
	require.Contains(t, out, "mtu 1400")
	require.Contains(t, out, i.ExternalIDs["attached-mac"])
	out, err = r.inside(t.Context(), 1, "n1", "ip", "route")
	require.NoError(t, err)
	require.Contains(t, out, "10.10.11.0/24 dev eth0", "the tier's other prefix is on the link")
	require.Contains(t, r.stack(t, 1, i.Name), "disable_ipv6=1", "the hypervisor's own stack stays off it")
	r.delete(t, "n1", "n2")
	r.gone(t, 1, "n1")
	r.gone(t, 2, "n2")
}

// downByHand: an interface that somebody, or ovs-vswitchd, has brought down
// comes up again.
func (r *rig) downByHand(t *testing.T) {
	r.agent(t, 1)
	r.apply(t, attachment("down1", "web", "hv1", "plug: {type: netns}"))
	name := r.plugged(t, 1, "down1").Name
	_, err := r.hv(1).Run(t.Context(), "ip", "link", "set", name, "down")
	require.NoError(t, err)
	require.True(t, waits(func() bool {
		out, err := r.hv(1).Run(t.Context(), "ip", "link", "show", name, "up")
		return err == nil && out != ""
	}), "%s stays down", name)
	r.delete(t, "down1")
	r.gone(t, 1, "down1")
}

func (r *rig) stack(t *testing.T, hv int, ifname string) string {
	t.Helper()
	out, err := r.hv(hv).Run(t.Context(), "sh", "-c", "echo disable_ipv6=$(cat /proc/sys/net/ipv6/conf/"+ifname+"/disable_ipv6)")
	require.NoError(t, err)
	return out
}

// internal: a port of the hypervisor itself, which reaches other tiers and
// keeps its own default route.
func (r *rig) internal(t *testing.T) {
	r.agent(t, 1)
	r.agent(t, 2)
	r.apply(t, attachment("i1", "web", "hv1", "plug: {type: internal, name: vpc-i1}")+attachment("i2", "db", "hv2", "plug: {type: netns}"))
	require.Equal(t, "vpc-i1", r.plugged(t, 1, "i1").Name)
	r.plugged(t, 2, "i2")
	r.up(t, "i1", "i2")
	to := r.address(t, "i2").String()
	require.True(t, waits(func() bool {
		_, err := r.hv(1).Run(t.Context(), "ping", "-n", "-c", "1", "-W", "1", to)
		return err == nil
	}))
	routes, err := r.hv(1).Run(t.Context(), "ip", "route")
	require.NoError(t, err)
	require.NotContains(t, routes, "default")
	r.delete(t, "i1", "i2")
	r.gone(t, 1, "i1")
	r.gone(t, 2, "i2")
}

// changedInPlace: fields of a spec, and of its tier and VPC, reach an interface
// that stays.
func (r *rig) changedInPlace(t *testing.T) {
	r.agent(t, 1)
	r.apply(t, attachment("c1", "web", "hv1", "addresses: [10.10.1.50], plug: {type: netns}"))
	before := r.plugged(t, 1, "c1")
	show := func(args ...string) string {
		out, err := r.inside(t.Context(), 1, "c1", "ip", args...)
		require.NoError(t, err)
		return out
	}
	r.apply(t, attachment("c1", "web", "hv1", `addresses: [10.10.1.50, 10.10.11.51], plug: {type: netns}`))
	require.True(t, waits(func() bool { return strings.Contains(show("address"), "10.10.11.51/24") }))
	r.apply(t, strings.ReplaceAll(networkYAML, "mtu: 1400", "mtu: 1300"))
	require.True(t, waits(func() bool { return strings.Contains(show("link"), "mtu 1300") }), "the VPC's MTU")
	r.apply(t, strings.ReplaceAll(networkYAML, "10.10.11.0/24,", "10.10.11.0/24, 10.10.12.0/24,"))
	require.True(t, waits(func() bool { return strings.Contains(show("route"), "10.10.12.0/24") }), "the tier's prefixes")
	r.apply(t, networkYAML)
	require.True(t, waits(func() bool { return !strings.Contains(show("route"), "10.10.12.0/24") }))
	r.apply(t, attachment("c1", "web", "hv1", `addresses: [10.10.1.50], plug: {type: netns}`))
	require.True(t, waits(func() bool { return !strings.Contains(show("address"), "10.10.11.51") }))
	require.Equal(t, before.UUID, r.plugged(t, 1, "c1").UUID)

	r.apply(t, attachment("c1", "web", "hv1", `addresses: [10.10.1.50], plug: {type: tap, name: tap-c1}`))
	require.True(t, waits(func() bool { return r.interfaces(t, 1)["c1"].Name == "tap-c1" }), "another type: made anew")
	require.NoFileExists(t, filepath.Join(r.netnsDir(1), "shop.c1"))
	r.apply(t, attachment("c1", "web", "hv1", `addresses: [10.10.1.50]`))
	r.gone(t, 1, "c1")
	require.NotContains(t, r.links(t, 1), "tap-c1")
}

// killedDuringPing: the agent dies and starts again and again, and no packet is
// lost by it.
func (r *rig) killedDuringPing(t *testing.T) {
	r.agent(t, 1)
	r.agent(t, 2)
	r.apply(t, attachment("k1", "web", "hv1", "plug: {type: netns}")+attachment("k2", "db", "hv2", "plug: {type: netns}"))
	r.plugged(t, 1, "k1")
	r.plugged(t, 2, "k2")
	r.up(t, "k1", "k2")
	r.reach(t, 1, "k1", r.address(t, "k2"))
	const count = 700
	type answer struct {
		out string
		err error
	}
	done, to := make(chan answer, 1), r.address(t, "k2").String()
	go func() {
		out, err := r.inside(t.Context(), 1, "k1", "ping", "-n", "-q", "-i", "0.01", "-W", "2", "-c", strconv.Itoa(count), to)
		done <- answer{out, err}
	}()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kills := 0
	for {
		select {
		case a := <-done:
			require.Equal(t, count, received(t, a.out, a.err), a.out)
			require.Greater(t, kills, 5)
			r.agent(t, 1)
			r.agent(t, 2)
			r.delete(t, "k1", "k2")
			r.gone(t, 1, "k1")
			r.gone(t, 2, "k2")
			return
		case <-time.After(time.Duration(random.IntN(400)) * time.Millisecond):
			hv := 1 + random.IntN(2)
			r.agents[r.hv(hv).Name].kill(t)
			r.agent(t, hv)
			kills++
		}
	}
}

// fiftyAtOnce: added while the agents are killed and started, all are up in the
// end, and removed the same way nothing is left.
func (r *rig) fiftyAtOnce(t *testing.T) {
	const many = 50
	var docs strings.Builder
	var names []string
	types := []string{"netns", "netns", "tap", "internal"}
	for n := range many {
		names = append(names, fmt.Sprintf("f%d", n))
		docs.WriteString(attachment(names[n], "web", fmt.Sprintf("hv%d", 1+n%2), "plug: {type: "+types[n/2%4]+"}"))
	}
	r.agent(t, 1)
	r.agent(t, 2)
	before := map[int]string{1: r.links(t, 1), 2: r.links(t, 2)}
	began := time.Now()
	r.apply(t, docs.String())
	r.killSome(t)
	for n, name := range names {
		r.plugged(t, 1+n%2, name)
	}
	r.up(t, names...)
	t.Logf("%d up after %v", many, time.Since(began))
	for _, pair := range [][2]int{{0, 1}, {8, 9}, {16, 24}} {
		r.reach(t, 1+pair[0]%2, names[pair[0]], r.address(t, names[pair[1]]))
	}
	r.delete(t, names...)
	r.killSome(t)
	for n, name := range names {
		r.gone(t, 1+n%2, name)
	}
	for hv := range before {
		r.left(t, hv, before[hv])
	}
}

// killSome kills both agents a few times while they work.
func (r *rig) killSome(t *testing.T) {
	t.Helper()
	for range 4 {
		for hv := 1; hv <= 2; hv++ {
			time.Sleep(time.Duration(50+rand.IntN(250)) * time.Millisecond)
			r.agents[r.hv(hv).Name].kill(t)
			r.agent(t, hv)
		}
	}
}

// left waits until the kernel has the links that it had before and no others: those of
// type internal are ovs-vswitchd's, which removes them after their rows.
func (r *rig) left(t *testing.T, hv int, before string) {
	t.Helper()
	now := ""
	waits(func() bool {
		now = r.links(t, hv)
		return now == before
	})
	require.Equal(t, before, now, "no interface is left in the kernel")
}

// links are the names of a hypervisor's interfaces.
func (r *rig) links(t *testing.T, hv int) string {
	t.Helper()
	out, err := r.hv(hv).Run(t.Context(), "ip", "-o", "link")
	require.NoError(t, err)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\d+: ([^:@]+)`).FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	return strings.Join(names, " ")
}

// changesWhileDown are made up for at the next start.
func (r *rig) changesWhileDown(t *testing.T) {
	p := r.agent(t, 1)
	r.apply(t, attachment("d1", "web", "hv1", "plug: {type: netns}")+attachment("d2", "web", "hv1", "plug: {type: netns}")+
		attachment("d3", "web", "hv1", "plug: {type: netns, name: d3-before}"))
	for _, name := range []string{"d1", "d2", "d3"} {
		r.plugged(t, 1, name)
	}
	p.kill(t)
	r.delete(t, "d1")
	r.apply(t, attachment("d2", "web", "hv2", "plug: {type: netns}")+attachment("d3", "web", "hv1", "plug: {type: netns, name: d3-after}")+
		attachment("d4", "web", "hv1", "plug: {type: netns}"))
	r.agent(t, 1)
	r.plugged(t, 1, "d4")
	r.gone(t, 1, "d1")
	r.gone(t, 1, "d2")
	require.True(t, waits(func() bool {
		return strings.Contains(r.interfaces(t, 1)["d3"].ExternalIDs["ovn-vpc:plug"], "d3-after")
	}))
	r.plugged(t, 1, "d3")
	require.FileExists(t, filepath.Join(r.netnsDir(1), "d3-after"))
	require.NoFileExists(t, filepath.Join(r.netnsDir(1), "d3-before"))
	r.agent(t, 2)
	r.plugged(t, 2, "d2")
	r.delete(t, "d2", "d3", "d4")
}

// migration: both agents plug the guest, and its traffic moves when it does.
func (r *rig) migration(t *testing.T) {
	r.agent(t, 1)
	r.agent(t, 2)
	r.apply(t, attachment("mover", "web", "hv1", "addresses: [10.10.1.40], plug: {type: netns}")+attachment("peer", "db", "hv2", "plug: {type: netns}"))
	r.plugged(t, 1, "mover")
	r.plugged(t, 2, "peer")
	r.up(t, "mover", "peer")
	address := r.address(t, "mover")
	r.reach(t, 2, "peer", address)
	r.apply(t, attachment("mover", "web", "hv1", "addresses: [10.10.1.40], migratingTo: hv2, plug: {type: netns}"))
	r.plugged(t, 2, "mover")
	require.True(t, waits(func() bool {
		claimed, err := r.lab.Sandbox().SBCtl(t.Context(), "--bare", "--columns=additional_chassis", "find", "Port_Binding", "logical_port=shop/mover")
		require.NoError(t, err)
		return strings.TrimSpace(claimed) != ""
	}))
	require.NoError(t, r.lab.WaitHV(t.Context()))
	require.Contains(t, r.interfaces(t, 1), "mover")
	require.Equal(t, 3, r.ping(t, 2, "peer", address, 3), "by the source, until the guest speaks up at the target")
	r.apply(t, attachment("mover", "web", "hv2", "addresses: [10.10.1.40], plug: {type: netns}"))
	r.gone(t, 1, "mover")
	r.reach(t, 2, "mover", r.address(t, "peer"))
	require.Equal(t, 3, r.ping(t, 2, "peer", address, 3))
	r.delete(t, "mover", "peer")
	r.gone(t, 2, "mover")
}

// foreignStays: what the agent has not made it does not touch, and does not
// count as its own.
func (r *rig) foreignStays(t *testing.T) {
	h := r.hv(1)
	vsctl := func(args ...string) string {
		out, err := h.Vsctl(t.Context(), args...)
		require.NoError(t, err)
		return out
	}
	ip := func(args ...string) {
		_, err := h.Run(t.Context(), "ip", args...)
		require.NoError(t, err)
	}
	r.apply(t, attachment("g0", "web", "hv1", "")+attachment("g1", "web", "hv1", ""))
	guest, err := h.Plug(t.Context(), lab.GuestSpec{Name: "foreign", InterfaceID: "shop/g0", MAC: "0a:58:00:00:00:99"})
	require.NoError(t, err)
	ip("link", "add", "vpc-taken", "type", "bridge")
	vsctl("add-port", "br-int", "other", "--", "set", "Interface", "other", "type=internal", "external_ids:iface-id=shop/g1")
	before := vsctl("--columns=name,type,external_ids,error", "find", "Interface", `external_ids:iface-id!=""`)

	p := r.agent(t, 1)
	r.apply(t, attachment("g1", "web", "hv1", "plug: {type: netns}")+attachment("g2", "web", "hv1", "plug: {type: tap, name: vpc-taken}")+
		attachment("g3", "web", "hv1", "plug: {type: internal, name: other}")+attachment("g4", "web", "hv1", "plug: {type: netns}"))
	r.plugged(t, 1, "g4")
	require.True(t, waits(func() bool {
		log := p.log.String()
		return strings.Contains(log, "is plugged as shop/g1 already") && strings.Contains(log, "interface vpc-taken: it exists") && strings.Contains(log, "interface other: it exists")
	}), p.log)
	require.Len(t, r.interfaces(t, 1), 1)
	r.delete(t, "g1", "g2", "g3", "g4")
	r.gone(t, 1, "g4")
	// ovn-controller says of both whether it has them.
	installed := regexp.MustCompile(`, ovn-installed[^,}]*`)
	strip := func(s string) string { return installed.ReplaceAllString(s, "") }
	require.Equal(t, strip(before), strip(vsctl("--columns=name,type,external_ids,error", "find", "Interface", `external_ids:iface-id!=""`)))
	require.Contains(t, r.links(t, 1), "vpc-taken")
	ip("link", "del", "vpc-taken")
	vsctl("del-port", "br-int", "other")
	require.NoError(t, guest.Unplug(t.Context()))
	r.delete(t, "g0")
}

// leftovers: an interface that somebody takes out of Open vSwitch comes back,
// with the namespace as it was; one that is unwanted by then goes altogether.
func (r *rig) leftovers(t *testing.T) {
	p := r.agent(t, 1)
	r.apply(t, attachment("l1", "web", "hv1", "plug: {type: netns}")+attachment("l2", "web", "hv1", "plug: {type: netns}"))
	name := r.plugged(t, 1, "l1").Name
	gone := r.plugged(t, 1, "l2").Name
	_, err := r.inside(t.Context(), 1, "l1", "ip", "link", "add", "kept", "type", "bridge")
	require.NoError(t, err)
	_, err = r.hv(1).Vsctl(t.Context(), "del-port", "br-int", name)
	require.NoError(t, err)
	require.Equal(t, name, r.plugged(t, 1, "l1").Name)
	_, err = r.inside(t.Context(), 1, "l1", "ip", "link", "show", "kept")
	require.NoError(t, err)

	_, err = r.hv(1).Run(t.Context(), "ip", "link", "del", name)
	require.NoError(t, err)
	require.True(t, waits(func() bool { _, err := r.inside(t.Context(), 1, "l1", "ip", "link", "show", "eth0"); return err == nil }), "made anew")

	p.kill(t)
	r.delete(t, "l2")
	_, err = r.hv(1).Vsctl(t.Context(), "del-port", "br-int", gone)
	require.NoError(t, err)
	r.agent(t, 1)
	require.True(t, waits(func() bool { return !strings.Contains(r.links(t, 1), gone) }))
	r.gone(t, 1, "l2")
	r.delete(t, "l1")
	r.gone(t, 1, "l1")
}

// databasesGo: the agent outlives the southbound database and Open vSwitch's,
// and makes up for what it has not heard.
func (r *rig) databasesGo(t *testing.T) {
	relay := newRelay(t, r.lab.SB())
	r.agent(t, 1, "--sb", relay.remote)
	r.apply(t, attachment("b1", "web", "hv1", "plug: {type: netns}")+attachment("b2", "web", "hv1", "plug: {type: netns}"))
	before := r.plugged(t, 1, "b1")
	r.plugged(t, 1, "b2")
	ctx := t.Context()
	relay.cut()
	require.NoError(t, r.hv(1).Kill(ctx, "ovsdb"))
	r.delete(t, "b2")
	r.apply(t, attachment("b3", "web", "hv1", "plug: {type: netns}"))
	require.NoError(t, r.hv(1).Start(ctx, "ovsdb"))
	require.NoError(t, relay.listen())
	r.plugged(t, 1, "b3")
	r.gone(t, 1, "b2")
	_, err := r.hv(1).Run(ctx, "ovs-appctl", "--target="+filepath.Join(r.lab.Dir(), "central", "sb.ctl"), "ovsdb-server/reconnect")
	require.NoError(t, err)
	r.apply(t, attachment("b4", "web", "hv1", "plug: {type: netns}"))
	r.plugged(t, 1, "b4")
	require.Equal(t, before.UUID, r.plugged(t, 1, "b1").UUID)
	r.delete(t, "b1", "b3", "b4")
	r.gone(t, 1, "b1")
}

// chassisGoes: ovn-controller takes its chassis out of the southbound database
// when it ends in peace; no guest loses its interface by that.
func (r *rig) chassisGoes(t *testing.T) {
	r.agent(t, 1)
	r.apply(t, attachment("s1", "web", "hv1", "plug: {type: netns}"))
	before := r.plugged(t, 1, "s1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, r.hv(1).Kill(ctx, "controller"))
	sbctl := func(args ...string) {
		_, err := r.lab.Sandbox().SBCtl(ctx, args...)
		require.NoError(t, err)
	}
	sbctl("chassis-del", "hv1")
	require.NoError(t, r.hv(1).Start(ctx, "controller"))
	sbctl("wait-until", "Chassis", "hv1")
	r.apply(t, attachment("s2", "web", "hv1", "plug: {type: netns}"))
	r.plugged(t, 1, "s2")
	require.Equal(t, before.UUID, r.plugged(t, 1, "s1").UUID)
	r.up(t, "s1", "s2")
	r.delete(t, "s1", "s2")
	r.gone(t, 1, "s1")
}
