package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

func TestSmoke(t *testing.T) {
	s := labtest.NewTestSandbox(t, lab.SandboxOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := nbdb.Dial(ctx, nbdb.Options{Remotes: s.NB()})
	require.NoError(t, err)
	e := engine.New(c, "default", "cli")
	inputs, ds := model.ReadPaths([]string{"../examples/three-tier"}, nil)
	require.Empty(t, ds)
	set, ds := model.Load(inputs...)
	require.Empty(t, ds, ds.String())
	p, err := e.Plan(ctx, set, false)
	require.NoError(t, err)
	for _, c := range p.VPCs[0].Changes {
		fmt.Println(c)
	}
	res, err := e.Apply(ctx, set, false, engine.WaitSB)
	require.NoError(t, err)
	j, _ := json.Marshal(res)
	fmt.Println(string(j))
	p, err = e.Plan(ctx, set, true)
	require.NoError(t, err)
	j, _ = json.MarshalIndent(p, "", " ")
	require.True(t, p.Empty(), string(j))
	d, err := e.Drift(ctx, "", false, engine.WaitNone)
	require.NoError(t, err)
	require.Empty(t, d.Faults)
	require.Empty(t, d.Notes)
	out, err := s.Binaries().Run(ctx, "ovn-nbctl", "--db="+s.NB(), "show")
	fmt.Println(out, err)
	out, err = s.Binaries().Run(ctx, "ovn-nbctl", "--db="+s.NB(), "acl-list", "shop/db")
	fmt.Println(out, err)
	_, err = s.Binaries().Run(ctx, "ovn-nbctl", "--db="+s.NB(), "acl-del", "shop/db")
	require.NoError(t, err)
	_, err = s.Binaries().Run(ctx, "ovn-nbctl", "--db="+s.NB(), "lsp-del", "shop/web-1", "--", "lsp-del", "shop/web/rtr", "--", "ls-del", "shop/app")
	require.NoError(t, err)
	d, err = e.Drift(ctx, "", true, engine.WaitSB)
	j, _ = json.MarshalIndent(d, "", " ")
	fmt.Println(string(j))
	require.NoError(t, err)
	require.True(t, d.Repaired)
	p, err = e.Plan(ctx, set, true)
	require.NoError(t, err)
	require.True(t, p.Empty())
	_, err = e.Delete(ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "web"}}, false, engine.WaitNone)
	fmt.Println(err)
	require.Error(t, err)
	res, err = e.Delete(ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
	require.NoError(t, err)
	j, _ = json.Marshal(res)
	fmt.Println(string(j))
	out, _ = s.Binaries().Run(ctx, "ovn-nbctl", "--db="+s.NB(), "show")
	require.Empty(t, out)
}
