package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// churnOptions say how interfaces come and go.
type churnOptions struct {
	length      time.Duration // of each of the two ways of arriving
	rate        float64       // attachments that come, in a second; when the tiers are full as many go
	tiers       int           // of sizes by a power law
	population  int           // guests of all tiers, when these are full
	hypervisors int
	seed        uint64
}

const (
	// exponent is that of the power law: the n-th tier has room for 1/n of what
	// the first has.
	exponent = 1
	// firstPing asks again and again, and ends with the first answer. The kernel
	// by itself would ask for a neighbour three times, once a second.
	firstPing = "cd /proc/sys/net/ipv4/neigh/eth0 && echo 20 >retrans_time_ms && echo 3000 >mcast_solicit && exec ping -n -q -i 0.01 -c 1 -w 60 $1"
	// lastPatience bounds what is still under way when arrivals end.
	lastPatience = 2 * time.Minute
)

// stage is a part of what happens to an attachment, counted from the call.
type stage int

const (
	addressed stage = iota // the call is answered, with an address
	bound                  // ovn-controller has bound the port: it is up
	reached                // the first ping is answered
	detached               // a call that detaches is answered, from that call
	stages
)

func (s stage) String() string {
	return [...]string{"call to addressed", "call to bound by ovn-controller", "call to first ping answered", "detach"}[s]
}

// churn lets interfaces come and go on hypervisors in namespaces: first evenly,
// then by a Poisson process of the same rate. It ends by itself.
func (b *bench) churn(ctx context.Context, o churnOptions, out io.Writer) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("churn needs root: hypervisors are network namespaces")
	}
	l, err := lab.Up(ctx, lab.Options{Hypervisors: o.hypervisors, Encap: "geneve"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down(context.WithoutCancel(ctx))) }()
	n := network{vpc: vpcName, tiers: o.tiers, rules: b.size.rules}
	specs, err := b.writeSpecs(n, "churn")
	if err != nil {
		return err
	}
	if _, err := b.apply(ctx, l.NB(), specs); err != nil {
		return err
	}
	server, err := b.serve(ctx, "--nb", l.NB(), "--sb", l.SB())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	c := &churning{options: o, server: server, lab: l, rand: rand.New(rand.NewPCG(o.seed, o.seed)), ups: map[string]chan struct{}{}}
	watching, hangUp := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { c.watch(watching) })
	defer func() { hangUp(); watch.Wait() }()
	if err := c.populate(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d tiers with room for %d guests in all, by a power law; %d hypervisors; %g attachments a second\n", o.tiers, o.population, o.hypervisors, o.rate)
	even := func() float64 { return 1 }
	for _, way := range []struct {
		name string
		gap  func() float64
	}{{"constant rate", even}, {"Poisson arrivals", c.rand.ExpFloat64}} {
		if err := c.run(ctx, way.gap); err != nil {
			return err
		}
		c.tell(out, way.name)
	}
	return nil
}

// churning is one churn.
type churning struct {
	options churnOptions
	server  *served
	lab     *lab.Lab
	rand    *rand.Rand // of the goroutine that makes arrivals
	tiers   []*populated
	serial  int

	mu    sync.Mutex
	ups   map[string]chan struct{} // closed when the attachment of this name is up
	times [stages][]time.Duration
	fault error // the first
}

// populated is a tier with its guests.
type populated struct {
	name   string
	prefix netip.Prefix
	room   int
	anchor netip.Addr // of a guest that stays: whom the others ping
	guests []*plugged // that may go
}

// plugged is an attachment with its guest.
type plugged struct {
	id    model.ID
	guest *lab.Guest
	done  chan struct{} // closed when it has answered, or failed
}

// watch notes which attachments are up, as an orchestrator would.
func (c *churning) watch(ctx context.Context) {
	for event, err := range c.server.Watch(ctx, client.WatchOptions{Filter: engine.Filter{Kind: model.KindAttachment, VPC: vpcName}}) {
		if err != nil {
			if ctx.Err() == nil {
				c.fail(fmt.Errorf("watching: %w", err))
			}
			return
		}
		status, ok := event.Object.Status.(*engine.AttachmentStatus)
		if ok && event.Type != client.Deleted && status.Up != nil && *status.Up {
			c.mu.Lock()
			up := c.upOf(event.Object.Resource.Metadata.Name)
			select {
			case <-up:
			default:
				close(up)
			}
			c.mu.Unlock()
		}
	}
}

// upOf is what is closed when an attachment is up; c.mu is held.
func (c *churning) upOf(name string) chan struct{} {
	if c.ups[name] == nil {
		c.ups[name] = make(chan struct{})
	}
	return c.ups[name]
}

func (c *churning) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil {
		c.fault = err
	}
}

func (c *churning) note(s stage, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[s] = append(c.times[s], time.Since(since))
}

// populate gives each tier its room and its anchor, on the first hypervisor.
func (c *churning) populate(ctx context.Context) error {
	sum := 0.0
	for i := range c.options.tiers {
		sum += math.Pow(float64(i+1), -exponent)
	}
	for i := range c.options.tiers {
		share := math.Pow(float64(i+1), -exponent) / sum
		t := &populated{name: fmt.Sprintf("tier-%d", i), prefix: netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i)),
			room: max(1, int(math.Round(share*float64(c.options.population))))}
		anchor := &plugged{done: make(chan struct{})}
		status, err := c.call(ctx, t, anchor, fmt.Sprintf("anchor-%d", i))
		if err != nil {
			return err
		}
		if err := c.plug(ctx, t, anchor, status, c.lab.Hypervisors[0]); err != nil {
			return err
		}
		t.anchor = status.Addresses[0]
		c.tiers = append(c.tiers, t)
	}
	return c.lab.WaitHV(ctx)
}

// run lets interfaces come, at distances that gap gives as multiples of the
// mean, and go where a tier is full.
func (c *churning) run(ctx context.Context, gap func() float64) error {
	c.times = [stages][]time.Duration{}
	working, cancel := context.WithTimeout(ctx, c.options.length+lastPatience)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	next := time.Now()
	for end := next.Add(c.options.length); next.Before(end); {
		if err := until(ctx, next); err != nil {
			return err
		}
		t := c.pick()
		if len(t.guests) >= t.room {
			i := c.rand.IntN(len(t.guests))
			leaver := t.guests[i]
			t.guests = append(t.guests[:i], t.guests[i+1:]...)
			all.Go(func() { c.detach(working, leaver) })
		}
		p := &plugged{done: make(chan struct{})}
		t.guests = append(t.guests, p)
		c.serial++
		name, hypervisor := fmt.Sprintf("a-%d", c.serial), c.lab.Hypervisors[c.serial%len(c.lab.Hypervisors)]
		all.Go(func() { c.attach(working, t, p, name, hypervisor) })
		next = next.Add(time.Duration(gap() / c.options.rate * float64(time.Second)))
	}
	all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// until waits for a moment.
func until(ctx context.Context, moment time.Time) error {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pick chooses a tier, the more often the more room it has.
func (c *churning) pick() *populated {
	all := 0
	for _, t := range c.tiers {
		all += t.room
	}
	n := c.rand.IntN(all)
	for _, t := range c.tiers {
		if n -= t.room; n < 0 {
			return t
		}
	}
	return c.tiers[0]
}

// call creates an attachment by REST.
func (c *churning) call(ctx context.Context, t *populated, p *plugged, name string) (*engine.AttachmentStatus, error) {
	spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
	spec.Tier = t.name
	r := &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: vpcName, Name: name}, Spec: spec}
	made, err := c.server.Create(ctx, r, client.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("attaching %s: %w", name, err)
	}
	p.id = made.Resource.ID()
	status, ok := made.Status.(*engine.AttachmentStatus)
	if !ok || len(status.Addresses) == 0 {
		return nil, fmt.Errorf("attaching %s: it has no address", name)
	}
	return status, nil
}

// plug starts an attachment's guest.
func (c *churning) plug(ctx context.Context, t *populated, p *plugged, status *engine.AttachmentStatus, h *lab.Hypervisor) (err error) {
	p.guest, err = h.Plug(ctx, lab.GuestSpec{Name: p.id.Name, InterfaceID: status.InterfaceID, MAC: string(status.MAC),
		Addresses: []netip.Prefix{netip.PrefixFrom(status.Addresses[0], t.prefix.Bits())}})
	return err
}

// attach is an arrival: from the call to the first ping of the tier's anchor.
func (c *churning) attach(ctx context.Context, t *populated, p *plugged, name string, h *lab.Hypervisor) {
	defer close(p.done)
	start := time.Now()
	status, err := c.call(ctx, t, p, name)
	if err != nil {
		c.fail(err)
		return
	}
	c.note(addressed, start)
	if err := c.plug(ctx, t, p, status, h); err != nil {
		c.fail(err)
		return
	}
	c.mu.Lock()
	up := c.upOf(name)
	c.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		select {
		case <-up:
			c.note(bound, start)
		case <-ctx.Done():
			c.fail(fmt.Errorf("waiting for %s to be bound: %w", name, ctx.Err()))
		}
	})
	if out, err := p.guest.Exec(ctx, "sh", "-c", firstPing, "sh", t.anchor.String()); err != nil {
		c.fail(fmt.Errorf("waiting for an answer to %s: %w: %s", name, err, strings.TrimSpace(out)))
	} else {
		c.note(reached, start)
	}
	both.Wait()
}

// detach takes a guest away, after it was reached.
func (c *churning) detach(ctx context.Context, p *plugged) {
	<-p.done
	if p.guest == nil {
		return
	}
	start := time.Now()
	if _, err := c.server.DeleteOne(ctx, p.id, client.WriteOptions{}); err != nil {
		c.fail(fmt.Errorf("detaching %s: %w", p.id, err))
		return
	}
	c.note(detached, start)
	if err := p.guest.Unplug(context.WithoutCancel(ctx)); err != nil {
		c.fail(err)
	}
}

// tell prints how long everything took.
func (c *churning) tell(out io.Writer, name string) {
	fmt.Fprintf(out, "\n| %s | count | p50 | p90 | p99 | max |\n|---|---|---|---|---|---|\n", name)
	for s := range stages {
		times := c.times[s]
		if len(times) == 0 {
			fmt.Fprintf(out, "| %s | 0 | | | | |\n", s)
			continue
		}
		fmt.Fprintf(out, "| %s | %d | %s | %s | %s | %s |\n", s, len(times), show(median(times)), show(percentile(times, 90)), show(percentile(times, 99)), show(percentile(times, 100)))
	}
}
