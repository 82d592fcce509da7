package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// ReachOptions say what Reach is asked.
type ReachOptions struct {
	VPC   string     // "": all, and of an input those that it concerns
	By    reach.Kind // "": tiers
	Rules bool       // by which rules too
	// From and To are ends as ParseEnd reads them; one of no kind is the tier of
	// that name, or else the attachment, and by attachments the other way round.
	From, To []reach.End
	Traffic  *traffic.Set // nil: any
}

// ReachReport tells of some VPCs who reaches whom.
type ReachReport struct {
	VPCs        []*reach.Result   `json:"vpcs"`
	Diagnostics model.Diagnostics `json:"diagnostics,omitempty"` // warnings
}

// Reach tells who reaches whom by what is stored, or with a set as it would be
// when that were applied; nothing is written.
func (e *Engine) Reach(ctx context.Context, set *model.Set, o ReachOptions) (*ReachReport, error) {
	seen, err := e.foresee(ctx, set, o.VPC)
	if err != nil {
		return nil, err
	}
	report := &ReachReport{VPCs: []*reach.Result{}, Diagnostics: seen.found}
	err = report.add(seen.vpcs, seen.resources, o)
	return report, err
}

// foreseen is what there is, or will be.
type foreseen struct {
	vpcs      []string // that are asked for
	resources map[model.ID]*model.Resource
	found     model.Diagnostics
}

// foresee reads a VPC, "" for all, or with a set those of the set as they would be
// when that were applied.
func (e *Engine) foresee(ctx context.Context, set *model.Set, vpc string) (foreseen, error) {
	f := foreseen{vpcs: []string{vpc}}
	var lost []*model.Resource
	if set == nil {
		w, err := e.read(ctx, scope{all: vpc == "", vpcs: f.vpcs})
		if err != nil {
			return f, err
		}
		f.resources, lost = w.resources, w.lost
	} else {
		wish := wish{put: set.Resources, judging: judgeNever}
		s := e.scopeOf(wish)
		if vpc != "" && !slices.Contains(s.vpcs, vpc) {
			s.vpcs = append(s.vpcs, vpc)
		}
		w, err := e.read(ctx, s)
		if err != nil {
			return f, err
		}
		p, err := e.planIn(ctx, w, wish, 0)
		if err != nil {
			return f, err
		}
		f.resources, f.found, lost = p.then, p.Diagnostics, p.lost
	}
	if err := whole(lost, f.resources, vpc); err != nil {
		return f, err
	}
	if vpc != "" {
		return f, nil
	}
	f.vpcs = nil
	for _, r := range sorted(f.resources) {
		if r.Kind == model.KindVPC && (set == nil || slices.Contains(set.VPCs(), r.Metadata.Name)) {
			f.vpcs = append(f.vpcs, r.Metadata.Name)
		}
	}
	return f, nil
}

// add asks the VPCs. Where there are several, those without an end that is asked
// for are left out.
func (r *ReachReport) add(vpcs []string, resources map[model.ID]*model.Resource, o ReachOptions) error {
	var missing *NotFoundError
	all := sorted(resources)
	for _, vpc := range vpcs {
		options, err := o.in(vpc, resources)
		if errors.As(err, &missing) && len(vpcs) > 1 {
			continue
		}
		if err != nil {
			return err
		}
		policy, err := policyOf(vpc, all)
		if err != nil {
			return err
		}
		result, err := policy.Reach(options)
		if err != nil {
			return err
		}
		r.VPCs = append(r.VPCs, result)
	}
	if len(r.VPCs) == 0 && missing != nil {
		return &NotFoundError{model.ID{Kind: missing.ID.Kind, Name: missing.ID.Name}}
	}
	return nil
}

// whole refuses to tell of a VPC, "" for all, where rows of it or of its tiers
// are gone and nothing brings them back.
func whole(lost []*model.Resource, resources map[model.ID]*model.Resource, vpc string) error {
	var found model.Diagnostics
	for _, r := range lost {
		if r.Kind != model.KindAttachment && resources[r.ID()] == nil && (vpc == "" || vpcOf(r.ID()) == vpc) {
			r = &model.Resource{Kind: r.Kind, Metadata: r.Metadata}
			found = append(found, r.Fault("", "somebody has removed its rows", "see ovn-vpc drift, which restores it with --repair"))
		}
	}
	return invalid(found)
}

// policyOf is what the lists of a VPC say. An input has been checked by now: what
// does not fit together is stored, a *DamagedError. Where rows are gone that others
// need, the *InvalidError names them.
func policyOf(vpc string, resources []*model.Resource) (*reach.Policy, error) {
	p, err := reach.New(vpc, resources)
	var missing *reach.MissingError
	switch {
	case err == nil:
		return p, nil
	case !errors.As(err, &missing):
		return nil, &DamagedError{VPC: vpc, Err: err}
	}
	user := &model.Resource{Kind: missing.User.Kind, Metadata: model.Metadata{Name: missing.User.Name, VPC: vpc}}
	return nil, &InvalidError{model.Diagnostics{user.Fault("", fmt.Sprintf("%s is not there, which it needs: its rows are gone, or can't be read", missing.ID),
		fmt.Sprintf("see ovn-vpc drift, and apply %s again", missing.ID))}}
}

// in are the options for one VPC, its ends found.
func (o ReachOptions) in(vpc string, resources map[model.ID]*model.Resource) (reach.Options, error) {
	out := reach.Options{By: o.By, Rules: o.Rules, Traffic: o.Traffic}
	if id := (model.ID{Kind: model.KindVPC, Name: vpc}); resources[id] == nil {
		return out, &NotFoundError{id}
	}
	for _, side := range []struct {
		asked []reach.End
		found *[]reach.End
	}{{o.From, &out.From}, {o.To, &out.To}} {
		for _, end := range side.asked {
			end, err := o.find(vpc, end, resources)
			if err != nil {
				return out, err
			}
			*side.found = append(*side.found, end)
		}
	}
	return out, nil
}

func (o ReachOptions) find(vpc string, end reach.End, resources map[model.ID]*model.Resource) (reach.End, error) {
	kinds := []reach.Kind{reach.Tier, reach.Attachment}
	switch {
	case end.Kind == reach.Outside:
		return end, nil
	case end.Kind != "":
		kinds = []reach.Kind{end.Kind}
	case o.By == reach.Attachment:
		slices.Reverse(kinds)
	}
	id := func(kind reach.Kind) model.ID {
		if kind == reach.Attachment {
			return model.ID{Kind: model.KindAttachment, VPC: vpc, Name: end.Name}
		}
		return model.ID{Kind: model.KindTier, VPC: vpc, Name: end.Name}
	}
	for _, kind := range kinds {
		if resources[id(kind)] != nil {
			return reach.End{Kind: kind, Name: end.Name}, nil
		}
	}
	return end, &NotFoundError{id(kinds[0])}
}

// reckoning says when a plan tells what it opens and closes.
type reckoning int

const (
	reckonNever reckoning = iota
	reckonBrief           // where that doesn't take long
	reckonAlways
)

// maxWork bounds, in the units of reach.Work, what a plan reckons by itself:
// 200 tiers with one list of 5000 rules, some seconds.
const maxWork = 600_000_000

// reckon adds to the part of a plan for one VPC what it opens and closes.
func (d *desire) reckon(part *VPCPlan) {
	if d.reckoning == reckonNever || part.VPC == "" || !slices.ContainsFunc(part.Changes, d.concernsReach) {
		return
	}
	before, err := d.policy(part.VPC, d.world.before)
	if err != nil {
		part.ReachSkipped = fmt.Sprintf("what is stored can't be read: %s", err)
		return
	}
	after, err := d.policy(part.VPC, d.planned)
	if err != nil {
		part.ReachSkipped = err.Error()
		return
	}
	if work := reach.Work(before, after); d.reckoning != reckonAlways && work > maxWork {
		part.ReachSkipped = "it would take long: too many tiers and rules are concerned"
		return
	}
	part.Reach = reach.Diff(before, after, reach.Tier)
}

// concernsReach tells whether a change may open or close anything between tiers.
// What brings back rows or follows leaves the specs as they are.
func (d *desire) concernsReach(c ResourceChange) bool {
	switch {
	case c.Action == Repair || c.Action == Follow:
		return false
	case c.Kind == model.KindAttachment:
		return !slices.Equal(allowed(d.world.before(c.ID())), allowed(d.resources[c.ID()]))
	}
	return c.Kind == model.KindTier || c.Kind == model.KindACL
}

// allowed are the addresses beside its own that an attachment adds to its tier's.
func allowed(r *model.Resource) []string {
	if r == nil || !r.Spec.(*model.AttachmentSpec).Enabled {
		return nil
	}
	var out []string
	for _, p := range r.Spec.(*model.AttachmentSpec).AllowedAddresses {
		out = append(out, p.String())
	}
	return out
}

// policy is what a VPC's tiers and lists say, nil if there is no VPC. Of the
// attachments those count that add addresses to their tier's.
func (d *desire) policy(vpc string, find func(model.ID) *model.Resource) (*reach.Policy, error) {
	if find(model.ID{Kind: model.KindVPC, Name: vpc}) == nil {
		return nil, nil
	}
	resources := slices.DeleteFunc(d.of(vpc, find), func(r *model.Resource) bool {
		return r.Kind == model.KindAttachment && len(allowed(r)) == 0
	})
	return reach.New(vpc, inOrder(resources))
}

// Confirm refuses a plan that opens anything which nobody has named: an
// *InvalidError that lists it.
func (p *Plan) Confirm(named []reach.Opening) error {
	var found model.Diagnostics
	for _, part := range p.VPCs {
		if part.ReachSkipped != "" {
			found = append(found, fault(vpcResource(part.VPC), "what the plan opens was not reckoned: %s", "", part.ReachSkipped))
		}
		if part.Reach == nil {
			continue
		}
		for _, c := range part.Reach.Unnamed(named) {
			found = append(found, p.opens(part.VPC, c))
		}
	}
	return invalid(sortedDiagnostics(found))
}

// opens is the fault of opening what nobody has named, at the rule that does it.
func (p *Plan) opens(vpc string, c reach.Change) model.Diagnostic {
	problem := "the plan opens " + c.What()
	if c.Outside {
		problem += ", to or from outside"
	}
	fix := fmt.Sprintf("name it as '%s -> %s %s', or change what opens it", c.FromEnd, c.ToEnd, c.Traffic)
	for _, by := range slices.Backward(c.By) {
		if list := p.then[model.ID{Kind: model.KindACL, VPC: vpc, Name: by.List}]; list != nil {
			return list.Fault(by.Field(list), problem, fix)
		}
	}
	for _, end := range []reach.End{c.ToEnd, c.FromEnd} {
		if tier := p.then[model.ID{Kind: model.KindTier, VPC: vpc, Name: end.Name}]; tier != nil && end.Kind == reach.Tier {
			return tier.Fault("", problem, fix)
		}
	}
	return vpcResource(vpc).Fault("", problem, fix)
}

func vpcResource(name string) *model.Resource {
	return &model.Resource{Kind: model.KindVPC, Metadata: model.Metadata{Name: name}}
}
