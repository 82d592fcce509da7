package nb_test

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// readiness is what the servers have said of themselves, again and again.
type readiness struct {
	stage *stage
	stop  context.CancelFunc
	asked sync.WaitGroup

	mu  sync.Mutex
	saw [][]look // by server
}

// look is one answer of /readyz.
type look struct {
	at    time.Time // it was asked
	ready bool
}

// ask begins to ask.
func (s *stage) ask() *readiness {
	ctx, stop := context.WithCancel(s.t.Context())
	r := &readiness{stage: s, stop: stop, saw: make([][]look, len(s.servers))}
	for i := range s.servers {
		r.asked.Go(func() {
			for ctx.Err() == nil {
				at := time.Now()
				_, err := s.servers[i].Get(ctx, "/readyz")
				r.mu.Lock()
				r.saw[i] = append(r.saw[i], look{at, err == nil})
				r.mu.Unlock()
				<-time.After(pause)
			}
		})
	}
	return r
}

// end demands that each server has said no to all who asked while it had to know
// that there was no database: from the time of detection on.
func (r *readiness) end(outages []outage) {
	t := r.stage.t
	t.Helper()
	r.stop()
	r.asked.Wait()
	for i, looks := range r.saw {
		unready := 0
		for _, l := range looks {
			if !l.ready {
				unready++
			}
			for _, o := range outages {
				known := o.from.Add(detection + slack)
				require.False(t, l.ready && l.at.After(known) && l.at.Before(o.until), "server %d is ready at %s, without a database from %s to %s", i, l.at, o.from, o.until)
			}
		}
		for _, o := range outages {
			if o.until.Sub(o.from) > detection+slack {
				r.detected(i, o)
			}
		}
		t.Logf("/readyz of server %d: %d times asked, %d times no", i, len(looks), unready)
	}
}

// detected logs after which time a server knew of an outage.
func (r *readiness) detected(server int, o outage) {
	for _, l := range r.saw[server] {
		if !l.ready && l.at.After(o.from) && l.at.Before(o.until) {
			r.stage.t.Logf("server %d knew of %s after %s", server, o.what, l.at.Sub(o.from).Round(time.Millisecond))
			return
		}
	}
	r.stage.t.Errorf("server %d never knew of %s", server, o.what)
}

// outage is a time without a database.
type outage struct {
	what        string
	from, until time.Time
}

// swift demands that the servers do not keep their callers waiting for a database
// that they know to be away. The first calls may wait for a new leader.
func (s *stage) swift() {
	s.t.Helper()
	const first, calls = 1, 3
	for i := range s.servers {
		require.Eventually(s.t, func() bool {
			_, err := s.servers[i].Get(s.t.Context(), "/readyz")
			return err != nil
		}, detection+slack, pause, "server %d does not know that there is no database", i)
		for n := range first + calls {
			began := time.Now()
			resp, err := http.Get(s.servers[i].URL() + "/v1/vpcs")
			require.NoError(s.t, err)
			require.NoError(s.t, resp.Body.Close())
			require.Equal(s.t, http.StatusServiceUnavailable, resp.StatusCode)
			require.NotEmpty(s.t, resp.Header.Get("Retry-After"))
			if n >= first {
				require.Less(s.t, time.Since(began), detection/2, "calls wait for a database that is known to be away")
			}
		}
	}
}
