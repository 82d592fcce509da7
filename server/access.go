package server

import (
	"context"
	"net/http"
)

// Role is what a caller may do in the VPCs that are its own.
type Role string

// The roles; each may also do what those before it may.
const (
	Viewer Role = "viewer" // read, watch, plan
	Editor Role = "editor" // change VPCs and all that is in them
	Admin  Role = "admin"  // repair drift, apply plan files; with the pattern * offerings too
)

// Principal is who calls.
type Principal struct {
	Name string // of the token or the certificate
	Role Role
	VPCs []string // patterns of names, path.Match's
}

// principalOf is who calls, as the middleware has found out.
func principalOf(ctx context.Context) Principal { return Principal{} }

// may tells whether the caller has the role in a VPC; "" stands for what belongs
// to no VPC (offerings): everybody may view it, and an admin with the pattern * change it.
func may(ctx context.Context, role Role, vpc string) bool { return false }

// authenticator is the middleware that finds out who calls: a bearer token, or
// a client certificate that the listener has verified. It answers 401 itself.
type authenticator struct{}

func newAuthenticator(o Options) (*authenticator, error) { return &authenticator{}, nil }

// ServeHTTP is a negroni.Handler.
func (a *authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {}

// run follows the file of tokens until ctx ends.
func (a *authenticator) run(ctx context.Context) {}
