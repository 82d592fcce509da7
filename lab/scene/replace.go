package scene

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/node"
)

// Replacement is what became of a TCP stream while the list of its server's
// tier was replaced.
type Replacement struct {
	// Echoes came back while the list was replaced, again and again, by one that
	// allows the stream too. Gap is the longest time between two of them.
	Echoes int
	Gap    time.Duration
	// Denied came back while a list was in force that denies the stream, and
	// NewConnection is what a new connection met then.
	Denied        int
	NewConnection lab.Outcome
	// Resumed is set when the stream went on under the first list.
	Resumed bool
}

const (
	streamPort = 8080
	// replacements is how often the list is replaced by an equivalent one and back.
	replacements = 3
	// progress is how many echoes show that the stream runs.
	progress = 20
)

// The lists that the scene brings: one that allows what the tier's own does,
// in other words, and one that allows ping alone.
const (
	sceneLists = "scene-" // begins their names
	openList   = `{apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: scene-open, vpc: shop}, spec: {rules: [{number: 700, protocol: tcp, ports: [8000-8999]}, {number: 800, protocol: icmp}]}}`
	closedList = `{apiVersion: ovn-vpc/v1, kind: ACL, metadata: {name: scene-closed, vpc: shop}, spec: {rules: [{protocol: icmp}]}}`
)

// replace plays the scene, and leaves the lists as they were.
func (p *play) replace(ctx context.Context) (r Replacement, err error) {
	client, server, err := p.pair("web-1", "app-2")
	if err != nil {
		return r, err
	}
	if err := errors.Join(p.apply(ctx, openList), p.apply(ctx, closedList)); err != nil {
		return r, err
	}
	to := netip.AddrPortFrom(server.address(), streamPort)
	stream, err := client.hv.Stream(ctx, client.Name, to)
	if err != nil {
		return r, err
	}
	err = p.perform(ctx, client, to, stream, &r)
	if _, stopped := stream.Stop(ctx); err == nil {
		err = stopped
	}
	return r, errors.Join(err, p.restore(ctx))
}

func (p *play) perform(ctx context.Context, client *guest, to netip.AddrPort, stream *node.Activity, r *Replacement) error {
	for range replacements {
		for _, name := range []string{"scene-open", "app"} {
			if err := errors.Join(p.flows(ctx, stream), p.put(ctx, name)); err != nil {
				return err
			}
		}
	}
	if err := p.flows(ctx, stream); err != nil {
		return err
	}
	t, err := stream.Look(ctx)
	if err != nil {
		return err
	}
	r.Echoes, r.Gap = t.Received, t.Gap
	p.say("%d times replaced by a list that allows it as well: %d of %d tokens came back so far, at most %v between two", 2*replacements, t.Received, t.Sent, t.Gap.Round(time.Millisecond))
	if err := p.deny(ctx, client, to, stream, r); err != nil {
		return err
	}
	if err := errors.Join(p.put(ctx, "app"), p.flows(ctx, stream)); err != nil {
		return err
	}
	r.Resumed = true
	p.say("under the first list the same connection goes on")
	return nil
}

// deny puts a list in force that denies the stream.
func (p *play) deny(ctx context.Context, client *guest, to netip.AddrPort, stream *node.Activity, r *Replacement) error {
	if err := p.put(ctx, "scene-closed"); err != nil {
		return err
	}
	before, err := stream.Look(ctx)
	if err != nil {
		return err
	}
	if r.NewConnection, err = client.hv.Probe(ctx, client.Name, to); err != nil {
		return err
	}
	after, err := stream.Look(ctx)
	if err != nil {
		return err
	}
	r.Denied = after.Received - before.Received
	p.say("replaced by a list that denies it: %d of the %d tokens under way came back; a new connection: %s", r.Denied, after.Sent-before.Received, r.NewConnection)
	return nil
}

// put puts a list in force at the tier of the server.
func (p *play) put(ctx context.Context, name string) error {
	_, err := p.run(ctx, "acl", "replace", vpc, "app", name, "--wait", "hv")
	return errors.Join(err, p.revalidate(ctx))
}

// flows waits until the stream has made progress.
func (p *play) flows(ctx context.Context, stream *node.Activity) error {
	before, err := stream.Look(ctx)
	if err != nil {
		return err
	}
	return eventually(ctx, "the stream flows", func(ctx context.Context) (bool, error) {
		t, err := stream.Look(ctx)
		return t.Received >= before.Received+progress, err
	})
}
