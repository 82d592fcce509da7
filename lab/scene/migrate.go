package scene

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/lab/node"
)

// Migration is what became of pings to a guest while it moved.
type Migration struct {
	From, To       string // chassis
	Sent, Received int
	// Chassis is where ovn-vpc says that the guest is afterwards.
	Chassis string
}

// traveller is the attachment whose guest migrates, to the third hypervisor.
const traveller = "app-1"

func (p *play) destination() *node.Client { return p.stage.Hypervisors()[needed-1] }

// migrate plays the scene, and brings the guest back to where it was.
func (p *play) migrate(ctx context.Context) (m Migration, err error) {
	watcher, mover, err := p.pair("web-2", traveller)
	if err != nil {
		return m, err
	}
	target := &guest{GuestSpec: mover.GuestSpec, plug: mover.plug, hv: p.destination()}
	m.From, m.To = mover.hv.Name, target.hv.Name
	err = p.move(ctx, watcher, mover, target, &m)
	// Two interfaces of one ID: the one that stays has to be alone.
	return m, errors.Join(err, p.restore(ctx), p.plug(ctx))
}

// spec applies the guest's attachment with further fields.
func (p *play) spec(ctx context.Context, g *guest, fields ...string) error {
	if g.plug != nil {
		fields = append(fields, fmt.Sprintf("plug: {type: %s, name: %s}", g.plug.Type, g.plug.Name))
	}
	return p.apply(ctx, fmt.Sprintf(`{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: %s, vpc: %s}, spec: {tier: app, %s}}`, g.Name, vpc, strings.Join(fields, ", ")))
}

func (p *play) move(ctx context.Context, watcher, source, target *guest, m *Migration) error {
	if err := p.spec(ctx, source, "chassis: "+m.From); err != nil {
		return err
	}
	if err := watcher.hv.WaitPing(ctx, watcher.Name, source.address()); err != nil {
		return err
	}
	pings, err := watcher.hv.Pinging(ctx, watcher.Name, source.address())
	if err != nil {
		return err
	}
	err = p.steps(ctx, source, target, m)
	t, stopped := pings.Stop(ctx)
	if err := errors.Join(err, stopped); err != nil {
		return err
	}
	m.Sent, m.Received = t.Sent, t.Received
	p.say("%s moved from %s to %s: of %d pings %d were answered, %d lost", source.Name, m.From, m.To, m.Sent, m.Received, m.Sent-m.Received)
	return nil
}

// steps are those of a live migration. The guest's memory needs no copying.
func (p *play) steps(ctx context.Context, source, target *guest, m *Migration) error {
	if err := p.spec(ctx, source, "chassis: "+m.From, "migratingTo: "+m.To); err != nil {
		return err
	}
	if err := p.start(ctx, target); err != nil {
		return err
	}
	if err := target.hv.WaitInstalled(ctx, target.Name); err != nil {
		return err
	}
	p.say("%s announces itself on %s (RARP)", source.Name, m.To)
	err := eventually(ctx, "the guest is let in on "+m.To, func(ctx context.Context) (bool, error) {
		// More than once, as hypervisors do: a frame may be lost.
		if err := target.hv.Announce(ctx, target.Name); err != nil {
			return false, err
		}
		received, err := target.hv.Ping(ctx, target.Name, target.Gateways[0], 1)
		return received > 0, err
	})
	if err != nil {
		return err
	}
	if err := p.spec(ctx, source, "chassis: "+m.To); err != nil {
		return err
	}
	if err := source.hv.Unplug(ctx, source.Name); err != nil {
		return err
	}
	return eventually(ctx, "the guest is on "+m.To, func(ctx context.Context) (bool, error) {
		all, err := list[attachment](ctx, p, "attachment")
		for _, a := range all {
			if a.Metadata.Name == source.Name {
				m.Chassis = a.Status.Chassis
			}
		}
		return m.Chassis == m.To, err
	})
}
