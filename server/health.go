package server

import (
	"encoding/json"
	"net/http"
)

// healthz answers while the process serves at all.
func healthz(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, map[string]string{"status": "ok"})
}

// readyz tells whether calls can be served: 503 with the reason while the
// northbound database isn't followed, and from the beginning of the stop on.
func (h *hub) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := h.ready(); err != nil {
		writeProblem(w, newProblem(slugUnavailable, "%s", err))
		return
	}
	answerJSON(w, map[string]string{"status": "ready"})
}

// versionz answers with what the program was built from.
func versionz(version any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, version) }
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// An error means that the caller has gone.
	_ = json.NewEncoder(w).Encode(v)
}
