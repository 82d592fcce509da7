// Package pipeline_test holds the whole way together, from specs to the
// verdicts of a real OVN.
package pipeline_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

var seed = flag.Uint64("seed", 1, "seed of the first random case; 0 chooses one")

const (
	manyCases = 300
	fewCases  = 20 // with -short
	probes    = 40 // packets tried in each case
	questions = 40 // and packets that trace, reach and OVN are asked about
)

// Random VPCs: what the specs promise, what a walk over the rows says and what
// OVN's own program says of the flows that ovn-northd made of them are one. So is
// what trace, reach and verify tell.
func TestPipeline(t *testing.T) {
	o := newOVN(t)
	cases := manyCases
	if testing.Short() {
		cases = fewCases
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	tally := map[trace.Outcome]int{}
	cases = testflag.Cases(cases)
	for i := range cases {
		c := newCase(first + uint64(i))
		f, err := c.run(t.Context(), o, tally)
		require.NoErrorf(t, err, "seed %d", first+uint64(i))
		if f != nil {
			f = c.shrink(t.Context(), o, f)
			t.Fatalf("seed %d fails; to replay it: go test ./test/pipeline -run Pipeline -cases 1 -seed %d\n%s\nspec:\n%s",
				first+uint64(i), first+uint64(i), f, f.spec)
		}
	}
	t.Log(tally)
	if cases < fewCases {
		return
	}
	for _, outcome := range []trace.Outcome{trace.Delivered, trace.Answered, trace.Dropped, trace.Rejected, trace.NoRoute, trace.NoHost,
		asked + trace.Delivered, asked + trace.Dropped, asked + trace.Rejected, asked + trace.NoRoute, verified} {
		require.NotZerof(t, tally[outcome], "no packet was %s: the cases prove too little", outcome)
	}
}

// testCase is a VPC and the packets to try on it.
type testCase struct {
	random    *random
	vpc       string
	docs      []document
	made      bool // what is tried is made up
	probes    []probe
	questions []question
	verify    bool // expectations
}

func newCase(seed uint64) *testCase {
	c := &testCase{random: newRandom(seed), vpc: fmt.Sprintf("v%d", seed)}
	c.docs = c.random.design(c.vpc)
	return c
}

// failure is a disagreement, or what an OVN complained of.
type failure struct {
	complaint string
	probe     *probe
	question  *question
	verify    bool
	spec      []byte
	text      string
}

func (f *failure) String() string {
	if f.complaint != "" {
		return f.complaint
	}
	return f.text
}

// run applies the VPC and tries the packets; the result is nil where all
// agree.
func (c *testCase) run(parent context.Context, o *ovn, tally map[trace.Outcome]int) (f *failure, err error) {
	ctx, cancel := context.WithTimeout(parent, patience)
	defer cancel()
	spec, err := text(c.docs)
	if err != nil {
		return nil, err
	}
	set, found := model.Load(model.Input{Name: "spec", Data: spec})
	if found.HasErrors() {
		return nil, fmt.Errorf("the spec is refused: %s\n%s", found, spec)
	}
	if _, err := o.engine.Apply(ctx, set, false, engine.WaitSB); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, spec)
	}
	f, err = c.try(ctx, o, set, tally)
	if err := errors.Join(err, o.remove(ctx, c.vpc)); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, spec)
	}
	complaints, err := o.complaints()
	if err != nil {
		return nil, err
	}
	if f == nil && complaints != "" {
		f = &failure{complaint: "ovn-northd complains: " + complaints}
	}
	if f != nil {
		f.spec = spec
	}
	return f, nil
}

func (c *testCase) try(ctx context.Context, o *ovn, set *model.Set, tally map[trace.Outcome]int) (*failure, error) {
	state, err := o.rows(ctx)
	if err != nil {
		return nil, err
	}
	w, err := newWalker(c, set, state)
	if err != nil {
		return nil, err
	}
	if !c.made {
		c.probes, c.questions = c.random.probes(probes, w.specs, w.names.linkLocals), w.questions(questions)
		c.made, c.verify = true, true
	}
	if w.tracer, err = o.startTracer(ctx); err != nil {
		return nil, err
	}
	f, err := c.tryAll(ctx, o, w, set, tally)
	complaints, stopped := w.tracer.stop(ctx)
	err = errors.Join(err, stopped)
	if f == nil && complaints != "" {
		f = &failure{complaint: "ovn-trace complains: " + complaints}
	}
	return f, err
}

// tryAll ends with the first disagreement.
func (c *testCase) tryAll(ctx context.Context, o *ovn, w *walker, set *model.Set, tally map[trace.Outcome]int) (*failure, error) {
	for _, p := range c.probes {
		if !w.specs.knows(p) {
			continue
		}
		if f, err := w.judges.compare(p, tally); f != nil || err != nil {
			return f, err
		}
	}
	for _, q := range c.questions {
		if !w.knows(q) {
			continue
		}
		if f, err := w.agree(ctx, o, set, q, tally); f != nil || err != nil {
			return f, err
		}
	}
	if c.verify {
		return w.challenge(ctx, o, tally)
	}
	return nil, nil
}

// judges are the three that have to agree.
type judges struct {
	vpc     string
	specs   *specs
	names   *names
	tierOf  map[string]string
	network *trace.Network
	tracer  *tracer
}

// newJudges are the judges without their tracer.
func newJudges(vpc string, set *model.Set, state *nbdb.State) (j *judges, err error) {
	j = &judges{vpc: vpc, specs: newSpecs(set), tierOf: map[string]string{}}
	for name, g := range j.specs.guests {
		j.tierOf[name] = g.Tier
	}
	if j.names, err = newNames(vpc, set, state); err != nil {
		return nil, err
	}
	j.network, err = trace.NewNetwork(state)
	return j, err
}

func (j *judges) compare(p probe, tally map[trace.Outcome]int) (*failure, error) {
	p.linkLocals = j.names.linkLocals
	packet := j.names.packet(p, j.tierOf)
	promised := j.portsOf(j.specs.judge(p))
	walked, err := j.network.Walk(trace.Endpoint{Port: packet.Inport}, packet)
	if err != nil {
		return nil, err
	}
	traced, account, err := j.tracer.judge(match.Microflow(packet), j.vpc, packet.Inport)
	if err != nil {
		return nil, err
	}
	tally[promised.outcome]++
	byRows := verdict{walked.Outcome, walked.Ports}
	if isReport(p) && promised.outcome != trace.Delivered && byRows.outcome != trace.Delivered && traced.outcome != trace.Delivered {
		return nil, nil // where one is lost differs with OVN's version
	}
	if same(promised, byRows) && same(coarse(promised), coarse(traced)) {
		return nil, nil
	}
	var steps []string
	for _, s := range walked.Steps {
		steps = append(steps, fmt.Sprintf("  %+v", s))
	}
	return &failure{probe: &p, text: fmt.Sprintf("packet %s\nthe specs:   %v\nthe rows:    %v %s\novn-trace:   %v\nrows on the way:\n%s\n%s\n%s",
		p, promised, byRows, walked.Reason, traced, strings.Join(steps, "\n"), match.Microflow(packet), account)}, nil
}

// portsOf names the ports of attachments.
func (j *judges) portsOf(v verdict) verdict {
	var ports []string
	for _, name := range v.to {
		ports = append(ports, j.names.guests[name])
	}
	slices.Sort(ports)
	return verdict{v.outcome, ports}
}

func same(a, b verdict) bool { return a.outcome == b.outcome && slices.Equal(a.to, b.to) }

// coarse is a verdict as far as ovn-trace tells them apart.
func coarse(v verdict) verdict {
	if v.outcome == trace.NoRoute || v.outcome == trace.NoHost {
		return dropped
	}
	return v
}
