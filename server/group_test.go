package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// slowCommits are commits that wait until the test lets each go on.
type slowCommits struct {
	begun chan []engine.Edit
	end   chan error
}

func (s *slowCommits) commit(_ context.Context, edits []engine.Edit, _ bool) ([]engine.Edited, int, error) {
	s.begun <- edits
	if err := <-s.end; err != nil {
		return nil, 0, err
	}
	edited := make([]engine.Edited, len(edits))
	for i, e := range edits {
		edited[i].Object.Resource = &model.Resource{Kind: e.ID.Kind, Metadata: model.Metadata{Name: e.ID.Name, VPC: e.ID.VPC}}
	}
	return edited, 7, nil
}

func nic(vpc string, n int) engine.Edit {
	return engine.Edit{ID: model.ID{Kind: model.KindAttachment, VPC: vpc, Name: fmt.Sprint("n", n)}}
}

// queued waits until so many calls wait for a group.
func queued(t *testing.T, g *groups, vpc string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.queues[vpc]) == n
	}, 10*time.Second, time.Millisecond)
}

func TestGroups(t *testing.T) {
	slow := &slowCommits{begun: make(chan []engine.Edit), end: make(chan error)}
	sizes := make(chan int, 10)
	g := newGroups(slow.commit, func(calls int, _ time.Duration) { sizes <- calls }, time.Now)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var calls sync.WaitGroup
	outcomes := make(chan error, 200)
	start := func(e engine.Edit, bump bool) {
		calls.Go(func() {
			edited, nbCfg, err := g.edit(ctx, "shop", e, bump)
			if err == nil && (edited.Object.Resource.ID() != e.ID || nbCfg != 7) {
				err = fmt.Errorf("%v got %v", e.ID, edited.Object.Resource.ID())
			}
			outcomes <- err
		})
	}
	start(nic("shop", 0), false)
	require.Len(t, <-slow.begun, 1, "the first goes at once")
	for i := range maxGroup + 5 { // in this order, so that the third of them goes with the first ones
		start(nic("shop", i), false)
		queued(t, g, "shop", i+1)
	}
	start(nic("shop", 3), true)
	queued(t, g, "shop", maxGroup+6)

	late, give := context.WithCancel(ctx)
	calls.Go(func() {
		_, _, err := g.edit(late, "shop", nic("shop", 999), false)
		outcomes <- err
	})
	queued(t, g, "shop", maxGroup+7)
	give()
	require.ErrorIs(t, <-outcomes, context.Canceled, "a call is over when its own time is")

	// Another VPC has its own.
	calls.Go(func() {
		_, _, err := g.edit(ctx, "other", nic("other", 0), false)
		outcomes <- err
	})
	require.Equal(t, "other", (<-slow.begun)[0].ID.VPC)
	slow.end <- nil
	require.NoError(t, <-outcomes)

	slow.end <- nil
	second := <-slow.begun
	require.Len(t, second, maxGroup)
	slow.end <- errors.New("befell all")
	third := <-slow.begun
	require.Len(t, third, 6, "the one that gave up is left out")
	slow.end <- nil
	calls.Wait()
	close(outcomes)
	failed := 0
	for err := range outcomes {
		if err != nil {
			require.EqualError(t, err, "befell all")
			failed++
		}
	}
	require.Equal(t, maxGroup, failed)
	require.ElementsMatch(t, []int{1, 1, maxGroup, 6}, []int{<-sizes, <-sizes, <-sizes, <-sizes})
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.queues) == 0
	}, 10*time.Second, time.Millisecond, "a worker without work ends")
}

// No two edits of one resource are in a group, and the first comes first.
func TestGroupsNameAResourceOnce(t *testing.T) {
	slow := &slowCommits{begun: make(chan []engine.Edit), end: make(chan error)}
	g := newGroups(slow.commit, func(int, time.Duration) {}, time.Now)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var calls sync.WaitGroup
	start := func(e engine.Edit) { calls.Go(func() { _, _, _ = g.edit(ctx, "shop", e, false) }) }
	start(nic("shop", 100))
	<-slow.begun
	first, second := nic("shop", 1), nic("shop", 1)
	second.Cascade = true
	start(first)
	queued(t, g, "shop", 1)
	start(second)
	queued(t, g, "shop", 2)
	start(nic("shop", 2))
	queued(t, g, "shop", 3)
	slow.end <- nil
	group := <-slow.begun
	require.Len(t, group, 2)
	require.False(t, group[0].Cascade)
	slow.end <- nil
	group = <-slow.begun
	require.Len(t, group, 1)
	require.True(t, group[0].Cascade)
	slow.end <- nil
	calls.Wait()
}

// A panic in a commit fails its calls, not the process.
func TestGroupPanics(t *testing.T) {
	g := newGroups(func(context.Context, []engine.Edit, bool) ([]engine.Edited, int, error) { panic("no") }, func(int, time.Duration) {}, time.Now)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err := g.edit(ctx, "shop", nic("shop", 1), false)
	require.ErrorContains(t, err, "panic: no")
	require.Equal(t, newProblem(slugInternal, "").Type, problemOf(err).Type)
}
