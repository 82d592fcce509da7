package engine

import (
	"context"
	"errors"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// Edit changes one resource, starting from what it is now.
type Edit struct {
	ID model.ID
	// Change returns what the resource is to be, nil to remove it. now is the
	// resource as it is stored, nil if it is not there; returned as it was, it stays.
	// An error fails this edit alone. It may be called several times, must not
	// change now, and must return at once.
	Change func(now *model.Resource) (*model.Resource, error)
	// Cascade removes the users of what is removed too.
	Cascade bool
}

// Edited is what became of an Edit.
type Edited struct {
	// Object is the resource as it is now, with its status; of a removed one, as
	// it was before. Existed tells whether it was there before.
	Object  Object
	Existed bool
	// Result is what was done for this edit.
	Result Result
	// Err is Change's error, or why the edit was refused: *InvalidError,
	// *ConflictError, or what the database said. Nothing of it was written then.
	Err error
}

// Edit carries out edits of one VPC together, in one transaction where they
// allow it. An edit that fails does so alone. No two may be of the same resource. With bump, nb_cfg is raised and
// returned, for Await. The error is one that befell all.
func (e *Engine) Edit(ctx context.Context, edits []Edit, bump bool) (edited []Edited, nbCfg int, err error) {
	return nil, 0, errors.New("not there yet")
}

// Pending says what a change has not reached yet.
type Pending struct {
	For     Wait     `json:"for"`
	Target  int      `json:"target"`            // nb_cfg of the change
	Reached int      `json:"reached"`           // sb_cfg or hv_cfg now
	Chassis []string `json:"chassis,omitempty"` // those behind, where the southbound database can be read
}

// Await waits until what was committed with nbCfg has come as far as wait
// says. When ctx's deadline passes before, it tells what is pending, which is no error.
func (e *Engine) Await(ctx context.Context, wait Wait, nbCfg int) (*Pending, error) {
	return nil, errors.New("not there yet")
}

// Version changes with a resource's metadata and spec, and with nothing else: an
// entity tag without its quotes (RFC 9110, 8.8.3).
func Version(r *model.Resource) string { return "" }

// As is the same engine for another manager.
func (e *Engine) As(manager string) *Engine {
	other := *e
	other.Manager = manager
	return &other
}
