package engine

import (
	"context"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/lint"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Lint warns of what is legal in an input and most likely not meant, beside what
// is stored. The input has no faults (Faults).
func (e *Engine) Lint(ctx context.Context, set *model.Set) (model.Diagnostics, error) {
	w, err := e.read(ctx, scope{vpcs: set.VPCs()})
	if err != nil {
		return nil, err
	}
	all := slices.Clone(set.Resources)
	for _, r := range sorted(w.resources) {
		if set.Get(r.ID()) == nil {
			all = append(all, r)
		}
	}
	var found model.Diagnostics
	for _, vpc := range set.VPCs() {
		one, err := lint.Check(vpc, all, lint.Attached(vpc, all))
		if err != nil {
			found = append(found, vpcResource(vpc).Warning("", "beside what is stored it can't be read: "+err.Error(), ""))
		}
		for _, d := range one {
			if id, ok := model.ParseID(d.Resource); ok && set.Get(id) != nil {
				found = append(found, d)
			}
		}
	}
	return found, nil
}
