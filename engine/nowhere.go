package engine

import (
	"context"
	"errors"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Nowhere is the Store of an empty database that isn't there: plans can be made
// on it, and none be carried out.
type Nowhere struct{}

// errNowhere is the error of what needs a database.
var errNowhere = errors.New("there is no database")

// Read finds an empty database.
func (Nowhere) Read(context.Context, ...nbdb.Query) (*nbdb.State, error) {
	return nbdb.NewState(&nbdb.NBGlobal{UUID: "00000000-0000-0000-0000-000000000000"}), nil
}

// Commit fails.
func (Nowhere) Commit(context.Context, nbdb.Plan, bool) (int, error) { return 0, errNowhere }

// WaitCfg fails.
func (Nowhere) WaitCfg(context.Context, string, int) error { return errNowhere }

// Follow fails.
func (Nowhere) Follow(context.Context, nbdb.Sink, ...nbdb.Query) error { return errNowhere }
