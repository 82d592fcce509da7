package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// observed is an observer that remembers.
type observed struct {
	mu           sync.Mutex
	attempts     []int
	transactions []engine.Transaction
	stages       []engine.Wait
}

func (o *observed) Planned(attempt int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts = append(o.attempts, attempt)
}

func (o *observed) Committed(t engine.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.transactions = append(o.transactions, t)
}

func (o *observed) Realised(stage engine.Wait, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stages = append(o.stages, stage)
}

// results are what became of the transactions.
func (o *observed) results() []engine.CommitResult {
	var out []engine.CommitResult
	for _, t := range o.transactions {
		out = append(out, t.Result)
	}
	return out
}

// meddler lets somebody else be faster, once.
type meddler struct {
	engine.Store
	meddle func()
}

func (m *meddler) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	if meddle := m.meddle; meddle != nil {
		m.meddle = nil
		meddle()
	}
	return m.Store.Commit(ctx, p, bump)
}

func TestObserver(t *testing.T) {
	f := newFixture(t, true)
	o := &observed{}
	f.Observer = o
	set := load(t, vpc("shop", "10.0.0.0/16")+tier("shop", "web", "10.0.1.0/24"))
	_, err := f.Apply(f.ctx, set, false, engine.WaitSB)
	require.NoError(t, err)
	require.Equal(t, []int{0}, o.attempts)
	require.Equal(t, []engine.CommitResult{engine.CommitLanded}, o.results())
	require.Greater(t, o.transactions[0].Size, 3)
	require.Positive(t, o.transactions[0].Took)
	require.Equal(t, []engine.Wait{engine.WaitSB}, o.stages)

	_, err = f.Apply(f.ctx, set, false, engine.WaitNone)
	require.NoError(t, err)
	require.Len(t, o.transactions, 1, "nothing to do is no transaction")

	other := connect(t, f.sandbox, "default")
	*o = observed{}
	f.NB = &meddler{Store: f.NB, meddle: func() { other.apply(tierWith("shop", "web", "cidrs: [10.0.1.0/24], dhcp: {domain: new.example}")) }}
	f.apply(att("shop", "slower", "web"))
	require.Equal(t, []int{0, 1}, o.attempts)
	require.Equal(t, []engine.CommitResult{engine.CommitConflict, engine.CommitLanded}, o.results())
	require.Empty(t, o.stages)
}

func TestCapacityIsTold(t *testing.T) {
	f := newFixture(t, false)
	used, limit, err := f.Capacity(f.ctx)
	require.NoError(t, err)
	require.Equal(t, []int{0, 4095}, []int{used, limit})
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.1.0/24"))
	f.nbctl("ls-add", "somebody-elses", "--", "lr-add", "theirs-too", "--", "set", "NB_Global", ".", "options:max_tunid=16711679")
	used, limit, err = f.Capacity(f.ctx)
	require.NoError(t, err)
	require.Equal(t, []int{4, 16711679}, []int{used, limit})
}
