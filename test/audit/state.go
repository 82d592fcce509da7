package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// change is what a transaction makes of a row.
type change struct {
	table    string
	uuid     nbdb.UUID
	old, now nbdb.Row // nil where there is none, and in tables of no row type
	// columns are those that the record names; none of a row that is deleted.
	columns []string
	deleted bool
	fresh   bool // in a table of no row type: it was not there
}

// state are the rows as the transactions so far leave them.
type state struct {
	rows map[nbdb.UUID]nbdb.Row
	// others are the rows of tables without a row type.
	others set[nbdb.UUID]
}

// apply carries out a transaction, and gives its changes by table and UUID. Rows
// that a snapshot no longer has are deleted.
func (s *state) apply(tx Transaction) ([]change, error) {
	var changes []change
	seen := map[nbdb.UUID]bool{}
	for table, rows := range tx.rows {
		for id, columns := range rows {
			c, err := s.change(table, nbdb.UUID(id), columns, tx.difference)
			if err != nil {
				return nil, err
			}
			seen[c.uuid] = true
			changes = append(changes, c)
		}
	}
	if tx.Whole {
		for id, row := range s.rows {
			if !seen[id] {
				changes = append(changes, change{table: row.Table(), uuid: id, old: row, deleted: true})
				delete(s.rows, id)
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.uuid, b.uuid)) })
	return changes, nil
}

func (s *state) change(table string, id nbdb.UUID, columns json.RawMessage, difference bool) (change, error) {
	c := change{table: table, uuid: id, old: s.rows[id]}
	if bytes.Equal(columns, []byte("null")) {
		c.deleted = true
		delete(s.rows, id)
		delete(s.others, id)
		return c, nil
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(columns, &named); err != nil {
		return c, err
	}
	c.columns = slices.Sorted(maps.Keys(named))
	now, err := nbdb.Revise(c.old, table, id, columns, difference)
	if err != nil {
		return c, err
	}
	if now != nil {
		c.now = now
		s.rows[id] = now
		return c, nil
	}
	_, there := s.others[id]
	c.fresh = !there
	s.others[id] = struct{}{}
	return c, nil
}

// scope is a VPC of an owner.
type scope struct{ owner, vpc string }

// scopeOf is where an owned row belongs; ok is false of one that nobody owns.
func scopeOf(r nbdb.Row) (s scope, ok bool) {
	if r == nil {
		return scope{}, false
	}
	ids := r.IDs()
	owner, ok := ids[translate.KeyOwner]
	return scope{owner, ids[translate.KeyVPC]}, ok
}

func owned(r nbdb.Row) bool {
	_, ok := scopeOf(r)
	return ok
}
