package engine

import (
	"context"
	"fmt"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Mark raises nb_cfg and writes nothing else: what has come as far as the
// number that it returns, for Await, has all that was committed before.
func (e *Engine) Mark(ctx context.Context) (nbCfg int, err error) {
	if nbCfg, err = e.NB.Commit(ctx, nbdb.Plan{}, true); err != nil {
		return 0, fmt.Errorf("raising nb_cfg: %w", err)
	}
	return nbCfg, nil
}
