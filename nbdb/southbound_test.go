package nbdb

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const southboundSchema = "/usr/share/ovn/ovn-sb.ovsschema"

func TestSouthbound(t *testing.T) {
	s := startServer(t, southboundSchema)
	c := dial(t, Options{Remotes: s.remote(), Database: Southbound})
	chassis := func(name string, encaps string) string {
		return `{"op":"insert","table":"Chassis","uuid-name":"` + name + `","row":{"name":"` + name + `","hostname":"` + name + `.example","encaps":["set",[` + encaps + `]]}}`
	}
	encap := func(id, chassis, kind string) string {
		return `{"op":"insert","table":"Encap","uuid-name":"` + id + `","row":{"chassis_name":"` + chassis + `","ip":"` + id + `","type":"` + kind + `"}}`
	}
	binding := func(key int, port, more string) string {
		return fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"%s","tunnel_key":%d,"datapath":["named-uuid","dp"]%s}}`, port, key, more)
	}
	s.transact(`["OVN_Southbound",{"op":"insert","table":"Datapath_Binding","uuid-name":"dp","row":{"tunnel_key":1}},` +
		encap("e1", "h1", "geneve") + "," + encap("e2", "h1", "vxlan") + "," + encap("e3", "h2", "vxlan") + "," +
		chassis("h1", `["named-uuid","e1"],["named-uuid","e2"]`) + "," + chassis("h2", `["named-uuid","e3"]`) + "," +
		binding(1, "shop/a", `,"chassis":["named-uuid","h1"],"up":true,"requested_chassis":["named-uuid","h1"],"additional_chassis":["named-uuid","h2"]`) + "," +
		binding(2, "shop/b", "") + "]")

	all, err := c.ReadChassis(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []Chassis{{"h1", "h1.example", []string{"geneve", "vxlan"}}, {"h2", "h2.example", []string{"vxlan"}}}, all)

	a := Binding{LogicalPort: "shop/a", Chassis: "h1", AdditionalChassis: []string{"h2"}, RequestedChassis: "h1", Up: true}
	b := Binding{LogicalPort: "shop/b"}
	bindings, err := c.ReadBindings(testContext(t))
	require.NoError(t, err)
	require.Equal(t, map[string]Binding{"shop/a": a, "shop/b": b}, bindings)
	bindings, err = c.ReadBindings(testContext(t), "shop/a", "none")
	require.NoError(t, err)
	require.Equal(t, map[string]Binding{"shop/a": a}, bindings)
	bindings, err = c.ReadBindings(testContext(t), "1", "2", "3", "4", "5", "6", "7", "shop/b")
	require.NoError(t, err)
	require.Equal(t, map[string]Binding{"shop/b": b}, bindings)
}

// Chassis tell in rows of their own how far they have come; before OVN 20.09 in
// the row of Chassis.
func TestChassisBehind(t *testing.T) {
	old := editSchemaOf(t, southboundSchema, func(tables map[string]any) { delete(tables, "Chassis_Private") })
	for table, schema := range map[string]string{"Chassis_Private": southboundSchema, "Chassis": old} {
		s := startServer(t, schema)
		c := dial(t, Options{Remotes: s.remote(), Database: Southbound})
		behind, err := c.ReadBehind(testContext(t), 5)
		require.NoError(t, err)
		require.Empty(t, behind)
		request := `["OVN_Southbound",{"op":"insert","table":"Encap","uuid-name":"e","row":{"chassis_name":"x","ip":"1","type":"geneve"}}`
		for name, reached := range map[string]int{"h1": 5, "h2": 4, "h3": 0, "h4": 6} {
			row := fmt.Sprintf(`{"name":"%s","nb_cfg":%d`, name, reached)
			if table == "Chassis" {
				row += `,"hostname":"h","encaps":["named-uuid","e"]`
			}
			request += `,{"op":"insert","table":"` + table + `","row":` + row + `}}`
		}
		s.transact(request + "]")
		behind, err = c.ReadBehind(testContext(t), 5)
		require.NoError(t, err)
		require.Equal(t, []string{"h2", "h3"}, behind, table)
	}
}
