package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// However long what others have written is, what is told of it is short.
func TestDamageIsToldBriefly(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	spec := func(text string) string {
		return `external_ids:"ovn-vpc:spec"="` + strings.ReplaceAll(text, `"`, `\"`) + `"`
	}
	for name, how := range map[string][]string{
		"VPC's name":        {"set", "Logical_Router", "v", spec(`{"metadata":{"name":"` + long + `"},"spec":{"cidrs":["10.0.0.0/16"]}}`)},
		"tier's name":       {"set", "Logical_Switch", "v/a", spec(`{"metadata":{"name":"` + long + `","vpc":"v"},"spec":{"cidrs":["10.0.1.0/24"]}}`)},
		"attachment's name": {"set", "Logical_Switch_Port", "v/a1", spec(`{"metadata":{"name":"` + long + `","vpc":"v"},"spec":{"tier":"a","addresses":["10.0.1.10"]}}`)},
		"attachment's VPC":  {"set", "Logical_Switch_Port", "v/a1", spec(`{"metadata":{"name":"a1","vpc":"` + long + `"},"spec":{"tier":"a","addresses":["10.0.1.10"]}}`)},
		"prefix":            {"set", "Logical_Switch", "v/a", spec(`{"metadata":{"name":"a","vpc":"v"},"spec":{"cidrs":["` + long + `"]}}`)},
		"field":             {"set", "Port_Group", "ovnvpc.v.a", spec(`{"metadata":{"name":"a","vpc":"v"},"spec":{"` + long + `":1}}`)},
		"key":               {"set", "Port_Group", "ovnvpc.v.a", spec(`nonsense`), `external_ids:"ovn-vpc:key"=` + long},
		"port's name":       {"set", "Logical_Switch_Port", "v/a1", spec(`nonsense`), "name=" + long},
		"expectation":       {"set", "Logical_Router", "v", `external_ids:"ovn-vpc-expectation:` + long + `"=nonsense`},
		"offering":          {"set", "NB_Global", ".", `external_ids:"ovn-vpc:offering/small"="{\"owner\":\"default\",\"stored\":{\"metadata\":{\"name\":\"` + long + `\"},\"spec\":{}}}"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, false)
			f.apply(damagedSpec)
			f.nbctl(how...)
			var told []string
			f.LeftOut = func(_ string, d model.Diagnostic) { told = append(told, d.String()) }
			_, err := f.Get(f.ctx, engine.Filter{})
			require.NoError(t, err)
			require.NotEmpty(t, told)
			d, err := f.Drift(f.ctx, "", false, engine.WaitNone)
			require.NoError(t, err)
			for _, x := range d.Faults {
				told = append(told, x.Problem)
				if x.Kind == engine.DriftUnreadable {
					told = append(told, x.Resource+x.Key+x.Name)
				}
			}
			p, err := f.Plan(f.ctx, load(t, damagedSpec), false)
			if err == nil {
				told = append(told, p.Diagnostics.String())
			}
			_, applied := f.Apply(f.ctx, load(t, damagedSpec), false, engine.WaitNone)
			_, deleted := f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "v"}}, true, engine.WaitNone)
			for _, err := range []error{err, applied, deleted} {
				if err != nil {
					told = append(told, err.Error())
				}
			}
			for _, text := range told {
				require.Less(t, len(text), 2000, text[:min(len(text), 300)])
			}
		})
	}
}
