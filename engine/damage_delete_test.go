package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// What can't be read goes with nothing that is deleted, and keeps what it refers to,
// unless that is told to repair: the error names the row. It is no matter whether it
// has been found out whose the row is.
func TestWhatCantBeReadGoesWithNothing(t *testing.T) {
	nonsense := func(table, row, key string) []string {
		return []string{"set", table, row, "external_ids:" + strings.ReplaceAll(key, ":", `\:`) + "=nonsense"}
	}
	const spec = "ovn-vpc:spec"
	attachment := [][]string{nonsense("Logical_Switch_Port", "v/b1", spec),
		{"remove", "Port_Group", "ovnvpc.v.b.attachments", "external_ids", `"ovn-vpc-attachment:b1"`}}
	named := [][]string{nonsense("Logical_Switch_Port", "of-c9", spec),
		{"remove", "Port_Group", "ovnvpc.v.b.attachments", "external_ids", `"ovn-vpc-attachment:c9"`}}
	tier := [][]string{nonsense("Logical_Switch", "v/b", spec), nonsense("Port_Group", "ovnvpc.v.b.attachments", "ovn-vpc:tier-spec")}
	list := [][]string{nonsense("Port_Group", "ovnvpc.v.a", spec)}
	expected := [][]string{nonsense("Logical_Router", "v", "ovn-vpc-expectation:e"), nonsense("Port_Group", "ovnvpc.v.default_deny", "ovn-vpc-expectation:e")}
	all := [][]string{}
	for _, how := range [][][]string{attachment, named, tier, list, expected} {
		all = append(all, how...)
	}
	const row = "the spec stored in "
	inB := []string{row + "Logical_Switch tier/v/b "}
	for name, c := range map[string]struct {
		how    [][]string
		what   model.ID
		says   []string
		stands bool // also where it is told to repair
	}{
		"VPC of a tier":          {tier, vpcID("v"), append(inB, "Tier v/b: "), false},
		"VPC of an attachment":   {attachment, vpcID("v"), []string{row + "Logical_Switch_Port address/v/"}, false},
		"VPC of a list":          {list, vpcID("v"), []string{"ACL v/a: " + row + "Port_Group acl/v/a "}, false},
		"VPC of an expectation":  {expected, vpcID("v"), []string{"Expectation v/e: " + row + "Logical_Router "}, false},
		"VPC of all kinds":       {all, vpcID("v"), append(inB, "Logical_Switch_Port address/v/", "Port_Group acl/v/a ", "ovn-vpc-expectation:e"), false},
		"tier of an attachment":  {attachment, tierID("v", "b"), []string{row + "Logical_Switch_Port address/v/"}, false},
		"tier of a named port":   {named, tierID("v", "b"), []string{row + "Logical_Switch_Port address/v/"}, false},
		"tier of two":            {append(attachment, named...), tierID("v", "b"), []string{row + "Logical_Switch_Port address/v/"}, false},
		"list of a tier":         {tier, aclID("v", "b"), inB, true},
		"list of a tier and all": {all, aclID("v", "b"), inB, true},
	} {
		for _, by := range []string{"delete", "edit", "edit in a mirror"} {
			t.Run(name+" by "+by, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, false)
				f.apply(damagedSpec + document("Attachment", "v", "c9", "tier: b, interfaceID: of-c9"))
				for _, how := range c.how {
					f.nbctl(how...)
				}
				if by == "edit in a mirror" {
					f.mirror()
				}
				del := func(repair, cascade bool) error {
					e := *f
					if repair {
						e.Engine = f.Repairing()
					}
					if by == "delete" {
						_, err := e.Delete(f.ctx, []model.ID{c.what}, cascade, engine.WaitNone)
						return err
					}
					x := remove(c.what, cascade)
					x.Lost = true
					return e.edit(x)[0].Err
				}
				before := f.dump()
				var broken *engine.DamagedError
				for _, cascade := range []bool{true, false} {
					err := del(false, cascade)
					require.Error(t, err)
					if cascade || !strings.Contains(err.Error(), "it is in use by ") {
						require.ErrorAs(t, err, &broken)
						for _, words := range append(c.says, "v", "delete --repair removes it") {
							require.ErrorContains(t, err, words)
						}
					}
					require.Equal(t, before, f.dump())
				}
				err := del(true, true)
				if c.stands {
					require.ErrorAs(t, err, &broken)
					require.ErrorContains(t, err, c.says[0])
					require.Equal(t, before, f.dump())
					return
				}
				require.NoError(t, err)
				if c.what.Kind == model.KindVPC {
					require.Empty(t, f.nbctl("list", "Port_Group")+f.nbctl("list", "ACL")+f.nbctl("show"))
				}
				f.noDrift()
			})
		}
	}
}

// Nor is a row deleted that it refers to otherwise.
func TestRulesOnASwitchThatCantBeRead(t *testing.T) {
	for _, mirrored := range []bool{false, true} {
		t.Run(fmt.Sprintf("mirror %t", mirrored), func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(traced)
			f.nbctl("set", "Logical_Switch", "v/b", `external_ids:"ovn-vpc:spec"=nonsense`)
			f.nbctl("set", "Port_Group", "ovnvpc.v.b.attachments", `external_ids:"ovn-vpc:tier-spec"=nonsense`)
			if mirrored {
				f.mirror()
			}
			before := f.dump()
			_, applied := f.Apply(f.ctx, load(t, acl("v", "b", "")), false, engine.WaitNone)
			for _, err := range []error{applied, f.edit(put(t, acl("v", "b", "")))[0].Err} {
				var broken *engine.DamagedError
				require.ErrorAs(t, err, &broken)
				require.ErrorContains(t, err, "Tier v/b: the spec stored in Logical_Switch tier/v/b can't be read: ")
			}
			require.Equal(t, before, f.dump())
			f.repair(traced + acl("v", "c", ""))
			f.noDrift()
		})
	}
}

// A prune that takes away a tier does the same, and an apply to other VPCs goes on.
func TestWhatCantBeReadIsNotPruned(t *testing.T) {
	f := newFixture(t, false)
	f.apply(traced)
	f.nbctl("set", "Logical_Switch_Port", "v/b1", `external_ids:"ovn-vpc:spec"=nonsense`)
	f.nbctl("remove", "Port_Group", "ovnvpc.v.b.attachments", "external_ids", `"ovn-vpc-attachment:b1"`)
	kept := ""
	for _, r := range load(t, traced).Resources {
		if r.ID() == vpcID("v") {
			kept = vpc("v", fmt.Sprint(r.Spec.(*model.VPCSpec).CIDRs[0]))
		}
	}
	r, err := f.Apply(f.ctx, load(t, kept+vpc("w", "10.0.0.0/8")), true, engine.WaitNone)
	var broken *engine.DamagedError
	require.ErrorAs(t, err, &broken)
	require.ErrorContains(t, err, "the spec stored in Logical_Switch_Port address/v/")
	require.Len(t, r.VPCs, 2)
	require.Equal(t, "w", r.VPCs[0].VPC)
	require.True(t, r.VPCs[0].Done)
	require.Zero(t, r.VPCs[1].Landed)
	require.Contains(t, f.nbctl("show"), "v/b1")
}

func vpcID(name string) model.ID { return model.ID{Kind: model.KindVPC, Name: name} }

// What stays and lacks a router that can't be read says so, and names that row.
func TestDeletionBesideARouterThatCantBeRead(t *testing.T) {
	f := newFixture(t, false)
	f.apply(damagedSpec)
	f.nbctl("set", "Logical_Router", "v", `external_ids:"ovn-vpc:spec"=nonsense`, "--",
		"set", "Port_Group", "ovnvpc.v.default_deny", `external_ids:"ovn-vpc:vpc-spec"=nonsense`)
	before := f.dump()
	_, err := f.Delete(f.ctx, []model.ID{aclID("v", "a")}, true, engine.WaitNone)
	require.ErrorAs(t, err, new(*engine.DamagedError))
	require.ErrorContains(t, err, "the spec stored in Logical_Router vpc/v can't be read: ")
	require.Equal(t, before, f.dump())
}
