package server

import (
	"net/http"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// hub hands the changes that the engine finds on to those who watch.
type hub struct{}

func newHub(o Options, m *metrics) *hub { return &hub{} }

// Reset, Change and Lost are engine.Feed's.
func (h *hub) Reset(all []engine.Object)    {}
func (h *hub) Change(events []engine.Event) {}
func (h *hub) Lost(err error)               {}

// ready tells why the database is not followed, nil if it is.
func (h *hub) ready() error { return nil }

// close ends all watches.
func (h *hub) close() {}

// ServeHTTP is GET /v1/watch.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {}
