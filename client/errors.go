package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Error is a refusal or failure for which there is no type of its own.
type Error struct {
	Status    int    // HTTP's
	Type      string // urn:ovn-vpc:problem:..., "" where the server names none
	Title     string
	Detail    string
	RequestID string // as the server logs it
}

func (e *Error) Error() string {
	text := fmt.Sprintf("the server answers %d", e.Status)
	if e.Title != "" {
		text += " " + e.Title
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// PreconditionError says that a resource is not stored in the version that was
// asked for, or that it is there and must not be. It is a conflict.
type PreconditionError struct{ *engine.ConflictError }

func (e *PreconditionError) Unwrap() error { return e.ConflictError }

// UnknownOutcomeError says that no answer came to a change: it may have been
// made, or not.
type UnknownOutcomeError struct{ Err error }

func (e *UnknownOutcomeError) Error() string {
	return "no answer came, it is not known whether the change was made: " + e.Err.Error()
}

func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

const (
	problemType = "application/problem+json"
	problemURN  = "urn:ovn-vpc:problem:"
)

// problem is the body of an error (RFC 9457) as far as errors need it.
type problem struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Detail      string            `json:"detail"`
	Instance    string            `json:"instance"`
	Diagnostics model.Diagnostics `json:"diagnostics"`
}

// failure is the error of an answer that is no success.
func failure(a *answer) error {
	p := problem{Title: http.StatusText(a.status)}
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if media == problemType {
		if err := json.Unmarshal(a.body, &p); err != nil {
			p.Detail = "and a problem that can't be read: " + err.Error()
		}
	}
	slug, ours := strings.CutPrefix(p.Type, problemURN)
	conflict := &engine.ConflictError{Err: errors.New(p.Detail)}
	switch {
	case !ours:
	case p.Diagnostics.HasErrors():
		return &engine.InvalidError{Diagnostics: p.Diagnostics}
	case a.status == http.StatusPreconditionFailed:
		return &PreconditionError{conflict}
	case slug == "conflict":
		return conflict
	case slug == "not-found":
		if name, whole := strings.CutSuffix(p.Detail, " not found"); whole {
			if id, ok := model.ParseID(name); ok {
				return &engine.NotFoundError{ID: id}
			}
		}
	}
	e := &Error{Status: a.status, Title: p.Title, Detail: p.Detail, RequestID: a.header.Get("X-Request-Id")}
	if ours {
		e.Type = p.Type
	}
	if slug == "timeout" {
		return &UnknownOutcomeError{e}
	}
	return e
}
