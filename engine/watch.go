package engine

import (
	"context"
	"errors"
)

// Event is a change of one resource. Before is nil for one that is new, After
// for one that is gone. The status is that of an attachment; others have none.
type Event struct {
	Before, After *Object
}

// Feed receives what Watch finds. Its methods are called one at a time, in the order of commits, and must not block.
type Feed interface {
	// Reset gives the whole state: at the beginning, and again after a
	// connection was lost.
	Reset(all []Object)
	// Change gives the changes of one transaction, or of several together.
	Change(events []Event)
	// Lost says that the state is no longer followed; Reset comes next.
	Lost(err error)
}

// Watch follows all resources until ctx ends, through lost connections.
func (e *Engine) Watch(ctx context.Context, feed Feed) error {
	return errors.New("not there yet")
}
