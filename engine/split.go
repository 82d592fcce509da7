package engine

import (
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

const (
	// maxRows is how many rows one transaction may change.
	maxRows = 10000
	// chunk is how many attachments go into each further transaction: clusters
	// choke on large ones.
	chunk = 1000
)

// split divides a VPC's changes into transactions: one, as a rule.
//
// Deleted switches and routers go ahead of others that are inserted, since
// ovn-northd 26.03 aborts when it sees both at once. Of more rows than one
// transaction takes, surplus attachments come in transactions of their own:
// new ones behind the structure, deleted ones ahead of it.
func split(changes []*change) [][]*change {
	var out [][]*change
	if exchangesDatapaths(changes) {
		var ahead, rest []*change
		for _, c := range changes {
			if c.after == nil && leavesWithSwitch(c, changes) {
				ahead = append(ahead, c)
			} else {
				rest = append(rest, c)
			}
		}
		out = append(out, bounded(ahead)...)
		changes = rest
	}
	return append(out, bounded(changes)...)
}

// leavesWithSwitch tells whether a removed resource is a VPC or a tier, or
// goes with one.
func leavesWithSwitch(c *change, changes []*change) bool {
	if c.before == nil {
		return true // what it was can't be read
	}
	switch spec := c.before.Spec.(type) {
	case *model.VPCSpec, *model.TierSpec:
		return true
	case *model.AttachmentSpec:
		tier := model.ID{Kind: model.KindTier, VPC: c.id.VPC, Name: spec.Tier}
		return slices.ContainsFunc(changes, func(x *change) bool { return x.id == tier && x.after == nil })
	case *model.ACLSpec, *model.ExpectationSpec:
		vpc := model.ID{Kind: model.KindVPC, Name: c.id.VPC}
		return slices.ContainsFunc(changes, func(x *change) bool { return x.id == vpc && x.after == nil })
	}
	return false
}

// bounded divides changes so that no part has too many rows.
func bounded(changes []*change) [][]*change {
	rows := 0
	for _, c := range changes {
		rows += max(len(c.have.Rows), len(c.want.Rows))
	}
	if rows <= maxRows || len(changes) == 0 {
		if len(changes) == 0 {
			return nil
		}
		return [][]*change{changes}
	}
	var first, later, gone []*change
	room := maxRows
	for _, c := range changes {
		if c.id.Kind != model.KindAttachment || c.before != nil && c.after != nil {
			first = append(first, c)
			room -= max(len(c.have.Rows), len(c.want.Rows))
		}
	}
	for _, c := range changes {
		switch {
		case c.id.Kind != model.KindAttachment || c.before != nil && c.after != nil:
		case c.after == nil:
			gone = append(gone, c)
		case room > 0:
			first = append(first, c)
			room--
		default:
			later = append(later, c)
		}
	}
	var out [][]*change
	out = append(out, slices.Collect(slices.Chunk(gone, chunk))...)
	if len(first) > 0 {
		out = append(out, first)
	}
	return append(out, slices.Collect(slices.Chunk(later, chunk))...)
}

// exchangesDatapaths tells whether changes remove some switches or routers and
// bring others.
func exchangesDatapaths(changes []*change) bool {
	had, wanted := map[nbdb.UUID]bool{}, map[nbdb.UUID]bool{}
	for _, c := range changes {
		for _, side := range []struct {
			rows []nbdb.Row
			into map[nbdb.UUID]bool
		}{{c.have.Rows, had}, {c.want.Rows, wanted}} {
			for _, r := range side.rows {
				if isDatapath(r.Table()) {
					side.into[r.ID()] = true
				}
			}
		}
	}
	both := 0
	for row := range had {
		if wanted[row] {
			both++
		}
	}
	return both < len(had) && both < len(wanted)
}

func isDatapath(table string) bool {
	return table == nbdb.TableLogicalSwitch || table == nbdb.TableLogicalRouter
}

func removesDatapath(p nbdb.Plan) bool {
	return slices.ContainsFunc(p.Rows, func(r nbdb.RowChange) bool { return r.Op == nbdb.Delete && isDatapath(r.Table) })
}

func insertsDatapath(p nbdb.Plan) bool {
	return slices.ContainsFunc(p.Rows, func(r nbdb.RowChange) bool { return r.Op == nbdb.Insert && isDatapath(r.Table) })
}
