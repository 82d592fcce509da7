package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// judging says what becomes of a plan that breaks an expectation.
type judging int

const (
	judgeStrictly judging = iota // it is refused
	judgeMildly                  // it warns
	judgeNever
)

// Overridden is the note of a change that broke expectations knowingly, kept with
// the VPC.
type Overridden struct {
	Manager      string    `json:"manager"`
	Time         time.Time `json:"time"`
	Expectations []string  `json:"expectations"`
}

// judge finds the expectations that the part of a plan for one VPC breaks: those
// that held before, or are new or changed, and will not hold. judged tells whether
// there was any to look at, gated whether one that somebody adds meanwhile could
// be broken.
func (d *desire) judge(part *VPCPlan) (broken []reach.Verdict, judged, gated bool) {
	judged, gated = d.concernsExpectations(part)
	if !judged {
		return nil, false, gated
	}
	now, err := verdicts(part.VPC, inOrder(d.of(part.VPC, d.orLost(d.planned))))
	if err != nil {
		d.found = append(d.found, unjudged(part.VPC, err))
	}
	if !slices.ContainsFunc(now, func(v reach.Verdict) bool { return !v.Holds }) {
		return nil, len(now) > 0, gated
	}
	held := map[string]bool{}
	// What can't be read now has held nothing.
	before, _ := verdicts(part.VPC, inOrder(d.of(part.VPC, d.orLost(d.stored))))
	for _, v := range before {
		held[v.Name] = v.Holds
	}
	for _, v := range now {
		id := model.ID{Kind: model.KindExpectation, VPC: v.VPC, Name: v.Name}
		was, is := d.world.before(id), d.resources[id]
		if !v.Holds && (held[v.Name] || was == nil || is != nil && len(changedFields(was, is)) > 0) {
			broken = append(broken, v)
		}
	}
	return broken, len(now) > 0, gated
}

// unjudged is the fault that the expectations of a VPC can't be judged.
func unjudged(vpc string, err error) model.Diagnostic {
	why, fix := err.Error(), ""
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		missing := invalid.Diagnostics[0]
		why, fix = missing.Resource+": "+missing.Problem, missing.Fix
	}
	return fault(vpcResource(vpc), "the expectations can't be judged: %s", fix, why)
}

// orLost finds also the expectations that somebody has taken out of the database or
// damaged: by their second copies they stand against what breaks them all the same,
// unless they are removed.
func (d *desire) orLost(find func(model.ID) *model.Resource) func(model.ID) *model.Resource {
	return func(id model.ID) *model.Resource {
		is := func(r *model.Resource) bool { return r.ID() == id }
		r := find(id)
		if i := slices.IndexFunc(d.world.lost, is); r == nil && id.Kind == model.KindExpectation && i >= 0 && !slices.ContainsFunc(d.removed, is) {
			r = d.world.lost[i]
		}
		return r
	}
}

// concernsExpectations tells whether the part may make an expectation of its VPC
// hold no more, and whether it has such expectations of its own or may break
// others: those that somebody adds meanwhile too.
func (d *desire) concernsExpectations(part *VPCPlan) (any, breaks bool) {
	if d.judging == judgeNever || part.VPC == "" {
		return false, false
	}
	var named []*model.Resource // what an expectation may name, and those
	there := false
	for _, r := range d.of(part.VPC, d.orLost(d.planned)) {
		if r.Kind != model.KindVPC && r.Kind != model.KindACL {
			named = append(named, r)
			there = there || r.Kind == model.KindExpectation
		}
	}
	var users map[model.ID][]model.ID
	if there {
		users = model.Users(inOrder(named))
	}
	for _, c := range part.Changes {
		breaks = breaks || d.concernsReach(c) || c.Kind == model.KindAttachment && len(users[c.ID()]) > 0
		any = any || c.Kind == model.KindExpectation
	}
	return there && (any || breaks), breaks
}

// override tells of the expectations that a part breaks. Where that is allowed it
// is noted at the VPC's router.
func (e *Engine) override(d *desire, part *VPCPlan, broken []reach.Verdict) error {
	const fix = "change what breaks it, change or delete the expectation, or give --override-expectations (?overrideExpectations=true)"
	note := Overridden{Manager: e.Manager, Time: e.Now().UTC().Truncate(time.Second)}
	for _, v := range broken {
		r := d.orLost(d.planned)(model.ID{Kind: model.KindExpectation, VPC: v.VPC, Name: v.Name})
		tell := r.Fault
		if d.judging == judgeMildly || e.OverrideExpectations {
			tell = r.Warning
		}
		d.found = append(d.found, tell("", fmt.Sprintf("%s will not hold: %s", v.What(), strings.Join(v.Reasons(), "; ")), fix).Coded(model.CodeExpectation))
		note.Expectations = append(note.Expectations, v.Name)
	}
	if len(broken) == 0 || !e.OverrideExpectations || len(part.Transactions) == 0 {
		return nil
	}
	value, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("noting overridden expectations: %w", err)
	}
	text := string(value)
	change := nbdb.EntryChange{Table: nbdb.TableLogicalRouter, Row: translate.RouterUUID(e.Owner, part.VPC), Key: translate.NoteOverridden, New: &text}
	if router := nbdb.Lookup[*nbdb.LogicalRouter](d.world.state, change.Row); router != nil {
		if old, ok := router.ExternalIDs[change.Key]; ok {
			change.Old = &old
		}
	}
	last := &part.Transactions[len(part.Transactions)-1]
	last.Entries = append(last.Entries, change)
	return nil
}

// unbroken refuses a plan that was made knowing that it breaks expectations.
func (p *Plan) unbroken() error {
	broken := slices.DeleteFunc(slices.Clone(p.Diagnostics), func(d model.Diagnostic) bool { return d.Code != model.CodeExpectation })
	return invalid(broken.AsErrors())
}
