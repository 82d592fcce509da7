// Package faults ends tests that let things fail: it has the logs of the
// databases audited, and counts for `make test-faults`.
package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/test/audit"
)

// Audit demands that no committed state in the log of any of the database files
// breaks a promise, but by transactions of ovn-nbctl, and gives what was found in
// each. The line that it logs is what hack/testsum adds up over all tests: tried
// is how many faults the test has brought about.
func Audit(t testing.TB, tried int, files ...string) []*audit.Report {
	t.Helper()
	reports := make([]*audit.Report, len(files))
	states, found := 0, []string{}
	for i, file := range files {
		r, err := audit.Check(file, audit.Options{Damages: audit.ByHand})
		require.NoError(t, err)
		reports[i] = r
		states += r.States
		for _, v := range r.Violations {
			found = append(found, fmt.Sprintf("%s: %s", file, v))
		}
	}
	t.Logf("faults: %d tried, %d states checked, %d violations", tried, states, len(found))
	const most = 20
	require.Empty(t, found, "%s", strings.Join(found[:min(most, len(found))], "\n"))
	return reports
}
