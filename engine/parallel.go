package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// sideBySide calls do for 0 to n-1, as many at a time as there are processors,
// and returns after the last. It pays from some dozens on.
func sideBySide(n int, do func(i int)) { begin(n, do)() }

// begin calls do for 0 to n-1 beside what follows, on the processors that are
// left. finish lends a hand, and returns after the last.
func begin(n int, do func(i int)) (finish func()) {
	const few = 64
	var next atomic.Int64
	work := func() {
		for to := next.Add(few); to-few < int64(n); to = next.Add(few) {
			for i := to - few; i < min(to, int64(n)); i++ {
				do(int(i))
			}
		}
	}
	var all sync.WaitGroup
	if n >= few {
		for range runtime.GOMAXPROCS(0) - 1 {
			all.Go(work)
		}
	}
	return func() {
		work()
		all.Wait()
	}
}
