package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// batch is a call of Edit over its attempts.
type batch struct {
	engine   *Engine
	edits    []Edit
	runner   *runner
	outcomes []outcome   // one for each edit
	tries    [][]outcome // those of attempts that may have landed in part
	world    *world      // as the present attempt has read it
	requests map[requestKey]model.ID
	attempt  int
}

// requestKey is what marks the request that created a resource of a kind: the
// first word of Resource.Request.
type requestKey struct {
	kind model.Kind
	key  string
}

func requestKeyOf(r *model.Resource) requestKey {
	key, _, _ := strings.Cut(r.Request, " ")
	return requestKey{r.Kind, key}
}

// errLater says of an edit that it waits until the others are done: a removal
// whose users may be among them, or go along.
var errLater = errors.New("after the other edits")

// outcome is what has become of an edit: of its last attempt, or of the one
// that landed.
type outcome struct {
	before *model.Resource // as stored
	put    *model.Resource // as Change wants it
	remove bool
	after  *model.Resource // as planned
	world  *world          // that it was planned in
	plan   *Plan
	err    error
	landed bool
	unsure error // what may have landed can't be told any more
}

// moves tells whether the edit changes its resource.
func (o *outcome) moves() bool { return o.err == nil && o.plan != nil && !same(o.before, o.after) }

// live are the edits that have not failed.
func (b *batch) live() []int {
	var out []int
	for i := range b.outcomes {
		if b.outcomes[i].err == nil {
			out = append(out, i)
		}
	}
	return out
}

// plan is a planner: what is left to be done of the edits.
func (b *batch) plan(ctx context.Context, attempt int) (*Plan, error) {
	ids := make([]model.ID, len(b.edits))
	for i, x := range b.edits {
		ids[i] = x.ID
	}
	w, err := b.engine.read(ctx, b.engine.scopeOf(wish{remove: ids}))
	if err != nil {
		return nil, err
	}
	b.world, b.attempt, b.requests = w, attempt, map[requestKey]model.ID{}
	for id, r := range w.resources {
		if r.Request != "" {
			b.requests[requestKeyOf(r)] = id
		}
	}
	b.recognise()
	open := b.ask()
	if err := b.engine.readNames(ctx, w, b.names(open)); err != nil {
		return nil, err
	}
	p, open, err := b.fit(ctx, open)
	if err != nil {
		return nil, err
	}
	for _, i := range open {
		o := &b.outcomes[i]
		o.after, o.world, o.plan = p.then[b.edits[i].ID], w, p
	}
	return p, nil
}

// recognise finds out which edits have landed in attempts that failed: in
// transactions before the one that failed, or because only its answer was
// lost. A transaction lands whole.
func (b *batch) recognise() {
	lost := unknown(b.runner.last)
	if lost || b.runner.result.Changed() {
		b.tries = append(b.tries, slices.Clone(b.outcomes))
	}
	found := false
	for _, try := range b.tries {
		whole := false
		for i := range try {
			o, now := &try[i], b.world.resources[b.edits[i].ID]
			switch {
			case b.outcomes[i].landed || !o.moves():
			case same(now, o.after):
				b.outcomes[i] = *o
				b.outcomes[i].landed, found = true, true
				whole = whole || transactions(o.plan) == 1
			case lost && !same(now, o.before):
				b.outcomes[i].unsure = b.runner.last
			}
		}
		for i := range try {
			if whole && try[i].err == nil && !b.outcomes[i].landed {
				b.outcomes[i] = try[i]
				b.outcomes[i].landed = true
			}
		}
	}
	if found && lost {
		b.runner.confirm()
	}
}

func transactions(p *Plan) int {
	n := 0
	for _, part := range p.VPCs {
		n += len(part.Transactions)
	}
	return n
}

// ask calls Change of the edits that have not landed, and gives those that go
// on.
func (b *batch) ask() []int {
	var open []int
	for i, x := range b.edits {
		o := &b.outcomes[i]
		if o.landed {
			continue
		}
		now := b.world.resources[x.ID]
		next, err := x.Change(now)
		switch {
		case err != nil && o.unsure != nil:
			err = fmt.Errorf("%w; it now says: %w", o.unsure, err)
		case err != nil:
		case next == nil:
			if now != nil && x.ID.Kind != model.KindAttachment && len(b.edits) > 1 {
				err = errLater
			}
		case next.ID() != x.ID:
			err = fmt.Errorf("an edit of %s makes it %s", x.ID, next.ID())
		case !model.ValidRequest(next.Request):
			err = fmt.Errorf("%s: %q can't mark a request", x.ID, next.Request)
		case now == nil && next.Request != "":
			err = b.request(next)
		}
		*o = outcome{before: now, err: err, unsure: o.unsure}
		if err != nil {
			continue
		}
		o.remove = next == nil && now != nil
		if next != now {
			o.put = next
		}
		open = append(open, i)
	}
	return open
}

// request notes what a request creates; it can't create a second resource.
func (b *batch) request(r *model.Resource) error {
	key := requestKeyOf(r)
	if id, known := b.requests[key]; known && id != r.ID() {
		return &RepeatedError{id}
	}
	b.requests[key] = r.ID()
	return nil
}

// names are those of ports that are new, or of port groups with new resources.
func (b *batch) names(open []int) []string {
	var fresh []*model.Resource
	for _, i := range open {
		o := &b.outcomes[i]
		if o.put == nil {
			continue
		}
		spec, ok := o.put.Spec.(*model.AttachmentSpec)
		if o.before == nil || ok && spec.InterfaceID != o.before.Spec.(*model.AttachmentSpec).InterfaceID {
			fresh = append(fresh, o.put)
		}
	}
	return b.engine.scopeOf(wish{put: fresh}).ports
}

// wish joins what edits want.
func (b *batch) wish(open []int) wish {
	all := wish{through: ThroughEdit}
	for _, i := range open {
		o := &b.outcomes[i]
		if o.put != nil {
			all.put = append(all.put, o.put)
		}
		if o.remove {
			all.remove = append(all.remove, b.edits[i].ID)
			all.cascade = all.cascade || b.edits[i].Cascade
		}
	}
	return all
}

func (b *batch) planOf(ctx context.Context, open []int) (*Plan, error) {
	all := b.wish(open)
	if len(all.put)+len(all.remove) == 0 {
		return b.engine.newPlan(b.world), nil
	}
	return b.engine.planIn(ctx, b.world, all, b.attempt)
}

// fit plans as many of the edits as fit together, one plan as a rule, and
// gives those. First go those that are refused whatever the others do; which of
// the others do not fit is tried out.
func (b *batch) fit(ctx context.Context, open []int) (*Plan, []int, error) {
	for {
		p, err := b.planOf(ctx, open)
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			return p, open, err
		}
		out := b.blamed(open, invalid.Diagnostics)
		if len(out) == 0 {
			if open, err = b.squeeze(ctx, nil, open); err != nil {
				return nil, nil, err
			}
			continue
		}
		for _, i := range out {
			b.refuse(i, invalid)
		}
		open = slices.DeleteFunc(open, func(i int) bool { return slices.Contains(out, i) })
	}
}

// blamed are the edits that are refused by themselves: that their tier has no
// address left counts when nobody else fails, who may hold one.
func (b *batch) blamed(open []int, ds model.Diagnostics) []int {
	byName, byID := map[string]int{}, map[model.ID]bool{}
	for _, i := range open {
		byName[b.edits[i].ID.String()], byID[b.edits[i].ID] = i, true
	}
	var alone, unfilled []int
	for _, d := range ds.Errors() {
		i, ok := byName[d.Resource]
		switch {
		case !ok || byID[d.Against] || slices.Contains(alone, i):
		case d.Code != model.CodeLimit:
			alone = append(alone, i)
		case d.Field == fieldAddresses && !slices.Contains(unfilled, i):
			unfilled = append(unfilled, i)
		}
	}
	if len(alone) > 0 {
		return alone
	}
	return unfilled
}

// refuse fails an edit with the diagnostics that are its own, with all where
// none is.
func (b *batch) refuse(i int, invalid *InvalidError) {
	own := &InvalidError{}
	for _, d := range invalid.Diagnostics {
		if d.Resource == b.edits[i].ID.String() {
			own.Diagnostics = append(own.Diagnostics, d)
		}
	}
	if !own.Diagnostics.HasErrors() {
		own = invalid
	}
	b.outcomes[i].err = own
}

// squeeze adds to edits that fit those of more that fit too, in their order.
// What doesn't fit as a whole is tried half by half.
func (b *batch) squeeze(ctx context.Context, fit, more []int) ([]int, error) {
	if len(more) == 0 {
		return fit, nil
	}
	both := slices.Concat(fit, more)
	_, err := b.planOf(ctx, both)
	var invalid *InvalidError
	switch {
	case !errors.As(err, &invalid):
		return both, err
	case len(more) == 1:
		b.refuse(more[0], invalid)
		return fit, nil
	}
	half := len(more) / 2
	if fit, err = b.squeeze(ctx, fit, more[:half]); err != nil {
		return nil, err
	}
	return b.squeeze(ctx, fit, more[half:])
}
