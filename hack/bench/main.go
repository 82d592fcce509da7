// Command bench measures ovn-vpc against what the database itself can do, on
// private ovsdb-servers, and prints a table with the ratio and the target of
// each case. The subject and its baselines take turns in every round, so that
// what else the machine does hits them alike; a ratio is the median of those of
// the rounds. The exit code is 1 where a target is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is one run of the program.
type bench struct {
	program string // ovn-vpc
	dir     string // for what is measured on; goes in the end
	rounds  int
	size    size
}

// measure is a case: the rows of the table that it fills.
type measure struct {
	name string
	run  func(*bench, context.Context) ([]row, error)
}

func measures() []measure {
	return []measure{
		{"first", (*bench).first},
		{"again", (*bench).again},
		{"rule", (*bench).rule},
		{"server-rule", (*bench).serverRule},
		{"attach", (*bench).attach},
		{"clients", (*bench).clients},
		{"start", (*bench).start},
		{"plan", (*bench).plan},
		{"growth", (*bench).growth},
		{"flows", (*bench).flows},
	}
}

// options are the command line.
type options struct {
	program, only string
	rounds        int
	quick, report bool
	markdown      bool
	churns        bool
	churn         churnOptions
}

func main() {
	var o options
	flag.StringVar(&o.program, "program", "bin/ovn-vpc", "the program to measure")
	flag.StringVar(&o.only, "case", "", "only these cases, with commas between: "+strings.Join(names(), ", "))
	flag.IntVar(&o.rounds, "runs", 5, "rounds of each case")
	flag.BoolVar(&o.quick, "quick", false, "one round of everything, on little: to see that it works")
	flag.BoolVar(&o.report, "report-only", false, "exit with 0 also where a target is missed")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown")
	flag.BoolVar(&o.churns, "churn", false, "no table: let interfaces come and go on hypervisors in namespaces, and tell how long that takes (root)")
	flag.DurationVar(&o.churn.length, "churn-length", 30*time.Second, "how long they come at a constant rate, and then by a Poisson process")
	flag.Float64Var(&o.churn.rate, "churn-rate", 2, "how many come in a second")
	flag.IntVar(&o.churn.tiers, "churn-tiers", 8, "tiers, of sizes by a power law")
	flag.IntVar(&o.churn.population, "churn-population", 40, "guests in all tiers; from then on as many go as come")
	flag.IntVar(&o.churn.hypervisors, "churn-hypervisors", 3, "hypervisors")
	flag.Uint64Var(&o.churn.seed, "churn-seed", 1, "of what is left to chance")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func names() []string {
	var all []string
	for _, m := range measures() {
		all = append(all, m.name)
	}
	return all
}

// errMissed says that the table is whole, and not as it should be.
var errMissed = errors.New("a target is missed")

func run(ctx context.Context, o options, out io.Writer) (err error) {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	program, err := filepath.Abs(o.program)
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	dir, err := os.MkdirTemp("", "ovn-vpc-bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{program: program, dir: dir, rounds: max(1, o.rounds), size: full()}
	if o.quick {
		b.rounds, b.size = 1, quick()
	}
	if o.churns {
		return b.churn(ctx, o.churn, out)
	}
	t := newTable(out, o.markdown)
	t.head(ctx, b)
	for _, m := range chosen {
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.name)
		rows, err := m.run(b, ctx)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if err != nil {
			rows = []row{{name: m.name, figure: "FAILED", target: "to end"}}
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", m.name, err)
		}
		t.add(rows)
	}
	if t.missed > 0 && !o.report {
		return errMissed
	}
	return nil
}

func choose(only string) ([]measure, error) {
	all := measures()
	if only == "" {
		return all, nil
	}
	var chosen []measure
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names(), strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("there is no case %q: they are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
