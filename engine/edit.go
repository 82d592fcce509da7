package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Edit changes one resource, starting from what it is now.
type Edit struct {
	ID model.ID
	// Change returns what the resource is to be, nil to remove it. now is the
	// resource as it is stored, nil if it is not there; returned as it was, it stays.
	// An error fails this edit alone. It may be called several times, must not
	// change now, and must return at once.
	Change func(now *model.Resource) (*model.Resource, error)
	// Again, if not nil, is asked before Change where an earlier attempt may have
	// landed, and fails where it seems so.
	Again func(now *model.Resource) error
	// Cascade removes the users of what is removed too.
	Cascade bool
	// Lost says that now is what the second copy tells, where somebody has deleted
	// the rows: that can be removed too.
	Lost bool
	// Hasty lets the first attempt start from what the mirror holds, without asking
	// whether that is everything: what others did to rows by hand lately may stay as
	// it is.
	Hasty bool
	// Rules says that Change changes nothing of a list but its rules: what others did
	// by hand to the rows of those that stay is left.
	Rules bool
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
// allow it. An edit that fails does so alone: of several that don't fit
// together the earlier win. Removals of what others may use come after the rest,
// each by itself. No two may be of the same resource. What Change saw
// still holds when the edit is committed; where nothing changes it held when it
// was read. With bump, nb_cfg is raised and returned, for Await. The error is
// one that befell all; edited is then nil, or where several transactions were
// needed tells how far they came.
//
// Where the answer to a transaction was lost, it counts as landed if the
// resources are as it would have made them. If somebody else has changed a
// resource since, so that this can't be told, and Change now refuses it, Err is
// a *nbdb.UnknownOutcomeError.
func (e *Engine) Edit(ctx context.Context, edits []Edit, bump bool) (edited []Edited, nbCfg int, err error) {
	if err := oneVPC(edits); err != nil {
		return nil, 0, err
	}
	b := &batch{engine: e, edits: edits, runner: e.newRunner(bump), outcomes: make([]outcome, len(edits))}
	err = b.runner.land(ctx, b.plan)
	if err != nil && !b.runner.result.Changed() {
		if refused(err) && ctx.Err() == nil {
			return e.editEach(ctx, edits, bump, err)
		}
		return nil, 0, err
	}
	edited = b.edited(ctx, err)
	if err == nil && bump && len(b.live()) > 0 {
		nbCfg, err = b.runner.target(ctx)
	}
	for i, x := range edited {
		if errors.Is(x.Err, errLater) {
			one, n := e.editOne(ctx, edits[i], bump)
			edited[i], nbCfg = one, max(nbCfg, n)
		}
	}
	return edited, nbCfg, err
}

// editOne is Edit of one edit that was tried with others, whose error befalls it
// alone.
func (e *Engine) editOne(ctx context.Context, x Edit, bump bool) (Edited, int) {
	x.Hasty = false // the others may have landed since
	one, nbCfg, err := e.Edit(ctx, []Edit{x}, bump)
	switch {
	case one == nil:
		return Edited{Err: err}, 0
	case one[0].Err == nil:
		one[0].Err = err
	}
	return one[0], nbCfg
}

// oneVPC refuses edits that can't be carried out together.
func oneVPC(edits []Edit) error {
	seen := map[model.ID]bool{}
	for _, x := range edits {
		if vpcOf(x.ID) != vpcOf(edits[0].ID) {
			return fmt.Errorf("edits of %s and %s together: they are of two VPCs", edits[0].ID, x.ID)
		}
		if seen[x.ID] {
			return fmt.Errorf("two edits of %s together", x.ID)
		}
		seen[x.ID] = true
	}
	return nil
}

// refused tells whether the database itself does not take a change, however
// often it is planned.
func refused(err error) bool {
	var feature *nbdb.FeatureError
	var constraint *nbdb.ConstraintError
	return errors.As(err, &feature) || errors.As(err, &constraint)
}

// editEach is for edits of which the database refuses some, and doesn't say
// which: each goes alone.
func (e *Engine) editEach(ctx context.Context, edits []Edit, bump bool, cause error) ([]Edited, int, error) {
	if len(edits) == 1 {
		return []Edited{{Err: cause}}, 0, nil
	}
	var all []Edited
	nbCfg := 0
	for i := range edits {
		one, n := e.editOne(ctx, edits[i], bump)
		all, nbCfg = append(all, one), max(nbCfg, n)
	}
	return all, nbCfg, nil
}

// Version changes with a resource's metadata and spec, and with nothing else: an
// entity tag without its quotes (RFC 9110, 8.8.3).
func Version(r *model.Resource) string {
	stored, err := model.MarshalStored(r)
	if err != nil {
		return "" // no spec has a value that JSON lacks
	}
	return translate.Digest(stored, "")
}

// same tells whether two resources are stored alike; nil is none.
func same(a, b *model.Resource) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Manager != b.Manager || a.Request != b.Request {
		return false
	}
	a, b = differing(a, b)
	if list, ok := a.Spec.(*model.ACLSpec); ok && len(list.Rules) > 0 {
		return false
	}
	x, err1 := model.MarshalStored(a)
	y, err2 := model.MarshalStored(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
