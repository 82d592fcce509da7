package reach

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Verdict is what the lists make of an expectation.
type Verdict struct {
	VPC     string       `json:"vpc"`
	Name    string       `json:"name"`
	Expect  model.Action `json:"expect"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Traffic string       `json:"traffic"`
	File    string       `json:"file,omitempty"` // of the expectation
	Line    int          `json:"line,omitempty"`
	Holds   bool         `json:"holds"`
	// Breaks is the traffic that fares otherwise, Problem why it doesn't hold
	// where no rule is to blame.
	Breaks  []Break `json:"breaks,omitempty"`
	Problem string  `json:"problem,omitempty"`
	// OVN is what OVN itself says, nil where it wasn't asked.
	OVN *Asked `json:"ovn,omitempty"`
}

// Asked is what OVN says of packets of an expectation's traffic.
type Asked struct {
	Packets int `json:"packets"` // it was asked about
	Of      int `json:"of"`      // there are to stand for all that the lists tell apart
	// Differs are those of which OVN says otherwise than the lists.
	Differs []string `json:"differs,omitempty"`
}

// Break is traffic that passes and shouldn't, or the other way round, and the
// rules that decide so.
type Break struct {
	Traffic string     `json:"traffic"`
	From    *Addresses `json:"fromAddresses,omitempty"` // nil: all of the end
	To      *Addresses `json:"toAddresses,omitempty"`
	By      []Decision `json:"by"`
}

// What is the expectation in words: "deny outside -> db tcp 5432".
func (v *Verdict) What() string {
	return fmt.Sprintf("%s %s -> %s %s", v.Expect, v.From, v.To, v.Traffic)
}

// Reasons is why an expectation doesn't hold, such as "tcp 22 passes by web/rule
// 20 (acls.yaml:9)", one for each part of the traffic.
func (v *Verdict) Reasons() []string {
	if v.Problem != "" {
		return []string{v.Problem}
	}
	does := map[model.Action]string{model.Allow: "is stopped", model.Deny: "passes"}[v.Expect]
	var out []string
	for _, b := range v.Breaks {
		var by []string
		for _, d := range b.By {
			by = append(by, d.String())
		}
		text := Part{Traffic: b.Traffic, From: b.From, To: b.To}.text() + " " + does
		out = append(out, text+" by "+strings.Join(by, ", "))
	}
	return out
}

// Otherwise is of what OVN says otherwise than the lists.
func (v *Verdict) Otherwise() []string {
	if v.OVN == nil {
		return nil
	}
	return v.OVN.Differs
}

// Place tells of the expectation and of all rules where they were read, by the
// resources of an input.
func (v *Verdict) Place(find func(model.ID) *model.Resource) {
	v.place(find(model.ID{Kind: model.KindExpectation, VPC: v.VPC, Name: v.Name}))
	for _, b := range v.Breaks {
		for i := range b.By {
			b.By[i].Place(find(model.ID{Kind: model.KindACL, VPC: v.VPC, Name: b.By[i].List}))
		}
	}
}

func (v *Verdict) place(r *model.Resource) {
	v.File, v.Line = "", 0
	if r != nil && r.Source != nil {
		v.File = r.Source.File
		v.Line, _ = r.Source.Pos("")
	}
}

// Verify holds expectations of the VPC against its lists. It is about the first
// packets of connections, as all that a Policy says.
func (p *Policy) Verify(expectations []*model.Resource) []Verdict {
	j := newJoiner(true)
	out := []Verdict{}
	for _, r := range expectations {
		spec, ok := r.Spec.(*model.ExpectationSpec)
		if !ok || r.Metadata.VPC != p.vpc {
			continue
		}
		v := Verdict{VPC: p.vpc, Name: r.Metadata.Name, Expect: spec.Expect, From: spec.From, To: spec.To, Traffic: spec.Traffic.String()}
		v.place(r)
		p.judge(&v, j, spec.Traffic)
		v.Holds = v.Problem == "" && len(v.Breaks) == 0
		out = append(out, v)
	}
	return out
}

func (p *Policy) judge(v *Verdict, j *joiner, wanted traffic.Set) {
	allow := v.Expect == model.Allow
	from, problem := p.meant(v.From)
	to, other := p.meant(v.To)
	if v.Problem = cmp.Or(problem, other); v.Problem != "" {
		return
	}
	if from == nil || to == nil {
		if allow {
			v.Problem = "an attachment is disabled: nothing reaches it, and it reaches nothing"
		}
		return
	}
	inside := from.tier == to.tier
	possible := wanted.Intersect(common(from, to))
	switch {
	case possible.Empty() && allow:
		v.Problem = "no such traffic goes between the two: they have no address family in common that has it"
	case possible.Empty():
	case inside && from.tier == "":
		v.Problem = "both ends are outside: no list decides"
	case inside && !allow:
		v.Problem = fmt.Sprintf("both are in tier %s, inside which no list applies", from.tier)
	case !inside:
		v.Breaks = j.breaks(from, to, wanted, allow)
	}
}

// breaks is the wanted traffic that passes though it should not be allowed, or
// doesn't though it should.
func (j *joiner) breaks(from, to *place, wanted traffic.Set, allow bool) []Break {
	g := j.grid(from, to)
	possible := g.possible()
	var out []Break
	for _, f := range g.flows(func(f fate) bool { return f.passes() != allow }) {
		set := f.traffic.Intersect(wanted)
		if set.Empty() {
			continue
		}
		b := Break{Traffic: set.Text(possible), From: f.from.named(), To: f.to.named(), By: []Decision{}}
		if from.list != nil && f.value.egress.allow() != allow {
			b.By = append(b.By, *from.list.decision(f.value.egress.rule(), model.Egress))
		}
		if to.list != nil && f.value.ingress.allow() != allow {
			b.By = append(b.By, *to.list.decision(f.value.ingress.rule(), model.Ingress))
		}
		out = append(out, b)
	}
	return out
}

// meant is the place that an end of an expectation means, nil for an attachment
// that is disabled, or why there is none.
func (p *Policy) meant(end string) (at *place, problem string) {
	if addr, err := netip.ParseAddr(end); err == nil {
		return p.at(addr)
	}
	e, err := ParseEnd(end)
	if err != nil {
		return nil, err.Error()
	}
	if e.Kind == Outside {
		return p.outside, ""
	}
	if e.Kind != Attachment {
		at = p.find(p.tiers, e.Name)
	}
	if at == nil && e.Kind != Tier {
		at = p.find(p.attachments, e.Name)
		if at == nil && slices.Contains(p.disabled, e.Name) {
			return nil, ""
		}
	}
	if at == nil {
		return nil, fmt.Sprintf("there is no %s", end)
	}
	return at, ""
}

// at is the place of one address.
func (p *Policy) at(addr netip.Addr) (*place, string) {
	one, err := newSpace([]netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())})
	if err != nil {
		return nil, err.Error()
	}
	at := &place{End: End{Kind: Outside}, sends: one, receives: one, hosts: intersect(one.all, p.outside.hosts), free: intersect(one.all, p.outside.free)}
	for _, t := range p.tiers {
		if slices.ContainsFunc(t.receives.named, func(n netip.Prefix) bool { return n.Contains(addr) }) {
			at.End, at.tier, at.list = t.End, t.tier, t.list
			at.hosts, at.free = intersect(one.all, t.hosts), intersect(one.all, t.free)
		}
	}
	return at, ""
}
