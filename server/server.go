// Package server is the REST interface: it decodes calls, hands them to the
// engine, and encodes what that answers.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/negroni/v3"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// Options say what a server works with.
type Options struct {
	Engine *engine.Engine
	// Tokens is the file of bearer tokens, "" for none.
	Tokens string
	// Insecure lets everybody in, as an admin of all VPCs.
	Insecure bool
	// Local answers only calls to localhost: what keeps web pages out of a
	// server that lets everybody in on one's own machine.
	Local bool
	// Metrics is where metrics are registered and served from.
	Metrics *prometheus.Registry
	Version any // what /version answers
	Log     *slog.Logger
	Now     func() time.Time
	Rand    func() uint64
}

// Server is an http.Handler with work of its own. Make it with New.
type Server struct {
	http.Handler
	engine *engine.Engine
	log    *slog.Logger
	rand   func() uint64
	hub    *hub
	auth   *authenticator
	groups *groups
	turns  *turns

	metrics *prometheus.Registry
	version any
}

// New prepares a server. Run does the work beside calls.
func New(o Options) (*Server, error) {
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	auth, err := newAuthenticator(o)
	if err != nil {
		return nil, err
	}
	observed := *o.Engine
	observed.Observer = m
	observed.Mirror = engine.NewMirror(observed.Owner)
	o.Engine = &observed
	s := &Server{engine: o.Engine, log: o.Log, rand: o.Rand, auth: auth, hub: newHub(o, m),
		groups: newGroups(o.Engine.Edit, m.committed, o.Now), turns: newTurns(), metrics: o.Metrics, version: o.Version}
	routes := s.routes(o)
	s.Handler = negroni.New(
		&front{log: o.Log, now: o.Now, rand: o.Rand},
		m,
		&gate{local: o.Local, origin: http.NewCrossOriginProtection()},
		auth,
		negroni.Wrap(routed(routes)),
	)
	return s, nil
}

// Run follows the database and the file of tokens, and takes back what is not
// confirmed in time, until ctx ends; then it ends watches.
func (s *Server) Run(ctx context.Context) error {
	go s.auth.run(ctx)
	go s.engine.TakeBackOverdue(ctx)
	defer s.hub.close()
	return s.engine.Watch(ctx, s.hub)
}
