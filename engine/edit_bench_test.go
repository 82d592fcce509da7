package engine_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// followed is an engine whose mirror follows a database with a VPC of so many
// tiers, each with a list of so many rules.
func followed(b *testing.B, tiers, rules, attachments int) *engine.Engine {
	s := labtest.NewTestSandbox(b, lab.SandboxOptions{NoNorthd: true})
	c, err := nbdb.Dial(b.Context(), nbdb.Options{Remotes: s.NB()})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	e := engine.New(c, "default", "cli")
	var text strings.Builder
	text.WriteString(vpc("shop", "10.0.0.0/8"))
	for i := range tiers {
		text.WriteString(tierWith("shop", fmt.Sprintf("t-%d", i), fmt.Sprintf("cidrs: [10.%d.0.0/16], acl: l-%d", i, i)))
		text.WriteString(longList(i, rules))
	}
	for i := range attachments {
		text.WriteString(att("shop", fmt.Sprintf("a-%d", i), fmt.Sprintf("t-%d", i%tiers)))
	}
	set, ds := model.Load(model.Input{Name: "spec.yaml", Data: []byte(text.String())})
	require.False(b, ds.HasErrors(), ds.String())
	_, err = e.Apply(b.Context(), set, false, engine.WaitNone)
	require.NoError(b, err)
	served := *e
	served.Mirror = engine.NewMirror(e.Owner)
	ctx, cancel := context.WithCancel(b.Context())
	feed, ended := &counter{come: make(chan struct{})}, make(chan error, 1)
	go func() { ended <- served.Watch(ctx, feed) }()
	<-feed.come
	b.Cleanup(func() { cancel(); <-ended })
	return &served
}

func longList(i, rules int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "---\napiVersion: ovn-vpc/v1\nkind: ACL\nmetadata: {name: l-%d, vpc: shop}\nspec:\n  rules:\n", i)
	for k := range rules {
		fmt.Fprintf(&text, "    - {number: %d, protocol: tcp, ports: [%d], cidrs: [192.0.%d.0/24]}\n", (k+1)*10, 1000+k, k%250)
	}
	return text.String()
}

// BenchmarkEditRule adds a rule to a list of 100, or takes it away.
func BenchmarkEditRule(b *testing.B) {
	const rules = 100
	e := followed(b, 20, rules, 1000)
	var lists [2]*model.Resource
	for i := range lists {
		set, ds := model.Load(model.Input{Name: "list.yaml", Data: []byte(longList(0, rules+1-i))})
		require.False(b, ds.HasErrors(), ds.String())
		lists[i] = set.Resources[0]
	}
	n := 0
	for b.Loop() {
		r := lists[n%2]
		n++
		edited, _, err := e.Edit(b.Context(), []engine.Edit{{ID: r.ID(), Change: func(*model.Resource) (*model.Resource, error) { return r, nil }}}, false)
		require.NoError(b, err)
		require.NoError(b, edited[0].Err)
		b.StopTimer()
		require.True(b, e.Mirror.Current(b.Context()))
		b.StartTimer()
	}
}

// BenchmarkEditRules is that of an edit which says that it is about rules.
func BenchmarkEditRules(b *testing.B) {
	const rules = 100
	e := followed(b, 20, rules, 1000)
	n := 0
	for b.Loop() {
		more := n%2 == 0
		n++
		change := func(now *model.Resource) (*model.Resource, error) {
			r, spec := *now, *now.Spec.(*model.ACLSpec)
			if more {
				spec.Rules = append(slices.Clone(spec.Rules), model.Rule{Number: 5000, Action: model.Allow, Direction: model.Ingress, Protocol: model.ProtoTCP, Ports: []model.PortRange{{First: 22, Last: 22}}, CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
			} else {
				spec.Rules = spec.Rules[:len(spec.Rules)-1]
			}
			r.Spec = &spec
			return &r, nil
		}
		edited, _, err := e.Edit(b.Context(), []engine.Edit{{ID: id(model.KindACL, "shop", "l-0"), Hasty: true, Rules: true, Change: change}}, false)
		require.NoError(b, err)
		require.NoError(b, edited[0].Err)
		b.StopTimer()
		require.True(b, e.Mirror.Current(b.Context()))
		b.StartTimer()
	}
}

// BenchmarkEditAttachment makes an attachment, or removes it.
func BenchmarkEditAttachment(b *testing.B) {
	e := followed(b, 20, 100, 1000)
	set, ds := model.Load(model.Input{Name: "spec.yaml", Data: []byte(att("shop", "more", "t-0"))})
	require.False(b, ds.HasErrors(), ds.String())
	r, n := set.Resources[0], 0
	for b.Loop() {
		next := r
		if n%2 == 1 {
			next = nil
		}
		n++
		edited, _, err := e.Edit(b.Context(), []engine.Edit{{ID: r.ID(), Hasty: true, Change: func(*model.Resource) (*model.Resource, error) { return next, nil }}}, false)
		require.NoError(b, err)
		require.NoError(b, edited[0].Err)
		b.StopTimer()
		require.True(b, e.Mirror.Current(b.Context()))
		b.StartTimer()
	}
}
