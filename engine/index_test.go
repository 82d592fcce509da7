package engine_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Planned together with others, a VPC's part is what it is alone, down to the
// guards and what it opens; and it relies on the tiers, lists and users that are
// the VPC's.
func TestPartsArePlannedAsAlone(t *testing.T) {
	f := newFixture(t, false)
	now := time.Now()
	f.Now = func() time.Time { return now }
	f.Rand = func() uint64 { return 7 }
	text := guarded() + expectation("shop", "open", "from: app, to: db, traffic: tcp 5432, expect: allow")
	f.apply(text + strings.ReplaceAll(text, "shop", "lab"))

	change := acl("shop", "db", "{number: 20, protocol: tcp, ports: [80, 5432], tiers: [app]}") + tier("shop", "web", "10.0.3.0/24") + att("shop", "web-1", "web")
	both, err := f.Plan(f.ctx, load(t, change+strings.ReplaceAll(change, "shop", "lab")), false)
	require.NoError(t, err)
	require.Len(t, both.VPCs, 2)
	for _, part := range both.VPCs {
		alone, err := f.Plan(f.ctx, load(t, strings.ReplaceAll(change, "shop", part.VPC)), false)
		require.NoError(t, err)
		require.Len(t, alone.VPCs, 1)
		require.True(t, reflect.DeepEqual(part.Transactions, alone.VPCs[0].Transactions), "VPC %s: transactions differ", part.VPC)
		require.NotEmpty(t, part.Reach.Opens)
		require.Len(t, alone.VPCs[0].Reach.Opens, len(part.Reach.Opens))

		digests, users := 0, 0
		for _, g := range part.Transactions[0].Guards {
			if g.Includes["ovn-vpc:digest"] != "" {
				digests++
			}
			if g.Match == "acls" {
				users++
				require.Equal(t, []nbdb.UUID{translate.SwitchUUID(f.Owner, part.VPC, "db")}, g.Rows)
			}
		}
		require.Equal(t, 5, digests, "of the VPC, two tiers and two lists")
		require.Equal(t, 1, users)
	}

	gone, err := f.PlanDelete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "lab"}}, true)
	require.NoError(t, err)
	homes := 0
	for _, g := range gone.VPCs[0].Transactions[0].Guards {
		if g.Table == "Port_Group" && g.Includes["ovn-vpc:vpc"] == "lab" {
			homes += len(g.Rows)
		}
	}
	require.Equal(t, 6, homes, "of two lists, the built-in ones and two tiers")
}
