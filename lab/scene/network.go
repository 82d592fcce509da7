package scene

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/node"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// item is one resource as `get -o json` prints it, as far as the scenes look
// at it.
type item[Spec any] struct {
	Metadata struct{ Name string }
	Spec     Spec
	Status   struct {
		Addresses        []netip.Addr
		MAC, InterfaceID string
		Chassis          string
		Up               bool
	}
}

type (
	attachment = item[struct {
		Tier string
		Plug *model.PlugSpec
	}]
	tier = item[struct {
		CIDRs    []netip.Prefix
		Gateways []netip.Addr
	}]
	acl = item[struct {
		Rules []struct {
			Protocol model.Protocol
			Ports    []model.PortRange
		}
	}]
)

// network is what was read back, and the guests.
type network struct {
	guests []*guest
	ports  []uint16 // of TCP: those that the lists name, and one that they hardly do
}

// guest is an attachment's guest.
type guest struct {
	lab.GuestSpec
	hv   *node.Client
	plug *model.PlugSpec // what the agent of a hypervisor is asked for, if there are agents
}

func (g *guest) address() netip.Addr { return g.Addresses[0].Addr() }

// list reads the VPC's resources of a kind.
func list[Item any](ctx context.Context, p *play, kind string) ([]Item, error) {
	out, err := p.stage.OVNVPC(ctx, "", "get", kind, "--vpc", vpc, "-o", "json")
	if err != nil {
		return nil, err
	}
	var found struct{ Items []Item }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return nil, fmt.Errorf("read what ovn-vpc get %s prints: %w", kind, err)
	}
	return found.Items, nil
}

// cast is the attachments of the example, with the hypervisors (0, 1 or 2) that
// their guests are on. Others in the same VPC are left alone.
func cast() map[string]int {
	return map[string]int{"app-1": 0, "app-2": 1, "db-1": 2, "web-1": 0, "web-2": 1}
}

// read finds out what was applied.
func (p *play) read(ctx context.Context) error {
	attachments, err := list[attachment](ctx, p, "attachment")
	if err != nil {
		return err
	}
	tiers, err := list[tier](ctx, p, "tier")
	if err != nil {
		return err
	}
	lists, err := list[acl](ctx, p, "acl")
	if err != nil {
		return err
	}
	p.net = network{ports: tcpPorts(lists)}
	for _, a := range attachments {
		place, ok := cast()[a.Metadata.Name]
		if !ok {
			continue
		}
		g := &guest{hv: p.stage.Hypervisors()[place], plug: a.Spec.Plug}
		g.Name, g.InterfaceID, g.MAC = a.Metadata.Name, a.Status.InterfaceID, a.Status.MAC
		for _, t := range tiers {
			if t.Metadata.Name == a.Spec.Tier {
				g.settle(a.Status.Addresses, t)
			}
		}
		if len(g.Addresses) == 0 {
			return fmt.Errorf("attachment %s has no address in its tier %s", g.Name, a.Spec.Tier)
		}
		p.net.guests = append(p.net.guests, g)
	}
	return nil
}

// settle gives the guest its addresses in a tier, with the gateways.
func (g *guest) settle(addresses []netip.Addr, t tier) {
	for _, address := range addresses {
		for i, prefix := range t.Spec.CIDRs {
			if prefix.Contains(address) {
				g.Addresses = append(g.Addresses, netip.PrefixFrom(address, prefix.Bits()))
				g.Gateways = append(g.Gateways, t.Spec.Gateways[i])
			}
		}
	}
}

func tcpPorts(lists []acl) []uint16 {
	ports := []uint16{9}
	for _, list := range lists {
		for _, rule := range list.Spec.Rules {
			for _, port := range rule.Ports {
				if rule.Protocol == model.ProtoTCP && !slices.Contains(ports, port.First) {
					ports = append(ports, port.First)
				}
			}
		}
	}
	slices.Sort(ports)
	return ports
}

// plug starts the guests and waits until they are part of the network.
func (p *play) plug(ctx context.Context) error {
	for _, g := range p.net.guests {
		if err := p.start(ctx, g); err != nil {
			return err
		}
		p.say("%-6s on %s: %v", g.Name, g.hv.Name, g.Addresses)
	}
	for _, g := range p.net.guests {
		if err := g.hv.WaitInstalled(ctx, g.Name); err != nil {
			return err
		}
	}
	return p.restored(ctx)
}

// restored waits until every hypervisor knows where the guests are.
func (p *play) restored(ctx context.Context) error {
	// An apply without a change waits all the same.
	if _, err := p.stage.OVNVPC(ctx, "", "apply", "-f", Example, "--wait", "hv"); err != nil {
		return err
	}
	return p.revalidate(ctx)
}

// start plugs a guest and lets it listen.
func (p *play) start(ctx context.Context, g *guest) error {
	if err := g.hv.Plug(ctx, g.GuestSpec); err != nil {
		return err
	}
	for _, port := range p.net.ports {
		if err := g.hv.Listen(ctx, g.Name, port); err != nil {
			return err
		}
	}
	return nil
}

// guest returns the guest of an attachment of the example.
func (p *play) guest(name string) (*guest, error) {
	for _, g := range p.net.guests {
		if g.Name == name {
			return g, nil
		}
	}
	return nil, fmt.Errorf("%s has no attachment %s", Example, name)
}

// pair returns two guests.
func (p *play) pair(first, second string) (a, b *guest, err error) {
	if a, err = p.guest(first); err == nil {
		b, err = p.guest(second)
	}
	return a, b, err
}
