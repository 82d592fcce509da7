package trace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/trace"
)

// summary is what ovn-trace says of a packet from one tier to another.
const summary = `ingress(dp="v/a", inport="a1") {
    next;
    ct_next(ct_state=new|trk) {
        next;
        outport = "v/a/rtr";
        output;
        egress(dp="v/a", inport="a1", outport="v/a/rtr") {
            output;
            /* output to "v/a/rtr", type "patch" */;
            ingress(dp="v", inport="v/a/gw") {
                icmp4 {
                    icmp4.type = 0;
                    next;
                };
                egress(dp="v/b", inport="v/b/rtr", outport="b1") {
                    output;
                    /* output to "b1", type "" */;
                };
            };
        };
    };
};
`

// FuzzReadSummary: whatever ovn-trace says, its verdict is one of those there
// are, and tells the ports of what is delivered alone.
func FuzzReadSummary(f *testing.F) {
	f.Add(summary, "v", "a1")
	f.Add("ingress(dp=v, inport=a1) {\n  reject {\n  };\n};\n", "v", "a1")
	f.Add("ingress(dp=\"v\") {\narp {\n", "v", "")
	f.Fuzz(func(t *testing.T, account, router, sender string) {
		v := trace.ReadSummary(account, router, sender)
		require.Contains(t, []trace.Outcome{trace.Delivered, trace.Dropped, trace.Rejected, trace.Answered, trace.NoHost}, v.Outcome)
		require.Equal(t, v.Outcome == trace.Delivered, len(v.Ports) > 0)
		require.True(t, v.Agrees(v))
	})
}
