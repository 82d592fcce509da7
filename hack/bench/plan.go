package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// doublings measures the processor time of what is done with a quarter, half
// and all of something, and compares each with the one before. A limit of 0 is
// none.
func (b *bench) doublings(what string, all int, limit float64, take func(size int) (spent, error)) ([]row, error) {
	sizes := []int{all / 4, all / 2, all}
	series := make([][]time.Duration, len(sizes))
	for range b.rounds {
		for i, size := range sizes {
			took, err := take(size)
			if err != nil {
				return nil, err
			}
			series[i] = append(series[i], took.processor)
		}
	}
	var rows []row
	for i := range sizes[1:] {
		half := fmt.Sprintf("of %d: %s", sizes[i], show(median(series[i])))
		r := atMost(fmt.Sprintf(what, sizes[i+1]), show(median(series[i+1]))+" of CPU", half, "half of them", pairwise(series[i+1], series[i]), limit)
		if limit == 0 {
			r.target = ""
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// plan is what it costs to plan more and more VPCs of 10 tiers with 20
// attachments each, on an empty database.
func (b *bench) plan(ctx context.Context) (rows []row, err error) {
	err = b.on(ctx, func(box *lab.Sandbox) error {
		rows, err = b.doublings("plan of %d VPCs x 10 tiers x 20 attachments", b.size.planned, 2.2, func(size int) (spent, error) {
			folder := fmt.Sprintf("plan-%d", size)
			for k := range size {
				n := network{vpc: fmt.Sprintf("vpc-%d", k), tiers: 10, rest: 10 * 20, rules: 5}
				if _, err := b.writeSpecs(n, folder, n.vpc); err != nil {
					return spent{}, err
				}
			}
			return b.carryOut(ctx, "plan", box.NB(), filepath.Join(b.dir, folder))
		})
		return err
	})
	return rows, err
}

// growth is what it costs to apply a VPC with more and more attachments.
func (b *bench) growth(ctx context.Context) ([]row, error) {
	return b.doublings("first apply of a VPC with %d attachments", b.size.attachments, 0, func(size int) (took spent, err error) {
		specs, err := b.writeSpecs(b.shop(size), fmt.Sprintf("growth-%d", size))
		if err != nil {
			return spent{}, err
		}
		err = b.on(ctx, func(box *lab.Sandbox) error {
			took, err = b.carryOut(ctx, "apply", box.NB(), specs)
			return err
		})
		return took, err
	})
}
