package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// counting is a store that counts the ports that are read.
type counting struct {
	engine.Store
	ports int
}

func (c *counting) Read(ctx context.Context, queries ...nbdb.Query) (*nbdb.State, error) {
	state, err := c.Store.Read(ctx, queries...)
	if err == nil {
		c.ports += state.Len(nbdb.TableLogicalSwitchPort)
	}
	return state, err
}

// Who applies lists alone doesn't read who is attached, unless expectations or
// what the change opens may hang on it.
func TestListsAlone(t *testing.T) {
	opened := acl("shop", "db", "{number: 10, protocol: tcp, ports: [22, 5432], tiers: [app]}")
	guests := att("shop", "db-1", "db") + document("Attachment", "shop", "vpn", "tier: app, allowedAddresses: [192.0.2.0/24]")
	const routerPorts, all = 2, 4
	apply := func(f *fixture) (*counting, *engine.Result, error) {
		store := &counting{Store: f.NB}
		f.NB = store
		r, err := f.Apply(f.ctx, load(t, opened), false, engine.WaitNone)
		return store, r, err
	}
	t.Run("no attachment is read", func(t *testing.T) {
		f := newFixture(t, false)
		f.apply(guarded() + guests)
		store, r, err := apply(f)
		require.NoError(t, err)
		require.Equal(t, routerPorts, store.ports)
		require.Equal(t, "update ACL shop/db", r.VPCs[0].Changes[0].String())
		f.noDrift()
	})
	t.Run("an expectation is about an attachment", func(t *testing.T) {
		f := newFixture(t, false)
		f.apply(guarded() + guests + expectation("shop", "closed", "from: vpn, to: db-1, traffic: tcp/22, expect: deny"))
		store, _, err := apply(f)
		require.ErrorContains(t, err, "will not hold")
		require.Equal(t, routerPorts+all, store.ports)
	})
	t.Run("what it opens must be named", func(t *testing.T) {
		f := newFixture(t, false)
		f.apply(guarded() + guests)
		f.Engine = f.Confirming(nil)
		store, _, err := apply(f)
		require.ErrorContains(t, err, "the plan opens")
		require.Equal(t, all, store.ports)
	})
	t.Run("a router port has another type by now", func(t *testing.T) {
		f := newFixture(t, false)
		f.apply(guarded() + guests)
		f.nbctl("set", "logical_switch_port", "shop/db/rtr", `type=""`)
		_, _, err := apply(f)
		require.NoError(t, err)
		f.noDrift()
	})
}

// A rule whose row somebody has taken out is in force again once its list alone
// is applied: the tiers that use the list refer to the row that has come back.
func TestRepairedListIsInForce(t *testing.T) {
	f := newFixture(t, false)
	list := acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], tiers: [app]}")
	f.apply(guarded())
	rule := strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", "ACL", `external_ids:"ovn-vpc:key"=acl-rule/shop/db/ingress/10`))
	require.NotEmpty(t, rule)
	f.nbctl("remove", "Logical_Switch", "shop/db", "acls", rule, "--", "remove", "Port_Group", "ovnvpc.shop.db", "acls", rule)
	r, err := f.Apply(f.ctx, load(t, list), false, engine.WaitNone)
	require.NoError(t, err)
	require.Len(t, r.VPCs[0].Changes, 2)
	require.Equal(t, "repair ACL shop/db", r.VPCs[0].Changes[0].String())
	require.Equal(t, "follow Tier shop/db", r.VPCs[0].Changes[1].String())
	f.noDrift()
}

// What an edit of a list opens for addresses that attachments add to their tier's
// has to be confirmed too, where the edit looks at no attachments by itself.
func TestAnEditOfAListOpensForAllowedAddresses(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + document("Attachment", "shop", "vpn", "tier: app, allowedAddresses: [192.0.2.0/24]"))
	f.mirror()
	outside, err := reach.ParseOpening("outside -> db tcp 22")
	require.NoError(t, err)
	edited, _, err := f.Confirming([]reach.Opening{outside}).Edit(f.ctx, []engine.Edit{put(t, acl("shop", "db", "{number: 10, protocol: tcp, ports: [5432], tiers: [app]}, {number: 20, protocol: tcp, ports: [22], cidrs: [192.0.2.0/24]}"))}, false)
	require.NoError(t, err)
	require.ErrorContains(t, edited[0].Err, "app -> db")
}
