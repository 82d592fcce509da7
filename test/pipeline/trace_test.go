package pipeline_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Every example, between all ends: what a trace of the database says, a trace of
// the plan for an empty one and OVN's own program are one.
func TestTraceIsWhatOVNSays(t *testing.T) {
	o := newOVN(t)
	examples, err := filepath.Glob("../../examples/*/README.md")
	require.NoError(t, err)
	tally := map[bool]int{}
	for _, readme := range examples {
		dir := filepath.Dir(readme)
		t.Run(filepath.Base(dir), func(t *testing.T) { o.traceExample(t, dir, tally) })
	}
	require.NotZero(t, tally[true])
	require.NotZero(t, tally[false])
}

func (o *ovn) traceExample(t *testing.T, dir string, tally map[bool]int) {
	inputs, found := model.ReadPaths([]string{dir}, os.Stdin)
	require.Empty(t, found)
	set, found := model.Load(inputs...)
	require.False(t, found.HasErrors(), found.String())
	if len(set.VPCs()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := o.engine.Apply(ctx, set, false, engine.WaitSB)
	require.NoError(t, err)
	nowhere := engine.New(engine.Nowhere{}, "default", "cli")
	tr, err := o.startTracer(ctx)
	require.NoError(t, err)
	asked := 0
	for _, vpc := range set.VPCs() {
		for _, q := range queriesOf(set, vpc) {
			stored, err := o.engine.Trace(ctx, q)
			if err != nil {
				require.ErrorContains(t, err, "no packet of") // of one family
				continue
			}
			var accounts []string
			require.NoError(t, stored.AskOVN(func(flow string) (string, error) {
				if asked++; asked%(manyStates/10) == 0 {
					_, err := tr.stop(ctx)
					require.NoError(t, err)
					tr, err = o.startTracer(ctx)
					require.NoError(t, err)
				}
				account, err := tr.call("trace", flow)
				accounts = append(accounts, account)
				require.NoError(t, err)
				return tr.call("trace", "--summary", flow)
			}))
			for i, p := range stored.Paths {
				require.True(t, p.OVN.Agrees, "%+v: %+v", q, p)
				tally[p.Passes]++
				o.explains(t, accounts[i], p)
			}
			q.Set = set
			planned, err := nowhere.Trace(ctx, q)
			require.NoError(t, err)
			require.Equal(t, stored.Reachable, planned.Reachable, "%+v", q)
			require.Len(t, planned.Paths, len(stored.Paths))
		}
		require.NoError(t, o.remove(ctx, vpc))
	}
	complaints, err := tr.stop(ctx)
	require.NoError(t, err)
	require.Empty(t, complaints)
}

// explains finds what decides about a packet in ovn-trace's account of it.
func (o *ovn) explains(t *testing.T, account string, p engine.TracePath) {
	found, err := o.engine.Explain(t.Context(), account, nil)
	require.NoError(t, err)
	for _, h := range p.Hops {
		if h.Row != "" {
			require.True(t, slices.ContainsFunc(found, func(x engine.Explanation) bool { return x.Row == h.Row }), "%+v\n%s", h, account)
		}
	}
}

// queriesOf are questions between all tiers of a VPC and outside.
func queriesOf(set *model.Set, vpc string) []engine.TraceQuery {
	ends := []string{"outside"}
	for _, r := range set.Resources {
		if spec, ok := r.Spec.(*model.AttachmentSpec); ok && r.Metadata.VPC == vpc && !slices.Contains(ends, "tier/"+spec.Tier) {
			ends = append(ends, "tier/"+spec.Tier)
		}
	}
	var out []engine.TraceQuery
	for _, from := range ends {
		for _, to := range ends {
			for _, traffic := range []string{"", "tcp/22", "tcp/80, 443, 8080, 5432", "udp/53", "protocol 47", "udp fragments"} {
				if from != to {
					out = append(out, engine.TraceQuery{VPC: vpc, From: from, To: to, Traffic: traffic})
				}
			}
		}
	}
	return out
}
