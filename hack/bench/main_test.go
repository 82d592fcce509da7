package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/test/program"
)

// Every case can be measured; what comes out is nobody's business here.
func TestEveryCase(t *testing.T) {
	path := program.Build(t, "../..")
	for _, m := range measures() {
		t.Run(m.name, func(t *testing.T) {
			var out strings.Builder
			require.NoError(t, run(t.Context(), options{program: path, only: m.name, quick: true, report: true, markdown: true}, &out))
			require.NotContains(t, out.String(), "FAILED")
			_, rows, found := strings.Cut(out.String(), "|---|---|---|---|---|---|\n")
			require.True(t, found, out.String())
			require.NotEmpty(t, rows)
			for row := range strings.Lines(rows) {
				require.Len(t, strings.Split(row, "|"), 8, row)
			}
		})
	}
}

// Interfaces come and go, and how long that takes is told for both ways of coming.
func TestChurn(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), options{program: program.Build(t, "../.."), quick: true, churns: true,
		churn: churnOptions{length: 3 * time.Second, rate: 2, tiers: 2, population: 3, hypervisors: 2, seed: 1}}, &out)
	if os.Geteuid() != 0 {
		require.ErrorContains(t, err, "needs root")
		return
	}
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out.String(), "| call to first ping answered | "), out.String())
	require.NotContains(t, out.String(), "| 0 |", "every stage is passed both times")
}

func TestATargetThatIsMissedIsAFailure(t *testing.T) {
	var out strings.Builder
	table := newTable(&out, true)
	table.add([]row{atMost("slow", "3 s", "1 s", "raw", 3, 2), atLeast("few", "1", "2", "raw", 0.5, 0.5), {name: "told"}})
	require.Equal(t, 1, table.missed)
	require.Contains(t, out.String(), "| slow | 3 s | 1 s | 3.00 | at most 2 x raw | MISSED |")
	require.Contains(t, out.String(), "| few | 1 | 2 | 0.50 | at least 0.5 x raw | met |")
	require.ErrorContains(t, run(t.Context(), options{only: "first, none"}, &out), `no case " none"`)
}

// What is written through the proxy is counted; what is read is not.
func TestProxy(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	require.NoError(t, b.on(t.Context(), func(box *lab.Sandbox) error {
		p, err := newProxy(t.Context(), box.Dir(), box.NB())
		require.NoError(t, err)
		w, err := dialWire(t.Context(), p.remote())
		require.NoError(t, err)
		_, err = w.query("ACL")
		require.NoError(t, err)
		insert, err := transaction(object{"op": "insert", "table": tableSwitch, "row": object{"name": "a"}})
		require.NoError(t, err)
		_, err = w.exchange(insert)
		require.NoError(t, err)
		bad, err := transaction(object{"op": "insert", "table": "None", "row": object{}})
		require.NoError(t, err)
		_, err = w.exchange(bad)
		require.ErrorContains(t, err, "an operation failed")
		require.NoError(t, w.Close())
		writes, err := p.close()
		require.NoError(t, err)
		require.Equal(t, []sent{{insert, 1}, {bad, 1}}, writes)
		rows, err := readContent(t.Context(), box.NB())
		require.NoError(t, err)
		require.Len(t, rows.rows[tableSwitch], 1)
		require.Equal(t, "a", rows.rows[tableSwitch][0].text("name"))
		require.Len(t, rows.rows[tableSwitch][0].columns, 1, "what has the default is left out")
		return nil
	}))
}

func TestPercentiles(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 1.0, median([]float64{2, 1}))
	var many []float64
	for n := range 100 {
		many = append(many, float64(n+1))
	}
	require.Equal(t, 99.0, percentile(many, 99))
	require.Equal(t, 100.0, percentile(many, 100))
}
