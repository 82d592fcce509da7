package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// site is a server on a database with a VPC, and a connection by hand to a twin
// of that database. The server would slow it down: it is told of each change.
type site struct {
	*served
	hand *wire
	twin *lab.Sandbox
}

// at applies specs to two empty databases, and runs f with a server on one.
func (b *bench) at(ctx context.Context, specs string, f func(*site) error) error {
	return b.on(ctx, func(box *lab.Sandbox) error {
		return b.on(ctx, func(twin *lab.Sandbox) (err error) {
			for _, of := range []*lab.Sandbox{box, twin} {
				if _, err := b.apply(ctx, of.NB(), specs); err != nil {
					return err
				}
			}
			server, err := b.serve(ctx, "--nb", box.NB())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, server.stop()) }()
			hand, err := dialWire(ctx, twin.NB())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, hand.Close()) }()
			return f(&site{served: server, hand: hand, twin: twin})
		})
	})
}

// timed appends the time of f to a series.
func timed(series *[]time.Duration, f func() error) error {
	start := time.Now()
	err := f()
	*series = append(*series, time.Since(start))
	return err
}

// independent tells by how much calls take longer where there is much than where
// there is little, and what the same is by hand: the database's own cost.
func independent(name string, calls, raw [][]time.Duration) row {
	grows, byHand := ratio(calls[1], calls[0]), ratio(raw[1], raw[0])
	return atMost(name, show(median(calls[1])), fmt.Sprintf("%s (raw: %.2f)", show(median(calls[0])), byHand), "that", grows, 1.3)
}

// callsPatience bounds a series of calls.
const callsPatience = time.Minute

// enough tells after how many calls a series ends: when there are as many as
// wanted, or when they have taken their time.
func (b *bench) enough() func(n int) bool {
	start := time.Now()
	return func(n int) bool { return n >= b.size.calls || n > 0 && time.Since(start) > callsPatience }
}

// ratio is that of the medians.
func ratio(a, b []time.Duration) float64 { return float64(median(a)) / float64(median(b)) }

// twoTiers makes specs of a VPC with a small tier and a large one.
func (b *bench) twoTiers(small, large int) (string, error) {
	n := b.shop(0)
	var text strings.Builder
	text.WriteString(n.vpcDoc())
	for i, number := range []int{small, large} {
		text.WriteString(n.tierDoc(i))
		text.WriteString(n.listDoc(i))
		for k := range number {
			text.WriteString(n.attachmentDoc(i*small+k, i))
		}
	}
	path := filepath.Join(b.dir, "two-tiers.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("writing specs: %w", err)
	}
	return path, nil
}

// attachTo creates an attachment by REST.
func (s *site) attachTo(ctx context.Context, tier string) (model.ID, error) {
	spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
	spec.Tier = tier
	made, err := s.Create(ctx, &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: vpcName}, Spec: spec}, client.CreateOptions{})
	if err != nil {
		return model.ID{}, err
	}
	return made.Resource.ID(), nil
}

// pattern is what to insert by hand where the subject attaches: a port with the
// columns of one of the tier's.
type pattern struct {
	on   string // the switch
	port entry
}

func (s *site) patternOf(ctx context.Context, tier string) (pattern, error) {
	all, err := readContent(ctx, s.twin.NB())
	if err != nil {
		return pattern{}, err
	}
	for _, e := range all.rows[tableSwitch] {
		if e.text("name") != vpcName+"/"+tier {
			continue
		}
		for _, port := range all.rows[tablePort] {
			if port.text("type") == "" && slices.Contains(e.set("ports"), port.uuid) {
				return pattern{e.uuid, port}, nil
			}
		}
	}
	return pattern{}, fmt.Errorf("tier %s has no port", tier)
}

// prepared is a request that inserts a port, with its UUID.
func (p pattern) prepared(number int) (data []byte, id string, err error) {
	port := entry{uuid: uuid.NewString(), columns: map[string]json.RawMessage{}}
	for column, value := range p.port.columns {
		port.columns[column] = value
	}
	port.columns["name"] = json.RawMessage(fmt.Sprintf("%q", fmt.Sprintf("by-hand-%d", number)))
	data, err = transaction(port.insert(tablePort), mutateSet(tableSwitch, p.on, "ports", port.uuid))
	return data, port.uuid, err
}

// removed is a request that takes a port away again.
func (p pattern) removed(id string) ([]byte, error) {
	return transaction(object{"op": "mutate", "table": tableSwitch, "where": isRow(p.on), "mutations": []any{[]any{"ports", "delete", []string{"uuid", id}}}})
}

// byHand inserts a port, timed, and removes it.
func (s *site) byHand(p pattern, number int, series *[]time.Duration) error {
	insert, id, err := p.prepared(number)
	if err != nil {
		return err
	}
	remove, err := p.removed(id)
	if err != nil {
		return err
	}
	if err := timed(series, func() error { _, err := s.hand.exchange(insert); return err }); err != nil {
		return err
	}
	_, err = s.hand.exchange(remove)
	return err
}

// attach creates attachments by REST, one after another, in a small and in a
// large tier.
func (b *bench) attach(ctx context.Context) ([]row, error) {
	sizes := []int{b.size.few / 100, b.size.attachments}
	specs, err := b.twoTiers(sizes[0], sizes[1])
	if err != nil {
		return nil, err
	}
	calls, raw := make([][]time.Duration, 2), make([][]time.Duration, 2)
	err = b.at(ctx, specs, func(s *site) error {
		for i := range sizes {
			if err := s.oneByOne(ctx, b.enough(), i, &calls[i], &raw[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, n := range sizes {
		name := fmt.Sprintf("one attachment by REST, in a tier of %d, p50", n)
		rows = append(rows, atMost(name, show(median(calls[i])), "raw insert and mutate "+show(median(raw[i])), "raw", ratio(calls[i], raw[i]), 5))
	}
	return append(rows, independent(fmt.Sprintf("... a tier of %d against one of %d", sizes[1], sizes[0]), calls, raw)), nil
}

// clients creates attachments by REST from many clients at once, in a large
// tier.
func (b *bench) clients(ctx context.Context) ([]row, error) {
	specs, err := b.twoTiers(1, b.size.attachments)
	if err != nil {
		return nil, err
	}
	number := b.size.calls * 10
	var together, alone []time.Duration
	for range b.rounds {
		if err := b.at(ctx, specs, func(s *site) error { return s.together(ctx, number, &together, &alone) }); err != nil {
			return nil, err
		}
	}
	rate := func(d time.Duration) string { return fmt.Sprintf("%.0f/s", float64(number)/d.Seconds()) }
	return []row{atLeast(fmt.Sprintf("attachments by REST, %d clients", parallel), rate(median(together)), "raw, one connection "+rate(median(alone)), "raw", pairwise(alone, together), 0.5)}, nil
}

// oneByOne attaches to a tier, by REST and by hand in turns.
func (s *site) oneByOne(ctx context.Context, enough func(int) bool, tier int, calls, raw *[]time.Duration) error {
	name := fmt.Sprintf("tier-%d", tier)
	p, err := s.patternOf(ctx, name)
	if err != nil {
		return err
	}
	for n := 0; !enough(n); n++ {
		if err := s.byHand(p, n, raw); err != nil {
			return err
		}
		var id model.ID
		err := timed(calls, func() (err error) {
			id, err = s.attachTo(ctx, name)
			return err
		})
		if err != nil {
			return err
		}
		if _, err := s.DeleteOne(ctx, id, client.WriteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// parallel is how many clients call at once.
const parallel = 32

// together attaches from many clients at once, and as often by hand on one
// connection, one transaction after another.
func (s *site) together(ctx context.Context, number int, together, alone *[]time.Duration) error {
	p, err := s.patternOf(ctx, "tier-1")
	if err != nil {
		return err
	}
	requests := make([][]byte, number)
	for n := range requests {
		if requests[n], _, err = p.prepared(n); err != nil {
			return err
		}
	}
	err = timed(alone, func() error {
		for _, data := range requests {
			if _, err := s.hand.exchange(data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return timed(together, func() error {
		var all sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(number))
		errs := make([]error, parallel)
		for i := range errs {
			all.Go(func() {
				for left.Add(-1) >= 0 && errs[i] == nil {
					_, errs[i] = s.attachTo(ctx, "tier-1")
				}
			})
		}
		all.Wait()
		return cmp.Or(errs...) // the first: they tend to be alike
	})
}
