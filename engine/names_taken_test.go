package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// unchanged counts the transactions that a database is asked for.
type unchanged struct {
	engine.Store
	commits int
}

func (u *unchanged) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	u.commits++
	return u.Store.Commit(ctx, p, bump)
}

// Whatever would bring back a row whose name somebody else's has taken meanwhile is
// refused with that name and whose row it is, before anything is tried.
func TestNamesThatAreTakenWhileTheirRowsAreGone(t *testing.T) {
	const spec = `cidrs: [10.1.0.0/16], acl: `
	list := document("ACL", "v", "l", "stateless: true, rules: [{protocol: tcp}]")
	first := vpc("v", "10.0.0.0/8") + list + tierWith("v", "a", spec+"l") + tier("v", "b", "10.2.0.0/24") + att("v", "x", "a")
	id := func(kind model.Kind, name string) model.ID { return model.ID{Kind: kind, VPC: "v", Name: name} }
	ways := map[string]func(f *fixture, attached string) error{
		"plan": func(f *fixture, attached string) error {
			_, err := f.Plan(f.ctx, load(f.t, attached), false)
			return err
		},
		"apply": func(f *fixture, attached string) error {
			_, err := f.Apply(f.ctx, load(f.t, attached), false, engine.WaitNone)
			return err
		},
		"prune": func(f *fixture, attached string) error {
			_, err := f.Apply(f.ctx, load(f.t, vpc("v", "10.0.0.0/8")+list+tierWith("v", "a", spec+"l")+att("v", "x", "a")), true, engine.WaitNone)
			return err
		},
		"replace": func(f *fixture, attached string) error {
			_, err := f.ReplaceACL(f.ctx, "v", "a", model.ACLDefaultAllow, engine.WaitNone)
			return err
		},
		"rollback": func(f *fixture, attached string) error {
			_, err := f.Rollback(f.ctx, "v", engine.RollbackOptions{}, engine.WaitNone)
			return err
		},
		"planned rollback": func(f *fixture, attached string) error {
			_, err := f.PlanRollback(f.ctx, "v", engine.RollbackOptions{})
			return err
		},
		"repair": func(f *fixture, attached string) error {
			_, err := f.Drift(f.ctx, "v", true, engine.WaitNone)
			return err
		},
		"deletion": func(f *fixture, attached string) error {
			_, err := f.Delete(f.ctx, []model.ID{id(model.KindTier, "b")}, true, engine.WaitNone)
			return err
		},
		"edited list": func(f *fixture, attached string) error {
			return f.edit(put(f.t, tierWith("v", "a", spec+"default-deny")))[0].Err
		},
		"edited attachment": func(f *fixture, attached string) error { return f.edit(put(f.t, attached))[0].Err },
	}
	for name, attached := range map[string]string{"ovnvpc.v.a.attachments": "x-6", "ovnvpc.v.a.attachments.2": "x-0"} {
		for _, mirrored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, mirror %t", name, mirrored), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, false)
				f.apply(first)
				f.apply(tierWith("v", "a", spec+"default-allow"))
				f.apply(tierWith("v", "a", spec+"l"))
				f.nbctl("pg-del", name, "--", "pg-add", name)
				if mirrored {
					f.mirror()
				}
				before, nb := f.dump(), &unchanged{Store: f.NB}
				f.NB = nb
				for way, try := range ways {
					nb.commits = 0
					err := try(f, att("v", attached, "a"))
					require.Error(t, err, way)
					requireCode(t, err, model.CodeTaken, "Tier v/a", fmt.Sprintf("%q", name), "another tool")
					require.Zero(t, nb.commits, way)
				}
				require.Equal(t, before, f.dump())
				d, err := f.Drift(f.ctx, "v", false, engine.WaitNone)
				require.NoError(t, err)
				require.Contains(t, fmt.Sprint(d.Notes), fmt.Sprintf("the name %q is taken by a row of Port_Group of another tool", name))
			})
		}
	}
}

// So is what would bring back a port, or a first one, and a plan says it too.
func TestPortNamesThatAreTaken(t *testing.T) {
	for _, mirrored := range []bool{false, true} {
		t.Run(fmt.Sprintf("mirror %t", mirrored), func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(vpc("v", "10.0.0.0/8") + tier("v", "a", "10.1.0.0/24") + att("v", "x", "a"))
			f.nbctl("lsp-del", "v/x", "--", "ls-add", "foreign", "--", "lsp-add", "foreign", "v/x", "--", "lsp-add", "foreign", "v/y")
			if mirrored {
				f.mirror()
			}
			before := f.dump()
			for _, name := range []string{"x", "y"} {
				_, err := f.Plan(f.ctx, load(t, att("v", name, "a")), false)
				requireCode(t, err, model.CodeTaken, "Attachment v/"+name, `"v/`+name+`"`, "another tool")
			}
			_, err := f.Drift(f.ctx, "", true, engine.WaitNone)
			requireCode(t, err, model.CodeTaken, "Attachment v/x", `"v/x"`, "another tool")
			require.Equal(t, before, f.dump())
			f.nbctl("lsp-del", "v/x")
			_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
			require.NoError(t, err)
			f.noDrift()
		})
	}
}

// A plan that was kept tells whose row has taken a name since it was made.
func TestNamesThatAreTakenSinceThePlan(t *testing.T) {
	base := vpc("v", "10.0.0.0/8") + tier("v", "a", "10.1.0.0/24")
	for name, c := range map[string]struct {
		wanted string
		take   func(f *fixture)
		want   string
	}{
		"switch port": {att("v", "x", "a"), func(f *fixture) { f.nbctl("ls-add", "foreign", "--", "lsp-add", "foreign", "v/x") },
			`the name "v/x" is taken by a row of Logical_Switch_Port of another tool`},
		"switch port of another VPC": {att("v", "x", "a"), func(f *fixture) {
			f.apply(vpc("w", "10.0.0.0/8") + tier("w", "a", "10.1.0.0/24") + document("Attachment", "w", "y", "tier: a, interfaceID: v/x"))
		}, `the name "v/x" is taken by a row of Logical_Switch_Port of another VPC`},
		"router port": {tier("v", "b", "10.2.0.0/24"), func(f *fixture) {
			f.nbctl("lr-add", "foreign", "--", "lrp-add", "foreign", "v/b/gw", "00:00:00:00:00:01", "10.9.0.1/24")
		}, `the name "v/b/gw" is taken by a row of Logical_Router_Port of another tool`},
		"port group": {document("ACL", "v", "l", "rules: [{protocol: tcp}]"), func(f *fixture) { f.nbctl("pg-add", "ovnvpc.v.l") },
			`the name "ovnvpc.v.l" is taken by a row of Port_Group of another tool`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(base)
			p, err := f.Plan(f.ctx, load(t, c.wanted), false)
			require.NoError(t, err)
			c.take(f)
			before := f.dump()
			_, err = f.ApplyPlan(f.ctx, p, engine.WaitNone)
			var conflict *engine.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.EqualError(t, err, "the plan is stale: "+c.want+" (make it anew with ovn-vpc plan)")
			require.Equal(t, before, f.dump())
		})
	}
}
