package soak_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// row is what was used at a time.
type row struct {
	after                                   time.Duration
	calls, rss, heap, goroutines, files, nb float64
}

type table []row

// measure is one column that has to stay level, and how much it may grow over
// half a run beside a tenth of what it is.
type measure struct {
	name  string
	of    func(row) float64
	slack float64
}

func measures() []measure {
	return []measure{
		{"resident memory (bytes)", func(r row) float64 { return r.rss }, 4 << 20},
		{"heap in use (bytes)", func(r row) float64 { return r.heap }, 4 << 20},
		{"goroutines", func(r row) float64 { return r.goroutines }, 10},
		{"open files", func(r row) float64 { return r.files }, 10},
		{"northbound database (bytes)", func(r row) float64 { return r.nb }, 64 << 10},
	}
}

func (t table) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%8s %9s %8s %8s %10s %6s %8s\n", "after", "calls", "RSS MiB", "heap MiB", "goroutines", "files", "NB KiB")
	for _, r := range t {
		fmt.Fprintf(&text, "%8s %9.0f %8.1f %8.1f %10.0f %6.0f %8.0f\n", r.after.Round(time.Second), r.calls, r.rss/(1<<20), r.heap/(1<<20), r.goroutines, r.files, r.nb/(1<<10))
	}
	for _, m := range measures() {
		fmt.Fprintf(&text, "%s over the second half: %+.0f\n", m.name, t.trend(m))
	}
	return text.String()
}

// trend is how much a column grows over the second half, by the straight line
// that fits best: the first half is for warming up.
func (t table) trend(m measure) float64 {
	half := t[len(t)/2:]
	if len(half) < 2 {
		return 0
	}
	var x, y float64
	for _, r := range half {
		x += r.after.Seconds() / float64(len(half))
		y += m.of(r) / float64(len(half))
	}
	var above, below float64
	for _, r := range half {
		above += (r.after.Seconds() - x) * (m.of(r) - y)
		below += (r.after.Seconds() - x) * (r.after.Seconds() - x)
	}
	return above / below * (half[len(half)-1].after - half[0].after).Seconds()
}

// growth names the columns that do not stay level.
func (t table) growth() []string {
	var growing []string
	for _, m := range measures() {
		if grown := t.trend(m); grown > m.slack+m.of(t[len(t)/2])/10 {
			growing = append(growing, fmt.Sprintf("%s: %+.0f over the second half", m.name, grown))
		}
	}
	return growing
}

// A leak is found among noise, and noise is none.
func TestGrowthIsFound(t *testing.T) {
	var level, leaking table
	for i := range 60 {
		r := row{after: time.Duration(i) * 20 * time.Second, rss: 50<<20 + float64(i%7)*(1<<20), goroutines: 40 + float64(i%5), files: 20, nb: 200 << 10}
		level = append(level, r)
		r.goroutines += float64(i)
		leaking = append(leaking, r)
	}
	require.Empty(t, level.growth())
	require.Len(t, leaking.growth(), 1)
	require.Contains(t, leaking.growth()[0], "goroutines: +")
}
