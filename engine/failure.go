package engine

import (
	"errors"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Unreachable tells whether an error says that a database does not answer, or
// can't be connected to.
func Unreachable(err error) bool {
	var unreachable *nbdb.UnreachableError
	return errors.As(err, &unreachable)
}

// UnknownOutcome tells whether an error leaves open if a transaction was
// committed.
func UnknownOutcome(err error) bool {
	var unknown *nbdb.UnknownOutcomeError
	return errors.As(err, &unknown)
}

// Refused tells whether an error says that the database takes no changes: it
// serves a copy that can only be read, say, or its disk is full.
func Refused(err error) bool {
	var refused *nbdb.RefusedError
	return errors.As(err, &refused)
}
