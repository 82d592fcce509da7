// Package agent makes the interfaces of attachments on a hypervisor: it watches
// the southbound database for ports that its chassis is asked to bind and
// plugs those whose spec says so into Open vSwitch.
//
// It keeps no state of its own. What it has made bears its marks, in the
// external_ids of the interfaces in Open vSwitch and in the aliases of the
// interfaces in the kernel, and is found again after a restart. When it ends,
// everything stays as it is.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Options say what an agent works on.
type Options struct {
	// Southbound is how to reach the southbound database; empty Remotes are
	// those of ovn-controller (external_ids:ovn-remote of Open vSwitch).
	Southbound nbdb.Options
	// OVS is the remote of the hypervisor's Open vSwitch database.
	OVS string
	// Bridge is the integration bridge; "" is ovn-controller's
	// (external_ids:ovn-bridge), else br-int.
	Bridge string
	// Chassis is the name of this hypervisor in OVN; "" is ovn-controller's
	// (external_ids:system-id).
	Chassis string
	// Owner is the installation whose attachments are plugged.
	Owner string
	// NetnsDir is the folder of named network namespaces (ip-netns(8)).
	NetnsDir string
	// AllowedPrograms are the absolute paths of what hooks may run.
	AllowedPrograms []string
	// HookTimeout is how long a hook may run before it is killed.
	HookTimeout time.Duration
	// Timeout bounds each exchange with a database.
	Timeout time.Duration
	// Registerer gets the metrics.
	Registerer prometheus.Registerer
	Log        *slog.Logger
	Now        func() time.Time
}

const (
	// settle is how long after it began to watch the agent removes nothing:
	// until then ports may be missing because OVN itself is just starting.
	settle = 3 * time.Second
	// debounce lets changes that come together be worked on together.
	debounce = 20 * time.Millisecond
	// resync is the time between two looks at everything without a reason.
	resync = 10 * time.Second
	// controllerPatience is how long ovn-controller may take to let go of an
	// interface.
	controllerPatience = 2 * time.Second
	// parallel is how many interfaces are worked on at once.
	parallel = 8
	// retryFirst and retryMost bound the time to the next attempt.
	retryFirst = 500 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Agent is one agent. Make it with New.
type Agent struct {
	o       Options
	metrics *metrics
	hooks   hooks
	queue   *queue

	// The connections, of which nbdb makes anew what breaks; sb is to sbRemotes.
	ovs, sb   *nbdb.Client
	sbRemotes string
	lock      *os.File // nil until it was first had
}

// New prepares an agent; Run runs it.
func New(o Options) (*Agent, error) {
	a := &Agent{o: o, metrics: newMetrics(), hooks: hooks{allowed: o.AllowedPrograms, timeout: o.HookTimeout, now: o.Now}}
	a.queue = newQueue(o.Now)
	if err := a.metrics.register(o.Registerer); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return a, nil
}

// Run works until ctx ends, which is no error; where a database can't be
// reached it tries again.
func (a *Agent) Run(ctx context.Context) error {
	defer a.close()
	defer a.queue.wait()
	delay := retryFirst
	for ctx.Err() == nil {
		began := a.o.Now()
		err := a.follow(ctx)
		a.metrics.watching.Set(0)
		if ctx.Err() != nil {
			break
		}
		if a.o.Now().Sub(began) > retryMost {
			delay = retryFirst
		}
		a.o.Log.WarnContext(ctx, "not watching: trying again", "error", err, "in", delay)
		if pause(ctx, delay) != nil {
			break
		}
		delay = min(2*delay, retryMost/6)
	}
	return nil
}

// errEnded says that a watch has ended.
var errEnded = errors.New("the connection to the southbound database, or the chassis there, has gone")

// follow works on one connection to the southbound database, from its beginning to
// its end.
func (a *Agent) follow(ctx context.Context) error {
	s, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer s.requests.Close()
	a.o.Log.InfoContext(ctx, "watching", "chassis", s.chassis, "bridge", s.bridge)
	a.metrics.watching.Set(1)
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for full := true; ; {
		next, err := s.pass(ctx, full)
		if err != nil {
			return err
		}
		full = false
		retry := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-s.requests.Done():
			err = errEnded
		case <-s.poke:
			err = pause(ctx, debounce)
		case <-a.queue.finished:
		case <-tick.C:
			full = true
		case <-retry.C:
		}
		retry.Stop()
		if ctx.Err() != nil || err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// watch is what the agent has open while it watches.
type watch struct {
	*Agent
	ovs, sb  *nbdb.Client
	requests *nbdb.Requests
	kernel   kernel
	bridge   string
	chassis  string
	names    []string // by which OVN knows this chassis
	poke     chan struct{}
	began    time.Time
	swept    bool
}

func (a *Agent) begin(ctx context.Context) (*watch, error) {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	if a.ovs == nil {
		ovs, err := nbdb.Dial(ctx, nbdb.Options{Remotes: a.o.OVS, Database: nbdb.OpenVSwitch, Logger: a.o.Log})
		if err != nil {
			return nil, err
		}
		a.ovs = ovs
	}
	vs, err := a.ovs.ReadVSwitch(ctx)
	if err != nil {
		return nil, err
	}
	s := &watch{Agent: a, ovs: a.ovs, poke: make(chan struct{}, 1), began: a.o.Now()}
	if err := s.identify(vs); err != nil {
		return nil, err
	}
	if err := a.exclude(s.chassis); err != nil {
		return nil, err
	}
	if err := a.southbound(ctx, vs.ExternalIDs["ovn-remote"]); err != nil {
		return nil, err
	}
	s.sb = a.sb
	s.requests, err = s.sb.WatchRequests(ctx, s.chassis, s.changed)
	return s, err
}

// southbound connects to the southbound database, to ovn-controller's where no
// other is given.
func (a *Agent) southbound(ctx context.Context, controller string) error {
	o := a.o.Southbound
	o.Database, o.Logger = nbdb.Southbound, a.o.Log
	if o.Remotes == "" {
		o.Remotes = controller
	}
	if a.sb != nil && a.sbRemotes == o.Remotes {
		return nil
	}
	if a.sb != nil {
		a.sb.Close()
		a.sb = nil
	}
	sb, err := nbdb.Dial(ctx, o)
	if err != nil {
		return err
	}
	a.sb, a.sbRemotes = sb, o.Remotes
	return nil
}

func (a *Agent) close() {
	for _, c := range []*nbdb.Client{a.ovs, a.sb} {
		if c != nil {
			c.Close()
		}
	}
	if a.lock != nil {
		_ = a.lock.Close() // the kernel would, in a moment
	}
}

// identify finds out which chassis and bridge are meant.
func (s *watch) identify(vs *nbdb.VSwitch) error {
	or := func(values ...string) string {
		for _, v := range values {
			if v != "" {
				return v
			}
		}
		return ""
	}
	chassis := or(s.o.Chassis, vs.ExternalIDs["system-id"])
	if chassis == "" {
		return errors.New("this hypervisor has no name: external_ids:system-id of Open vSwitch is not set")
	}
	s.bridge = or(s.o.Bridge, vs.ExternalIDs["ovn-bridge"], "br-int")
	hostname := vs.ExternalIDs["hostname"]
	if hostname == "" {
		var err error
		if hostname, err = os.Hostname(); err != nil {
			return fmt.Errorf("reading the hostname: %w", err)
		}
	}
	s.chassis, s.names = chassis, []string{chassis, hostname}
	s.kernel = kernel{owner: s.o.Owner, netnsDir: s.o.NetnsDir}
	return nil
}

func (s *watch) changed() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// pass compares what is wanted with what is there and sets to work on what
// differs. A full pass looks into the kernel too. It returns how long until
// something is to be tried again.
func (s *watch) pass(ctx context.Context, full bool) (time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	requests, err := s.requests.List(limited)
	if err != nil {
		return 0, err
	}
	want := map[string]*wanted{}
	for _, r := range requests {
		if w := wantedOf(r, s.o.Owner, s.chassis); w != nil {
			want[r.LogicalPort] = w
		}
	}
	// What is being worked on is left out, so it must be known before what is
	// there is read.
	busy := s.queue.busy()
	vs, err := s.ovs.ReadVSwitch(limited)
	if err != nil {
		return 0, err
	}
	bridge, ok := vs.Bridges[s.bridge]
	if !ok {
		return 0, fmt.Errorf("there is no bridge %s yet", s.bridge)
	}
	s.kernel.userspace = bridge.Datapath == "netdev"
	have := s.have(vs)
	settled := s.o.Now().Sub(s.began) >= settle
	if settled {
		s.clean(ctx, bridge.ExternalIDs, want, have)
	}
	ports := slices.Sorted(maps.Keys(want))
	for port := range have {
		if want[port] == nil && settled {
			ports = append(ports, port)
		}
	}
	plugged, next := 0, resync
	for _, port := range ports {
		t := &task{watch: s, kernel: s.kernel, port: port, want: want[port], have: have[port], vs: vs}
		if t.plugged() {
			plugged++
		}
		next = min(next, s.start(ctx, t, full, busy[port]))
	}
	s.queue.keep(ports)
	s.metrics.plugged.Set(float64(plugged))
	s.metrics.failing.Set(float64(s.queue.failing()))
	next = s.queue.next(next)
	if !settled {
		next = min(next, settle)
	}
	return next, nil
}

// clean removes what nobody accounts for: notes, and once what is left in the
// kernel.
func (s *watch) clean(ctx context.Context, notes map[string]string, want map[string]*wanted, have map[string][]plugged) {
	if !s.swept {
		if err := s.sweep(ctx, want, have); err != nil {
			s.o.Log.WarnContext(ctx, "looking for leftovers", "error", err)
		}
		s.swept = true
	}
	if err := s.tidy(ctx, notes, want, have); err != nil {
		s.o.Log.WarnContext(ctx, "tidying notes", "error", err)
	}
}

// start sets to work on a port if there may be something to do. It returns how
// long until there is more.
func (s *watch) start(ctx context.Context, t *task, full, busy bool) time.Duration {
	s.queue.see(t.port)
	renewal := t.renewal()
	if !busy && (full || !t.plugged() || renewal <= 0) {
		s.queue.start(ctx, t.port, t.version(), t.run)
	}
	if renewal <= 0 {
		return resync // when it fails, the queue knows
	}
	return renewal
}

// have are the interfaces that the agent has made, by port. There is more than
// one of a port only where Open vSwitch's database was changed by hand.
func (s *watch) have(vs *nbdb.VSwitch) map[string][]plugged {
	out := map[string][]plugged{}
	for _, name := range slices.Sorted(maps.Keys(vs.Bridges)) {
		for _, i := range vs.Bridges[name].Interfaces {
			if p, ours := pluggedOf(i, name, s.o.Owner); ours {
				out[p.record.InterfaceID] = append(out[p.record.InterfaceID], p)
			}
		}
	}
	return out
}
