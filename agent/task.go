package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// task brings one port to what is wanted of it. What it was read from stays
// true: nobody else works on the port.
type task struct {
	*watch
	kernel kernel
	port   string
	want   *wanted   // nil: nothing
	have   []plugged // the first is the one to keep
	vs     *nbdb.VSwitch
}

// version tells apart what is worth a new attempt at once.
func (t *task) version() string {
	v := ""
	if t.want != nil {
		v = t.want.digest + fmt.Sprint(t.want.record)
	}
	for _, p := range t.have {
		v += " " + string(p.UUID) + p.state()
	}
	return v
}

// plugged tells whether by Open vSwitch's database all is as wanted.
func (t *task) plugged() bool {
	return t.want != nil && t.want.err == nil && len(t.have) == 1 && t.have[0].state() == statePlugged && t.have[0].current(t.want) &&
		t.have[0].bridge == t.bridge && t.have[0].ExternalIDs[idError] == "" && !unfinished(t.have[0].ExternalIDs[idPostCreate])
}

func unfinished(text string) bool {
	state := executionOf(text).State
	return state == hookPending || state == hookRunning
}

// run is a job.
func (t *task) run(ctx context.Context, release func()) (changed bool, err error) {
	log := t.o.Log.With("port", t.port)
	changed, err = t.reconcile(ctx, release)
	if err == nil || ctx.Err() != nil {
		return changed, err
	}
	t.metrics.failures.Inc()
	log.WarnContext(ctx, "not as it should be: trying again", "error", err)
	if e := t.noteError(ctx, err); e != nil {
		log.WarnContext(ctx, "noting the error", "error", e)
	}
	return changed, err
}

func (t *task) reconcile(ctx context.Context, release func()) (changed bool, err error) {
	switch {
	case t.want == nil:
		if err := t.confirm(ctx); err != nil {
			return false, err
		}
		return true, t.unplugAll(ctx, t.have, release)
	case t.want.err != nil:
		return false, t.want.err
	case len(t.have) == 0:
		p, err := t.add(ctx)
		if err != nil {
			return false, err
		}
		t.have = []plugged{p}
		return true, t.make(ctx, p, nil, release)
	case len(t.have) > 1:
		return true, t.unplugAll(ctx, t.have[1:], release)
	}
	p := t.have[0]
	if p.state() == stateUnplugging || p.remade(t.want) || p.bridge != t.bridge {
		return true, t.unplugAll(ctx, t.have, release)
	}
	whole, err := t.kernel.complete(t.want.record, p.Name)
	if err != nil {
		return false, err
	}
	if !whole || p.state() != statePlugged {
		return true, t.make(ctx, p, &p.record, release)
	}
	if err := t.kernel.up(t.want.record, p.Name); err != nil {
		return false, err
	}
	if !p.current(t.want) {
		return true, t.change(ctx, p, release)
	}
	if t.renewal() <= 0 {
		return true, t.renew(ctx, p, release)
	}
	if p.ExternalIDs[idError] != "" {
		if err := t.set(ctx, p, map[string]string{idError: ""}); err != nil {
			return false, err
		}
		changed = true
	}
	ran, err := t.postCreate(ctx, p, release)
	return changed || ran, err
}

// confirm makes sure that a port which the watch no longer shows is not to be
// plugged here: rows of a watch also vanish when the chassis is registered
// anew, and guests must not lose their interfaces by that.
func (t *task) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	r, chassis, err := t.sb.ReadRequest(ctx, t.port)
	if err != nil {
		return err
	}
	if r == nil {
		return nil
	}
	if w := wantedOf(*r, t.o.Owner, t.chassis); w == nil {
		return nil
	}
	for _, name := range t.names {
		if slices.Contains(chassis, name) {
			return fmt.Errorf("the port is requested for this chassis, and not shown as such yet")
		}
	}
	return nil
}

// now is the time as it stands in external_ids.
func (t *task) now() string { return t.o.Now().UTC().Format(time.RFC3339) }

func (t *task) set(ctx context.Context, p plugged, ids map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	if err := t.ovs.SetInterface(ctx, p.UUID, p.mine(), ids); err != nil {
		return fmt.Errorf("noting the state of interface %s: %w", p.Name, err)
	}
	return nil
}

// ids are the external_ids that say what was wanted.
func (t *task) ids() (map[string]string, error) {
	text, err := json.Marshal(t.want.record)
	if err != nil {
		return nil, fmt.Errorf("encoding the record of %s: %w", t.want.Attachment, err)
	}
	return map[string]string{
		idInterface: t.port, idMAC: string(t.want.MAC), translate.KeyOwner: t.o.Owner, idAttachment: t.want.Attachment,
		idRecord: string(text), idDigest: t.want.digest,
	}, nil
}

// add puts the interface into Open vSwitch's database before anything of it is
// made: from there it is found again, whatever happens.
func (t *task) add(ctx context.Context) (plugged, error) {
	name, err := t.name()
	if err != nil {
		return plugged{}, err
	}
	ids, err := t.ids()
	if err != nil {
		return plugged{}, err
	}
	ids[idState], ids[idSince] = statePlugging, t.now()
	i := nbdb.NewInterface{Name: name, ExternalIDs: ids}
	if t.want.Plug.Type == model.PlugInternal {
		i.Type, i.MAC, i.MTU = "internal", string(t.want.MAC), t.want.Net.MTU
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	if err := t.ovs.AddInterface(ctx, t.bridge, i); err != nil {
		return plugged{}, fmt.Errorf("adding the interface %s to %s: %w", name, t.bridge, err)
	}
	vs, err := t.ovs.ReadVSwitch(ctx)
	if err != nil {
		return plugged{}, err
	}
	for _, have := range t.watch.have(vs)[t.port] {
		if have.Name == name {
			return have, nil
		}
	}
	return plugged{}, fmt.Errorf("the interface %s is gone again from %s", name, t.bridge)
}

// name chooses the interface's name, one that nobody else has.
func (t *task) name() (string, error) {
	used := map[string]bool{}
	for bridge, b := range t.vs.Bridges {
		used[bridge] = true
		for _, i := range b.Interfaces {
			used[i.Name] = true
			if i.ExternalIDs[idInterface] == t.port {
				return "", fmt.Errorf("the interface %s, which this agent has not made, is plugged as %s already", i.Name, t.port)
			}
		}
	}
	const attempts = 100
	for attempt := range attempts {
		name := interfaceName(t.o.Owner, t.want.record, attempt)
		taken, err := t.kernel.taken(name, t.want.record)
		if err != nil {
			return "", err
		}
		if !taken && !used[name] {
			return name, nil
		}
		if name == t.want.Plug.Name {
			return "", fmt.Errorf("interface %s: %w", name, errForeign)
		}
	}
	return "", fmt.Errorf("none of %d derived names is free", attempts)
}

// make makes the interface and runs its hook. old is what it was made from
// before, perhaps in part, nil if it wasn't.
func (t *task) make(ctx context.Context, p plugged, old *record, release func()) error {
	if p.state() != statePlugging || p.ExternalIDs[idPostCreate] != "" {
		// It was lost, as by a new start of the hypervisor: that it is made anew
		// has to be known before it is made.
		ids, err := t.ids()
		if err != nil {
			return err
		}
		ids[idState], ids[idSince], ids[idPostCreate], ids[idLease] = statePlugging, t.now(), "", ""
		if err := t.set(ctx, p, ids); err != nil {
			return err
		}
	}
	if err := t.kernel.make(ctx, t.want.record, p.Name, old); err != nil {
		return err
	}
	if err := t.opened(ctx, p); err != nil {
		return err
	}
	ids, err := t.ids()
	if err != nil {
		return err
	}
	if err := t.obtain(ctx, p, ids, release); err != nil {
		return err
	}
	ids[idState], ids[idSince], ids[idError] = statePlugged, t.now(), ""
	if len(t.want.Plug.PostCreateExec) > 0 {
		ids[idPostCreate] = Execution{State: hookPending}.String()
	}
	if err := t.set(ctx, p, ids); err != nil {
		return err
	}
	t.metrics.plugs.Inc()
	t.metrics.delay.Observe(t.o.Now().Sub(t.queue.seen(t.port)).Seconds())
	t.o.Log.InfoContext(ctx, "plugged", "attachment", t.want.Attachment, "interface", p.Name, "type", t.want.Plug.Type)
	p.ExternalIDs = ids
	_, err = t.postCreate(ctx, p, release)
	return err
}

// opened waits until ovs-vswitchd has opened the interface, and brings it up
// again: the flags that it sets then are those which it has read before, perhaps
// of an interface that was still down. One that does not open it soon isn't
// waited for: whole passes look at the flag.
func (t *task) opened(ctx context.Context, p plugged) error {
	brief, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	err := until(brief, func() (bool, error) {
		vs, err := t.ovs.ReadVSwitch(brief)
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(vs.Bridges[p.bridge].Interfaces, func(i nbdb.Interface) bool {
			return i.UUID == p.UUID && i.OFPort != 0
		}), nil
	})
	if err != nil && brief.Err() == nil {
		return fmt.Errorf("waiting for ovs-vswitchd to open %s: %w", p.Name, err)
	}
	return t.kernel.up(t.want.record, p.Name)
}

// change gives an interface that stays what has changed of its spec.
func (t *task) change(ctx context.Context, p plugged, release func()) error {
	if err := t.kernel.make(ctx, t.want.record, p.Name, &p.record); err != nil {
		return err
	}
	ids, err := t.ids()
	if err != nil {
		return err
	}
	if err := t.obtain(ctx, p, ids, release); err != nil {
		return err
	}
	ids[idError] = ""
	if err := t.set(ctx, p, ids); err != nil {
		return err
	}
	t.o.Log.InfoContext(ctx, "changed", "attachment", t.want.Attachment, "interface", p.Name)
	_, err = t.postCreate(ctx, p, release)
	return err
}

// postCreate runs the hook of an interface that was made, once: one that was
// running when the agent ended is not run again.
func (t *task) postCreate(ctx context.Context, p plugged, release func()) (ran bool, err error) {
	e := executionOf(p.ExternalIDs[idPostCreate])
	switch e.State {
	case hookPending:
		if len(t.want.Plug.PostCreateExec) == 0 {
			return true, t.set(ctx, p, map[string]string{idPostCreate: ""})
		}
	case hookRunning:
		e.State, e.Error = hookInterrupted, "the agent was stopped"
		return true, t.set(ctx, p, map[string]string{idPostCreate: e.String()})
	default:
		return false, nil
	}
	running := Execution{State: hookRunning, Started: t.now()}
	if err := t.set(ctx, p, map[string]string{idPostCreate: running.String()}); err != nil {
		return true, err
	}
	e = t.hook(ctx, "post-create", t.want.Plug.PostCreateExec, t.want.record, p.Name, release)
	return true, t.set(context.WithoutCancel(ctx), p, map[string]string{idPostCreate: e.String()})
}

// hook runs a hook, beside the work on other ports.
func (t *task) hook(ctx context.Context, what string, argv []string, r record, ifname string, release func()) Execution {
	release()
	began := t.o.Now()
	e := t.hooks.run(ctx, argv, r, ifname)
	t.metrics.hooks.WithLabelValues(what, e.State).Observe(t.o.Now().Sub(began).Seconds())
	log := t.o.Log.InfoContext
	if e.State != HookDone {
		log = t.o.Log.WarnContext
	}
	log(ctx, what+" hook", "attachment", r.Attachment, "interface", ifname, "program", argv[0], "result", e.String())
	return e
}

func (t *task) unplugAll(ctx context.Context, all []plugged, release func()) error {
	var errs []error
	for _, p := range all {
		errs = append(errs, t.unplug(ctx, p, release))
	}
	return errors.Join(errs...)
}

// unplug removes an interface: first it is taken out of service, last goes what
// says that it was there.
func (t *task) unplug(ctx context.Context, p plugged, release func()) error {
	before := executionOf(p.ExternalIDs[idPostDelete])
	if before.State == "" {
		before.State = hookPending
		if t.want == nil {
			t.letGo(ctx, p) // since it has no port any more
		}
		// Without its iface-id ovn-controller lets go of the port.
		if err := t.set(ctx, p, map[string]string{idState: stateUnplugging, idSince: t.now(), idInterface: "", idPostDelete: before.String()}); err != nil {
			return err
		}
		t.letGo(ctx, p) // since it has no iface-id any more
	}
	if err := t.kernel.remove(p.record, p.Name); err != nil {
		return err
	}
	after, err := t.postDelete(ctx, p, before, release)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.o.Timeout)
	defer cancel()
	if err := t.ovs.RemoveInterface(ctx, p.Interface, p.mine(), t.bridge, t.unplugged(p, after)); err != nil {
		return fmt.Errorf("removing the interface %s: %w", p.Name, err)
	}
	t.metrics.unplugs.Inc()
	t.o.Log.InfoContext(ctx, "unplugged", "attachment", p.record.Attachment, "interface", p.Name)
	return nil
}

// postDelete runs the hook of an interface that is out of service, once. It
// returns what became of it, nil without a hook.
func (t *task) postDelete(ctx context.Context, p plugged, before Execution, release func()) (*Execution, error) {
	argv := p.record.Plug.PostDeleteExec
	if len(argv) == 0 {
		return nil, nil
	}
	if before.State != hookPending {
		before.State, before.Error = hookInterrupted, "the agent was stopped"
		return &before, nil
	}
	running := Execution{State: hookRunning, Started: t.now()}
	if err := t.set(ctx, p, map[string]string{idPostDelete: running.String()}); err != nil {
		return nil, err
	}
	e := t.hook(ctx, "post-delete", argv, p.record, p.Name, release)
	return &e, nil
}

// letGo waits until ovn-controller has taken its own mark off an interface,
// but not long: it may not run. That of OVN 25.03 aborts when an interface is
// changed or goes while it does so.
func (t *task) letGo(ctx context.Context, p plugged) {
	ctx, cancel := context.WithTimeout(ctx, controllerPatience)
	defer cancel()
	err := until(ctx, func() (bool, error) {
		ids, err := t.ovs.ReadInterfaceIDs(ctx, p.UUID)
		return ids[idInstalled] == "", err
	})
	if err != nil {
		t.o.Log.DebugContext(ctx, "ovn-controller has not let go", "interface", p.Name, "error", err)
	}
}
