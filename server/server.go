// Package server is the REST interface: it decodes calls, hands them to the
// engine, and encodes what that answers.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// Options say what a server works with.
type Options struct {
	Engine *engine.Engine
	// Tokens is the file of bearer tokens, "" for none.
	Tokens string
	// Insecure lets everybody in, as an admin of all VPCs.
	Insecure bool
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
}

// New prepares a server. Run does the work beside calls.
func New(o Options) (*Server, error) { return nil, nil }

// Run follows the database and the file of tokens until ctx ends; then it ends watches.
func (s *Server) Run(ctx context.Context) error { return nil }
