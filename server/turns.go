package server

import (
	"context"
	"fmt"
	"sync"
)

// turns let changes of a VPC's structure by this server go one after another: each
// takes a number of its history, so that of several at once all but one would be
// planned again.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue // by VPC; those that are in use
}

type queue struct {
	turn  chan struct{} // holds one while it is somebody's turn
	users int
}

func newTurns() *turns { return &turns{queues: map[string]*queue{}} }

// take waits for one's turn, which lasts until done is called. waited tells whether
// others came before.
func (t *turns) take(ctx context.Context, vpc string) (waited bool, done func(), err error) {
	t.mu.Lock()
	q := t.queues[vpc]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		t.queues[vpc] = q
	}
	waited = q.users > 0
	q.users++
	t.mu.Unlock()
	select {
	case q.turn <- struct{}{}:
		return waited, func() { <-q.turn; t.leave(vpc, q) }, nil
	case <-ctx.Done():
		t.leave(vpc, q)
		return waited, nil, fmt.Errorf("waiting for other changes of VPC %s: %w", vpc, ctx.Err())
	}
}

func (t *turns) leave(vpc string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(t.queues, vpc)
	}
}
