package audit

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// foreign demands that a transaction which changes rows of an owner, and does
// not say that somebody else made it, changes nothing but those.
func (c *Checker) foreign(tx Transaction, changes []change) {
	owners, gone := set[string]{}, set[nbdb.UUID]{}
	for _, x := range changes {
		row := cmp.Or(x.old, x.now)
		if x.deleted && owned(row) {
			gone[x.uuid] = struct{}{}
		}
		if s, ok := scopeOf(row); ok && writes(x) {
			owners[s.owner] = struct{}{}
		}
	}
	elsewhere := tx.Comment != "" && !strings.HasPrefix(tx.Comment, "ovn-vpc")
	if elsewhere || len(owners) == 0 || tx.Whole {
		return
	}
	if len(owners) > 1 {
		c.record(Violation{Transaction: tx, Kind: Foreign, Problem: fmt.Sprintf("rows of the owners %v are changed at once", slices.Sorted(maps.Keys(owners)))})
	}
	for _, x := range changes {
		for _, problem := range c.trespass(x, gone) {
			v := c.row(x.uuid)
			v.Transaction, v.Kind, v.Table, v.Problem = tx, Foreign, x.table, problem
			c.record(v)
		}
	}
}

// writes tells whether a row changes in what an owner writes: not in what OVN or
// somebody else does.
func writes(x change) bool {
	if x.old == nil || x.now == nil || slices.ContainsFunc(x.columns, refers) {
		return true
	}
	fragment := func(r nbdb.Row) nbdb.Fragment { return nbdb.Fragment{Rows: []nbdb.Row{r}} }
	return !nbdb.Diff(fragment(x.old), fragment(x.now)).Empty()
}

// refers tells whether a column is a set of references that several write.
func refers(column string) bool {
	return column == "ports" || column == "acls" || column == "policies"
}

// trespass is what a transaction of an owner does to a row and must not; gone
// are the owned rows that it deletes.
func (c *Checker) trespass(x change, gone set[nbdb.UUID]) []string {
	mine := owned(x.old)
	switch {
	case !x.deleted && x.old == nil && (x.now != nil || x.fresh), mine && x.deleted, restored(x):
		return nil // a new row, or its own
	case x.deleted && len(gone) > 0:
		return nil // the server removes what nothing refers to any more
	case x.deleted:
		return []string{"somebody else's row is deleted"}
	case x.now == nil:
		return []string{fmt.Sprintf("columns %v of somebody else's row are changed", x.columns)}
	}
	var found []string
	was, is := nbdb.Columns(x.old), nbdb.Columns(x.now)
	for _, column := range x.columns {
		_, before := was[column]
		_, after := is[column]
		known := before || after // a column at its default is not there, and this one has changed
		if !known || !reflect.DeepEqual(c.others(column, was[column], mine, gone), c.others(column, is[column], mine, gone)) {
			found = append(found, fmt.Sprintf("what somebody else has in %s is changed", column))
		}
	}
	return found
}

// restored tells whether a row gets marks back that somebody had taken off it:
// its UUID proves whose it is.
func restored(x change) bool {
	s, ok := scopeOf(x.now)
	return ok && translate.RowUUID(s.owner, x.table, x.now.IDs()[translate.KeyKey]) == x.uuid && !owned(x.old)
}

// others is the part of a column's value that an owner must leave as it is.
func (c *Checker) others(column string, value any, mine bool, gone set[nbdb.UUID]) any {
	switch {
	case column == "external_ids":
		pairs := map[string]string{}
		all, _ := value.(map[string]string)
		for k, v := range all {
			if !strings.HasPrefix(k, "ovn-vpc") {
				pairs[k] = v
			}
		}
		return pairs
	case refers(column):
		refs := []string{}
		all, _ := value.([]string)
		for _, ref := range all {
			_, left := gone[nbdb.UUID(ref)]
			if !left && !(mine && owned(c.state.rows[nbdb.UUID(ref)])) {
				refs = append(refs, ref)
			}
		}
		return refs
	case mine || column == "nb_cfg":
		return nil
	}
	return value
}
