package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// levelsAge is how old levels may be when they are told: counting costs what
// the database holds, whoever asks and however often.
const levelsAge = 10 * time.Second

// levelsPatience bounds the reading of the database for them.
const levelsPatience = 5 * time.Second

// levels are metrics that are counted when somebody asks: how full tiers and
// OVN itself are. There are none while the database is not followed.
type levels struct {
	free, used, limit *prometheus.Desc

	mu     sync.Mutex
	hub    *hub
	engine *engine.Engine
	at     time.Time
	last   []prometheus.Metric
}

func newLevels() *levels {
	return &levels{
		free: prometheus.NewDesc(space+"_tier_addresses_free", "Addresses that attachments can still get without asking for one.",
			[]string{"vpc", "tier", "cidr"}, nil),
		used: prometheus.NewDesc(space+"_vxlan_datapaths_used", "Logical switches and routers in the northbound database, of all owners.", nil, nil),
		limit: prometheus.NewDesc(space+"_vxlan_datapaths_limit", "Logical switches and routers that OVN can realise: 4095 with VXLAN, more without.",
			nil, nil),
	}
}

// of says whose levels they are.
func (l *levels) of(h *hub, e *engine.Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hub, l.engine = h, e
}

// Describe is prometheus.Collector's, as is Collect.
func (l *levels) Describe(to chan<- *prometheus.Desc) {
	to <- l.free
	to <- l.used
	to <- l.limit
}

func (l *levels) Collect(to chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hub == nil || l.hub.ready() != nil {
		return
	}
	if now := l.hub.now(); now.Sub(l.at) >= levelsAge {
		l.at, l.last = now, append(l.tiers(), l.datapaths()...)
	}
	for _, m := range l.last {
		to <- m
	}
}

func (l *levels) tiers() []prometheus.Metric {
	var metrics []prometheus.Metric
	tiers, attached := l.hub.tiers()
	for id, spec := range tiers {
		for _, p := range engine.Occupancy(spec, attached[id]) {
			metrics = append(metrics, prometheus.MustNewConstMetric(l.free, prometheus.GaugeValue, float64(p.Free), id.VPC, id.Name, p.CIDR.String()))
		}
	}
	return metrics
}

// datapaths are left out when they can't be read: that is told by nb_connected.
func (l *levels) datapaths() []prometheus.Metric {
	ctx, cancel := context.WithTimeout(context.Background(), levelsPatience) // a collector is given none
	defer cancel()
	used, limit, err := l.engine.Capacity(ctx)
	if err != nil {
		l.hub.log.Warn("the capacity is left out of the metrics", "error", err)
		return nil
	}
	return []prometheus.Metric{
		prometheus.MustNewConstMetric(l.used, prometheus.GaugeValue, float64(used)),
		prometheus.MustNewConstMetric(l.limit, prometheus.GaugeValue, float64(limit)),
	}
}

// tiers are the tiers as they are now, and the attachments of each.
func (h *hub) tiers() (map[model.ID]*model.TierSpec, map[model.ID][]*model.AttachmentSpec) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tiers, attached := map[model.ID]*model.TierSpec{}, map[model.ID][]*model.AttachmentSpec{}
	for id, o := range h.state {
		switch spec := o.Resource.Spec.(type) {
		case *model.TierSpec:
			tiers[id] = spec
		case *model.AttachmentSpec:
			tier := model.ID{Kind: model.KindTier, VPC: id.VPC, Name: spec.Tier}
			attached[tier] = append(attached[tier], spec)
		}
	}
	return tiers, attached
}
