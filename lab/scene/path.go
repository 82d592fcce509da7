package scene

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/ovn-vpc/ovn-vpc/lab/node"
)

// Path is how often some pings between two guests, with their answers, crossed
// the underlay.
type Path struct {
	From, To    string // guests
	Distributed bool   // the routing
	// Crossings are the tunnelled packets of each hypervisor, in the lab's
	// order.
	Crossings []Crossing
}

// Crossing is what one hypervisor received from the underlay and sent there.
type Crossing struct{ In, Out int }

// Pings is how many echo requests a Path counts.
const Pings = 3

// paths counts with every hypervisor as a router, and with one for all: the
// third, where neither end is.
func (p *play) paths(ctx context.Context) (all []Path, err error) {
	hvs := p.stage.Hypervisors()
	for _, distributed := range []bool{true, false} {
		if !distributed {
			err := p.apply(ctx, fmt.Sprintf(`{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: %s}, spec: {cidrs: [10.10.0.0/16], distributedRouting: false, chassis: %s}}`, vpc, hvs[needed-1].Name))
			if err != nil {
				return nil, err
			}
		}
		for _, pair := range [][2]string{{"web-1", "app-1"}, {"web-1", "app-2"}} {
			path, err := p.path(ctx, pair[0], pair[1])
			if err != nil {
				return nil, errors.Join(err, p.restore(ctx))
			}
			path.Distributed = distributed
			all = append(all, path)
		}
	}
	return all, errors.Join(p.restore(ctx), p.printPaths(all))
}

// path counts one way. The first packets of a way, while neighbours are
// resolved, don't count.
func (p *play) path(ctx context.Context, fromName, toName string) (Path, error) {
	path := Path{From: fromName, To: toName}
	from, to, err := p.pair(fromName, toName)
	if err != nil {
		return path, err
	}
	if err := from.hv.WaitPing(ctx, from.Name, to.address()); err != nil {
		return path, err
	}
	hvs := p.stage.Hypervisors()
	counts := make([]*node.Activity, len(hvs))
	for i, hv := range hvs {
		if counts[i], err = hv.Count(ctx, from.address(), to.address()); err != nil {
			return path, err
		}
	}
	received, err := from.hv.Ping(ctx, from.Name, to.address(), Pings)
	if err == nil && received != Pings {
		err = fmt.Errorf("of %d pings from %s to %s %d were answered", Pings, fromName, toName, received)
	}
	for _, count := range counts {
		t, stopped := count.Stop(ctx)
		err = errors.Join(err, stopped)
		path.Crossings = append(path.Crossings, Crossing{In: t.Received, Out: t.Sent})
	}
	return path, err
}

func (p *play) printPaths(all []Path) error {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	head := []string{"routing", "from", "to"}
	for _, hv := range p.stage.Hypervisors() {
		head = append(head, hv.Name+" in/out")
	}
	fmt.Fprintln(table, strings.Join(head, "\t"))
	for _, path := range all {
		row := []string{"on " + p.stage.Hypervisors()[needed-1].Name, p.where(path.From), p.where(path.To)}
		if path.Distributed {
			row[0] = "distributed"
		}
		for _, c := range path.Crossings {
			row = append(row, fmt.Sprintf("%d/%d", c.In, c.Out))
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// where names a guest and its hypervisor.
func (p *play) where(name string) string {
	g, err := p.guest(name)
	if err != nil {
		return name
	}
	return name + " (" + g.hv.Name + ")"
}
