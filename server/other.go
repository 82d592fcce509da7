package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/urfave/negroni/v3"
)

// otherRoutes are those that answer with something else than resources: they
// have handlers of their own.
func (s *Server) otherRoutes(rs *routes, o Options) {
	ok := func(schema *huma.Schema) map[int]*huma.Schema { return map[int]*huma.Schema{http.StatusOK: schema} }
	object := &huma.Schema{Type: huma.TypeObject}
	for _, rt := range []struct {
		route
		handler http.Handler
	}{
		{route{path: "/healthz", summary: "Whether the process serves", responses: ok(object), media: []string{jsonType}, open: true}, http.HandlerFunc(healthz)},
		{route{path: "/readyz", summary: "Whether calls can be served: not while the database is not followed, nor while the server stops",
			responses: ok(object), media: []string{jsonType}, open: true, problems: []int{http.StatusServiceUnavailable}}, http.HandlerFunc(s.hub.readyz)},
		{route{path: "/version", summary: "What the program was built from", responses: ok(object), media: []string{jsonType}, open: true}, versionz(o.Version)},
		{route{path: "/openapi.json", summary: "This document", responses: ok(object), media: []string{openAPIType}, open: true}, rs.doc.serve()},
		{route{path: "/docs", summary: "This document, to be read", responses: ok(text()), media: []string{"text/html"}, open: true}, http.HandlerFunc(serveDocs)},
		{route{path: "/metrics", summary: "Metrics in a format of Prometheus, for viewers of all VPCs", responses: ok(text()), media: []string{"text/plain"},
			problems: []int{http.StatusUnauthorized, http.StatusForbidden}}, viewersOfAll(metricsHandler(o.Metrics))},
		{watchRoute(s.hub.params), s.hub},
	} {
		rt.method, rt.tag = http.MethodGet, "server"
		if rt.id == "" {
			rt.id = "get-" + rt.path[1:]
		}
		rs.doc.add(rt.route)
		rs.mux.Handle("GET "+rt.path, rt.handler)
	}
}

// watchParams are those of the watch.
func watchParams() []*huma.Param {
	params := []*huma.Param{vpcParam(), query("kind", "only this kind, in singular or plural", text()), query("tier", "only attachments of this tier", text()),
		query("chassis", "only attachments that ask for this chassis", text()), query("labels", "only with these labels: key=value,key=value", text()),
		query("initial", "false: without the state at the beginning", flag()), query("lastEventId", "as the header Last-Event-ID", text()),
		header("Last-Event-ID", "go on after this event, as a client does that connects again")}
	for _, p := range params {
		p.Schema.PrecomputeMessages()
	}
	return params
}

// watchRoute documents the watch.
func watchRoute(params []*huma.Param) route {
	return route{path: watchPath, id: "watch", summary: "Follow what changes, as server-sent events",
		description: "Events added, modified and deleted have the whole resource. The state comes first, as added, then synced. " +
			"After reset all comes again: the server could not go on after Last-Event-ID. A client that reads too slowly is disconnected.",
		params: params, responses: map[int]*huma.Schema{http.StatusOK: text()}, media: []string{"text/event-stream"},
		problems: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}}
}

func metricsHandler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// viewersOfAll lets those in who may view every VPC.
func viewersOfAll(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mayEverywhere(r.Context(), Viewer) {
			writeProblem(w, lacking(Viewer, ""))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Probes is for a listener that only those who run the server can reach: health
// and metrics, without authentication.
func (s *Server) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", s.hub.readyz)
	mux.HandleFunc("GET /version", versionz(s.version))
	mux.Handle("GET /metrics", metricsHandler(s.metrics))
	return negroni.New(&gate{origin: http.NewCrossOriginProtection()}, negroni.Wrap(mux))
}
