package engine

import (
	"context"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// VerifyReport tells which expectations hold.
type VerifyReport struct {
	Expectations []reach.Verdict   `json:"expectations"` // by VPC and name
	Diagnostics  model.Diagnostics `json:"diagnostics,omitempty"`
}

// Holds tells whether all hold.
func (r *VerifyReport) Holds() bool {
	for _, v := range r.Expectations {
		if !v.Holds {
			return false
		}
	}
	return true
}

// Otherwise is about how many of all the packets that OVN was asked about it says
// otherwise than the lists.
func (r *VerifyReport) Otherwise() (n, all int) {
	for _, v := range r.Expectations {
		if v.OVN != nil {
			n, all = n+len(v.OVN.Differs), all+v.OVN.Packets
		}
	}
	return n, all
}

// Verify holds the expectations of a VPC, "" for all, against what is stored, or
// with a set against what would be when that were applied; nothing is written.
func (e *Engine) Verify(ctx context.Context, set *model.Set, vpc string) (*VerifyReport, error) {
	seen, err := e.foresee(ctx, set, vpc)
	if err != nil {
		return nil, err
	}
	report := &VerifyReport{Expectations: []reach.Verdict{}, Diagnostics: seen.found}
	all := sorted(seen.resources)
	for _, vpc := range seen.vpcs {
		if id := (model.ID{Kind: model.KindVPC, Name: vpc}); seen.resources[id] == nil {
			return nil, &NotFoundError{id}
		}
		found, err := verdicts(vpc, all)
		if err != nil {
			return nil, err
		}
		report.Expectations = append(report.Expectations, found...)
	}
	return report, nil
}

// verdicts are those on a VPC's expectations. Without one nothing is read. Of the
// attachments those count that they name, or that add addresses to their tier's.
func verdicts(vpc string, resources []*model.Resource) ([]reach.Verdict, error) {
	var expected []*model.Resource
	named := map[string]bool{}
	for _, r := range resources {
		if spec, ok := r.Spec.(*model.ExpectationSpec); ok && r.Metadata.VPC == vpc {
			expected = append(expected, r)
			for _, name := range spec.Attachments() {
				named[name] = true
			}
		}
	}
	if len(expected) == 0 {
		return nil, nil
	}
	policy, err := policyOf(vpc, slices.DeleteFunc(slices.Clone(resources), func(r *model.Resource) bool {
		return r.Kind == model.KindAttachment && !named[r.Metadata.Name] && len(allowed(r)) == 0
	}))
	if err != nil {
		return nil, err
	}
	return policy.Verify(expected), nil
}
