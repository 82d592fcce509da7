package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

func (a *app) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify", Short: "Check expectations against the access lists",
		Long: `Check which expectations hold: by what is stored, or with -f as it would be when
the files were applied; where no database is named and none is at the usual place,
the files are taken for all there is. Of one that doesn't hold it shows the traffic
that fares otherwise, and the rules that decide so.

With --ovn ovn-trace(8) judges packets of the traffic too, up to 100 for each
expectation: of all that the same rules decide between the same addresses the
first and the last one, between attachments that there are. It reads the flows of
the southbound database of --sb. With -f it reads those that an ovn-northd makes
in a scratch OVN of its own, of which nothing is left; there stand-ins have the
addresses that nobody has yet.

Exit code 0: all hold; 2: some don't; 1 where OVN says otherwise than the lists.
It is about the first packets of connections, as the reach command is.`,
		Example: `  ovn-vpc verify --vpc shop
  ovn-vpc verify -f examples/expectations/
  ovn-vpc verify -f shop/ --ovn                      # OVN itself has to agree
  ovn-vpc verify -f shop/ -o junit > verify.xml      # in CI`,
		Args: a.filesOnly(),
	}
	paths := fileFlag(cmd)
	vpc := a.vpcFlag(cmd, "only this VPC (default all, with -f those of the files)")
	ovn := cmd.Flags().Bool("ovn", false, "let OVN itself judge packets of the traffic too, and fail where it says otherwise")
	a.outputFlag(cmd, outputTable, outputJSON, outputJUnit)
	cmd.RunE = a.action(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		if err := a.hereOnly(*ovn); err != nil {
			return err
		}
		r, err := a.verify(ctx, *paths, *vpc, *ovn)
		if err != nil {
			return err
		}
		if err := a.showVerdicts(r); err != nil {
			return err
		}
		switch otherwise, all := r.Otherwise(); {
		case otherwise > 0:
			return a.differs(otherwise, all, len(*paths) > 0)
		case !r.Holds():
			return errBroken
		}
		return nil
	})
	return cmd
}

func (a *app) verify(ctx context.Context, paths []string, vpc string, ovn bool) (*engine.VerifyReport, error) {
	set, found, err := a.loadIfAny(ctx, paths)
	if err != nil {
		return nil, err
	}
	b, done, err := a.connectOr(ctx, set != nil, false)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := b.Verify(ctx, set, vpc)
	if err != nil {
		return nil, joined(found, err)
	}
	r.Diagnostics = union(found, r.Diagnostics)
	if e, ok := b.(*engine.Engine); ok && ovn && len(r.Expectations) > 0 {
		c, err := e.Challenge(ctx, set, r)
		if err != nil {
			return nil, err
		}
		return r, a.askOVN(ctx, set != nil, c)
	}
	return r, nil
}

func (a *app) showVerdicts(r *engine.VerifyReport) error {
	if a.output == outputJSON {
		a.printJSON(r)
		return nil
	}
	a.diagnose(r.Diagnostics)
	if len(r.Expectations) == 0 {
		fmt.Fprintln(a.stderr, "No expectation found.")
	}
	switch {
	case a.output == outputJUnit:
		return a.printJUnit(r.Expectations)
	case len(r.Expectations) == 0:
		return nil
	}
	rows := [][]string{{"VPC", "NAME", "EXPECT", "FROM", "TO", "TRAFFIC", "HOLDS"}}
	if r.Expectations[0].OVN != nil {
		rows[0] = append(rows[0], "OVN")
	}
	for _, v := range r.Expectations {
		row := []string{v.VPC, v.Name, string(v.Expect), v.From, v.To, v.Traffic, yes(v.Holds)}
		if v.OVN != nil {
			row = append(row, askedText(v.OVN))
		}
		rows = append(rows, row)
	}
	if err := a.align("", rows); err != nil {
		return err
	}
	for _, v := range r.Expectations {
		for _, reason := range v.Reasons() {
			a.printf("%s/%s: %s\n", v.VPC, v.Name, reason)
		}
		for _, difference := range v.Otherwise() {
			a.printf("%s\n", a.colored(red, fmt.Sprintf("%s/%s: %s", v.VPC, v.Name, difference)))
		}
	}
	return nil
}

// askedText says what OVN says of packets, and of how many where not of all.
func askedText(asked *reach.Asked) string {
	text := fmt.Sprintf("agrees (%d)", asked.Packets)
	switch differ := len(asked.Differs); {
	case asked.Packets == 0:
		return "not asked"
	case differ > 0:
		text = fmt.Sprintf("differs (%d of %d)", differ, asked.Packets)
	case asked.Of > asked.Packets:
		text = fmt.Sprintf("agrees (%d of %d)", asked.Packets, asked.Of)
	}
	return text
}

// The form of JUnit's results that CI services read: a suite for each VPC.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Line    int           `xml:"line,attr,omitempty"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func (a *app) printJUnit(verdicts []reach.Verdict) error {
	all := junitSuites{Tests: len(verdicts)}
	for _, v := range verdicts {
		at := slices.IndexFunc(all.Suites, func(s junitSuite) bool { return s.Name == v.VPC })
		if at < 0 {
			at = len(all.Suites)
			all.Suites = append(all.Suites, junitSuite{Name: v.VPC})
		}
		suite := &all.Suites[at]
		one := junitCase{Class: v.VPC, Name: v.Name, File: v.File, Line: v.Line}
		if otherwise := v.Otherwise(); !v.Holds || len(otherwise) > 0 {
			one.Failure = &junitFailure{Message: v.What(), Text: strings.Join(append(v.Reasons(), otherwise...), "\n")}
			suite.Failures++
			all.Failures++
		}
		suite.Tests++
		suite.Cases = append(suite.Cases, one)
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("writing XML: %w", err)
	}
	a.printf("%s%s\n", xml.Header, text)
	return nil
}
