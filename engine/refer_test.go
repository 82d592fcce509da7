package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// referring are two tiers, of which the list of one names the other.
const referring = `
{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/16]}}
---
{apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: l, vpc: shop}, spec: {rules: [{number: 10, protocol: tcp, tiers: [web]}, {number: 20, protocol: udp}]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: web, vpc: shop}, spec: {cidrs: [10.0.1.0/24]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: db, vpc: shop}, spec: {cidrs: [10.0.2.0/24], acl: l}}
---
{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: w, vpc: shop}, spec: {tier: web}}
`

// A tier that is deleted by its second copy is taken out of the rules of a list, and
// these out of the switches of the tiers that use the list.
func TestDeleteLostTierThatAListNames(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring)
	f.nbctl("set", "Logical_Switch", "shop/web", `external_ids:"ovn-vpc:spec"=nonsense`)
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "web"}}, true, engine.WaitNone)
	require.NoError(t, err)
	f.noDrift()
}
