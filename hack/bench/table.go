package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// row is one line of the table.
type row struct {
	name     string
	figure   string
	baseline string
	ratio    string
	target   string // "": there is none
	met      bool
}

// atMost is a row whose ratio has to stay below a limit.
func atMost(name string, figure, baseline, unit string, ratio, limit float64) row {
	return row{name: name, figure: figure, baseline: baseline, ratio: fmt.Sprintf("%.2f", ratio), target: fmt.Sprintf("at most %g x %s", limit, unit), met: ratio <= limit}
}

// atLeast is a row whose ratio has to reach a limit.
func atLeast(name string, figure, baseline, unit string, ratio, limit float64) row {
	return row{name: name, figure: figure, baseline: baseline, ratio: fmt.Sprintf("%.2f", ratio), target: fmt.Sprintf("at least %g x %s", limit, unit), met: ratio >= limit}
}

func (r row) verdict() string {
	switch {
	case r.target == "":
		return ""
	case r.met:
		return "met"
	}
	return "MISSED"
}

// table prints rows as they come.
type table struct {
	out      io.Writer
	markdown bool
	missed   int
}

func newTable(out io.Writer, markdown bool) *table { return &table{out: out, markdown: markdown} }

// head says what was measured on, and names the columns.
func (t *table) head(ctx context.Context, b *bench) {
	fmt.Fprintf(t.out, "%s\n\n", strings.Join([]string{
		version(ctx, "ovn-nbctl"), version(ctx, "ovsdb-server"), runtime.Version(), "Linux " + kernel(),
		fmt.Sprintf("%d x %s", runtime.NumCPU(), processor()), fmt.Sprintf("medians of %d rounds", b.rounds), "load " + load(),
	}, ", "))
	t.line("case", "figure", "baseline", "ratio", "target", "")
	if t.markdown {
		fmt.Fprintln(t.out, "|---|---|---|---|---|---|")
	}
}

func (t *table) add(rows []row) {
	for _, r := range rows {
		t.line(r.name, r.figure, r.baseline, r.ratio, r.target, r.verdict())
		if r.target != "" && !r.met {
			t.missed++
		}
	}
}

func (t *table) line(cells ...any) {
	if t.markdown {
		fmt.Fprintf(t.out, "| %s | %s | %s | %s | %s | %s |\n", cells...)
		return
	}
	fmt.Fprintf(t.out, "%-66s %-22s %-34s %6s  %-32s %s\n", cells...)
}

// version is what a program says of itself.
func version(ctx context.Context, program string) string {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	if err != nil {
		return program + " unknown"
	}
	return strings.TrimSpace(first)
}

func kernel() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return "unknown"
	}
	var text []byte
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return string(text)
}

// load is how many processes wanted a processor in the last minute.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}

func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// median is the middle of values.
func median[T time.Duration | float64](values []T) T { return percentile(values, 50) }

// percentile is the value that p per cent of the values, at least, do not pass.
func percentile[T time.Duration | float64](values []T, p int) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// pairwise is the median of the ratios of two series, round by round.
func pairwise(a, b []time.Duration) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = float64(a[i]) / float64(b[i])
	}
	return median(ratios)
}

// show is a duration with three digits.
func show(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
}
