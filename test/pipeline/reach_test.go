package pipeline_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/ipam"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/traffic"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Random VPCs: what is said to reach, by which rules and with which replies, is
// what becomes of packets that walk over the rows.
func TestReachIsWhatWalks(t *testing.T) {
	tally := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		c := newCase(rapid.Uint64().Draw(t, "seed"))
		spec, err := text(c.docs)
		require.NoError(t, err)
		set, found := model.Load(model.Input{Name: "spec", Data: spec})
		require.False(t, found.HasErrors(), found.String())
		state, err := rowsOf(set)
		require.NoErrorf(t, err, "%s", spec)
		w, err := newWalker(c, set, state)
		require.NoErrorf(t, err, "%s", spec)
		for _, q := range w.questions(40) {
			what, err := w.compare(q.probe, q.To, tally)
			require.NoError(t, err)
			require.Emptyf(t, what, "packet %s\n%s", q, spec)
		}
	})
	t.Log(tally)
	for _, what := range []string{"passes", "stopped", "in tier", "reply passes", "reply dropped", "fragment"} {
		require.NotZerof(t, tally[what], "nothing was %q: the cases prove too little", what)
	}
}

// walker compares reach with walks.
type walker struct {
	*judges
	random       *random
	lists        map[string]*model.ACLSpec // of tiers
	byTier, byOf *reach.Result
	turn         int
}

func newWalker(c *testCase, set *model.Set, state *nbdb.State) (w *walker, err error) {
	w = &walker{random: c.random, lists: map[string]*model.ACLSpec{}}
	if w.judges, err = newJudges(c.vpc, set, state); err != nil {
		return nil, err
	}
	for name, t := range w.specs.tiers {
		w.lists[name] = w.specs.lists[t.ACL]
	}
	p, err := reach.New(c.vpc, set.Resources)
	if err != nil {
		return nil, err
	}
	if w.byTier, err = p.Reach(reach.Options{Rules: true}); err != nil {
		return nil, err
	}
	w.byOf, err = p.Reach(reach.Options{By: reach.Attachment, Rules: true})
	return w, err
}

// rowsOf are a VPC's rows as they would be applied.
func rowsOf(set *model.Set) (*nbdb.State, error) {
	tiers := slices.DeleteFunc(slices.Clone(set.Resources), func(r *model.Resource) bool { return r.Kind != model.KindTier })
	slices.SortFunc(tiers, func(a, b *model.Resource) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	c := translate.Context{Owner: "default", Lookup: set.Get, Tiers: func(string) []*model.Resource { return tiers }}
	var fragments []nbdb.Fragment
	for _, r := range set.Resources {
		if spec, ok := r.Spec.(*model.AttachmentSpec); ok && spec.MAC == "" {
			spec.MAC = ipam.MAC(r.Metadata.VPC, spec.Addresses[0], 0)
		}
		f, err := translate.Fragment(r, c)
		if err != nil {
			return nil, err
		}
		fragments = append(fragments, f)
	}
	return nbdb.StateOf(fragments...)
}

const outside = "" // in the place of an attachment's name

func (w *walker) isAllowed(from string, a netip.Addr) bool {
	g := w.specs.guests[from]
	return g != nil && within(g.AllowedAddresses, a)
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (w *walker) end(name string) (tier, own reach.End) {
	if name == outside {
		return reach.End{Kind: reach.Outside}, reach.End{Kind: reach.Outside}
	}
	return reach.End{Kind: reach.Tier, Name: w.tierOf[name]}, reach.End{Kind: reach.Attachment, Name: name}
}

// compare says what doesn't agree, nothing if all does.
func (w *walker) compare(p probe, to string, tally map[string]int) (string, error) {
	from := p.From
	if p.outside() {
		from = outside
	}
	packet := w.names.packet(p, w.tierOf)
	walked, err := w.network.Walk(trace.Endpoint{Port: packet.Inport}, packet)
	if err != nil {
		return "", err
	}
	passes := walked.Outcome == trace.Delivered || to == outside && walked.Outcome == trace.NoRoute
	header := headerOf(p)
	fromTier, fromOwn := w.end(from)
	toTier, toOwn := w.end(to)
	byTier, byTierPasses := w.byTier.Find(fromTier, toTier).Part(p.Src, p.Dst, header)
	byOwn, byOwnPasses := w.byOf.Find(fromOwn, toOwn).Part(p.Src, p.Dst, header)
	if w.isDisabled(from) || w.isDisabled(to) {
		if passes || byOwnPasses {
			return fmt.Sprintf("disabled: walks %v, reaches %v", walked, byOwnPasses), nil
		}
		return "", nil
	}
	if passes != byTierPasses || passes != byOwnPasses {
		return fmt.Sprintf("walks: %+v\nby tier: %v\nby attachment: %v", walked, byTierPasses, byOwnPasses), nil
	}
	w.count(p, to, passes, tally)
	if !passes || p.Frame == toNeighbour {
		return "", nil
	}
	rules := fmt.Sprint(keyOf(w.vpc, byTier.Egress), keyOf(w.vpc, byTier.Ingress))
	if own := fmt.Sprint(keyOf(w.vpc, byOwn.Egress), keyOf(w.vpc, byOwn.Ingress)); own != rules || own != decided(walked) {
		return fmt.Sprintf("walks by %s\nby tier: %s\nby attachment: %s", decided(walked), rules, own), nil
	}
	if byTier.Replies != byOwn.Replies {
		return fmt.Sprintf("replies by tier: %q, by attachment: %q", byTier.Replies, byOwn.Replies), nil
	}
	return w.reply(p, from, to, byOwn.Replies, tally)
}

func (w *walker) count(p probe, to string, passes bool, tally map[string]int) {
	switch {
	case p.Frame == toNeighbour:
		tally["in tier"]++
	case passes && p.Frag:
		tally["fragment"]++
	case passes && to == outside:
		tally["passes outside"]++
	case passes:
		tally["passes"]++
	default:
		tally["stopped"]++
	}
}

func headerOf(p probe) traffic.Packet {
	f := traffic.IPv4
	if p.v6() {
		f = traffic.IPv6
	}
	return traffic.Packet{Family: f, Protocol: p.Proto, Fragment: p.Frag, Port: p.DstPort, Type: p.Type, Code: p.Code}
}

// keyOf is the key of the row that a decision stands for.
func keyOf(vpc string, d *reach.Decision) string {
	switch {
	case d == nil:
		return "-"
	case d.Rule == 0:
		return fmt.Sprintf("acl-default/%s/%s/%s", vpc, d.List, d.Direction)
	}
	return fmt.Sprintf("acl-rule/%s/%s/%s/%d", vpc, d.List, d.Direction, d.Rule)
}

// decided are the lists' rows that let a packet pass: on the way out and in.
func decided(v trace.Verdict) string {
	keys := map[string]string{"from-lport": "-", "to-lport": "-"}
	for _, s := range v.Steps {
		if strings.HasPrefix(s.Key, "acl-") {
			keys[s.Direction] = strings.TrimSuffix(strings.TrimSuffix(s.Key, "/ipv4"), "/ipv6")
		}
	}
	return fmt.Sprint(keys["from-lport"], keys["to-lport"])
}

// reply compares what becomes of the answer to a packet that has passed. A
// stateful list lets it pass; each stateless one is asked by itself.
func (w *walker) reply(p probe, from, to, said string, tally map[string]int) (string, error) {
	back := p
	back.Src, back.Dst, back.SrcPort, back.DstPort, back.From, back.Frame = p.Dst, p.Src, p.DstPort, p.SrcPort, to, toRouter
	switch {
	case p.Frag:
		return "", nil
	case p.Proto == 6 || p.Proto == 17 || p.Proto == 132:
		if p.SrcPort == 0 {
			return "", nil // nothing has port 0, so reach says nothing of it
		}
	case p.Proto == 1 && p.v4() && p.Type == 8:
		back.Type, back.Code = 0, 0
	case p.Proto == 58 && p.v6() && p.Type == 128:
		back.Type, back.Code = 129, 0
	case p.Proto == 1 && p.v4() || p.Proto == 58 && p.v6():
		return "", nil
	}
	passes := true
	if to != outside && w.lists[w.tierOf[to]].Stateless {
		v, err := w.walk(back)
		if err != nil {
			return "", err
		}
		passes = judgedBy(v, "from-lport") == "allow-stateless"
	}
	if from != outside && w.lists[w.tierOf[from]].Stateless {
		back.From, back.Frame = w.tierOf[from], fromOutside
		v, err := w.walk(back)
		if err != nil {
			return "", err
		}
		// The walk ends before the list where an allowed address isn't its port's.
		if action := judgedBy(v, "to-lport"); action != "" {
			passes = passes && action == "allow-stateless"
		} else if !w.isAllowed(from, p.Src) {
			return fmt.Sprintf("the reply gets lost: %+v", v), nil
		} else {
			return "", nil
		}
	}
	promised := answered(said, p.SrcPort)
	if strings.HasPrefix(said, "to ports ") {
		tally["reply to some ports"]++
	}
	tally["reply "+map[bool]string{true: "passes", false: "dropped"}[passes]]++
	if promised != passes {
		return fmt.Sprintf("replies: %q, walks: %s", said, strconv.FormatBool(passes)), nil
	}
	return "", nil
}

// answered tells whether replies to a packet from a port pass.
func answered(replies string, port uint16) bool {
	ports, some := strings.CutPrefix(replies, "to ports ")
	if !some {
		return replies == ""
	}
	open, err := traffic.Parse("tcp " + ports)
	return err == nil && open.Contains(traffic.Packet{Protocol: traffic.TCP, Port: port})
}

func (w *walker) walk(p probe) (trace.Verdict, error) {
	packet := w.names.packet(p, w.tierOf)
	return w.network.Walk(trace.Endpoint{Port: packet.Inport}, packet)
}

// judgedBy is the action of the list's row that decided in a direction.
func judgedBy(v trace.Verdict, direction string) (action string) {
	for _, s := range v.Steps {
		if s.Direction == direction && strings.HasPrefix(s.Key, "acl-") {
			action = s.Action
		}
	}
	return action
}
