package agent

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an operator sees of the agent over time.
type metrics struct {
	plugged  prometheus.Gauge
	failing  prometheus.Gauge
	plugs    prometheus.Counter
	unplugs  prometheus.Counter
	failures prometheus.Counter
	delay    prometheus.Histogram
	hooks    *prometheus.HistogramVec
	watching prometheus.Gauge
}

func newMetrics() *metrics {
	const space = "ovn_vpc_agent"
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Name: name, Help: help})
	}
	return &metrics{
		plugged:  gauge("interfaces", "Interfaces that are plugged."),
		failing:  gauge("failing", "Attachments that are not as they should be, and are tried again."),
		watching: gauge("connected", "1 while the southbound database is watched."),
		plugs:    counter("plugs_total", "Interfaces made."),
		unplugs:  counter("unplugs_total", "Interfaces removed."),
		failures: counter("failures_total", "Attempts to make, mend or remove an interface that failed."),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: space, Name: "plug_seconds",
			Help:    "Time from the moment the port was seen to the moment it was plugged.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}),
		hooks: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: space, Name: "hook_seconds",
			Help: "Time that hooks took, by hook and outcome.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}, []string{"hook", "state"}),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	var errs []error
	for _, c := range []prometheus.Collector{m.plugged, m.failing, m.watching, m.plugs, m.unplugs, m.failures, m.delay, m.hooks} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}
