package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// A row of ours that somebody has given to another installation is theirs: whatever
// would bring it back is refused with it, and nothing changes or deletes it.
func TestRowsThatAreGivenAway(t *testing.T) {
	const theirs = `belongs to the installation "other"`
	const spec = `cidrs: [10.1.0.0/24, "fd00:0:0:1::/64"]`
	text := document("VPC", "", "v", `cidrs: [10.0.0.0/8, "fd00::/48"]`) +
		document("ACL", "v", "l", "rules: [{protocol: tcp, ports: [80]}]") +
		tierWith("v", "a", spec+", acl: l") + att("v", "x", "a") + att("v", "y", "a")
	for _, row := range []struct{ table, key, of string }{
		{nbdb.TableLogicalRouter, "vpc/v", "VPC v"},
		{nbdb.TableLogicalRouterPolicy, "", "VPC v"},
		{nbdb.TableLogicalRouterPort, "", "Tier v/a"},
		{nbdb.TableLogicalSwitch, "tier/v/a", "Tier v/a"},
		{nbdb.TableLogicalSwitchPort, "address/v/", "Attachment v/"},
		{nbdb.TableLogicalSwitchPort, "tier-router-port/", "Tier v/a"},
		{nbdb.TableDHCPOptions, "", "Tier v/a"},
		{nbdb.TableACL, "acl-rule/v/l/", "ACL v/l"},
		{nbdb.TableACL, "acl-default/v/l/", "ACL v/l"},
		{nbdb.TablePortGroup, "acl/v/l", ""}, // it has no second copy,
		{nbdb.TablePortGroup, "tier-registry/v/a", "Tier v/a"},
		{nbdb.TablePortGroup, "acl/v/default-deny", "VPC v"},
	} {
		for _, mirrored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s, mirror %t", row.table, row.key, mirrored), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, false)
				f.apply(text)
				uuid := f.ownedRow(row.table, row.key)
				f.nbctl("set", row.table, string(uuid), `external_ids:ovn-vpc\:owner=other`)
				given := f.nbctl("list", row.table, string(uuid))
				if mirrored {
					f.mirror()
				}
				same := func(way string) {
					require.Equal(t, given, f.nbctl("list", row.table, string(uuid)), way)
				}
				if row.of != "" {
					before := f.dump()
					_, err := f.Drift(f.ctx, "", true, engine.WaitNone)
					requireCode(t, err, model.CodeTaken, row.of, string(uuid), theirs)
					require.Equal(t, before, f.dump())
					d, err := f.Drift(f.ctx, "", false, engine.WaitNone)
					require.NoError(t, err)
					require.Contains(t, fmt.Sprint(d.Notes), theirs)
				}
				_, err := f.Apply(f.ctx, load(t, text), false, engine.WaitNone)
				requireCode(t, err, model.CodeTaken, string(uuid), theirs)
				same("apply")
				for _, e := range []engine.Edit{put(t, att("v", "z", "a")), put(t, document("ACL", "v", "l", "rules: [{protocol: udp}]")),
					put(t, tierWith("v", "a", spec+", acl: default-allow"))} {
					f.named(f.oneEdit(e))
					same(e.ID.String())
				}
				_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "v"}}, true, engine.WaitNone)
				f.named(err)
				same("delete")
			})
		}
	}
}

// oneEdit is how an edit alone ends.
func (f *fixture) oneEdit(e engine.Edit) error {
	edited, _, err := f.Edit(f.ctx, []engine.Edit{e}, false)
	if err == nil {
		err = edited[0].Err
	}
	return err
}

// named demands that what failed failed for what is in the way, not for being overtaken
// again and again.
func (f *fixture) named(err error) {
	require.False(f.t, errors.As(err, new(*engine.ConflictError)), err)
}

// ownedRow is a row of a table whose key begins with a text.
func (f *fixture) ownedRow(table, key string) nbdb.UUID {
	state, err := f.NB.Read(f.ctx, nbdb.Query{Table: table})
	require.NoError(f.t, err)
	for _, r := range state.Rows(table) {
		if k := r.IDs()["ovn-vpc:key"]; k != "" && strings.HasPrefix(k, key) {
			return r.ID()
		}
	}
	require.Fail(f.t, "no such row", "%s %s", table, key)
	return ""
}
