package wire_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// patience bounds the wait for anything that has to happen.
const patience = 20 * time.Second

// wire is the lab with the VPCs `shop` and `mirror` and their guests.
type wire struct {
	lab    *lab.Lab
	engine *engine.Engine
	// version is OVN's, such as 23.03.
	version string

	web1, web2, web3     *guest // web3 is in the tier's second prefix
	rogue                *guest // of web, without port security
	app1, app2, db1      *guest
	mirrorWeb, mirrorApp *guest // with the addresses of web1 and app1

	serial      atomic.Uint32 // makes packets distinguishable
	connections atomic.Uint32 // and connections
}

// guest is an attachment's guest with what its packets are made of.
type guest struct {
	*lab.Guest
	tier, port string
	mac, gwMAC net.HardwareAddr
	v4, v6, ll netip.Addr
	gw4, gw6   netip.Addr
	gateways   []netip.Addr // the tier's, of all prefixes
}

// vpcYAML is a VPC with a closed list for each tier.
const vpcYAML = `
{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: %[1]s}, spec: {cidrs: [10.10.0.0/16, "fd00:10::/32"]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: web, vpc: %[1]s}, spec: {cidrs: [10.10.1.0/24, 10.10.11.0/24, "fd00:10:1::/64"], acl: web, dhcp: {dnsServers: [192.0.2.53, "2001:db8::53"]}}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: app, vpc: %[1]s}, spec: {cidrs: [10.10.2.0/24, "fd00:10:2::/64"], acl: app}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: db, vpc: %[1]s}, spec: {cidrs: [10.10.3.0/24, "fd00:10:3::/64"], acl: db}}
`

func newWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{lab: labtest.NewTestLab(t, lab.Options{Hypervisors: 3, Encap: "vxlan"})}
	ctx := t.Context()
	nb, err := nbdb.Dial(ctx, nbdb.Options{Remotes: w.lab.NB()})
	require.NoError(t, err)
	t.Cleanup(nb.Close)
	sb, err := nbdb.Dial(ctx, nbdb.Options{Remotes: w.lab.SB(), Database: nbdb.Southbound})
	require.NoError(t, err)
	t.Cleanup(sb.Close)
	w.engine = engine.New(nb, "wire", "test")
	w.engine.SB, w.engine.Log = sb, slog.New(slog.NewTextHandler(t.Output(), nil))
	out, err := w.lab.Sandbox().NBCtl(ctx, "--version")
	require.NoError(t, err)
	w.version = regexp.MustCompile(`\d\d\.\d\d`).FindString(out)
	require.NotEmpty(t, w.version, out)

	for _, vpc := range []string{"shop", "mirror"} {
		w.apply(t, fmt.Sprintf(vpcYAML, vpc)+listsYAML(vpc, list{}, list{}, list{}))
	}
	w.web1 = w.plug(t, 0, "shop", "web", "web-1", "10.10.1.11", "fd00:10:1::11", "")
	w.web2 = w.plug(t, 1, "shop", "web", "web-2", "10.10.1.12", "fd00:10:1::12", "")
	w.web3 = w.plug(t, 2, "shop", "web", "web-3", "10.10.11.13", "fd00:10:1::13", "")
	w.rogue = w.plug(t, 2, "shop", "web", "rogue", "10.10.1.14", "fd00:10:1::14", ", portSecurity: false")
	w.app1 = w.plug(t, 0, "shop", "app", "app-1", "10.10.2.11", "fd00:10:2::11", "")
	w.app2 = w.plug(t, 1, "shop", "app", "app-2", "10.10.2.12", "fd00:10:2::12", "")
	w.db1 = w.plug(t, 2, "shop", "db", "db-1", "10.10.3.11", "fd00:10:3::11", "")
	w.mirrorWeb = w.plug(t, 1, "mirror", "web", "web-1", "10.10.1.11", "fd00:10:1::11", "")
	w.mirrorApp = w.plug(t, 0, "mirror", "app", "app-1", "10.10.2.11", "fd00:10:2::11", "")
	for _, g := range w.lab.Guests() {
		require.NoError(t, g.WaitInstalled(ctx))
	}
	require.NoError(t, w.lab.WaitHV(ctx))
	return w
}

// apply applies documents and waits for the hypervisors.
func (w *wire) apply(t *testing.T, yaml string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	set, faults := model.Load(model.Input{Name: "test", Data: []byte(yaml)})
	require.False(t, faults.HasErrors(), faults.String())
	_, err := w.engine.Apply(ctx, set, false, engine.WaitHV)
	require.NoError(t, err)
	w.revalidate(t)
}

// revalidate empties the caches of the hypervisors' datapaths: hv_cfg tells of
// the OpenFlow flows alone, and what was cached before them lives on until the
// next round of revalidation.
func (w *wire) revalidate(t *testing.T) {
	t.Helper()
	for _, h := range w.lab.Hypervisors {
		w.appctl(t, h, "revalidator/purge")
	}
}

// emergencies are the last words of the hypervisors' ovs-vswitchd
// (ovs-vswitchd(8), EMER: a process that can't go on).
func (w *wire) emergencies(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, h := range w.lab.Hypervisors {
		log, err := os.ReadFile(filepath.Join(w.lab.Dir(), h.Name, "vswitchd.log"))
		require.NoError(t, err)
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "|EMER|") {
				all = append(all, h.Name+": "+line)
			}
		}
	}
	return all
}

// appctl asks a hypervisor's ovs-vswitchd.
func (w *wire) appctl(t *testing.T, h *lab.Hypervisor, args ...string) string {
	t.Helper()
	out, err := h.Run(t.Context(), "ovs-appctl", append([]string{"--target=" + filepath.Join(w.lab.Dir(), h.Name, "vswitchd.ctl")}, args...)...)
	require.NoError(t, err)
	return out
}

// list is an ACL's spec. Every list lets markers through; defaults are deny.
type list struct {
	ingress, egress string
	stateless       bool
	rules           []string
}

func (l list) yaml() string {
	either := func(action string) string {
		if action == "" {
			return "deny"
		}
		return action
	}
	rules := append([]string{
		fmt.Sprintf("{number: 1, protocol: udp, ports: [%d]}", markerPort),
		fmt.Sprintf("{number: 2, direction: egress, protocol: udp, ports: [%d]}", markerPort),
	}, l.rules...)
	return fmt.Sprintf("{stateless: %t, defaults: {ingress: %s, egress: %s}, rules: [%s]}",
		l.stateless, either(l.ingress), either(l.egress), strings.Join(rules, ", "))
}

func listYAML(vpc, name string, l list) string {
	return fmt.Sprintf("---\n{apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: %s, vpc: %s}, spec: %s}\n", name, vpc, l.yaml())
}

func listsYAML(vpc string, web, app, db list) string {
	return listYAML(vpc, "web", web) + listYAML(vpc, "app", app) + listYAML(vpc, "db", db)
}

// lists brings the three tiers' lists into force.
func (w *wire) lists(t *testing.T, web, app, db list) {
	t.Helper()
	w.apply(t, listsYAML("shop", web, app, db))
}

// open passes everything, both ways.
func open() list { return list{ingress: "allow", egress: "allow"} }

// plug attaches a guest; more is appended to the attachment's spec.
func (w *wire) plug(t *testing.T, hypervisor int, vpc, tier, name, v4, v6, more string) *guest {
	t.Helper()
	w.apply(t, fmt.Sprintf(`{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: %s, vpc: %s}, spec: {tier: %s, addresses: [%s, "%s"]%s}}`,
		name, vpc, tier, v4, v6, more))
	return w.start(t, hypervisor, vpc, name, vpc+"-"+name)
}

// start starts the guest of an attachment under a name.
func (w *wire) start(t *testing.T, hypervisor int, vpc, attachment, name string) *guest {
	t.Helper()
	get := func(kind model.Kind, name string) engine.Object {
		objects, err := w.engine.Get(t.Context(), engine.Filter{Kind: kind, VPC: vpc, Name: name})
		require.NoError(t, err)
		require.Len(t, objects, 1)
		return objects[0]
	}
	spec := get(model.KindAttachment, attachment).Resource.Spec.(*model.AttachmentSpec)
	tier := get(model.KindTier, spec.Tier)
	g := &guest{tier: vpc + "/" + spec.Tier, port: spec.InterfaceID, ll: translate.LinkLocal(spec.MAC)}
	var err error
	g.mac, err = net.ParseMAC(string(spec.MAC))
	require.NoError(t, err)
	g.gwMAC, err = net.ParseMAC(string(tier.Status.(*engine.TierStatus).RouterMAC))
	require.NoError(t, err)
	plugged := lab.GuestSpec{Name: name, InterfaceID: spec.InterfaceID, MAC: string(spec.MAC)}
	prefixes := tier.Resource.Spec.(*model.TierSpec)
	g.gateways = prefixes.Gateways
	for i, prefix := range prefixes.CIDRs {
		gateway, used := prefixes.Gateways[i], false
		for _, address := range spec.Addresses {
			if prefix.Contains(address) {
				used = true
				plugged.Addresses = append(plugged.Addresses, netip.PrefixFrom(address, prefix.Bits()))
				plugged.Gateways = append(plugged.Gateways, gateway)
				if address.Is4() {
					g.v4, g.gw4 = address, gateway
				} else {
					g.v6, g.gw6 = address, gateway
				}
			}
		}
		if !used {
			plugged.Routes = append(plugged.Routes, lab.GuestRoute{Destination: prefix})
		}
	}
	g.Guest, err = w.lab.Hypervisors[hypervisor].Plug(t.Context(), plugged)
	require.NoError(t, err)
	// Markers find no service: their errors must not use up the kernel's ration.
	_, err = g.Exec(t.Context(), "sh", "-c", "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit && echo 0 >/proc/sys/net/ipv6/icmp/ratelimit")
	require.NoError(t, err)
	for _, network := range []string{"tcp", "udp"} {
		_, err = g.Listen(network, servedPort)
		require.NoError(t, err)
	}
	return g
}

// nbctl changes the database behind the engine's back, until the test ends at
// the latest, and waits for the hypervisors.
func (w *wire) nbctl(t *testing.T, args ...string) {
	t.Helper()
	t.Cleanup(func() {
		_, err := w.engine.Drift(context.WithoutCancel(t.Context()), "shop", true, engine.WaitHV)
		require.NoError(t, err)
	})
	_, err := w.lab.Sandbox().NBCtl(t.Context(), append([]string{"--wait=hv"}, args...)...)
	require.NoError(t, err)
	w.revalidate(t)
}

// row is the UUID of the only row of a table with this ovn-vpc:key.
func (w *wire) row(t *testing.T, table, key string) string {
	t.Helper()
	out, err := w.lab.Sandbox().NBCtl(t.Context(), "--bare", "--columns=_uuid", "find", table, `external_ids:ovn-vpc\:key="`+key+`"`)
	require.NoError(t, err)
	require.Len(t, strings.Fields(out), 1, "%s %s: %q", table, key, out)
	return strings.TrimSpace(out)
}

// repair lets the engine mend what nbctl has broken.
func (w *wire) repair(t *testing.T) {
	t.Helper()
	report, err := w.engine.Drift(t.Context(), "shop", true, engine.WaitHV)
	require.NoError(t, err)
	require.NotEmpty(t, report.Faults)
	require.True(t, report.Repaired)
	w.revalidate(t)
}
