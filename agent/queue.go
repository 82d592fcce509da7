package agent

import (
	"context"
	"sync"
	"time"
)

// queue runs the work on ports: one piece at a time for each, a bounded number
// in all, and again after a while where it fails.
type queue struct {
	now      func() time.Time
	slots    chan struct{}
	finished chan struct{} // has an element after work has ended
	work     sync.WaitGroup

	mu    sync.Mutex
	ports map[string]*progress
}

// progress is what the queue knows of a port.
type progress struct {
	seen    time.Time // when it was first wanted as it is
	running bool
	fails   int
	version string // of what failed
	again   time.Time
}

func newQueue(now func() time.Time) *queue {
	return &queue{now: now, slots: make(chan struct{}, parallel), finished: make(chan struct{}, 1), ports: map[string]*progress{}}
}

// job works on a port. It holds a slot and gives it up by release, at the
// latest when it returns. changed is whether there was anything to do.
type job func(ctx context.Context, release func()) (changed bool, err error)

// see notes the time of a port that is new.
func (q *queue) see(port string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ports[port] == nil {
		q.ports[port] = &progress{seen: q.now()}
	}
}

func (q *queue) seen(port string) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.ports[port]; p != nil {
		return p.seen
	}
	return q.now()
}

func (q *queue) busy() map[string]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[string]bool{}
	for port, p := range q.ports {
		if p.running {
			out[port] = true
		}
	}
	return out
}

// keep forgets all other ports that nobody works on.
func (q *queue) keep(ports []string) {
	wanted := map[string]bool{}
	for _, port := range ports {
		wanted[port] = true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for port, p := range q.ports {
		if !wanted[port] && !p.running {
			delete(q.ports, port)
		}
	}
}

// start sets to work on a port that was seen, unless that has failed and the
// time to try again has not come. What failed in another version is tried at
// once.
func (q *queue) start(ctx context.Context, port, version string, do job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.ports[port]
	if p.running || p.fails > 0 && p.version == version && q.now().Before(p.again) {
		return
	}
	p.running = true
	q.work.Go(func() {
		q.slots <- struct{}{}
		release := sync.OnceFunc(func() { <-q.slots })
		changed, err := do(ctx, release)
		release()
		q.ended(p, version, changed, err)
	})
}

func (q *queue) ended(p *progress, version string, changed bool, err error) {
	q.mu.Lock()
	p.running = false
	if err == nil {
		p.fails = 0
	} else {
		p.again = q.now().Add(min(retryFirst<<min(p.fails, 10), retryMost))
		p.fails++
		p.version = version
	}
	q.mu.Unlock()
	if !changed && err == nil {
		return
	}
	select {
	case q.finished <- struct{}{}:
	default:
	}
}

func (q *queue) failing() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, p := range q.ports {
		if p.fails > 0 {
			n++
		}
	}
	return n
}

// next is the time until something is to be tried again, most at the latest.
func (q *queue) next(most time.Duration) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.ports {
		if p.fails > 0 && !p.running {
			most = min(most, max(p.again.Sub(q.now()), time.Millisecond))
		}
	}
	return most
}

// wait waits for all work to end.
func (q *queue) wait() { q.work.Wait() }
