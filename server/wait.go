package server

import (
	"context"
	"net/http"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// await waits for a change that was committed with nbCfg as long as the call
// asks for. What it tells then is what is still pending, nil for nothing: that
// the change is written is known, so nothing here makes it a failure.
func (s *Server) await(c *exchange, nbCfg int) *engine.Pending {
	wait := c.wait()
	if wait == engine.WaitNone {
		return nil
	}
	if nbCfg == 0 { // the database was lost after the change
		return &engine.Pending{For: wait}
	}
	ctx, cancel := context.WithTimeout(c, waitTimeout(c.request.URL.Query()))
	defer cancel()
	pending, err := s.engine.Await(ctx, wait, nbCfg)
	if err != nil {
		s.log.WarnContext(c, "it is not known how far a change has come", "request", c.id, "error", err)
		return &engine.Pending{For: wait, Target: nbCfg}
	}
	return pending
}

// settle is await for a change whose nb_cfg is not known.
func (s *Server) settle(c *exchange) *engine.Pending {
	if c.wait() == engine.WaitNone {
		return nil
	}
	nbCfg, err := s.engine.Mark(c)
	if err != nil {
		s.log.WarnContext(c, "it is not known how far a change has come", "request", c.id, "error", err)
		return &engine.Pending{For: c.wait()}
	}
	return s.await(c, nbCfg)
}

// statusOf is 202 while something is pending.
func statusOf(pending *engine.Pending, done int) int {
	if pending != nil {
		return http.StatusAccepted
	}
	return done
}
