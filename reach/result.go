package reach

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Options say what is asked. The zero value asks for all between tiers.
type Options struct {
	By       Kind         // Tier (also if empty) or Attachment
	Rules    bool         // by which rules too
	From, To []End        // none: any
	Traffic  *traffic.Set // nil: any
}

// Result is who reaches whom. What isn't listed doesn't pass.
type Result struct {
	VPC   string   `json:"vpc"`
	By    Kind     `json:"by"`
	Paths []Path   `json:"paths"`
	Notes []string `json:"notes,omitempty"`
}

// Path is the traffic that passes from one end to another.
type Path struct {
	From    End    `json:"from"`
	To      End    `json:"to"`
	Traffic string `json:"traffic"`          // all of it in one text, the same for the same traffic
	InTier  bool   `json:"inTier,omitempty"` // not filtered: it stays in one tier
	Parts   []Part `json:"parts"`
}

// Part is traffic that passes alike: where they are asked for, by the same
// rules.
type Part struct {
	Traffic string     `json:"traffic"`
	From    *Addresses `json:"fromAddresses,omitempty"` // nil: all of the end
	To      *Addresses `json:"toAddresses,omitempty"`
	Egress  *Decision  `json:"egress,omitempty"`  // nil unless asked for, from outside, and in a tier
	Ingress *Decision  `json:"ingress,omitempty"` // nil unless asked for, to outside, and in a tier
	// Replies is empty where replies come back, or "dropped", or "to ports
	// 1024-65535": those from which the connection has to come.
	Replies string `json:"replies,omitempty"`

	set      traffic.Set
	from, to *netipx.IPSet
}

// Decision is a rule's word, or that of a list's default.
type Decision struct {
	List      string          `json:"list"`
	Direction model.Direction `json:"direction"`
	Rule      int             `json:"rule,omitempty"` // its number; 0 for the default
	Action    model.Action    `json:"action"`
	File      string          `json:"file,omitempty"`
	Line      int             `json:"line,omitempty"`
}

// String is such as "db/rule 20 (db.yaml:14)" and "web/egress default".
func (d Decision) String() string {
	text := d.Named()
	if d.File != "" {
		text += fmt.Sprintf(" (%s:%d)", d.File, d.Line)
	}
	return text
}

// Named is the same without the place in a file.
func (d Decision) Named() string {
	if d.Rule == 0 {
		return fmt.Sprintf("%s/%s default", d.List, d.Direction)
	}
	return fmt.Sprintf("%s/rule %d", d.List, d.Rule)
}

// decision is a rule by its index in the list.
func (l *list) decision(rule int, d model.Direction) *Decision {
	out := &Decision{List: l.name, Direction: d, Action: l.action(rule, d)}
	if rule >= 0 {
		out.Rule = l.spec.Rules[rule].Number
	}
	out.Place(l.resource)
	return out
}

// Place tells where the rule was read, given its list, or nil where that was read
// from no document.
func (d *Decision) Place(list *model.Resource) {
	d.File, d.Line = "", 0
	if list != nil && list.Source != nil {
		d.File = list.Source.File
		d.Line, _ = list.Source.Pos(d.Field(list))
	}
}

// Field is the path of the rule in its list.
func (d *Decision) Field(list *model.Resource) string {
	rules := list.Spec.(*model.ACLSpec).Rules
	if i := slices.IndexFunc(rules, func(r model.Rule) bool { return r.Number == d.Rule }); i >= 0 {
		return fmt.Sprintf("spec.rules[%d]", i)
	}
	return "spec.defaults." + string(d.Direction)
}

// Place tells of all rules where they were read, by the lists of an input.
func (d *Difference) Place(list func(name string) *model.Resource) {
	for _, changes := range [][]Change{d.Opens, d.Closes, d.Replies} {
		for _, c := range changes {
			for i := range c.By {
				c.By[i].Place(list(c.By[i].List))
			}
		}
	}
}

// Place is the same of a Result.
func (r *Result) Place(list func(name string) *model.Resource) {
	for _, p := range r.Paths {
		for _, part := range p.Parts {
			for _, d := range []*Decision{part.Egress, part.Ingress} {
				if d != nil {
					d.Place(list(d.List))
				}
			}
		}
	}
}

// Allows tells whether a packet passes, which goes from the one end to the
// other.
func (p Path) Allows(src, dst netip.Addr, packet traffic.Packet) bool {
	_, ok := p.Part(src, dst, packet)
	return ok
}

// Part is the part that a packet belongs to.
func (p Path) Part(src, dst netip.Addr, packet traffic.Packet) (Part, bool) {
	for _, part := range p.Parts {
		if covers(part.set, part.from, part.to, src, dst, packet) {
			return part, true
		}
	}
	return Part{}, false
}

// covers tells whether a packet is of the traffic; from and to are nil for all.
func covers(set traffic.Set, from, to *netipx.IPSet, src, dst netip.Addr, packet traffic.Packet) bool {
	return set.Contains(packet) && (from == nil || from.Contains(src)) && (to == nil || to.Contains(dst))
}

// Find is the path between two ends, with nothing on it where nothing passes.
func (r *Result) Find(from, to End) Path {
	i := slices.IndexFunc(r.Paths, func(p Path) bool { return p.From == from && p.To == to })
	if i < 0 {
		return Path{From: from, To: to, Traffic: traffic.Set{}.String(), Parts: []Part{}}
	}
	return r.Paths[i]
}

// Reach tells who reaches whom. It fails where an end is asked for that there
// isn't.
func (p *Policy) Reach(o Options) (*Result, error) {
	if o.By == "" {
		o.By = Tier
	}
	from, err := p.places(o.By, o.From)
	if err != nil {
		return nil, err
	}
	to, err := p.places(o.By, o.To)
	if err != nil {
		return nil, err
	}
	r := &Result{VPC: p.vpc, By: o.By, Paths: []Path{}, Notes: slices.Clone(p.notes)}
	j := newJoiner(o.Rules)
	for _, a := range from {
		j.forget()
		for _, b := range to {
			if a.Kind == Outside && b.Kind == Outside || a.Kind == Attachment && a == b {
				continue
			}
			if path := j.path(a, b, o.Traffic); len(path.Parts) > 0 {
				r.Paths = append(r.Paths, path)
			}
		}
	}
	if slices.ContainsFunc(r.Paths, func(p Path) bool { return p.From.Kind == Outside || p.To.Kind == Outside }) {
		r.Notes = append(r.Notes, "outside is what the lists would let pass: the VPC has no way in or out of its own")
	}
	return r, nil
}

// places are the ends that are asked for, all of a kind and outside if none is.
func (p *Policy) places(by Kind, wanted []End) ([]*place, error) {
	all := p.tiers
	if by == Attachment {
		all = p.attachments
	}
	if len(wanted) == 0 {
		return append(slices.Clone(all), p.outside), nil
	}
	var out []*place
	for _, e := range wanted {
		var found *place
		switch e.Kind {
		case Outside:
			found = p.outside
		case Tier:
			found = p.find(p.tiers, e.Name)
		case Attachment:
			found = p.find(p.attachments, e.Name)
		}
		if found == nil && e.Kind == Attachment && slices.Contains(p.disabled, e.Name) {
			continue
		}
		if found == nil {
			return nil, fmt.Errorf("VPC %s has no %s %s that packets could come from or go to", p.vpc, e.Kind, e.Name)
		}
		out = append(out, found)
	}
	return out, nil
}

// path is the traffic between two places, as far as it is wanted.
func (j *joiner) path(from, to *place, wanted *traffic.Set) Path {
	path := Path{From: from.End, To: to.End, Parts: []Part{}}
	if from.tier != "" && from.tier == to.tier {
		set := traffic.All()
		if wanted != nil {
			set = *wanted
		}
		if set = set.Intersect(common(from, to)); !set.Empty() {
			path.InTier = true
			path.Traffic = set.Text(common(from, to))
			path.Parts = append(path.Parts, Part{Traffic: path.Traffic, set: set})
		}
		return path
	}
	g := j.grid(from, to)
	possible := g.possible()
	path.Parts = j.parts(g, possible, from, to, wanted)
	alike := func(p Part) bool { return p.Replies == path.Parts[0].Replies }
	var texts []string
	if len(path.Parts) == 1 || !j.rules && !slices.ContainsFunc(path.Parts, func(p Part) bool { return !alike(p) }) {
		for _, p := range path.Parts {
			texts = append(texts, p.text())
		}
		path.Traffic = strings.Join(texts, " + ")
		return path
	}
	for _, f := range passing(g).flows(func(passes bool) bool { return passes }) {
		set := f.traffic
		if wanted != nil {
			set = set.Intersect(*wanted)
		}
		if !set.Empty() {
			part := Part{Traffic: set.Text(possible), From: f.from.named(), To: f.to.named()}
			texts = append(texts, part.text())
		}
	}
	path.Traffic = strings.Join(texts, " + ")
	return path
}

func (j *joiner) parts(g *grid[said, fate], possible traffic.Set, from, to *place, wanted *traffic.Set) []Part {
	out := []Part{}
	for _, f := range g.flows(fate.passes) {
		part := Part{set: f.traffic, from: f.from.addresses(), to: f.to.addresses(), Replies: f.value.replies}
		if wanted != nil {
			part.set = part.set.Intersect(*wanted)
		}
		if part.set.Empty() {
			continue
		}
		part.Traffic = part.set.Text(possible)
		part.From, part.To = f.from.named(), f.to.named()
		if j.rules && from.list != nil {
			part.Egress = from.list.decision(f.value.egress.rule(), model.Egress)
		}
		if j.rules && to.list != nil {
			part.Ingress = to.list.decision(f.value.ingress.rule(), model.Ingress)
		}
		out = append(out, part)
	}
	slices.SortStableFunc(out, func(a, b Part) int { return cmp.Or(a.Ingress.compare(b.Ingress), a.Egress.compare(b.Egress)) })
	return out
}

// compare brings rules in their order, the default last.
func (d *Decision) compare(e *Decision) int {
	if d == nil || e == nil {
		return 0
	}
	return cmp.Compare(uint(d.Rule-1), uint(e.Rule-1))
}

// text is the part's traffic with its addresses.
func (p Part) text() string {
	text := p.Traffic
	if p.From != nil {
		text += " from " + p.From.String()
	}
	if p.To != nil {
		text += " to " + p.To.String()
	}
	return text
}

// common is the traffic of the families that both ends have.
func common(from, to *place) traffic.Set {
	var set traffic.Set
	for _, f := range traffic.Families() {
		of := func(r netipx.IPRange) bool { return familyOf(r.From()) == f }
		if slices.ContainsFunc(from.sends.all.Ranges(), of) && slices.ContainsFunc(to.receives.all.Ranges(), of) {
			set = set.Union(traffic.All().Only(f))
		}
	}
	return set
}

// passing keeps of each fate only whether packets pass.
func passing(g *grid[said, fate]) *grid[said, bool] {
	return &grid[said, bool]{rows: g.rows, columns: g.columns, cases: [2]traffic.Map[int]{traffic.Constant(0), traffic.Constant(0)},
		value: func(_ traffic.Family, row, column said, _ int) bool { return row.word.allow() && column.word.allow() }}
}
