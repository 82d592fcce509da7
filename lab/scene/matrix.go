package scene

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// Reach is what one guest gets through to another.
type Reach struct {
	From, To string
	Ping     bool
	TCP      map[uint16]lab.Outcome // by port
}

// matrix tries every pair of guests.
func (p *play) matrix(ctx context.Context) ([]Reach, error) {
	var all []Reach
	var pairs [][2]*guest
	for _, from := range p.net.guests {
		for _, to := range p.net.guests {
			if from != to {
				pairs = append(pairs, [2]*guest{from, to})
			}
		}
	}
	all = make([]Reach, len(pairs))
	errs := make([]error, len(pairs))
	// At once: most of the time goes into waiting for what is denied.
	var wg sync.WaitGroup
	for i, pair := range pairs {
		wg.Go(func() { all[i], errs[i] = p.reach(ctx, pair[0], pair[1]) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, p.printMatrix(all)
}

func (p *play) reach(ctx context.Context, from, to *guest) (Reach, error) {
	r := Reach{From: from.Name, To: to.Name, TCP: map[uint16]lab.Outcome{}}
	received, err := from.hv.Ping(ctx, from.Name, to.address(), 3)
	if err != nil {
		return r, err
	}
	r.Ping = received > 0
	for _, port := range p.net.ports {
		if r.TCP[port], err = from.hv.Probe(ctx, from.Name, netip.AddrPortFrom(to.address(), port)); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (p *play) printMatrix(all []Reach) error {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	head := []string{"from", "to", "ping"}
	for _, port := range p.net.ports {
		head = append(head, fmt.Sprintf("tcp %d", port))
	}
	fmt.Fprintln(table, strings.Join(head, "\t"))
	for _, r := range all {
		row := []string{r.From, r.To, "-"}
		if r.Ping {
			row[2] = "yes"
		}
		for _, port := range p.net.ports {
			cell := string(r.TCP[port])
			switch r.TCP[port] {
			case lab.Answered:
				cell = "yes"
			case lab.TimedOut:
				cell = "-"
			}
			row = append(row, cell)
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(p.out, `yes: an answer; refused: a rule with reject; "-": no answer`)
	return nil
}
