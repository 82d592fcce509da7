// Command demo shows the whole way of a spec: it starts an OVN with two
// hypervisors in network namespaces, applies the three-tier example with
// bin/ovn-vpc, plans it again, plugs a guest for every attachment, and tries
// with packets who reaches whom. It needs root, and removes all it made.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const (
	example = "examples/three-tier/"
	binary  = "bin/ovn-vpc"
	// patience bounds one probe: long enough for a lost first packet.
	patience = 1500 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root; without it, try `bin/ovn-vpc sandbox up` and the commands of the README")
	}
	fmt.Println("== An OVN with two hypervisors in network namespaces, tunnels by VXLAN")
	l, err := lab.Up(ctx, lab.Options{Hypervisors: 2, Encap: "vxlan"})
	if err != nil {
		return err
	}
	defer func() {
		down := l.Down(context.WithoutCancel(ctx))
		if err = errors.Join(err, down); err == nil {
			fmt.Println("\nThe namespaces, their processes and databases: all removed.")
		}
	}()

	fmt.Println("\n== Apply")
	if err := show(ctx, l, "apply", "-f", example, "--wait", "sb"); err != nil {
		return err
	}
	fmt.Println("\n== Plan again: nothing left to do")
	if err := show(ctx, l, "plan", "-f", example, "--exit-code"); err != nil {
		return err
	}
	net, err := read(ctx, l)
	if err != nil {
		return err
	}
	fmt.Println("\n== A guest for every attachment")
	guests, err := net.plug(ctx, l)
	if err != nil {
		return err
	}
	fmt.Println("\n== Who reaches whom, tried with packets")
	return net.matrix(ctx, guests)
}

// vpc is bin/ovn-vpc on the lab's northbound database.
func vpc(ctx context.Context, l *lab.Lab, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), l.Sandbox().Env()...)
	cmd.Stderr = os.Stderr
	return cmd
}

// show runs a command and shows it with what it prints.
func show(ctx context.Context, l *lab.Lab, args ...string) error {
	fmt.Printf("$ ovn-vpc %s\n", strings.Join(args, " "))
	cmd := vpc(ctx, l, args...)
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ovn-vpc %s: %w", args[0], err)
	}
	return nil
}

// list is what `get -o json` prints, as far as the demo looks at it.
type list[Spec any] struct {
	Items []struct {
		Metadata struct{ Name, VPC string }
		Spec     Spec
		Status   struct {
			Addresses   []netip.Addr
			MAC         string
			InterfaceID string
		}
	}
}

type network struct {
	attachments list[struct{ Tier string }]
	tiers       list[struct {
		CIDRs    []netip.Prefix
		Gateways []netip.Addr
	}]
	acls list[struct {
		Rules []struct {
			Protocol model.Protocol
			Ports    []model.PortRange
		}
	}]
}

func read(ctx context.Context, l *lab.Lab) (*network, error) {
	n := &network{}
	fmt.Println("\n== What is there now")
	if err := show(ctx, l, "get", "attachment", "-o", "wide"); err != nil {
		return nil, err
	}
	for kind, into := range map[string]any{"attachment": &n.attachments, "tier": &n.tiers, "acl": &n.acls} {
		out, err := vpc(ctx, l, "get", kind, "-o", "json").Output()
		if err == nil {
			err = json.Unmarshal(out, into)
		}
		if err != nil {
			return nil, fmt.Errorf("ovn-vpc get %s: %w", kind, err)
		}
	}
	if len(n.attachments.Items) == 0 {
		return nil, fmt.Errorf("%s has no attachment", example)
	}
	return n, nil
}

// plug starts the attachments' guests, on the hypervisors in turn.
func (n *network) plug(ctx context.Context, l *lab.Lab) ([]*lab.Guest, error) {
	var guests []*lab.Guest
	for i, a := range n.attachments.Items {
		spec := lab.GuestSpec{Name: a.Metadata.Name, InterfaceID: a.Status.InterfaceID, MAC: a.Status.MAC}
		for _, tier := range n.tiers.Items {
			if tier.Metadata.Name != a.Spec.Tier || tier.Metadata.VPC != a.Metadata.VPC {
				continue
			}
			for _, address := range a.Status.Addresses {
				for j, prefix := range tier.Spec.CIDRs {
					if prefix.Contains(address) {
						spec.Addresses = append(spec.Addresses, netip.PrefixFrom(address, prefix.Bits()))
						spec.Gateways = append(spec.Gateways, tier.Spec.Gateways[j])
					}
				}
			}
		}
		if len(spec.Addresses) == 0 {
			return nil, fmt.Errorf("attachment %s has no address in its tier %s", a.Metadata.Name, a.Spec.Tier)
		}
		g, err := l.Hypervisors[i%len(l.Hypervisors)].Plug(ctx, spec)
		if err != nil {
			return nil, err
		}
		guests = append(guests, g)
		for _, port := range n.ports() {
			if _, err := g.Listen("tcp", port); err != nil {
				return nil, err
			}
		}
		fmt.Printf("%s on %s: %v\n", spec.Name, g.Hypervisor().Name, spec.Addresses)
	}
	for _, g := range guests {
		if err := g.WaitInstalled(ctx); err != nil {
			return nil, err
		}
	}
	return guests, l.WaitHV(ctx)
}

// ports are the TCP ports to try: those that the lists name, and one that
// they hardly do.
func (n *network) ports() []uint16 {
	ports := []uint16{9}
	for _, acl := range n.acls.Items {
		for _, rule := range acl.Spec.Rules {
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

// matrix prints for every pair of guests what gets through.
func (n *network) matrix(ctx context.Context, guests []*lab.Guest) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "from\tto\tping")
	for _, port := range n.ports() {
		fmt.Fprintf(table, "\ttcp %d", port)
	}
	fmt.Fprintln(table)
	var rows []*row
	for _, from := range guests {
		for _, to := range guests {
			if from != to {
				rows = append(rows, &row{from: from, to: to})
			}
		}
	}
	// At once: most of the time goes into waiting for what is denied.
	var wg sync.WaitGroup
	for _, r := range rows {
		wg.Go(func() { r.err = r.try(ctx, n.ports()) })
	}
	wg.Wait()
	for _, r := range rows {
		if r.err != nil {
			return r.err
		}
		fmt.Fprintln(table, strings.Join(r.cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Println(`yes: an answer; refused: a rule with reject; "-": no answer`)
	return nil
}

// row is what one guest gets through to another.
type row struct {
	from, to *lab.Guest
	cells    []string
	err      error
}

func (r *row) try(ctx context.Context, ports []uint16) error {
	address := r.to.Spec.Addresses[0].Addr()
	received, err := r.from.Ping(ctx, address, 3)
	if err != nil {
		return err
	}
	ping := "-"
	if received > 0 {
		ping = "yes"
	}
	r.cells = []string{r.from.Spec.Name, r.to.Spec.Name, ping}
	for _, port := range ports {
		probe, cancel := context.WithTimeout(ctx, patience)
		outcome, err := r.from.Probe(probe, "tcp", netip.AddrPortFrom(address, port))
		cancel()
		if err != nil {
			return err
		}
		cell := string(outcome)
		switch outcome {
		case lab.Answered:
			cell = "yes"
		case lab.TimedOut:
			cell = "-"
		}
		r.cells = append(r.cells, cell)
	}
	return nil
}
