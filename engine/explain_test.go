package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Every row that a spec becomes is explained by what is seen of it, stored or
// planned.
func TestExplain(t *testing.T) {
	f := newFixture(t, false)
	spec := strings.Replace(traced, "ports: [22]}", "ports: [22]}\n    - {number: 7, action: deny, protocol: udp, log: true}", 1)
	spec = strings.Replace(spec, "{number: 10, protocol: tcp,", "{number: 10, log: true, protocol: tcp,", 1)
	set := load(t, spec)
	nowhere := engine.New(engine.Nowhere{}, "default", "cli")
	before, err := f.Explain(f.ctx, "v/a/ingress/10", nil)
	require.NoError(t, err)
	require.Empty(t, before)
	f.apply(spec)
	state, err := f.NB.Read(f.ctx, nbdb.Query{Table: nbdb.TableACL}, nbdb.Query{Table: nbdb.TableLogicalSwitchPort}, nbdb.Query{Table: nbdb.TableLogicalSwitch})
	require.NoError(t, err)
	ask := func(e *engine.Engine, text string) engine.Explanation {
		found, err := e.Explain(f.ctx, text, set)
		require.NoError(t, err)
		require.Len(t, found, 1, text)
		return found[0]
	}
	labels := 0
	for _, row := range nbdb.All[*nbdb.ACL](state) {
		texts := []string{string(row.UUID), string(row.UUID[:8]), "0x" + string(row.UUID[:8]), *row.Name, fmt.Sprintf(`|INFO|name="%s", verdict=drop`, *row.Name)}
		require.LessOrEqual(t, len(*row.Name), 63)
		if row.Label != 0 {
			labels++
			require.Equal(t, "allow-related", row.Action)
			texts = append(texts, fmt.Sprint(row.Label), fmt.Sprintf("%08x", row.Label))
		}
		for _, text := range texts {
			for _, e := range []*engine.Engine{f.Engine, nowhere} {
				found := ask(e, text)
				require.Equal(t, row.UUID, found.Row, text)
				require.Equal(t, "v", found.VPC)
				require.Equal(t, row.ExternalIDs["ovn-vpc:key"], found.Key)
				if found.Resource != "VPC v" { // its built-in lists stand in no file
					require.Equal(t, "spec.yaml", found.File, text)
				}
			}
		}
	}
	require.Equal(t, 1, labels, "of a logged rule that is tracked")
	for _, row := range nbdb.All[*nbdb.LogicalSwitchPort](state) {
		found := ask(f.Engine, string(row.UUID))
		require.Regexp(t, "^(Attachment v/(a1|a2|b1|b2)|Tier v/(a|b|empty))$", found.Resource)
		require.Positive(t, found.Line)
	}
	rule := ask(f.Engine, "v/a/ingress/10")
	require.Equal(t, "a/rule 10 (spec.yaml:27)", rule.Decision.String())
	stored, err := f.Explain(f.ctx, "v/a/ingress/10", nil)
	require.NoError(t, err)
	require.Equal(t, "a/rule 10", stored[0].Decision.String())
}
