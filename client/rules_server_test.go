package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

var dbList = model.ID{Kind: model.KindACL, VPC: "shop", Name: "db"}

// ssh is a rule with all that a rule can have.
func ssh(number int) model.Rule {
	return model.Rule{Number: number, Action: model.Reject, Direction: model.Egress, Protocol: model.ProtoTCP, Ports: []model.PortRange{{First: 22, Last: 23}},
		CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Tiers: []string{"app"}, Log: "info", Description: "why, häufig"}
}

// rulesOf are those of the list as the engine reads them.
func (f *fixture) rulesOf(id model.ID) []model.Rule {
	f.t.Helper()
	found, err := f.engine.Get(f.ctx, engine.Filter{Kind: id.Kind, VPC: id.VPC, Name: id.Name})
	require.NoError(f.t, err)
	require.Len(f.t, found, 1)
	return found[0].Resource.Spec.(*model.ACLSpec).Rules
}

// One rule after the other, by two servers.
func TestLifeOfARule(t *testing.T) {
	f := newFixture(t)
	one, two, ctx := f.client(), f.client(), f.ctx
	_, err := one.Apply(ctx, f.load("../examples/three-tier/"), false, engine.WaitNone)
	require.NoError(t, err)
	before := f.rulesOf(dbList)
	last := before[len(before)-1].Number

	made, err := one.AddRule(ctx, dbList, ssh(0), engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, &client.StoredRule{Rule: ssh(last + 1), Created: true}, made)
	put, err := two.PutRule(ctx, dbList, ssh(last+7), engine.WaitNone)
	require.NoError(t, err)
	require.True(t, put.Created)
	require.Equal(t, append(before, ssh(last+1), ssh(last+7)), f.rulesOf(dbList))
	waiting, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	again, err := one.PutRule(waiting, dbList, ssh(last+7), engine.WaitHV)
	require.NoError(t, err)
	require.False(t, again.Created)
	require.Equal(t, engine.WaitHV, again.Pending.For, "nobody brings it to hypervisors")

	var other *client.Error
	_, err = two.AddRule(ctx, dbList, ssh(last+7), engine.WaitNone)
	require.ErrorAs(t, err, &other)
	require.Equal(t, 409, other.Status)
	require.Equal(t, "urn:ovn-vpc:problem:exists", other.Type)
	faulty := ssh(0)
	faulty.Tiers = []string{"nosuch"}
	var invalid *engine.InvalidError
	_, err = two.AddRule(ctx, dbList, faulty, engine.WaitNone)
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "there is no Tier shop/nosuch")
	var missing *engine.NotFoundError
	_, err = two.AddRule(ctx, model.ID{Kind: model.KindACL, VPC: "shop", Name: "nosuch"}, ssh(0), engine.WaitNone)
	require.ErrorAs(t, err, &missing)

	for _, number := range []int{last + 1, last + 7} {
		done, err := two.DeleteRule(ctx, dbList, number, engine.WaitNone)
		require.NoError(t, err)
		require.True(t, done.Changed())
		_, err = one.DeleteRule(ctx, dbList, number, engine.WaitNone)
		require.ErrorAs(t, err, &other)
		require.Equal(t, 404, other.Status)
	}
	require.Equal(t, before, f.rulesOf(dbList))
	drift, err := one.Drift(ctx, "", false, engine.WaitNone)
	require.NoError(t, err)
	require.Empty(t, drift.Faults)
}

// forgetful carries out changes, and gives no answer to the first of each.
func forgetful(next http.Handler) http.Handler {
	var mu sync.Mutex
	known := map[string]bool{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		call := r.Method + " " + r.URL.Path
		first := !known[call]
		known[call] = true
		mu.Unlock()
		if first && r.Method != http.MethodGet {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// What may be carried out twice is sent again when its answer is lost; a rule is
// added once.
func TestAnswersToRulesAreLost(t *testing.T) {
	f := newFixture(t)
	c, ctx := f.clientThrough(client.Options{}, forgetful), f.ctx
	_, err := f.engine.Apply(ctx, f.load("../examples/three-tier/"), false, engine.WaitNone)
	require.NoError(t, err)
	before := f.rulesOf(dbList)

	var unknown *client.UnknownOutcomeError
	_, err = c.AddRule(ctx, dbList, ssh(0), engine.WaitNone)
	require.ErrorAs(t, err, &unknown)
	require.Len(t, f.rulesOf(dbList), len(before)+1)
	put, err := c.PutRule(ctx, dbList, ssh(5000), engine.WaitNone)
	require.NoError(t, err)
	require.False(t, put.Created, "the first call has made it")
	require.Len(t, f.rulesOf(dbList), len(before)+2)
	var gone *client.Error
	_, err = c.DeleteRule(ctx, dbList, 5000, engine.WaitNone)
	require.ErrorAs(t, err, &gone)
	require.Equal(t, 404, gone.Status)
	require.Len(t, f.rulesOf(dbList), len(before)+1)
}
