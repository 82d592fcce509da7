package engine

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/ipam"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/translate"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// manySamples is how many packets, at most, OVN is asked about for one expectation.
const manySamples = 100

// Challenge is packets by which OVN is to confirm what was verified. With those of a
// plan, which a scratch OVN judges, stand-ins have the addresses that nobody has yet.
type Challenge struct {
	packets   []challenge
	resources map[model.ID]*model.Resource
}

type challenge struct {
	verdict *reach.Verdict
	sample  reach.Sample
	router  string
	frame   match.Packet
	port    string // of the receiver, "" outside
}

// Challenge makes the packets for a report that Verify has made, with the same set.
func (e *Engine) Challenge(ctx context.Context, set *model.Set, r *VerifyReport) (*Challenge, error) {
	c := &Challenge{resources: map[model.ID]*model.Resource{}}
	var t *tracing
	var policy *reach.Policy
	for i := range r.Expectations {
		v := &r.Expectations[i]
		if t == nil || t.vpc != v.VPC {
			t = &tracing{engine: e, vpc: v.VPC, report: &TraceReport{}}
			changed := set
			if set != nil && !slices.Contains(set.VPCs(), v.VPC) {
				changed = nil
			}
			if err := t.load(ctx, changed); err != nil {
				return nil, err
			}
			var err error
			if policy, err = reach.New(v.VPC, t.report.resources); err != nil {
				return nil, err
			}
			for _, r := range t.report.resources {
				c.resources[r.ID()] = unlimited(r)
			}
		}
		v.OVN = &reach.Asked{}
		expectation := t.resources[model.ID{Kind: model.KindExpectation, VPC: v.VPC, Name: v.Name}]
		if expectation == nil {
			continue // deleted meanwhile
		}
		var samples []reach.Sample
		samples, v.OVN.Of = policy.Samples(expectation, set != nil, manySamples)
		for _, s := range samples {
			from, to := c.host(t, s.Src), c.host(t, s.Dst)
			if from.port != "" && from.port == to.port {
				continue // two addresses of one
			}
			c.packets = append(c.packets, challenge{v, s, translate.RouterName(v.VPC), t.frame(from, to, s.Header), to.port})
		}
	}
	return c, nil
}

// host is who has an address. Where that is nobody in a tier a stand-in gets it.
func (c *Challenge) host(t *tracing, a netip.Addr) host {
	owner, tier := t.ownerOf(a), t.tierAt(a)
	if owner.port != "" || tier == "" {
		return owner
	}
	id := model.ID{Kind: model.KindAttachment, VPC: t.vpc}
	for n := len(t.guests); id.Name == "" || t.resources[id] != nil; n++ {
		id.Name = fmt.Sprintf("stand-in-%d", n)
	}
	r := &model.Resource{Kind: id.Kind, Metadata: model.Metadata{Name: id.Name, VPC: id.VPC}, Spec: &model.AttachmentSpec{
		Tier: tier, Addresses: []netip.Addr{a}, MAC: ipam.MAC(id.VPC, a, 0), InterfaceID: id.VPC + "/" + id.Name, PortSecurity: true, Enabled: true}}
	t.guests, t.resources[id], c.resources[id] = append(t.guests, r), r, r
	return t.host(r, a)
}

// unlimited is a resource without its limits: stand-ins don't count.
func unlimited(r *model.Resource) *model.Resource {
	spec, ok := r.Spec.(*model.VPCSpec)
	if !ok {
		return r
	}
	free, of := *r, *spec
	of.Offering, free.Spec = "", &of
	return &free
}

// Resources are those that the packets are about.
func (c *Challenge) Resources() []*model.Resource { return sorted(c.resources) }

// AskOVN asks OVN about all packets and notes in the report where it says
// otherwise; ask as for a TraceReport.
func (c *Challenge) AskOVN(ask func(microflow string) (string, error)) error {
	known := map[string]trace.Verdict{}
	for _, p := range c.packets {
		flow := match.Microflow(p.frame)
		said, ok := known[flow]
		if !ok {
			account, err := ask(flow)
			if err != nil {
				return fmt.Errorf("asking OVN about %s: %w", flow, err)
			}
			said = trace.ReadSummary(account, p.router, p.frame.Inport)
			known[flow] = said
		}
		asked := p.verdict.OVN
		asked.Packets++
		if p.passes(said) != p.sample.Passes {
			does := map[bool]string{true: "passes", false: "is stopped"}
			asked.Differs = append(asked.Differs, fmt.Sprintf("%s -> %s %s %s by the lists, OVN says %s",
				p.sample.Src, p.sample.Dst, headerText(p.sample.Header), does[p.sample.Passes], said.Outcome))
		}
	}
	return nil
}

// passes tells whether a packet has come to its receiver, or to the router where
// that is outside.
func (p challenge) passes(said trace.Verdict) bool {
	if p.port == "" {
		return said.Routed && said.Outcome != trace.Rejected
	}
	return said.Outcome == trace.Delivered && slices.Equal(said.Ports, []string{p.port})
}
