package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// The attachments of a VPC don't pass the limit of its offering, whichever of what
// brings the limit and of what brings an attachment comes first.
func TestLimitsOvertaken(t *testing.T) {
	offering := func(name, limits string) string {
		return "---\napiVersion: ovn-vpc/v1\nkind: VPCOffering\nmetadata: {name: " + name + "}\nspec: {capabilities: {distributedRouting: true}" + limits + "}\n"
	}
	const two, ten = ", limits: {attachments: 2}", ", limits: {attachments: 10}"
	in := func(offering string) string {
		return "---\napiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: shop}\nspec: {cidrs: [10.0.0.0/16]" + offering + "}\n"
	}
	more := att("shop", "c", "web")
	for name, c := range map[string]struct{ was, limit string }{
		"a VPC without an offering gets one":            {in(""), in(", offering: small")},
		"a VPC comes to an offering with a limit":       {in(", offering: open"), in(", offering: small")},
		"a VPC comes to an offering with a lower limit": {in(", offering: big"), in(", offering: small")},
		"the offering gets a limit":                     {in(", offering: open"), offering("open", two)},
		"the offering's limit is lowered":               {in(", offering: big"), offering("big", two)},
	} {
		for order, x := range map[string][2]string{"the limit first": {c.limit, more}, "the attachment first": {more, c.limit}} {
			for _, haste := range []bool{false, true} {
				if haste && x[1] != more {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, in haste: %t", name, order, haste), func(t *testing.T) {
					f := newFixture(t, false)
					f.apply(offering("open", "") + offering("small", two) + offering("big", ten) + c.was +
						tier("shop", "web", "10.0.0.0/24") + tier("shop", "app", "10.0.1.0/24") + att("shop", "a", "web") + att("shop", "b", "app"))
					fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
					slow.mirror()
					store := &overtaken{Store: slow.NB, comes: func() { fast.apply(x[0]) }}
					slow.NB = store
					var err error
					if haste {
						edit := create(t, more)
						edit.Hasty = true
						err = slow.edit(edit)[0].Err
					} else {
						_, err = slow.Apply(slow.ctx, load(t, x[1]), false, engine.WaitNone)
					}
					require.Equal(t, 1, store.commits)
					require.ErrorContains(t, err, "attachments")
					f.noDrift()
				})
			}
		}
	}
}

// Attachments on two tiers don't pass the limit together where somebody has deleted
// the row that they overtake each other by.
func TestLimitWithoutHistory(t *testing.T) {
	f := newFixture(t, false)
	f.apply("---\napiVersion: ovn-vpc/v1\nkind: VPCOffering\nmetadata: {name: small}\nspec: {capabilities: {distributedRouting: true}, limits: {attachments: 2}}\n" +
		"---\napiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: shop}\nspec: {cidrs: [10.0.0.0/16], offering: small}\n" +
		tier("shop", "web", "10.0.0.0/24") + tier("shop", "app", "10.0.1.0/24") + att("shop", "a", "web"))
	f.nbctl("--", "destroy", "Port_Group", string(translate.HistoryUUID("default", "shop")))
	fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
	fast.mirror()
	slow.mirror()
	attach := func(name, tier string) engine.Edit {
		x := create(t, att("shop", name, tier))
		x.Hasty = true
		return x
	}
	slow.NB = &overtaken{Store: slow.NB, comes: func() { require.NoError(t, fast.edit(attach("b", "app"))[0].Err) }}
	require.ErrorContains(t, slow.edit(attach("c", "web"))[0].Err, "attachments")
}
