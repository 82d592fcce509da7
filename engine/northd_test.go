package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// ovn-northd 26.03 aborts when it sees switches deleted and others inserted at
// once. Whatever comes and goes, by one writer or the next, it has to survive.
func TestNorthdSurvivesTiersThatComeAndGo(t *testing.T) {
	f := newFixture(t, true)
	base := vpc("shop", "10.0.0.0/8")
	for i := range 12 {
		text := base
		for k := range 3 {
			name := fmt.Sprintf("t%d-%d", i, k)
			text += tier("shop", name, fmt.Sprintf("10.%d.%d.0/24", i, k)) + att("shop", name, name)
		}
		r, err := f.Apply(f.ctx, load(t, text), true, engine.WaitNone)
		require.NoError(t, err)
		if i > 0 {
			require.Equal(t, 2, r.VPCs[0].Landed, "deletions ahead, creations behind")
		}
	}
	for i := range 6 {
		_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
		require.NoError(t, err)
		r, err := f.Apply(f.ctx, load(t, base+tier("shop", "web", fmt.Sprintf("10.%d.0.0/24", i))), false, engine.WaitSB)
		require.NoError(t, err)
		require.True(t, r.Changed())
	}
	running, err := f.sandbox.Running()
	require.NoError(t, err)
	require.True(t, running, "ovn-northd has ended")
}

func TestWaitSBWithoutAChange(t *testing.T) {
	f := newFixture(t, true)
	set := example(t, "three-tier")
	_, err := f.Apply(f.ctx, set, false, engine.WaitNone)
	require.NoError(t, err)
	_, err = f.Apply(f.ctx, set, false, engine.WaitSB)
	require.NoError(t, err)
	out, err := f.sandbox.SBCtl(f.ctx, "find", "Port_Binding", "logical_port=shop/web-1")
	require.NoError(t, err)
	require.Contains(t, out, "shop/web-1")
}
