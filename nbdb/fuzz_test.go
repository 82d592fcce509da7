package nbdb

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseDump: whatever a text says, ParseDump ends; and what it takes is
// written as text that reads back as the same rows, references and entries.
func FuzzParseDump(f *testing.F) {
	sample, err := os.ReadFile("testdata/sample.dump")
	require.NoError(f, err)
	f.Add(string(sample))
	for paragraph := range strings.SplitSeq(string(sample), "\n\n") {
		f.Add(paragraph)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fragment, err := ParseDump(strings.NewReader(text))
		if err != nil {
			return
		}
		written := dumpOf(t, fragment)
		again, err := ParseDump(strings.NewReader(written))
		require.NoError(t, err, written)
		require.Equal(t, written, dumpOf(t, again))
		require.ElementsMatch(t, fragment.Rows, again.Rows, written)
		require.Equal(t, edgeSet(fragment.Edges), edgeSet(again.Edges))
		require.ElementsMatch(t, fragment.Entries, again.Entries)
	})
}
