// Package golden holds tests against txtar archives: input, and what comes of it.
package golden

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
)

// Archives compares what run makes of each archive with the archive's file of the
// name result, and writes that file with -update.
func Archives(t *testing.T, pattern, result string, run func(*testing.T, *txtar.Archive) []byte) {
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			require.NoError(t, err)
			got := run(t, archive)
			at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == result })
			if testflag.Update() {
				if at < 0 {
					at = len(archive.Files)
					archive.Files = append(archive.Files, txtar.File{Name: result})
				}
				archive.Files[at].Data = got
				require.NoError(t, os.WriteFile(path, txtar.Format(archive), 0o644))
				return
			}
			require.GreaterOrEqual(t, at, 0, "no file %s: run with -update", result)
			require.Equal(t, string(archive.Files[at].Data), string(got))
		})
	}
}
