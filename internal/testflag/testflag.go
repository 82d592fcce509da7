// Package testflag holds the flags that all of the project's tests share.
// The go command hands a flag to every test binary, and one that doesn't know
// it fails: so every package with tests imports this one, if only for its
// flags (import _), and `go test ./... -cases 2000` or `-update` works.
package testflag

import "flag"

var (
	cases  = flag.Int("cases", 0, "number of random cases of a test; 0: what the test thinks best")
	update = flag.Bool("update", false, "rewrite the golden files")
)

// Cases is the number of random cases to try: the flag -cases, and the
// default where it isn't given. Call it when flags are parsed: in a test.
func Cases(byDefault int) int {
	if *cases > 0 {
		return *cases
	}
	return byDefault
}

// Update reports whether golden files are to be rewritten: the flag -update.
func Update() bool { return *update }
