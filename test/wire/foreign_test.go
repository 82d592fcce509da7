package wire_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// foreignRows: a switch that somebody else made beside the VPCs, and a row of
// theirs on a tier's switch, stay as they are through apply, prune, repair and
// delete, and so does the traffic of its guests.
func (w *wire) foreignRows(t *testing.T) {
	ctx, nb := t.Context(), w.lab.Sandbox()
	run := func(args ...string) string {
		out, err := nb.NBCtl(ctx, args...)
		require.NoError(t, err)
		return out
	}
	// A switch first, then its ports: see the lab's own tests of OVN 26.03.
	run("--wait=sb", "ls-add", "foreign")
	run("lsp-add", "foreign", "foreign-1", "--", "lsp-set-addresses", "foreign-1", "0a:58:cb:00:71:01 203.0.113.1",
		"--", "lsp-add", "foreign", "foreign-2", "--", "lsp-set-addresses", "foreign-2", "0a:58:cb:00:71:02 203.0.113.2",
		"--", "acl-add", "foreign", "to-lport", "7", "icmp4", "allow-related",
		"--", "acl-add", "shop/web", "from-lport", "7", "ip4.dst == 203.0.113.9", "drop")
	var guests [2]*lab.Guest
	for i := range guests {
		var err error
		guests[i], err = w.lab.Hypervisors[i].Plug(ctx, lab.GuestSpec{
			Name: fmt.Sprintf("foreign-%d", i+1), InterfaceID: fmt.Sprintf("foreign-%d", i+1), MAC: fmt.Sprintf("0a:58:cb:00:71:%02x", i+1),
			Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)}), 24)}})
		require.NoError(t, err)
		require.NoError(t, guests[i].WaitInstalled(ctx))
	}
	require.NoError(t, guests[0].WaitPing(ctx, guests[1].Spec.Addresses[0].Addr()))
	for _, port := range []string{"foreign-1", "foreign-2"} {
		run("--timeout=60", "wait-until", "Logical_Switch_Port", port, "up=true")
	}
	rows := func() string {
		return run("list", "Logical_Switch", "foreign") + run("list", "Logical_Switch_Port", "foreign-1") + run("list", "Logical_Switch_Port", "foreign-2") +
			run("acl-list", "foreign") + fmt.Sprint(strings.Count(run("acl-list", "shop/web"), "203.0.113.9"))
	}
	before := rows()
	unchanged := func(what string) {
		t.Helper()
		require.Equal(t, before, rows(), what)
		received, err := guests[0].Ping(ctx, guests[1].Spec.Addresses[0].Addr(), 2)
		require.NoError(t, err)
		require.Equal(t, 2, received, what)
	}

	w.lists(t, open(), open(), list{})
	unchanged("apply")
	w.removeACL(t, "from-lport", "32010")()
	w.repair(t)
	unchanged("repair")
	set, faults := model.Load(model.Input{Name: "test", Data: []byte(`{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: mirror}, spec: {cidrs: [10.10.0.0/16, "fd00:10::/32"]}}`)})
	require.False(t, faults.HasErrors(), faults.String())
	result, err := w.engine.Apply(ctx, set, true, engine.WaitHV)
	require.NoError(t, err)
	require.True(t, result.Changed())
	unchanged("prune")
	_, err = w.engine.Delete(ctx, []model.ID{{Kind: model.KindVPC, Name: "mirror"}}, true, engine.WaitHV)
	require.NoError(t, err)
	unchanged("delete")
	require.NotContains(t, run("show"), "mirror")
}
