package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// TestNamesOfManyPorts has so many attachments that the names of all ports are
// looked at: those of other owners, of another VPC, and of ports without marks.
func TestNamesOfManyPorts(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("other", "10.1.0.0/16") + tier("other", "web", "10.1.0.0/24") + document("Attachment", "other", "a", "tier: web, interfaceID: in-other"))
	f.nbctl("ls-add", "foreign", "--", "lsp-add", "foreign", "plain", "--", "lsp-add", "foreign", "theirs",
		"--", "set", "Logical_Switch_Port", "theirs", "external_ids:ovn-vpc\\:owner=somebody", "external_ids:ovn-vpc\\:vpc=shop")
	text := vpc("shop", "10.2.0.0/16") + tier("shop", "web", "10.2.0.0/24")
	for i := range 40 {
		text += att("shop", fmt.Sprintf("a%d", i), "web")
	}
	for _, name := range []string{"in-other", "plain", "theirs"} {
		f.refused(text+document("Attachment", "shop", "b", "tier: web, interfaceID: "+name), fmt.Sprintf("%q", name))
	}
	f.apply(text)
	f.noDrift()
}

// TestWhatFollowsIsNoRepair tells a tier that goes with its list from one whose
// rows somebody has damaged.
func TestWhatFollowsIsNoRepair(t *testing.T) {
	f := newFixture(t, false)
	text := vpc("shop", "10.0.0.0/16") + document("ACL", "shop", "list", "rules: [{number: 1, direction: ingress, action: allow, protocol: tcp}]") +
		tierWith("shop", "web", "cidrs: [10.0.0.0/24], acl: list") + att("shop", "a", "web")
	f.apply(text)
	changes := func(number int) string {
		again := strings.Replace(text, "rules: [", fmt.Sprintf("rules: [{number: %d, direction: ingress, action: deny, protocol: udp}, ", number), 1)
		plan, err := f.Plan(f.ctx, load(t, again), false)
		require.NoError(t, err)
		return fmt.Sprint(plan.VPCs[0].Changes)
	}
	require.Equal(t, "[update ACL shop/list follow Tier shop/web]", changes(2))
	f.nbctl("set", "Logical_Switch", "shop/web", "other_config:mcast_snoop=true")
	require.Equal(t, "[update ACL shop/list repair Tier shop/web]", changes(3))
	_, err := f.Apply(f.ctx, load(t, text), false, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, "[update ACL shop/list follow Tier shop/web]", changes(4))
}
