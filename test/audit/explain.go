package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// excuse notes what rows may still be after switches and routers were deleted:
// that goes ahead, in a transaction of its own, and what named them, such as the
// rows of a rule, changes in the next one. The excuse ends with the next change
// of the VPC's structure.
func (c *Checker) excuse(written set[nbdb.UUID], changed []resourceID, concerned map[nbdb.UUID]*wanted, ahead bool) {
	structural := slices.ContainsFunc(changed, func(id resourceID) bool { return id.id.Kind != model.KindAttachment })
	for id, before := range concerned {
		_, touched := written[id]
		switch {
		case ahead && !touched && c.residual[id] == nil:
			c.residual[id] = before
		case structural && !ahead:
			delete(c.residual, id)
		}
	}
}

// deletes tells whether switches or routers are deleted, and none is inserted.
func deletes(changes []change) bool {
	gone, fresh := false, false
	for _, x := range changes {
		if x.table == nbdb.TableLogicalSwitch || x.table == nbdb.TableLogicalRouter {
			gone = gone || x.old != nil && x.now == nil
			fresh = fresh || x.old == nil && x.now != nil
		}
	}
	return gone && !fresh
}

// translated demands that a stored spec can be translated, which needs those that
// it refers to, and that one row stores it.
func (c *Checker) translated(tx Transaction, id resourceID) {
	var found []fault
	if err := c.desire.failed[id]; err != nil {
		found = append(found, fault{Unexplained, err.Error()})
	}
	if rows := sortedKeys(c.desire.stored[id]); len(rows) > 1 {
		found = append(found, fault{Unexplained, fmt.Sprintf("%s is stored by %s", id.id, c.list(rows))})
	}
	c.settle(tx, fmt.Sprintf("spec %s %s", id.owner, id.id), Violation{}, found)
}

// explained compares a row with what the stored specs translate to.
func (c *Checker) explained(tx Transaction, id nbdb.UUID) {
	want := c.desire.rows[id]
	if want == nil {
		want = newWanted()
	} else if want.empty() {
		delete(c.desire.rows, id)
	}
	row := c.state.rows[id]
	if !owned(row) && want.empty() && !keepsEntries(row) {
		row = nil // somebody else's
	}
	found := c.difference(row, want)
	if old := c.residual[id]; old != nil {
		if len(found) == 0 {
			delete(c.residual, id)
		} else if len(c.difference(row, old)) == 0 {
			found = nil
		}
	}
	c.settle(tx, "row "+string(id), c.row(id), found)
}

// keepsEntries tells whether a row that nobody owns may hold entries.
func keepsEntries(r nbdb.Row) bool {
	_, ok := r.(*nbdb.NBGlobal)
	return ok
}

func (c *Checker) difference(row nbdb.Row, want *wanted) []fault {
	var have, wish nbdb.Fragment
	if row != nil {
		have = c.have(row)
	}
	wish.Edges = slices.Collect(maps.Keys(want.edges))
	if want.row != nil {
		wish.Rows = []nbdb.Row{want.row}
	}
	var found []fault
	add := func(kind Kind, format string, args ...any) {
		found = append(found, fault{kind, fmt.Sprintf(format, args...)})
	}
	diff := nbdb.Diff(have, wish)
	for _, r := range diff.Rows {
		switch r.Op {
		case nbdb.Insert:
			add(Unexplained, "a stored spec asks for the row, and it is not there")
		case nbdb.Delete:
			add(Unexplained, "no stored spec explains the row")
		default:
			for _, x := range r.Columns {
				add(Unexplained, "%s is %v, and by the stored specs %v", x.Column, x.Old, x.New)
			}
		}
	}
	for _, e := range diff.Edges {
		kind := Unexplained
		if e.Table == nbdb.TableLogicalSwitch {
			kind = List
		}
		for _, target := range e.Add {
			add(kind, "%s do not refer to %s", e.Column, c.named(target))
		}
		for _, target := range e.Remove {
			add(kind, "%s refer to %s, by no stored spec", e.Column, c.named(target))
		}
	}
	for _, key := range otherEntries(row, want) {
		add(Unexplained, "external_ids:%s is not as the stored specs have it", key)
	}
	return found
}

// otherEntries are the keys of entries that a row has otherwise than wanted, or
// that it lacks.
func otherEntries(row nbdb.Row, want *wanted) []string {
	other, same := set[string]{}, 0
	if row != nil {
		for key, value := range row.IDs() {
			if !isEntry(row, key) {
				continue
			}
			if _, ok := want.entries[nbdb.Entry{Table: row.Table(), Row: row.ID(), Key: key, Value: value}]; ok {
				same++
			} else {
				other[key] = struct{}{}
			}
		}
	}
	if same < len(want.entries) {
		for e := range want.entries {
			if row == nil || row.IDs()[e.Key] != e.Value {
				other[e.Key] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(other))
}

// have is a row as it stands, with its references to owned rows.
func (c *Checker) have(row nbdb.Row) nbdb.Fragment {
	var f nbdb.Fragment
	if owned(row) {
		f.Rows = []nbdb.Row{row}
	}
	for _, e := range nbdb.EdgesOf(row) {
		if !places(e) && owned(c.state.rows[e.Target]) {
			f.Edges = append(f.Edges, e)
		}
	}
	return f
}

// isEntry tells whether a key of a row's external_ids is another resource's.
func isEntry(row nbdb.Row, key string) bool {
	switch row.(type) {
	case *nbdb.NBGlobal:
		return strings.HasPrefix(key, translate.KeyOfferingPrefix)
	case *nbdb.LogicalRouter:
		return strings.HasPrefix(key, translate.KeyExpectationPrefix)
	case *nbdb.PortGroup:
		return strings.HasPrefix(key, translate.KeyAttachmentPrefix) || strings.HasPrefix(key, translate.KeyExpectationPrefix)
	}
	return false
}

// named is a row as a violation names it.
func (c *Checker) named(id nbdb.UUID) string {
	if v := c.row(id); v.Key != "" {
		return v.Key
	}
	return string(id)
}
