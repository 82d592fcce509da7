package audit_test

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/test/audit"
)

// written is a file with records as ovsdb-server writes them.
func written(t *testing.T, magic string, records ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	var text strings.Builder
	for _, r := range records {
		fmt.Fprintf(&text, "OVSDB %s %d %x\n%s", magic, len(r), sha1.Sum([]byte(r)), r)
	}
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// seen are the numbers and comments of a log's transactions.
func seen(t *testing.T, path string) []string {
	t.Helper()
	var found []string
	require.NoError(t, audit.ReadLog(path, func(tx audit.Transaction) error {
		found = append(found, fmt.Sprintf("%d %s", tx.Number, tx.Comment))
		return nil
	}))
	return found
}

// A server that lost the lead takes back entries that it could not commit.
func TestRaftLog(t *testing.T) {
	entry := func(index, term int, comment string) string {
		return fmt.Sprintf(`{"term":%d,"index":%d,"data":[null,{"_comment":%q}]}`, term, index, comment)
	}
	records := []string{
		`{"prev_index":1,"prev_data":[{"name":"OVN_Northbound"},{"_comment":"snapshot"}],"prev_term":1}`,
		`{"term":1,"vote":"x"}`, `{"term":1,"index":2}`, `{"commit_index":2}`,
		entry(3, 1, "three"), `{"commit_index":3}`,
		entry(4, 1, "lost"), entry(5, 1, "lost"),
		entry(4, 2, "four"), `{"commit_index":4}`, entry(5, 2, "five"), entry(6, 2, "six"), `{"note":"x"}`, `{"commit_index":5}`,
	}
	require.Equal(t, []string{"1 snapshot", "3 three", "4 four", "5 five"}, seen(t, written(t, "CLUSTER", records...)))
}

// The end of a file that is being written is left out, wherever it ends.
func TestUnfinishedLog(t *testing.T) {
	path := written(t, "JSON", `{"name":"x"}`, `{"_comment":"one\n"}`, `{"_comment":"two"}`)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	before := 0
	for n := range whole {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		now := len(seen(t, path))
		require.GreaterOrEqual(t, now, before)
		before = now
	}
	require.Equal(t, 1, before)
	require.NoError(t, os.WriteFile(path, append(whole, "garbage\n"...), 0o600))
	require.ErrorContains(t, audit.ReadLog(path, func(audit.Transaction) error { return nil }), "is no header")
}

// What was compacted is one state, the faults in it too.
func TestCompactedLog(t *testing.T) {
	for _, servers := range []int{1, 3} {
		d := newDatabase(t, lab.SandboxOptions{NBServers: servers, NoNorthd: true})
		name := "nb"
		if servers > 1 {
			name = "nb1"
		}
		compact := func() {
			_, err := d.box.Binaries().Run(d.ctx, "ovs-appctl", "-t", filepath.Join(d.box.Dir(), name+".ctl"), "ovsdb-server/compact")
			require.NoError(t, err)
		}
		d.apply(load(t, network), false)
		d.apply(load(t, renumbered), true)
		compact()
		d.apply(load(t, document("Attachment", "ward", "three", "tier: stay")), false)
		r := d.check(name)
		require.Empty(t, r.Violations)
		require.Less(t, r.States, 4)
		_, err := d.box.NBCtl(d.ctx, "acl-del", "ward/stay")
		require.NoError(t, err)
		compact()
		r, err = audit.Check(filepath.Join(d.box.Dir(), name+".db"), audit.Options{})
		require.NoError(t, err)
		require.ElementsMatch(t, r.Violations, r.Standing)
		require.True(t, slices.ContainsFunc(r.Violations, func(v audit.Violation) bool { return v.Kind == audit.List }))
	}
}
