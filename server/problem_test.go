package server

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Of a change that may have landed nobody is told that there was nothing to change.
func TestWhatMayHaveLandedIsNotRefused(t *testing.T) {
	lost := &nbdb.UnknownOutcomeError{Err: errors.New("no answer")}
	list := model.ID{Kind: model.KindACL, VPC: "shop", Name: "web"}
	for _, refusal := range []error{noRule(list, 7), &engine.NotFoundError{ID: list}, &engine.RepeatedError{ID: list},
		newProblem(slugExists, "it exists"), &engine.InvalidError{}} {
		require.NotEqual(t, http.StatusGatewayTimeout, problemOf(refusal).Status)
		require.Equal(t, http.StatusGatewayTimeout, problemOf(fmt.Errorf("%w; it now says: %w", lost, refusal)).Status)
	}
}

// A database that nobody has set up is no fault of the server's, and told.
func TestUnpreparedDatabase(t *testing.T) {
	p := problemOf(fmt.Errorf("reading: %w", &engine.UnpreparedError{}))
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	require.Contains(t, p.Detail, "ovn-nbctl init")
}
