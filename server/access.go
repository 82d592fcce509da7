package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// Role is what a caller may do in the VPCs that are its own.
type Role string

// The roles; each may also do what those before it may.
const (
	Viewer Role = "viewer" // read, watch, plan
	Editor Role = "editor" // change VPCs and all that is in them
	Admin  Role = "admin"  // repair drift, apply plan files; with the pattern * offerings too
)

// Roles are the roles, the least first.
func Roles() []Role { return []Role{Viewer, Editor, Admin} }

// Principal is who calls.
type Principal struct {
	Name string // of the token or the certificate
	Role Role
	VPCs []string // patterns of names, path.Match's
}

// everywhere is the pattern of those who may see all VPCs.
const everywhere = "*"

// has tells whether the role suffices where another one is asked for.
func (r Role) has(asked Role) bool {
	return slices.Contains(Roles(), asked) && slices.Index(Roles(), r) >= slices.Index(Roles(), asked)
}

// may is what the function of that name tells of a caller.
func (p Principal) may(role Role, vpc string) bool {
	if !p.Role.has(role) {
		return false
	}
	if vpc == "" {
		return role == Viewer || p.Role == Admin && slices.Contains(p.VPCs, everywhere)
	}
	return slices.ContainsFunc(p.VPCs, func(pattern string) bool {
		ok, err := path.Match(pattern, vpc)
		return ok && err == nil
	})
}

// caller is a principal as long as what it has shown holds.
type caller struct {
	Principal
	revoked <-chan struct{} // closed when it no longer does; nil: never
}

type callerKey struct{}

func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// principalOf is who calls, as the middleware has found out; one without a role
// on a path that is open.
func principalOf(ctx context.Context) Principal { return callerOf(ctx).Principal }

// may tells whether the caller has the role in a VPC; "" stands for what belongs
// to no VPC (offerings): everybody may view it, and an admin with the pattern * change it.
func may(ctx context.Context, role Role, vpc string) bool { return principalOf(ctx).may(role, vpc) }

// mayEverywhere tells whether the caller has the role in all VPCs, those to come
// too: it takes the pattern *.
func mayEverywhere(ctx context.Context, role Role) bool {
	p := principalOf(ctx)
	return p.Role.has(role) && slices.Contains(p.VPCs, everywhere)
}

// mayClaim is an error where a resource gets an interface ID that reads VPC/NAME,
// as an attachment of that VPC has it by default, and the caller lacks the role
// there: a hypervisor would plug that VPC's guest into this one. now is the resource
// as it is, nil for none.
func mayClaim(ctx context.Context, role Role, now, r *model.Resource) error {
	interfaceID := func(r *model.Resource) string {
		if r == nil {
			return ""
		}
		spec, ok := r.Spec.(*model.AttachmentSpec)
		if !ok {
			return ""
		}
		return spec.InterfaceID
	}
	id := interfaceID(r)
	vpc, _, form := strings.Cut(id, "/")
	if form && vpc != r.Metadata.VPC && id != interfaceID(now) && labels().MatchString(vpc) && !may(ctx, role, vpc) {
		return newProblem(slugForbidden, "the interface ID %q has the form of another VPC's: the role %s is needed there", id, role)
	}
	return nil
}

// lacking is the answer to a caller without a role in a VPC, or with "" in all
// VPCs. It tells what was asked for, and nothing of what is there.
func lacking(role Role, vpc string) *Problem {
	if vpc == "" {
		return newProblem(slugForbidden, "the role %s is needed in all VPCs: the pattern %s", role, everywhere)
	}
	return newProblem(slugForbidden, "the role %s is needed in the VPC %q", role, vpc)
}

// openPath tells whether a path is for everybody.
func openPath(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/version", "/openapi.json", "/docs":
		return true
	}
	return false
}

// reloadEvery is how long a change of the file of tokens may go unseen.
const reloadEvery = time.Second

// authenticator is the middleware that finds out who calls: a bearer token, or
// a client certificate that the listener has verified. It answers 401 itself.
// A call that brings a token is judged by that alone.
type authenticator struct {
	path    string // of the file of tokens; "": everybody is let in
	now     func() time.Time
	log     *slog.Logger
	entries atomic.Pointer[[]*entry]

	// Of run alone:
	data  []byte // the file as it was read last
	fault string // that was logged last
}

// newAuthenticator reads the file of tokens. Where there is one it holds, even
// for a server that is insecure otherwise.
func newAuthenticator(o Options) (*authenticator, error) {
	a := &authenticator{path: o.Tokens, now: o.Now, log: o.Log}
	if a.path == "" {
		if !o.Insecure {
			return nil, errors.New("nobody could call: give a file of tokens, or let everybody in as insecure")
		}
		return a, nil
	}
	if err := a.load(); err != nil {
		return nil, err
	}
	if len(*a.entries.Load()) == 0 {
		a.log.Warn("the file of tokens is empty: nobody is let in", "file", a.path)
	}
	return a, nil
}

// ServeHTTP is a negroni.Handler.
func (a *authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	if openPath(r.URL.Path) {
		next(w, r)
		return
	}
	c, ok := a.identify(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeProblem(w, newProblem(slugUnauthenticated, "a valid bearer token or client certificate is needed"))
		return
	}
	if call := callOf(r.Context()); call != nil {
		call.principal = c.Name
	}
	next(w, r.WithContext(withCaller(r.Context(), c)))
}

// identify is who calls, and whether it is known.
func (a *authenticator) identify(r *http.Request) (caller, bool) {
	if a.path == "" {
		return caller{Principal: Principal{Name: "anonymous", Role: Admin, VPCs: []string{everywhere}}}, true
	}
	entries := *a.entries.Load()
	var found *entry
	if header := r.Header.Get("Authorization"); header == "" && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		found = ofCertificate(entries, r.TLS.VerifiedChains[0][0])
	} else {
		scheme, token, _ := strings.Cut(header, " ")
		found = ofToken(entries, strings.TrimSpace(token))
		if !strings.EqualFold(scheme, "Bearer") {
			found = nil
		}
	}
	if found == nil || found.expired(a.now()) {
		return caller{}, false
	}
	return caller{Principal: found.Principal, revoked: found.revoked}, true
}

// run follows the file of tokens until ctx ends.
func (a *authenticator) run(ctx context.Context) {
	if a.path == "" {
		<-ctx.Done()
		return
	}
	ticker := time.NewTicker(reloadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.refresh()
		}
	}
}

// refresh takes a changed file in force, and revokes what has expired. A file
// that can't be read or is broken changes nothing.
func (a *authenticator) refresh() {
	fault := ""
	if err := a.load(); err != nil {
		if fault = err.Error(); fault != a.fault {
			a.log.Error("the file of tokens is not taken over, the one before stays in force", "error", err)
		}
	}
	a.fault = fault
	for _, e := range *a.entries.Load() {
		if e.expired(a.now()) {
			e.revoke()
		}
	}
}

// load reads the file and takes it in force if it has changed: what is gone from
// it is revoked. It compares the whole file, since an editor may leave its size
// and, within the clock's tick, its time as they were.
func (a *authenticator) load() error {
	data, err := os.ReadFile(a.path)
	if err != nil {
		return fmt.Errorf("reading the file of tokens: %w", err)
	}
	if a.data != nil && bytes.Equal(data, a.data) {
		return nil
	}
	a.data = data
	grants, err := ParseGrants(a.path, data)
	if err != nil {
		return err
	}
	before := map[string]*entry{}
	if old := a.entries.Load(); old != nil {
		for _, e := range *old {
			before[e.String()] = e
		}
		a.log.Info("the file of tokens has changed", "file", a.path, "entries", len(grants))
	}
	entries := make([]*entry, len(grants))
	for i, g := range grants {
		if kept := before[g.String()]; kept != nil {
			entries[i] = kept
			delete(before, g.String())
		} else {
			entries[i] = newEntry(g)
		}
	}
	a.entries.Store(&entries)
	for _, gone := range before {
		gone.revoke()
	}
	return nil
}
