package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// What was changed, and the way back, are the same through a server.
func TestHistorySameAsEngine(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	f.engine.Now = func() time.Time { return now }
	f.engine.Rand = func() uint64 { return 7 }
	c, e, ctx := f.client(), f.engine, f.ctx
	set := f.load("../examples/three-tier")
	vpc := set.VPCs()[0]
	_, err := c.Apply(ctx, set, false, engine.WaitNone)
	require.NoError(t, err)
	_, err = c.ReplaceACL(ctx, vpc, "web", "default-deny", engine.WaitNone)
	require.NoError(t, err)
	for _, name := range []string{vpc, "nosuch"} {
		same(t, func() (*engine.History, error) { return e.History(ctx, name) })(c.History(ctx, name))
		same(t, func() (*engine.Unconfirmed, error) { return e.Confirm(ctx, name) })(c.Confirm(ctx, name))
		for _, o := range []engine.RollbackOptions{{}, {To: 1}, {To: 9}, {To: 1, Cascade: true}} {
			same(t, func() (*engine.Plan, error) { return e.PlanRollback(ctx, name, o) })(c.PlanRollback(ctx, name, o))
		}
		same(t, func() (*engine.Result, error) {
			return e.Rollback(ctx, name, engine.RollbackOptions{Unconfirmed: 2}, engine.WaitNone)
		})(c.Rollback(ctx, name, engine.RollbackOptions{Unconfirmed: 2}, engine.WaitNone))
	}
	for _, number := range []int{1, 2, 3} {
		same(t, func() ([]model.Document, error) { return documents(e.HistoryState(ctx, vpc, number)) })(documents(c.HistoryState(ctx, vpc, number)))
	}
	_, err = c.Rollback(ctx, vpc, engine.RollbackOptions{ConfirmOpens: true}, engine.WaitNone)
	require.ErrorContains(t, err, "the plan opens")
	done, err := c.Rollback(ctx, vpc, engine.RollbackOptions{}, engine.WaitNone)
	require.NoError(t, err)
	require.True(t, done.Changed())
}

func documents(resources []*model.Resource, err error) ([]model.Document, error) {
	var out []model.Document
	for _, r := range resources {
		out = append(out, model.Envelope(r, nil))
	}
	return out, err
}

// A change that has to be confirmed, through a server.
func TestConfirmThroughServer(t *testing.T) {
	f := newFixture(t)
	c, ctx := f.clientWith(client.Options{ConfirmWithin: time.Minute}), f.ctx
	set := f.load("../examples/three-tier")
	vpc := set.VPCs()[0]
	r, err := c.Apply(ctx, set, false, engine.WaitNone)
	require.NoError(t, err)
	require.Len(t, r.Unconfirmed, 1)
	h, err := c.History(ctx, vpc)
	require.NoError(t, err)
	require.Equal(t, r.Unconfirmed[0].ID, h.Unconfirmed.ID)
	var conflict *engine.ConflictError
	_, err = c.ReplaceACL(ctx, vpc, "web", "default-deny", engine.WaitNone)
	require.ErrorAs(t, err, &conflict)
	u, err := c.Confirm(ctx, vpc)
	require.NoError(t, err)
	require.Equal(t, r.Unconfirmed[0].ID, u.ID)
	_, err = c.Confirm(ctx, vpc)
	require.ErrorAs(t, err, &conflict)
	_, err = c.ReplaceACL(ctx, vpc, "web", "default-deny", engine.WaitNone)
	require.NoError(t, err)
}
