package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// BenchmarkPlanOfManyTiers plans changes of a VPC of 200 tiers with a list of 25
// rules each: of one list, and of an attachment, of which nothing is reckoned.
func BenchmarkPlanOfManyTiers(b *testing.B) {
	const tiers, rules = 200, 25
	list := func(i, first int) string {
		var all []string
		for k := range rules {
			all = append(all, fmt.Sprintf("{number: %d, protocol: tcp, ports: [%d], cidrs: [10.%d.0.0/24]}", k+1, first+k, (i*7+k)%tiers))
		}
		return document("ACL", "big", fmt.Sprintf("l%d", i), "rules: ["+strings.Join(all, ", ")+"]")
	}
	var text strings.Builder
	text.WriteString(vpc("big", "10.0.0.0/8"))
	for i := range tiers {
		text.WriteString(list(i, 1000*(i%20)+1) + tierWith("big", fmt.Sprintf("t%d", i), fmt.Sprintf("cidrs: [10.%d.0.0/24], acl: l%d", i, i)))
	}
	c, err := nbdb.Dial(b.Context(), nbdb.Options{Remotes: labtest.NewTestSandbox(b, lab.SandboxOptions{NoNorthd: true}).NB()})
	require.NoError(b, err)
	defer c.Close()
	e := engine.New(c, "default", "cli")
	read := func(text string) *model.Set {
		set, ds := model.Load(model.Input{Name: "spec.yaml", Data: []byte(text)})
		require.False(b, ds.HasErrors(), ds.String())
		return set
	}
	_, err = e.Apply(b.Context(), read(text.String()), false, engine.WaitNone)
	require.NoError(b, err)
	for name, text := range map[string]string{"list": list(7, 30000), "attachment": att("big", "a", "t7")} {
		b.Run(name, func(b *testing.B) {
			set := read(text)
			for b.Loop() {
				p, err := e.Plan(b.Context(), set, false)
				require.NoError(b, err)
				require.Equal(b, name == "list", p.VPCs[0].Reach != nil)
			}
		})
	}
}
