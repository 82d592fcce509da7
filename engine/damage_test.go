package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Specs that others have damaged are told of by the row and by what is wrong,
// never used; where there is a second copy a repair restores them, and else
// applying them again does. (cmd/ovn-vpc has the same at random.)
func TestDamagedSpecs(t *testing.T) {
	f := newFixture(t, false)
	spec := traced + "---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {limits: {tiers: 7}}}\n" +
		document("Expectation", "v", "e", "from: outside, to: b, traffic: tcp 99, expect: deny")
	f.apply(spec)
	good := f.dump()
	key := func(id string) string { return `external_ids:"ovn-vpc:` + id + `"` }
	for name, c := range map[string]struct {
		damage []string
		says   string // of drift
		stays  bool   // a repair alone does not mend it
	}{
		"absurd values":           {[]string{"set", "Logical_Router", "v", key("spec") + `="{\"metadata\":{\"name\":\"v\"},\"spec\":{\"cidrs\":[\"10.0.0.0/16\"],\"mtu\":-1}}"`}, "spec.mtu", false},
		"no address where one is": {[]string{"set", "Logical_Switch_Port", "v/a1", key("spec") + `="{\"metadata\":{\"name\":\"a1\",\"vpc\":\"v\"},\"spec\":{\"tier\":\"a\",\"addresses\":[\"\"]}}"`}, "Attachment v/a1", false},
		"of another resource":     {[]string{"set", "Logical_Switch", "v/a", key("spec") + `="{\"metadata\":{\"name\":\"b\",\"vpc\":\"v\"},\"spec\":{\"cidrs\":[\"10.0.1.0/24\"]}}"`}, "it is of Tier v/b, in a row of Tier v/a", false},
		"of another kind":         {[]string{"set", "Port_Group", "ovnvpc.v.a", key("spec") + `="{\"metadata\":{\"name\":\"a\",\"vpc\":\"v\"},\"spec\":{\"tier\":\"a\"}}"`}, "tier", true},
		"an offering, ours":       {[]string{"set", "NB_Global", ".", key("offering/small") + `="{\"owner\":\"default\",\"stored\":{\"metadata\":{\"name\":\"small\"},\"spec\":{\"limits\":{\"tiers\":-1}}}}"`}, "external_ids:ovn-vpc:offering/small", true},
		"an expectation":          {[]string{"set", "Logical_Router", "v", `external_ids:"ovn-vpc-expectation:e"=nonsense`}, "external_ids:ovn-vpc-expectation:e", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t = t
			f.nbctl(c.damage...)
			damaged := f.dump()
			d, err := f.Drift(f.ctx, "", false, engine.WaitNone)
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(d.Faults), c.says)
			require.Equal(t, damaged, f.dump())
			d, err = f.Drift(f.ctx, "", true, engine.WaitNone)
			require.NoError(t, err)
			require.NotEqual(t, c.stays, d.Repaired, "%+v", d.Faults)
			if c.stays {
				f.apply(spec)
			}
			f.noDrift()
			require.Equal(t, good, f.dump())
		})
	}
}

// What is stored and does not fit together any more is an error that says so.
func TestQuestionsAboutWhatIsDamaged(t *testing.T) {
	f := newFixture(t, false)
	f.apply(traced + document("Expectation", "v", "e", "from: outside, to: b, traffic: tcp 99, expect: deny"))
	damaged := func(err error) {
		t.Helper()
		var broken *engine.DamagedError
		require.ErrorAs(t, err, &broken)
		require.Equal(t, "v", broken.VPC)
	}
	f.nbctl("set", "Port_Group", "ovnvpc.v.b", `external_ids:"ovn-vpc:spec"=nonsense`)
	var missing *engine.InvalidError
	_, err := f.Verify(f.ctx, nil, "")
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "Tier v/b: ACL v/b is not there")
	_, err = f.Reach(f.ctx, nil, engine.ReachOptions{VPC: "v"})
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "ovn-vpc drift")
	f.apply(traced)
	f.noDrift()

	// Without its marks the switch is not read: its guests stand nowhere.
	f.nbctl("remove", "Logical_Switch", "v/a", "external_ids", `"ovn-vpc:owner"`)
	_, err = f.Trace(f.ctx, engine.TraceQuery{VPC: "v", From: "a1", To: "b1"})
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "Tier v/a: somebody has removed its rows")
	_, err = f.ReplaceACL(f.ctx, "v", "b", "a", engine.WaitNone)
	damaged(err)
	require.True(t, strings.Contains(err.Error(), `tier "a" is unknown`), err)
	_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)
	_, err = f.Trace(f.ctx, engine.TraceQuery{VPC: "v", From: "a1", To: "b1"})
	require.NoError(t, err)
	_, err = f.Get(f.ctx, engine.Filter{Kind: model.KindTier})
	require.NoError(t, err)
}
