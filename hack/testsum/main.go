// Command testsum reads the output of `go test -json` from its standard
// input and prints it for people: a line for each package, the output of what
// failed, and at the end how many tests passed and failed. A skipped test is
// a failure: nobody would know that it did not run. What tests say of the faults
// that they tried is added up.
//
//	go test -json ./... | testsum
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build events
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// summary is what the events amount to.
type summary struct {
	out                     io.Writer
	passed, failed, skipped int
	output                  map[string]*strings.Builder // of what isn't over, by package and test
	blamed                  map[string]bool             // packages with a failed test
	faults                  faults
}

// faults are the counts of tests that let things fail (test/faults).
type faults struct{ tried, states, violations int }

// faultsLine is how such a test logs them, and how their sum is printed.
const faultsLine = "faults: %d tried, %d states checked, %d violations"

// add counts what a line of output says.
func (f *faults) add(line string) {
	var one faults
	at := max(0, strings.Index(line, "faults: "))
	if n, _ := fmt.Sscanf(line[at:], faultsLine, &one.tried, &one.states, &one.violations); n == 3 {
		f.tried += one.tried
		f.states += one.states
		f.violations += one.violations
	}
}

func main() {
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	if !s.report() {
		os.Exit(1)
	}
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string]*strings.Builder{}, blamed: map[string]bool{}}
}

// read takes in all events of r. Lines that are none are printed as they are.
func (s *summary) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				s.add(e)
			} else {
				fmt.Fprintf(s.out, "%s\n", strings.TrimRight(string(line), "\n"))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
	}
}

func (s *summary) add(e event) {
	name := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		if s.output[name] == nil {
			s.output[name] = &strings.Builder{}
		}
		s.output[name].WriteString(e.Output)
		s.faults.add(e.Output)
		return
	case "build-output":
		fmt.Fprint(s.out, e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	over := s.output[name]
	delete(s.output, name)
	if over != nil && e.Action != "pass" && (e.Test != "" || e.Action == "fail") {
		fmt.Fprint(s.out, over.String())
	}
	if e.Test == "" {
		s.addPackage(e)
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.blamed[e.Package] = true
	case "skip":
		s.skipped++
	}
}

// addPackage counts a package that failed without a test to blame as a
// failure: it died, or did not compile. Its output has the line for people.
func (s *summary) addPackage(e event) {
	if e.Action == "pass" {
		took := time.Duration(e.Elapsed * float64(time.Second)).Round(10 * time.Millisecond)
		fmt.Fprintf(s.out, "ok  \t%s\t%v\n", e.Package, took)
	}
	if e.Action == "fail" && !s.blamed[e.Package] {
		s.failed++
	}
}

// report prints the sum and says whether all is well.
func (s *summary) report() bool {
	if f := s.faults; f != (faults{}) {
		fmt.Fprintf(s.out, faultsLine+"\n", f.tried, f.states, f.violations)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed", s.passed, s.failed)
	if s.skipped > 0 {
		fmt.Fprintf(s.out, ", %d skipped (counts as failed)", s.skipped)
	}
	fmt.Fprintln(s.out)
	return s.failed == 0 && s.skipped == 0 && s.passed > 0
}
