package pipeline_test

import (
	"context"
	"maps"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/trace"
)

// manyTries bounds how often a failing case is run again to make it smaller.
const manyTries = 400

// shrink removes documents, then whatever else can go, for as long as the
// case keeps failing.
func (c *testCase) shrink(ctx context.Context, o *ovn, f *failure) *failure {
	small := &testCase{vpc: c.vpc, docs: c.docs, made: true}
	switch {
	case f.probe != nil:
		small.probes = []probe{*f.probe}
	case f.question != nil:
		small.questions = []question{*f.question}
	case f.verify:
		small.verify = true
	default:
		small.probes, small.questions, small.verify = c.probes, c.questions, true
	}
	tries := 0
	fails := func() bool {
		if tries++; tries > manyTries {
			return false
		}
		// What is refused, or misses the packet's ends, is no smaller case.
		g, err := small.run(ctx, o, map[trace.Outcome]int{})
		if err != nil || g == nil || (g.complaint == "") != (f.complaint == "") {
			return false
		}
		f = g
		return true
	}
	small.drop(fails)
	for _, d := range small.docs {
		if spec, ok := d["spec"].(document); ok {
			prune(spec, fails)
		}
	}
	small.drop(fails) // what nothing refers to any more
	return f
}

// drop removes documents for as long as the case fails.
func (c *testCase) drop(fails func() bool) {
	for i := len(c.docs) - 1; i >= 0; i-- {
		whole := c.docs
		if c.docs = slices.Delete(slices.Clone(whole), i, i+1); !fails() {
			c.docs = whole
		}
	}
}

// prune removes members and elements of a tree while it fails.
func prune(tree document, fails func() bool) {
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		value := tree[key]
		if delete(tree, key); fails() {
			continue
		}
		tree[key] = value
		switch v := value.(type) {
		case document:
			prune(v, fails)
		case []any:
			for i := len(v) - 1; i >= 0; i-- {
				tree[key] = slices.Delete(slices.Clone(v), i, i+1)
				if fails() {
					v = tree[key].([]any)
					continue
				}
				tree[key] = v
				if inner, ok := v[i].(document); ok {
					prune(inner, fails)
				}
			}
		}
	}
}
