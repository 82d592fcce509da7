package nbdb

import (
	"encoding/json"
	"fmt"
)

// result is what an operation came to (RFC 7047, 5.2): an error, or the rows of
// a select.
type result struct {
	Error, Details string
	Rows           json.RawMessage // as the server writes them
}

// readResults takes an answer to a transaction apart. An operation that was not
// carried out, since one before it failed, has an empty result.
func readResults(s *scanner) ([]result, error) {
	var results []result
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
