package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// batch is a call of Edit over its attempts.
type batch struct {
	engine   *Engine
	edits    []Edit
	runner   *runner
	outcomes []outcome               // one for each edit
	tries    [][]outcome             // those of attempts that may have landed in part
	world    *world                  // as the present attempt has read it
	requests map[requestKey]model.ID // of the world, and of this batch
	known    map[requestKey]model.ID // others, while they are asked
	attempt  int
	lost     error // the last attempt's of which nobody knows whether it has landed
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
	b.attempt = attempt
	if p := b.hastily(ctx); p != nil {
		return p, nil
	}
	p, open, err := b.look(ctx)
	if err != nil || p != nil {
		return p, err
	}
	p, open, err = b.fit(ctx, open)
	if err != nil {
		return nil, err
	}
	b.note(p, open)
	return p, nil
}

// note notes with edits how they are planned.
func (b *batch) note(p *Plan, open []int) {
	for _, i := range open {
		o := &b.outcomes[i]
		o.after, o.world, o.plan = p.then[b.edits[i].ID], b.world, p
	}
}

// look gives the edits that go on, after it has asked them, and the world
// that they are planned in, or the whole plan. Names of others' ports are not in the
// mirror: a plan that collides with one is made from the database.
func (b *batch) look(ctx context.Context) (p *Plan, open []int, err error) {
	m := b.engine.Mirror
	var constraint *nbdb.ConstraintError
	if len(b.edits) == 0 || errors.As(b.runner.last, &constraint) || !m.lock(ctx) {
		if b.world, err = b.engine.readFresh(ctx, b.scope()); err != nil {
			return nil, nil, err
		}
		open = b.begin(nil)
		asked := b.fresh(open)
		if constraint != nil { // a row that is brought beside may have somebody's name
			asked = b.wish(open).put
		}
		return nil, open, b.engine.readNames(ctx, b.world, asked)
	}
	defer m.mu.RUnlock()
	if b.ofRules() && b.lost == nil && !unknown(b.runner.last) {
		if p = b.rulesAlone(m); p != nil {
			return p, nil, nil
		}
	}
	if open, err = b.lookNarrowly(m); err == nil && b.world == nil {
		b.world, err = m.wide(b.scope())
		if err == nil {
			open = b.begin(nil)
			m.putNames(b.world.state, b.fresh(open))
		}
	}
	return nil, open, err
}

// lookNarrowly is look in a narrow world; it leaves none where that is not enough.
// The caller holds the mirror's lock.
func (b *batch) lookNarrowly(m *Mirror) (open []int, err error) {
	vpc := vpcOf(b.edits[0].ID)
	var judging []string
	if n := m.networks[vpc]; n != nil && (b.engine.Openings != nil || m.expects(vpc, n)) {
		known := false
		if judging, known = m.judging(vpc); !known {
			b.world = nil
			return nil, nil
		}
	}
	for _, x := range b.edits {
		judging = append(judging, m.attached(x.ID)...) // a tier's status counts them
	}
	if b.world, err = m.narrow(b.edits, judging...); b.world == nil || err != nil {
		return nil, err
	}
	open = b.begin(m.networks[vpc].requests)
	if slices.ContainsFunc(open, b.concernsPorts) || len(b.world.homeless(b.wish(open).put)) > 0 {
		b.world = nil
		return nil, nil
	}
	// What they ask for may be somebody's, who is to be named.
	if more := m.holders(vpc, b.wish(open).put); len(more) > 0 {
		if b.world, err = m.narrow(b.edits, append(more, judging...)...); err != nil {
			return nil, err
		}
	}
	m.putNames(b.world.state, b.fresh(open))
	return open, nil
}

// concernsPorts tells whether an edit is of a VPC or a tier and may concern what is
// attached: all but a tier that comes, or goes and so has nothing, and what changes a
// tier's list or metadata alone.
func (b *batch) concernsPorts(i int) bool {
	o := &b.outcomes[i]
	if o.put == nil && !o.remove || o.before == nil {
		return false
	}
	switch was := o.before.Spec.(type) {
	case *model.VPCSpec:
		return o.remove || !reflect.DeepEqual(was, o.put.Spec)
	case *model.TierSpec:
		if o.remove {
			return false
		}
		same, is := *was, o.put.Spec.(*model.TierSpec)
		same.ACL = is.ACL
		return !reflect.DeepEqual(&same, is)
	}
	return false
}

func (b *batch) scope() scope {
	ids := make([]model.ID, len(b.edits))
	for i, x := range b.edits {
		ids[i] = x.ID
	}
	return b.engine.scopeOf(wish{remove: ids})
}

// begin looks at what has landed, and gives the edits that go on. known are the
// requests whose resources are not all in the world.
func (b *batch) begin(known map[requestKey]model.ID) []int {
	b.requests, b.known = map[requestKey]model.ID{}, known
	for id, r := range b.world.resources {
		if r.Request != "" {
			b.requests[requestKeyOf(r)] = id
		}
	}
	b.recognise()
	return b.ask()
}

// recognise finds out which edits have landed in attempts that failed: in
// transactions before the one that failed, or because only its answer was
// lost. A transaction lands whole.
func (b *batch) recognise() {
	lost := unknown(b.runner.last)
	if lost {
		b.lost = b.runner.last
	}
	if lost || b.runner.result.Changed() {
		b.tries = append(b.tries, slices.Clone(b.outcomes))
	}
	found := false
	for _, try := range b.tries {
		whole := false
		for i := range try {
			o, now := &try[i], b.now(i)
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

// now is the resource of an edit as it is stored.
func (b *batch) now(i int) *model.Resource {
	if x := b.edits[i]; !x.Lost {
		return b.world.resources[x.ID]
	}
	return b.world.before(b.edits[i].ID)
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
		now := b.now(i)
		next, err := b.change(x, now, o)
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

// change calls Change, unless the edit seems to have landed.
func (b *batch) change(x Edit, now *model.Resource, o *outcome) (*model.Resource, error) {
	if b.lost != nil && x.Again != nil {
		if err := x.Again(now); err != nil {
			o.unsure = b.lost
			return nil, err
		}
	}
	return x.Change(now)
}

// request notes what a request creates; it can't create a second resource.
func (b *batch) request(r *model.Resource) error {
	key := requestKeyOf(r)
	for _, requests := range []map[requestKey]model.ID{b.requests, b.known} {
		if id, known := requests[key]; known && id != r.ID() {
			return &RepeatedError{id}
		}
	}
	b.requests[key] = r.ID()
	return nil
}

// fresh are the resources that are new, or get a new interface ID.
func (b *batch) fresh(open []int) []*model.Resource {
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
	return fresh
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
		refusal := refusalOf(err)
		if refusal == nil {
			return p, open, err
		}
		out := b.blamed(open, refusal)
		if len(out) == 0 {
			if open, err = b.squeeze(ctx, nil, open); err != nil {
				return nil, nil, err
			}
			continue
		}
		for _, i := range out {
			b.refuse(i, refusal)
		}
		open = slices.DeleteFunc(open, func(i int) bool { return slices.Contains(out, i) })
	}
}

// refusalOf is what is said of edits that can't be planned, as far as that is due
// to some of them; nil where it isn't.
func refusalOf(err error) model.Diagnostics {
	var invalid *InvalidError
	var damaged *DamagedError
	switch {
	case errors.As(err, &invalid):
		return invalid.Diagnostics
	case errors.As(err, &damaged):
		return damaged.Overwritten
	}
	return nil
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
func (b *batch) refuse(i int, all model.Diagnostics) {
	var own model.Diagnostics
	for _, d := range all {
		if d.Resource == b.edits[i].ID.String() {
			own = append(own, d)
		}
	}
	if !own.HasErrors() {
		own = all
	}
	b.outcomes[i].err = cmp.Or(damaged(own), error(&InvalidError{own}))
}

// squeeze adds to edits that fit those of more that fit too, in their order.
// What doesn't fit as a whole is tried half by half.
func (b *batch) squeeze(ctx context.Context, fit, more []int) ([]int, error) {
	if len(more) == 0 {
		return fit, nil
	}
	both := slices.Concat(fit, more)
	_, err := b.planOf(ctx, both)
	refusal := refusalOf(err)
	switch {
	case refusal == nil:
		return both, err
	case len(more) == 1:
		b.refuse(more[0], refusal)
		return fit, nil
	}
	half := len(more) / 2
	if fit, err = b.squeeze(ctx, fit, more[:half]); err != nil {
		return nil, err
	}
	return b.squeeze(ctx, fit, more[half:])
}
