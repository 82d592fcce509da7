package server

import (
	"context"
	"net/http"
	"strings"
)

// call is what inner handlers find out about a call, for outer ones to read when
// it has been answered: they see another *http.Request than the inner ones.
type call struct {
	route     string // as it was registered, without the method; "" for none
	principal string // its name
}

type callKey struct{}

// withCall is the request with a call, the one that it has or a new one.
func withCall(r *http.Request) (*http.Request, *call) {
	if c := callOf(r.Context()); c != nil {
		return r, c
	}
	c := &call{}
	return r.WithContext(context.WithValue(r.Context(), callKey{}, c)), c
}

// callOf is the call of a request, nil where no outer handler has asked for one.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// routed notes which route of a mux answers. It is the innermost handler but the
// mux, which says so in the request that it is given.
func routed(mux http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := callOf(r.Context()); c != nil {
			defer func() {
				_, c.route, _ = strings.Cut(r.Pattern, " ")
			}()
		}
		mux.ServeHTTP(w, r)
	})
}
