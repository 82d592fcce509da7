package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurns(t *testing.T) {
	ts := newTurns()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited, done, err := ts.take(ctx, "shop")
	require.NoError(t, err)
	require.False(t, waited)

	// Another VPC's is another turn; one who gives up leaves the others theirs.
	waited, other, err := ts.take(ctx, "dept")
	require.NoError(t, err)
	require.False(t, waited)
	late, give := context.WithCancel(ctx)
	give()
	_, _, err = ts.take(late, "shop")
	require.ErrorIs(t, err, context.Canceled)

	var order []int
	took := make(chan error)
	for i := range 3 {
		go func() {
			waited, done, err := ts.take(ctx, "shop")
			if err == nil && !waited {
				err = errors.New("it did not wait")
			}
			if err == nil {
				order = append(order, i) // in one's turn, so no two at once
				done()
			}
			took <- err
		}()
		require.Eventually(t, func() bool {
			ts.mu.Lock()
			defer ts.mu.Unlock()
			return ts.queues["shop"].users == i+2
		}, time.Minute, time.Millisecond)
	}
	require.Empty(t, order)
	done()
	for range 3 {
		require.NoError(t, <-took)
	}
	require.Len(t, order, 3)
	other()
	require.Empty(t, ts.queues)
}
