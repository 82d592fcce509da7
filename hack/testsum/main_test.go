package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
)

func TestSummary(t *testing.T) {
	const (
		pass    = `{"Action":"output","Package":"a","Test":"T1","Output":"noise\n"}` + "\n" + `{"Action":"pass","Package":"a","Test":"T1"}` + "\n"
		passed  = `{"Action":"pass","Package":"a","Elapsed":1.5}` + "\n"
		fail    = `{"Action":"output","Package":"b","Test":"T2","Output":"why\n"}` + "\n" + `{"Action":"fail","Package":"b","Test":"T2"}` + "\n" + `{"Action":"output","Package":"b","Output":"FAIL\tb\n"}` + "\n" + `{"Action":"fail","Package":"b","Elapsed":0}` + "\n"
		died    = `{"Action":"output","Package":"c","Output":"panic: x\n"}` + "\n" + `{"Action":"fail","Package":"c","Elapsed":0}` + "\n"
		skipped = `{"Action":"output","Package":"d","Test":"T3","Output":"no root\n"}` + "\n" + `{"Action":"skip","Package":"d","Test":"T3"}` + "\n"
		noTests = `{"Action":"output","Package":"e","Output":"? e [no test files]\n"}` + "\n" + `{"Action":"skip","Package":"e"}` + "\n"
		faults  = `{"Action":"output","Package":"a","Test":"T4","Output":"    x.go:1: faults: 12 tried, 340 states checked, 0 violations\n"}` + "\n" +
			`{"Action":"output","Package":"f","Test":"T5","Output":"    x.go:1: faults: 3 tried, 5 states checked, 1 violations\n"}` + "\n"
	)
	tests := []struct {
		name, in, want string
		well           bool
	}{
		{"all pass", pass + passed + noTests, "ok  \ta\t1.5s\n1 passed, 0 failed\n", true},
		{"a test fails", pass + fail, "why\nFAIL\tb\n1 passed, 1 failed\n", false},
		{"a binary dies", pass + died, "panic: x\n1 passed, 1 failed\n", false},
		{"a skip is no pass", pass + skipped, "no root\n1 passed, 0 failed, 1 skipped (counts as failed)\n", false},
		{"nothing ran", noTests, "0 passed, 0 failed\n", false},
		{"faults are added up", faults + pass, "faults: 15 tried, 345 states checked, 1 violations\n1 passed, 0 failed\n", true},
		{"not an event", "go: broken go.mod\n" + pass, "go: broken go.mod\n1 passed, 0 failed\n", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			require.NoError(t, s.read(strings.NewReader(test.in)))
			require.Equal(t, test.well, s.report())
			require.Equal(t, test.want, out.String())
		})
	}
}
