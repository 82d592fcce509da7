package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// sideBySide calls do for 0 to n-1, as many at a time as there are processors,
// and returns after the last. It pays from some dozens on.
func sideBySide(n int, do func(i int)) {
	const few = 64
	if n < few {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for to := next.Add(few); to-few < int64(n); to = next.Add(few) {
				for i := to - few; i < min(to, int64(n)); i++ {
					do(int(i))
				}
			}
		})
	}
	all.Wait()
}
