package server

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/urfave/negroni/v3"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// space is what the names of all metrics begin with.
const space = "ovn_vpc"

// metrics are what the server counts. They are the engine's observer.
type metrics struct {
	requests     *prometheus.CounterVec
	durations    *prometheus.HistogramVec
	inFlight     prometheus.Gauge
	groupCalls   prometheus.Histogram
	groupTime    prometheus.Histogram
	plans        prometheus.Counter
	replans      prometheus.Counter
	conflicts    prometheus.Counter
	transactions *prometheus.CounterVec
	operations   prometheus.Histogram
	commitTime   prometheus.Histogram
	realised     *prometheus.HistogramVec
	connected    prometheus.Gauge
	watchers     prometheus.Gauge
	levels       *levels
}

// newMetrics registers all metrics, those of Go and of the process too.
func newMetrics(r *prometheus.Registry) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: space, Name: name, Help: help, Buckets: buckets})
	}
	seconds := prometheus.ExponentialBuckets(0.001, 2, 16) // to 33 s
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Name: "http_requests_total",
			Help: "Requests that were answered, by route as it is registered."}, []string{"route", "method", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: space, Name: "http_request_duration_seconds",
			Help: "Time to answer, watches left out.", Buckets: seconds}, []string{"route", "method"}),
		inFlight:   gauge("http_requests_in_flight", "Requests that are being answered, watches left out."),
		groupCalls: histogram("group_commit_calls", "Calls on attachments that were committed together.", prometheus.ExponentialBuckets(1, 2, 7)),
		groupTime:  histogram("group_commit_duration_seconds", "Time to plan and commit calls on attachments together, repetitions included.", seconds),
		plans:      counter("plans_total", "Plans made to be committed."),
		replans:    counter("replans_total", "Plans made again since the database had changed."),
		conflicts:  counter("conflicts_total", "Transactions refused by the database since it had changed after the plan."),
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Name: "transactions_total",
			Help: "Transactions sent to the northbound database, by result."}, []string{"result"}),
		operations: histogram("transaction_operations", "Rows, references and map entries that a transaction changes.", prometheus.ExponentialBuckets(1, 4, 8)),
		commitTime: histogram("transaction_duration_seconds", "Time of the northbound database to answer a transaction.", seconds),
		realised: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: space, Name: "realised_seconds",
			Help:    "Time from a commit to its arrival in the southbound database (sb) or on all hypervisors (hv), where a call waits for that.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}, []string{"stage"}),
		connected: gauge("nb_connected", "1 while the northbound database is followed."),
		watchers:  gauge("watch_subscribers", "Watches that are open."),
		levels:    newLevels(),
	}
	for _, o := range engine.CommitResults() {
		m.transactions.WithLabelValues(string(o))
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.inFlight, m.groupCalls, m.groupTime, m.plans, m.replans, m.conflicts,
		m.transactions, m.operations, m.commitTime, m.realised, m.connected, m.watchers, m.levels,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// watchPath is the route whose calls last as long as clients like.
const watchPath = "/v1/watch"

// ServeHTTP is a negroni.Handler: requests by route and code, and how long they took.
func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	answer, ok := w.(negroni.ResponseWriter)
	if !ok {
		answer = negroni.NewResponseWriter(w)
	}
	r, c := withCall(r)
	start, watch, code := time.Now(), r.URL.Path == watchPath, http.StatusInternalServerError // of a handler that panics
	if !watch {
		m.inFlight.Inc()
	}
	defer func() {
		route, method := cmp.Or(c.route, "none"), knownMethod(r.Method)
		m.requests.WithLabelValues(route, method, strconv.Itoa(code)).Inc()
		if !watch {
			m.inFlight.Dec()
			m.durations.WithLabelValues(route, method).Observe(time.Since(start).Seconds())
		}
	}()
	next(answer, r)
	code = cmp.Or(answer.Status(), http.StatusOK)
}

// knownMethod keeps what callers invent out of the labels.
func knownMethod(method string) string {
	known := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	if slices.Contains(known, method) {
		return method
	}
	return "other"
}

// committed notes a transaction of a group of calls.
func (m *metrics) committed(calls int, took time.Duration) {
	m.groupCalls.Observe(float64(calls))
	m.groupTime.Observe(took.Seconds())
}

// Planned is engine.Observer's, as are those that follow.
func (m *metrics) Planned(attempt int) {
	m.plans.Inc()
	if attempt > 0 {
		m.replans.Inc()
	}
}

func (m *metrics) Committed(t engine.Transaction) {
	m.transactions.WithLabelValues(string(t.Result)).Inc()
	m.operations.Observe(float64(t.Size))
	m.commitTime.Observe(t.Took.Seconds())
	if t.Result == engine.CommitConflict {
		m.conflicts.Inc()
	}
}

func (m *metrics) Realised(stage engine.Wait, took time.Duration) {
	m.realised.WithLabelValues(string(stage)).Observe(took.Seconds())
}
