package server_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// holding is an address that a server has acknowledged as somebody's.
type holding struct {
	name    string // of the attachment
	address netip.Addr
	from    time.Time // the acknowledgement came
	until   time.Time // it was asked to be deleted; zero: never
}

// ledger holds what was acknowledged.
type ledger struct {
	mu   sync.Mutex
	all  []*holding
	live map[string]*holding // by attachment
}

func (l *ledger) attached(name string, address netip.Addr) *holding {
	h := &holding{name: name, address: address, from: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, h)
	l.live[name] = h
	return h
}

// leaving is called before the deletion is asked for.
func (l *ledger) leaving(h *holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.until = time.Now()
}

func (l *ledger) detached(h *holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, h.name)
}

// overlap tells whether somebody was given an address that was another's still.
func (l *ledger) overlap() error {
	slices.SortFunc(l.all, func(a, b *holding) int { return cmp.Or(a.address.Compare(b.address), a.from.Compare(b.from)) })
	for i, h := range l.all[:max(0, len(l.all)-1)] {
		next := l.all[i+1]
		if next.address == h.address && (h.until.IsZero() || next.from.Before(h.until)) {
			return fmt.Errorf("%s was given to %s at %s while it was that of %s (from %s to %s)", h.address, next.name, next.from, h.name, h.from, h.until)
		}
	}
	return nil
}
