package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// flowRules are the rules of the list whose flows are counted.
const flowRules = 20

// tally is what a list costs: flows with it, less those without a rule.
type tally struct{ logical, openFlow int }

// flows counts what a list that many tiers use costs in the southbound database
// and on a hypervisor that has guests of all of them, with few attachments, all
// of them there, and with many more.
func (b *bench) flows(ctx context.Context) (rows []row, err error) {
	few, many := b.size.flowTiers*4, b.size.flowTiers*b.size.flowGuests
	name := func(what string) string {
		return fmt.Sprintf("%s of a list of %d rules, %d tiers, %d attachments", what, flowRules, b.size.flowTiers, many)
	}
	if os.Geteuid() != 0 {
		return []row{needsRoot(name("logical flows")), needsRoot(name("OpenFlow flows"))}, nil
	}
	l, err := lab.Up(ctx, lab.Options{Hypervisors: 1, Encap: "geneve"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Down(context.WithoutCancel(ctx))) }()
	// An ovn-controller that is busy for long must not count as gone: it would
	// begin anew, again and again.
	if _, err := l.Hypervisors[0].Vsctl(ctx, "set", "Open_vSwitch", ".", "external_ids:ovn-openflow-probe-interval=0", "external_ids:ovn-remote-probe-interval=0"); err != nil {
		return nil, err
	}
	f := &flowing{bench: b, lab: l, guests: few}
	small, err := f.cost(ctx, few)
	if err != nil {
		return nil, err
	}
	large, err := f.cost(ctx, many)
	if err != nil {
		return nil, err
	}
	if small.logical == 0 || small.openFlow == 0 {
		return nil, fmt.Errorf("a list costs %d logical and %d OpenFlow flows: it is not in force", small.logical, small.openFlow)
	}
	compare := func(what string, large, small int) row {
		return atMost(name(what), fmt.Sprint(large), fmt.Sprintf("%d attachments: %d", few, small), "that", float64(large)/float64(small), 1)
	}
	return []row{compare("logical flows", large.logical, small.logical), compare("OpenFlow flows", large.openFlow, small.openFlow)}, nil
}

func needsRoot(name string) row {
	return row{name: name, figure: "needs root", target: "at most 1 x that"}
}

// flowing is a lab with one VPC, whose attachments get more.
type flowing struct {
	*bench
	lab     *lab.Lab
	guests  int // on the hypervisor
	plugged bool
}

// cost brings the VPC to a number of attachments, and counts flows with and
// without the rules of the list.
func (f *flowing) cost(ctx context.Context, attachments int) (tally, error) {
	without, err := f.count(ctx, attachments, 0)
	if err != nil {
		return tally{}, err
	}
	with, err := f.count(ctx, attachments, flowRules)
	return tally{with.logical - without.logical, with.openFlow - without.openFlow}, err
}

func (f *flowing) count(ctx context.Context, attachments, rules int) (tally, error) {
	n := network{vpc: vpcName, tiers: f.size.flowTiers, rest: attachments, rules: rules}
	var text strings.Builder
	text.WriteString(n.vpcDoc() + n.listDoc(0))
	for i := range n.tiers {
		text.WriteString(strings.Replace(n.tierDoc(i), fmt.Sprintf("list-%d", i), "list-0", 1))
	}
	for i := range n.rest {
		text.WriteString(n.attachmentDoc(i, i%n.tiers))
	}
	path := filepath.Join(f.dir, "flows.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return tally{}, fmt.Errorf("writing specs: %w", err)
	}
	if _, err := f.apply(ctx, f.lab.NB(), path); err != nil {
		return tally{}, err
	}
	for _, step := range []func(context.Context) error{f.arrived, f.plug, f.arrived} {
		if err := step(ctx); err != nil {
			return tally{}, err
		}
	}
	out, err := f.lab.Sandbox().SBCtl(ctx, "--bare", "--columns=_uuid", "list", "Logical_Flow")
	if err != nil {
		return tally{}, err
	}
	openFlow, err := f.lab.Hypervisors[0].Flows(ctx)
	return tally{len(strings.Fields(out)), openFlow}, err
}

// arrived waits until the hypervisor has what is in the northbound database.
func (f *flowing) arrived(ctx context.Context) error {
	_, err := f.lab.Sandbox().NBCtl(ctx, "--timeout=1200", "--wait=hv", "sync")
	return err
}

// plug gives the hypervisor the interfaces of its guests: patch ports that lead
// nowhere, which cost no device. It returns when they are bound.
func (f *flowing) plug(ctx context.Context) error {
	if f.plugged {
		return nil
	}
	f.plugged = true
	var ports []string
	for i := range f.guests {
		port := fmt.Sprintf("p%d", i)
		ports = append(ports, "--", "add-port", "br-int", port, "--", "set", "Interface", port, "type=patch", "options:peer=no-"+port,
			fmt.Sprintf(`external_ids:iface-id="%s/a-%d"`, vpcName, i))
	}
	if _, err := f.lab.Hypervisors[0].Vsctl(ctx, ports...); err != nil {
		return err
	}
	for i := range f.guests {
		if _, err := f.lab.Sandbox().NBCtl(ctx, "wait-until", tablePort, fmt.Sprintf("%s/a-%d", vpcName, i), "up=true"); err != nil {
			return err
		}
	}
	return nil
}
