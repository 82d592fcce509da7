package nbdb

import "fmt"

// FeatureError says that the server's schema is too old for a value.
type FeatureError struct {
	Table  string
	Column string
	Schema string // the server's schema version
	Since  string // the OVN version that brought it, "" if unknown
}

func (e *FeatureError) Error() string {
	what := "table " + e.Table
	if e.Column != "" {
		what = "column " + e.Table + "." + e.Column
	}
	if e.Since == "" {
		return fmt.Sprintf("the database (schema %s) has no %s: this needs a newer OVN", e.Schema, what)
	}
	return fmt.Sprintf("the database (schema %s) has no %s: this needs OVN %s or newer", e.Schema, what, e.Since)
}

// ConflictError says that the database is not as the plan assumed: the server
// refused the whole transaction, nothing was written. Plan again from fresh rows.
type ConflictError struct {
	What string // the row or precondition that doesn't hold
}

func (e *ConflictError) Error() string { return "the database has changed meanwhile: " + e.What }

// ConstraintError says that the transaction breaks a rule of the schema: a
// name that is taken, a reference to a row that is not there or is still in
// use, a value out of range. Nothing was written.
type ConstraintError struct {
	Kind    string // OVSDB's name of the rule, such as "constraint violation"
	Details string
	What    string // the row concerned, "" where only the commit failed
}

func (e *ConstraintError) Error() string { return refusalText(e.Kind, e.Details, e.What) }

func refusalText(kind, details, what string) string {
	s := "the database refused the transaction: " + kind
	if what != "" {
		s += " (" + what + ")"
	}
	if details != "" {
		s += ": " + details
	}
	return s
}

// RefusedError says that the server takes no such transaction at all: it serves
// a copy that can only be read, it can't write to its disk, or the client's role
// does not allow it. Nothing was written, and it is of no use to try again soon.
type RefusedError struct {
	Kind    string // OVSDB's name of the error, such as "not allowed"
	Details string
	What    string // the row concerned, "" where only the commit failed
}

func (e *RefusedError) Error() string { return refusalText(e.Kind, e.Details, e.What) }

// UnknownOutcomeError says that the answer to a transaction never came: it
// may have been committed or not. Read again before anything else.
type UnknownOutcomeError struct {
	Err error
}

func (e *UnknownOutcomeError) Error() string {
	return "no answer to the transaction, it may or may not have been committed: " + e.Err.Error()
}

func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// RemoteError says that a remote is not written as it has to be, or that what it
// is reached with can't be read.
type RemoteError struct {
	Err error
}

func (e *RemoteError) Error() string { return e.Err.Error() }
func (e *RemoteError) Unwrap() error { return e.Err }

// UnreachableError says that no server answers: nothing was sent, or what was
// sent got no answer.
type UnreachableError struct {
	Err error
}

func (e *UnreachableError) Error() string { return e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }
