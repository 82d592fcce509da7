package nbdb

import (
	"context"
	"fmt"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// waitSlice is how long the server is asked to hold one wait: short enough
// that a lost connection is noticed soon.
const waitSlice = 5 * time.Second

// WaitCfg returns once a column of NB_Global, sb_cfg or hv_cfg, has reached
// target: then the southbound database, or every hypervisor, has what was
// committed with that nb_cfg (ovn-nb(5)). It ends with ctx at the latest.
func (c *Client) WaitCfg(ctx context.Context, column string, target int) error {
	last := 0
	for {
		reached := last
		err := calmly(ctx, func(ctx context.Context) (err error) {
			reached, err = c.cfg(ctx, column)
			return err
		})
		if err == nil && reached >= target {
			return nil
		}
		if err == nil {
			last = reached
			err = calmly(ctx, func(ctx context.Context) error { return c.holdWhile(ctx, column, reached) })
		}
		if err != nil {
			return fmt.Errorf("waiting for %s to reach %d, at %d: %w", column, target, last, err)
		}
	}
}

// calmly runs a call that is not cut short when ctx ends: it would take the
// connection along, which others use too. It then runs out beside us.
func calmly(ctx context.Context, call func(context.Context) error) error {
	calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*waitSlice)
	return beside(ctx, func() error {
		defer cancel()
		return call(calm)
	})
}

func (c *Client) cfg(ctx context.Context, column string) (int, error) {
	results, err := c.selects(ctx, func(*Schema) ([]ovsdb.Operation, error) {
		return []ovsdb.Operation{{Op: ovsdb.OperationSelect, Table: TableNBGlobal, Columns: []string{column}}}, nil
	})
	if err != nil {
		return 0, err
	}
	return intOf(results[0].Rows, column)
}

// holdWhile lets the server hold the call while the column has this value,
// one slice at most.
func (c *Client) holdWhile(ctx context.Context, column string, value int) error {
	milliseconds := int(waitSlice.Milliseconds())
	results, sent, err := c.transact(ctx, func(*Schema) ([]ovsdb.Operation, error) {
		where := []ovsdb.Condition{{Column: column, Function: ovsdb.ConditionEqual, Value: value}}
		op := wait(TableNBGlobal, where, []string{column}, ovsdb.WaitConditionNotEqual, ovsdb.Row{column: value})
		op.Timeout = &milliseconds
		return []ovsdb.Operation{op}, nil
	})
	if err != nil && sent {
		// The next read connects anew.
		c.log.DebugContext(ctx, "waiting again after a broken connection", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	if r := results[0]; r.Error != "" && r.Error != timedOut {
		return fmt.Errorf("the database refused to wait: %s: %s", r.Error, r.Details)
	}
	return nil
}
