package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// slug is the last part of a problem's type.
type slug string

// The kinds of problems.
const (
	slugMalformed        slug = "malformed"
	slugUnauthenticated  slug = "unauthenticated"
	slugForbidden        slug = "forbidden"
	slugNotFound         slug = "not-found"
	slugMethodNotAllowed slug = "method-not-allowed"
	slugNotAcceptable    slug = "not-acceptable"
	slugInUse            slug = "in-use"
	slugTaken            slug = "taken"
	slugExists           slug = "exists"
	slugConflict         slug = "conflict"
	slugDamaged          slug = "damaged"
	slugPrecondition     slug = "precondition"
	slugTooLarge         slug = "too-large"
	slugUnsupportedMedia slug = "unsupported-media-type"
	slugInvalid          slug = "invalid"
	slugKeyReused        slug = "key-reused"
	slugInternal         slug = "internal"
	slugUnavailable      slug = "unavailable"
	slugRefused          slug = "refused"
	slugTimeout          slug = "timeout"
	slugTooManyWatches   slug = "too-many-watches"
)

// retryAfter is how many seconds a caller should leave a database that does
// not answer alone.
const retryAfter = 5

// kind is the status and the title of each kind of problem.
func (s slug) kind() (status int, title string) {
	switch s {
	case slugMalformed:
		return http.StatusBadRequest, "The request can't be understood"
	case slugUnauthenticated:
		return http.StatusUnauthorized, "Who calls is not known"
	case slugForbidden:
		return http.StatusForbidden, "The caller may not do this"
	case slugNotFound:
		return http.StatusNotFound, "There is no such resource"
	case slugMethodNotAllowed:
		return http.StatusMethodNotAllowed, "The method is not allowed here"
	case slugNotAcceptable:
		return http.StatusNotAcceptable, "There is no answer of the types accepted"
	case slugInUse:
		return http.StatusConflict, "It is in use"
	case slugTaken:
		return http.StatusConflict, "Somebody else has it"
	case slugExists:
		return http.StatusConflict, "It exists"
	case slugConflict:
		return http.StatusConflict, "The database kept changing"
	case slugDamaged:
		return http.StatusConflict, "What is stored is damaged"
	case slugPrecondition:
		return http.StatusPreconditionFailed, "The resource is not as the request assumes"
	case slugTooLarge:
		return http.StatusRequestEntityTooLarge, "The body is too large"
	case slugUnsupportedMedia:
		return http.StatusUnsupportedMediaType, "The body has a type that is not read here"
	case slugInvalid:
		return http.StatusUnprocessableEntity, "The input is invalid"
	case slugKeyReused:
		return http.StatusUnprocessableEntity, "The idempotency key was used with another body"
	case slugUnavailable:
		return http.StatusServiceUnavailable, "The database can't be reached"
	case slugRefused:
		return http.StatusServiceUnavailable, "The database takes no changes"
	case slugTimeout:
		return http.StatusGatewayTimeout, "The outcome was not known in time"
	case slugTooManyWatches:
		return http.StatusTooManyRequests, "Too many watches are open"
	}
	return http.StatusInternalServerError, "The server failed"
}

// Problem is an error as it is answered (RFC 9457).
type Problem struct {
	Type        string             `json:"type" doc:"urn:ovn-vpc:problem:<kind>: what a program decides by"`
	Title       string             `json:"title" doc:"what the kind means"`
	Status      int                `json:"status" doc:"the HTTP status"`
	Detail      string             `json:"detail,omitempty" doc:"what happened this time"`
	Instance    string             `json:"instance,omitempty" doc:"the id of the request, as in X-Request-Id"`
	Diagnostics model.Diagnostics  `json:"diagnostics,omitempty" doc:"the faults of the input, all of them"`
	VPCs        []engine.VPCResult `json:"vpcs,omitempty" doc:"how far a change of several VPCs came"`
}

func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

func newProblem(s slug, format string, args ...any) *Problem {
	status, title := s.kind()
	return &Problem{Type: "urn:ovn-vpc:problem:" + string(s), Title: title, Status: status, Detail: fmt.Sprintf(format, args...)}
}

// problemOf is the problem that an error of the engine, or one of our own, comes to.
func problemOf(err error) *Problem {
	var problem *Problem
	var invalid *engine.InvalidError
	var missing *engine.NotFoundError
	var repeated *engine.RepeatedError
	var conflict *engine.ConflictError
	var damaged *engine.DamagedError
	var unprepared *engine.UnpreparedError
	switch {
	case engine.UnknownOutcome(err): // whatever is said of the resource as it is by now
		return newProblem(slugTimeout, "%s", err)
	case errors.As(err, &problem):
		answer := *problem
		return &answer
	case errors.As(err, &invalid):
		return invalidProblem(invalid.Diagnostics)
	case errors.As(err, &damaged):
		return newProblem(slugDamaged, "%s", damaged)
	case errors.As(err, &missing):
		return newProblem(slugNotFound, "%s", missing)
	case errors.As(err, &repeated):
		return newProblem(slugKeyReused, "the key has created %s", repeated.ID)
	case errors.As(err, &conflict):
		return newProblem(slugConflict, "%s", conflict)
	case engine.Refused(err):
		return newProblem(slugRefused, "%s", err)
	case engine.Unreachable(err), errors.As(err, &unprepared):
		return newProblem(slugUnavailable, "%s", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return newProblem(slugTimeout, "%s", err)
	}
	return newProblem(slugInternal, "the server's log tells more under the request's id")
}

// invalidProblem is about an input that was refused. Where nothing but others
// stands in its way, that is a conflict.
func invalidProblem(found model.Diagnostics) *Problem {
	has := func(codes ...model.Code) func(model.Diagnostic) bool {
		return func(d model.Diagnostic) bool { return slices.Contains(codes, d.Code) }
	}
	others := has(model.CodeInUse, model.CodeTaken)
	kind, faults := slugInvalid, found.Errors()
	switch {
	case slices.ContainsFunc(faults, func(d model.Diagnostic) bool { return !others(d) }):
	case slices.ContainsFunc(faults, has(model.CodeInUse)):
		kind = slugInUse
	case len(faults) > 0:
		kind = slugTaken
	}
	p := newProblem(kind, "%s", (&engine.InvalidError{Diagnostics: found}).Error())
	p.Diagnostics = found
	return p
}

// discreet leaves out the names of VPCs that the caller may not know of.
func (p *Problem) discreet(known func(vpc string) bool) {
	reveals := func(d model.Diagnostic) bool { return d.Reveals != "" && !known(d.Reveals) }
	if !slices.ContainsFunc(p.Diagnostics, reveals) {
		return
	}
	p.Diagnostics = slices.Clone(p.Diagnostics)
	for i, d := range p.Diagnostics {
		if reveals(d) {
			p.Diagnostics[i] = d.Discreet()
		}
	}
	p.Detail = (&engine.InvalidError{Diagnostics: p.Diagnostics}).Error()
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	p.Instance = requestID(w)
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		panic(fmt.Errorf("encoding a problem: %w", err)) // plain data: a mistake in this program
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(data, '\n')) // the caller has gone: nobody is left to tell
}
