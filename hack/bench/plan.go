package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// plan is what it costs to plan more and more VPCs of 10 tiers with 20
// attachments each, on an empty database.
func (b *bench) plan(ctx context.Context) ([]row, error) {
	sizes := []int{b.size.planned / 4, b.size.planned / 2, b.size.planned}
	folders := make([]string, len(sizes))
	for i, size := range sizes {
		folder := fmt.Sprintf("plan-%d", size)
		folders[i] = filepath.Join(b.dir, folder)
		for k := range size {
			n := network{vpc: fmt.Sprintf("vpc-%d", k), tiers: 10, rest: 10 * 20, rules: 5}
			if _, err := b.writeSpecs(n, folder, n.vpc); err != nil {
				return nil, err
			}
		}
	}
	series := make([][]time.Duration, len(sizes))
	err := b.on(ctx, func(box *lab.Sandbox) error {
		for range b.rounds {
			for i, folder := range folders {
				cmd := exec.CommandContext(ctx, b.program, "plan", "--nb", box.NB(), "--timeout", "10m", "-f", folder)
				if err := timed(&series[i], cmd.Run); err != nil {
					return fmt.Errorf("%s plan: %w", filepath.Base(b.program), err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var rows []row
	for i := range sizes[1:] {
		name := fmt.Sprintf("plan of %d VPCs x 10 tiers x 20 attachments", sizes[i+1])
		half := fmt.Sprintf("of %d VPCs %s", sizes[i], show(median(series[i])))
		rows = append(rows, atMost(name, show(median(series[i+1])), half, "half of them", pairwise(series[i+1], series[i]), 2.2))
	}
	return rows, nil
}
