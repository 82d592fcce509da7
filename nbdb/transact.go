package nbdb

import (
	"encoding/json"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// result is what an operation came to (RFC 7047, 5.2): an error, or the rows of
// a select.
type result struct {
	Error, Details string
	Rows           json.RawMessage // as the server writes them
}

// readResults takes an answer to a transaction apart. An operation that was not
// carried out, since one before it failed, has an empty result.
func readResults(data []byte) ([]result, error) {
	var results []result
	s := newScanner(data, nil)
	s.array(func() {
		var r result
		if s.next() != '{' {
			s.word()
		} else {
			s.object(func(name string) {
				switch name {
				case "error":
					r.Error = s.text()
				case "details":
					r.Details = s.text()
				case "rows":
					r.Rows = s.raw()
				default:
					s.raw()
				}
			})
		}
		results = append(results, r)
	})
	if s.err != nil {
		return nil, fmt.Errorf("reading the answer to a transaction: %w", s.err)
	}
	return results, nil
}

// transaction are the parameters of the method «transact» (RFC 7047, 4.1.3).
// They are what libovsdb makes of the operations, but in one go: its own
// encoding goes over each operation three times.
func transaction(database string, ops []ovsdb.Operation) []any {
	type (
		operation ovsdb.Operation // without its way to encode itself
		selection struct {
			Op      string            `json:"op"`
			Table   string            `json:"table"`
			Where   []ovsdb.Condition `json:"where"` // also where there is none
			Columns []string          `json:"columns,omitempty"`
		}
	)
	params := []any{database}
	for i := range ops {
		op := &ops[i]
		if op.Op != ovsdb.OperationSelect {
			params = append(params, (*operation)(op))
			continue
		}
		where := op.Where
		if where == nil {
			where = []ovsdb.Condition{}
		}
		params = append(params, selection{op.Op, op.Table, where, op.Columns})
	}
	return params
}
