package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// FuzzExplain: whatever a text of OVN's says, explain ends, tells of each row
// once, and of a rule that is named in a line of its own in any case.
func FuzzExplain(f *testing.F) {
	for _, text := range []string{
		"v/a/ingress/10", "0x0badcafe", "4294967295", "00000000-0000-0000-0000-000000000000",
		`2026-01-01T00:00:00.000Z|00001|acl_log(ovn_pinctrl0)|INFO|name="v/a/ingress/20", verdict=reject, severity=info, direction=to-lport: tcp`,
		"ingress(dp=\"v/a\", inport=\"a1\")\n 8. ls_in_acl (northd.c:1): reg0[7] == 1 && (tcp.dst == 81), priority 30998, uuid 0badcafe",
		"Datapath: \"v/b\" (0b5e)  Pipeline: egress\n  table=4 (ls_out_acl         ), priority=30999 , match=(reg8[16] == 1 && (tcp && tcp.dst == 22)), action=(next;)",
		"ls_out_acl_eval: , priority 99999999999999999999",
	} {
		f.Add(text)
	}
	set, found := model.Load(model.Input{Name: "spec.yaml", Data: []byte(traced)})
	require.Empty(f, found.Errors())
	e := engine.New(engine.Nowhere{}, "default", "cli")
	f.Fuzz(func(t *testing.T, text string) {
		explained, err := e.Explain(t.Context(), text+"\nv/a/ingress/10\n", set)
		require.NoError(t, err)
		rows, named := map[string]bool{}, false
		for _, x := range explained {
			require.False(t, rows[string(x.Row)], "%s twice", x.Row)
			rows[string(x.Row)] = true
			named = named || x.Name == "v/a/ingress/10"
		}
		require.True(t, named)
	})
}
