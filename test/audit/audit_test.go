package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/test/audit"
)

// database is a real one with an engine on it.
type database struct {
	*engine.Engine
	t   *testing.T
	ctx context.Context
	box *lab.Sandbox
}

func newDatabase(t *testing.T, o lab.SandboxOptions) *database {
	t.Helper()
	box := labtest.NewTestSandbox(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	c, err := nbdb.Dial(ctx, nbdb.Options{Remotes: box.NB(), LeaderOnly: true})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &database{Engine: engine.New(c, "default", "cli"), t: t, ctx: ctx, box: box}
}

func load(t *testing.T, text string) *model.Set {
	t.Helper()
	set, ds := model.Load(model.Input{Name: "spec.yaml", Data: []byte(text)})
	require.False(t, ds.HasErrors(), ds.String())
	return set
}

func example(t *testing.T, name string) *model.Set {
	t.Helper()
	inputs, ds := model.ReadPaths([]string{"../../examples/" + name}, strings.NewReader(""))
	require.Empty(t, ds)
	set, ds := model.Load(inputs...)
	require.False(t, ds.HasErrors(), ds.String())
	return set
}

func (d *database) apply(set *model.Set, prune bool) {
	d.t.Helper()
	_, err := d.Apply(d.ctx, set, prune, engine.WaitNone)
	require.NoError(d.t, err)
}

// check audits the log of one of the servers.
func (d *database) check(name string) *audit.Report {
	d.t.Helper()
	r, err := audit.Check(filepath.Join(d.box.Dir(), name+".db"), audit.Options{Damages: audit.ByHand})
	require.NoError(d.t, err)
	return r
}

// work is some of everything that is done to a database.
func (d *database) work() {
	for _, name := range []string{"three-tier", "dual-stack", "shared-acl", "centralised", "offering", "plugged", "expectations", "migration"} {
		d.apply(example(d.t, name), false)
	}
	d.apply(load(d.t, network), false)
	_, err := d.box.NBCtl(d.ctx, "ls-add", "elsewhere", "--", "lsp-add", "shop/web", "neighbour", "--",
		"set", "Logical_Switch", "shop/web", "external_ids:colour=blue", "other_config:mcast_snoop=true")
	require.NoError(d.t, err)
	for i := range 20 {
		d.apply(load(d.t, document("Attachment", "shop", fmt.Sprintf("guest-%d", i), "tier: web")), false)
	}
	_, err = d.ReplaceACL(d.ctx, "shop", "web", "default-allow", engine.WaitNone)
	require.NoError(d.t, err)
	// What is pruned is named by what stays: that changes in a second transaction.
	d.apply(load(d.t, renumbered), true)
	_, err = d.Delete(d.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "db"}}, true, engine.WaitNone)
	require.NoError(d.t, err)
	_, err = d.box.NBCtl(d.ctx, "acl-del", "ward/new")
	require.NoError(d.t, err)
	_, err = d.Drift(d.ctx, "", true, engine.WaitNone)
	require.NoError(d.t, err)
}

// network has a list that names a tier, and a stateless one that all gateways
// are named in; renumbered has another tier instead of one of them, and its
// addresses are others'.
var (
	network = document("VPC", "", "ward", "cidrs: [10.9.0.0/16, 'fd09::/48']") +
		document("Tier", "ward", "old", "cidrs: [10.9.1.0/24], acl: loose") +
		document("Tier", "ward", "stay", "cidrs: [10.9.2.0/24, 'fd09:0:0:2::/64'], acl: named") +
		document("ACL", "ward", "loose", "stateless: true, rules: [{protocol: tcp, ports: [22]}]") +
		document("ACL", "ward", "named", "stateless: true, rules: [{tiers: [old, stay]}, {cidrs: [192.0.2.0/24]}]") +
		document("Attachment", "ward", "one", "tier: old") + document("Attachment", "ward", "two", "tier: stay") +
		document("Attachment", "ward", "ant", "tier: stay, addresses: [10.9.2.50]") + document("Attachment", "ward", "zebra", "tier: stay, addresses: [10.9.2.51]")
	renumbered = document("VPC", "", "ward", "cidrs: [10.9.0.0/16, 'fd09::/48']") +
		document("Tier", "ward", "new", "cidrs: [10.9.1.0/25], acl: named") +
		document("Tier", "ward", "stay", "cidrs: [10.9.2.0/24, 'fd09:0:0:2::/64'], acl: named") +
		document("ACL", "ward", "named", "stateless: true, rules: [{tiers: [stay, new]}]") +
		document("Attachment", "ward", "two", "tier: stay") +
		document("Attachment", "ward", "yak", "tier: stay, addresses: [10.9.2.50]") + document("Attachment", "ward", "bee", "tier: stay, addresses: [10.9.2.51]")
)

func document(kind, vpc, name, spec string) string {
	if vpc != "" {
		vpc = ", vpc: " + vpc
	}
	return "---\n{apiVersion: ovn-vpc/v1, kind: " + kind + ", metadata: {name: " + name + vpc + "}, spec: {" + spec + "}}\n"
}

func TestCleanRun(t *testing.T) {
	d := newDatabase(t, lab.SandboxOptions{})
	d.work()
	_, err := d.box.NBCtl(d.ctx, "--wait=sb", "sync")
	require.NoError(t, err)
	r := d.check("nb")
	require.Empty(t, r.Violations)
	require.Empty(t, r.Standing)
	require.NotEmpty(t, r.Damage, "acl-del")
	require.Greater(t, r.States, 30)
}

// A cluster keeps a log on each server, Raft's.
func TestCleanRunOfCluster(t *testing.T) {
	d := newDatabase(t, lab.SandboxOptions{NBServers: 3, NoNorthd: true})
	d.work()
	states := 0
	require.Eventually(t, func() bool {
		all := 0
		for _, name := range []string{"nb1", "nb2", "nb3"} {
			r := d.check(name)
			require.Empty(t, r.Violations, name)
			states = max(states, r.States)
			all += r.States
		}
		return all == 3*states
	}, time.Minute, 100*time.Millisecond, "followers are behind")
	require.Greater(t, states, 30)
}

// transact carries out operations as nobody of ours would.
func (d *database) transact(operations ...any) {
	d.t.Helper()
	text, err := json.Marshal(append([]any{"OVN_Northbound"}, operations...))
	require.NoError(d.t, err)
	out, err := d.box.Binaries().Run(d.ctx, "ovsdb-client", "transact", d.box.NB(), string(text))
	require.NoError(d.t, err)
	require.NotContains(d.t, out, "error", "%s", text)
}
