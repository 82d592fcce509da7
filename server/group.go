package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// maxGroup bounds the calls that are committed together.
const maxGroup = 64

// groups commit calls together: those that arrive while a commit of their VPC is
// under way go into the next one. commit is engine.Edit.
type groups struct {
	commit func(ctx context.Context, edits []engine.Edit, bump bool) ([]engine.Edited, int, error)
	note   func(calls int, took time.Duration)
	now    func() time.Time

	mu     sync.Mutex
	queues map[string][]*ticket // by VPC; those that have a worker
}

// ticket is one call that waits for its commit.
type ticket struct {
	ctx  context.Context
	edit engine.Edit
	bump bool
	done chan outcome // holds one
}

type outcome struct {
	edited engine.Edited
	nbCfg  int
	err    error
}

func newGroups(commit func(context.Context, []engine.Edit, bool) ([]engine.Edited, int, error), note func(int, time.Duration), now func() time.Time) *groups {
	return &groups{commit: commit, note: note, now: now, queues: map[string][]*ticket{}}
}

// edit commits an edit with others. It is over when ctx is, but for one that finds
// nobody at work and so is the first: that commits by itself, until its deadline.
func (g *groups) edit(ctx context.Context, vpc string, e engine.Edit, bump bool) (engine.Edited, int, error) {
	t := &ticket{ctx: ctx, edit: e, bump: bump, done: make(chan outcome, 1)}
	g.mu.Lock()
	queue, working := g.queues[vpc]
	if working {
		t.edit.Hasty = false // the mirror does not have yet what those before it commit
		queue = append(queue, t)
	}
	g.queues[vpc] = queue
	g.mu.Unlock()
	if !working { // here, where the stack is large enough: that of a new goroutine would have to grow
		after := context.WithoutCancel(ctx)
		g.carryOut(after, []*ticket{t})
		if tickets := g.take(vpc); tickets != nil {
			go g.work(after, vpc, tickets)
		}
		o := <-t.done
		return o.edited, o.nbCfg, o.err
	}
	select {
	case o := <-t.done:
		return o.edited, o.nbCfg, o.err
	case <-ctx.Done():
		return engine.Edited{}, 0, fmt.Errorf("waiting for the commit: %w", ctx.Err())
	}
}

// work commits a group, and what has arrived until nothing has.
func (g *groups) work(ctx context.Context, vpc string, tickets []*ticket) {
	for ; tickets != nil; tickets = g.take(vpc) {
		g.carryOut(ctx, tickets)
	}
}

// take is the next group, nil if there is none and the work ends. An edit of a
// resource that is in the group already stays for a later one, and so does not
// overtake it. Calls that are over are left out.
func (g *groups) take(vpc string) []*ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue := slices.DeleteFunc(g.queues[vpc], func(t *ticket) bool { return t.ctx.Err() != nil })
	var group, left []*ticket
	named := map[model.ID]bool{}
	for _, t := range queue {
		if len(group) == maxGroup || named[t.edit.ID] {
			left = append(left, t)
			continue
		}
		named[t.edit.ID] = true
		group = append(group, t)
	}
	if len(group) == 0 {
		delete(g.queues, vpc)
		return nil
	}
	g.queues[vpc] = left
	return group
}

// carryOut commits a group within the longest deadline among its calls.
func (g *groups) carryOut(ctx context.Context, tickets []*ticket) {
	var edits []engine.Edit
	var last time.Time
	bump := false
	for _, t := range tickets {
		edits = append(edits, t.edit)
		bump = bump || t.bump
		if deadline, ok := t.ctx.Deadline(); ok && deadline.After(last) {
			last = deadline
		}
	}
	if !last.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, last)
		defer cancel()
	}
	started := g.now()
	edited, nbCfg, err := g.guarded(ctx, edits, bump)
	g.note(len(tickets), g.now().Sub(started))
	for i, t := range tickets {
		if edited == nil {
			t.done <- outcome{err: err}
		} else {
			t.done <- outcome{edited: edited[i], nbCfg: nbCfg}
		}
	}
}

// guarded turns a panic into an error: nobody above would recover from it.
func (g *groups) guarded(ctx context.Context, edits []engine.Edit, bump bool) (edited []engine.Edited, nbCfg int, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			edited, err = nil, fmt.Errorf("committing a group: panic: %v", cause)
		}
	}()
	return g.commit(ctx, edits, bump)
}
