package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/ipam"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Object is a resource as it stands in the database, with its status: one of
// *VPCStatus, *OfferingStatus, *TierStatus, *ACLStatus, *AttachmentStatus.
type Object struct {
	Resource *model.Resource
	Status   any
}

// VPCStatus counts what a VPC holds.
type VPCStatus struct {
	Tiers       int `json:"tiers"`
	ACLs        int `json:"acls"` // without the built-in ones
	Attachments int `json:"attachments"`
	// Expectations it has, and how many of them hold: told where one VPC is asked
	// for, and its rows are whole.
	Expectations     int  `json:"expectations,omitempty"`
	ExpectationsHeld *int `json:"expectationsHeld,omitempty"`
}

// OfferingStatus names the VPCs that use an offering.
type OfferingStatus struct {
	UsedBy []string `json:"usedBy"`
}

// TierStatus tells how full a tier is.
type TierStatus struct {
	Attachments int            `json:"attachments"`
	RouterMAC   model.MAC      `json:"routerMAC"`
	Prefixes    []PrefixStatus `json:"prefixes"`
}

// PrefixStatus counts a prefix's addresses: those that attachments have, and
// those that an attachment can still get without asking for one.
type PrefixStatus struct {
	CIDR netip.Prefix `json:"cidr"`
	Used uint64       `json:"used"`
	Free uint64       `json:"free"`
}

// ACLStatus names the tiers that a list guards.
type ACLStatus struct {
	Ingress int      `json:"ingress"` // rules
	Egress  int      `json:"egress"`
	UsedBy  []string `json:"usedBy"`
}

// AttachmentStatus is what became of an attachment. Up is whether a hypervisor
// has plugged it, nil where ovn-northd has not said; Chassis is that
// hypervisor where the southbound database can be read.
type AttachmentStatus struct {
	Addresses   []netip.Addr `json:"addresses"`
	MAC         model.MAC    `json:"mac"`
	InterfaceID string       `json:"interfaceID"`
	Up          *bool        `json:"up,omitempty"`
	Chassis     string       `json:"chassis,omitempty"`
	Reason      string       `json:"reason,omitempty"` // why it isn't up, or passes nothing, as far as is known
}

// Filter chooses resources; empty fields choose all.
type Filter struct {
	Kind   model.Kind
	VPC    string
	Name   string
	Labels map[string]string
	// Of attachments, and nothing else matches if one is set:
	Tier    string
	Chassis string // asked for (spec.chassis or migratingTo), or in fact bound there
	Up      *bool
}

// Matches tells whether the filter chooses an object.
func (f Filter) Matches(o Object) bool {
	if !f.matches(o.Resource) {
		return false
	}
	if !f.ofAttachments() {
		return true
	}
	spec, st := o.Resource.Spec.(*model.AttachmentSpec), o.Status.(*AttachmentStatus)
	return (f.Chassis == "" || f.Chassis == spec.Chassis || f.Chassis == spec.MigratingTo || f.Chassis == st.Chassis) &&
		(f.Up == nil || *f.Up == (st.Up != nil && *st.Up))
}

// ofAttachments tells whether the filter can choose attachments alone.
func (f Filter) ofAttachments() bool { return f.Tier != "" || f.Chassis != "" || f.Up != nil }

// matches is Matches as far as the status doesn't matter.
func (f Filter) matches(r *model.Resource) bool {
	if f.ofAttachments() {
		spec, ok := r.Spec.(*model.AttachmentSpec)
		if !ok || f.Tier != "" && f.Tier != spec.Tier {
			return false
		}
	}
	id := r.ID()
	if f.Kind != "" && id.Kind != f.Kind || f.Name != "" && id.Name != f.Name {
		return false
	}
	if f.VPC != "" && vpcOf(id) != f.VPC {
		return false
	}
	for k, v := range f.Labels {
		if got, ok := r.Metadata.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Get reads resources back, sorted by kind, VPC and name.
func (e *Engine) Get(ctx context.Context, f Filter) ([]Object, error) {
	w, err := e.readFor(ctx, f)
	if err != nil {
		return nil, err
	}
	st := &statuses{world: w, bindings: e.bindingsFor(ctx, w, f)}
	st.count()
	st.findPorts()
	switch {
	case f.Kind != "" && f.Kind != model.KindVPC:
	case f.VPC != "":
		st.verify(f.VPC)
	case f.Kind == model.KindVPC && f.Name != "":
		st.verify(f.Name)
	}
	var out []Object
	for _, r := range sortedIf(w.withBuiltins(), f.matches) {
		if o := (Object{Resource: r, Status: st.of(r)}); f.Matches(o) {
			out = append(out, o)
		}
	}
	if len(out) == 0 || f.Name == "" {
		err = e.mentionUnread(w, f)
	}
	return out, err
}

// mentionUnread tells of what a filter would choose if it could be read: of a resource that it
// names by an error, of others to whom that is told, or else in the log, unless a watch
// does.
func (e *Engine) mentionUnread(w *world, f Filter) error {
	for _, u := range w.unread {
		vpc := u.row.IDs()[translate.KeyVPC]
		if port, ok := u.row.(*nbdb.LogicalSwitchPort); ok && u.id == (model.ID{}) {
			u.id = model.ID{Kind: model.KindAttachment, VPC: vpc, Name: strings.TrimPrefix(port.Name, vpc+"/")}
		}
		if f.Kind != "" && f.Kind != u.id.Kind || f.VPC != "" && f.VPC != vpc {
			continue
		}
		switch {
		case f.Name == "" && e.LeftOut != nil:
			e.LeftOut(vpc, u.leftOut())
		case f.Name == "" && e.Mirror == nil:
			e.Log.Warn("left out, since what is stored of it is damaged: drift tells more", "table", u.row.Table(), "row", u.row.ID(), "error", u.err)
		case f.Name != "" && f.Name == u.id.Name && w.resources[u.id] == nil:
			return &DamagedError{VPC: vpc, Err: errors.New(u.problem())}
		}
	}
	return nil
}

// one is the resource that a filter names, if it names one.
func (f Filter) one() (id model.ID, ok bool) {
	return model.ID{Kind: f.Kind, VPC: f.VPC, Name: f.Name}, f.Kind != "" && f.VPC != "" && f.Name != ""
}

// readFor reads what the filter chooses and its status hangs on.
func (e *Engine) readFor(ctx context.Context, f Filter) (*world, error) {
	s := scope{all: true}
	switch {
	case f.VPC != "":
		s = scope{vpcs: []string{f.VPC}}
	case f.Kind == model.KindVPC && f.Name != "":
		s = scope{vpcs: []string{f.Name}}
	}
	if !e.Mirror.lock(ctx) {
		switch f.Kind {
		case model.KindACL, model.KindExpectation, model.KindVPCOffering: // whose status hangs on no attachment
			s.attachments = map[string]bool{}
		}
		return e.readFresh(ctx, s)
	}
	defer e.Mirror.mu.RUnlock()
	if id, ok := f.one(); ok {
		if w, err := e.Mirror.one(id); w != nil || err != nil {
			return w, err
		}
	}
	if w, err := e.Mirror.outline(s, f.Kind); w != nil || err != nil {
		return w, err
	}
	return e.Mirror.wide(s)
}

// bindingsFor are the bindings of the attachments that the filter chooses.
func (e *Engine) bindingsFor(ctx context.Context, w *world, f Filter) map[string]nbdb.Binding {
	id, one := f.one()
	switch {
	case f.Kind != "" && f.Kind != model.KindAttachment:
		return nil
	case !one:
		return e.bindings(ctx)
	case w.resources[id] == nil:
		return nil
	}
	return e.bindings(ctx, w.resources[id].Spec.(*model.AttachmentSpec).InterfaceID)
}

// sbPatience bounds the reading of the southbound database for statuses.
const sbPatience = 5 * time.Second

// bindings are where ports are bound, all or those named; nil where the
// southbound database can't be read. It only tells more of what is known.
func (e *Engine) bindings(ctx context.Context, ports ...string) map[string]nbdb.Binding {
	if e.SB == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sbPatience)
	defer cancel()
	found, err := e.SB.ReadBindings(ctx, ports...)
	if err != nil {
		e.Log.Warn("the southbound database can't be read", "error", err)
		return nil
	}
	return found
}

// withBuiltins are the resources with the lists that every VPC has.
func (w *world) withBuiltins() map[model.ID]*model.Resource {
	out := maps.Clone(w.resources)
	for id := range w.resources {
		if id.Kind != model.KindVPC {
			continue
		}
		for _, name := range []string{model.ACLDefaultAllow, model.ACLDefaultDeny} {
			r := &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{Name: name, VPC: id.Name}, Spec: model.BuiltinACL(name)}
			out[r.ID()] = r
		}
	}
	return out
}

// statuses works out the status of resources.
type statuses struct {
	world    *world
	bindings map[string]nbdb.Binding // nil: not readable
	vpcs     map[string]*VPCStatus
	tiers    map[tierID][]*model.AttachmentSpec
	lists    map[model.ID][]string
	offered  map[string][]string
	ports    map[string]*nbdb.LogicalSwitchPort
}

func (s *statuses) count() {
	s.vpcs, s.tiers = map[string]*VPCStatus{}, map[tierID][]*model.AttachmentSpec{}
	s.lists, s.offered = map[model.ID][]string{}, map[string][]string{}
	for _, r := range s.world.resources {
		v := s.vpcs[vpcOf(r.ID())]
		if v == nil {
			v = &VPCStatus{Attachments: s.world.others[vpcOf(r.ID())]}
			s.vpcs[vpcOf(r.ID())] = v
		}
		switch spec := r.Spec.(type) {
		case *model.VPCSpec:
			if spec.Offering != "" {
				s.offered[spec.Offering] = append(s.offered[spec.Offering], r.Metadata.Name)
			}
		case *model.TierSpec:
			v.Tiers++
			list := model.ID{Kind: model.KindACL, VPC: r.Metadata.VPC, Name: spec.ACL}
			s.lists[list] = append(s.lists[list], r.Metadata.Name)
		case *model.ACLSpec:
			v.ACLs++
		case *model.AttachmentSpec:
			v.Attachments++
			id := tierID{r.Metadata.VPC, spec.Tier}
			s.tiers[id] = append(s.tiers[id], spec)
		case *model.ExpectationSpec:
			v.Expectations++
		}
	}
	for _, names := range s.lists {
		slices.Sort(names)
	}
	for _, names := range s.offered {
		slices.Sort(names)
	}
}

// verify counts the expectations of a VPC that hold.
func (s *statuses) verify(vpc string) {
	v := s.vpcs[vpc]
	if v == nil || v.Expectations == 0 || whole(s.world.lost, s.world.resources, vpc) != nil {
		return
	}
	found, err := verdicts(vpc, sorted(s.world.resources))
	if err != nil {
		return // what is missing is told by drift, and where it is asked for
	}
	held := 0
	for _, x := range found {
		if x.Holds {
			held++
		}
	}
	v.ExpectationsHeld = &held
}

func (s *statuses) findPorts() {
	s.ports = map[string]*nbdb.LogicalSwitchPort{}
	s.world.state.Each(nbdb.TableLogicalSwitchPort, func(r nbdb.Row) {
		p := r.(*nbdb.LogicalSwitchPort)
		s.ports[p.Name] = p
	})
}

func (s *statuses) of(r *model.Resource) any {
	switch spec := r.Spec.(type) {
	case *model.VPCSpec:
		return s.vpcs[r.Metadata.Name]
	case *model.VPCOfferingSpec:
		return &OfferingStatus{UsedBy: orEmpty(s.offered[r.Metadata.Name])}
	case *model.TierSpec:
		return s.tier(r, spec)
	case *model.ACLSpec:
		st := &ACLStatus{UsedBy: orEmpty(s.lists[r.ID()])}
		for _, rule := range spec.Rules {
			if rule.Direction == model.Ingress {
				st.Ingress++
			} else {
				st.Egress++
			}
		}
		return st
	case *model.AttachmentSpec:
		return s.attachment(spec)
	}
	return nil
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func (s *statuses) tier(r *model.Resource, spec *model.TierSpec) *TierStatus {
	attached := s.tiers[tierID{r.Metadata.VPC, r.Metadata.Name}]
	return &TierStatus{Attachments: len(attached), RouterMAC: translate.RouterMAC(r.Metadata.VPC, spec.Gateways), Prefixes: Occupancy(spec, attached)}
}

// Occupancy counts the addresses of a tier's prefixes. attached are the tier's
// attachments.
func Occupancy(tier *model.TierSpec, attached []*model.AttachmentSpec) []PrefixStatus {
	var out []PrefixStatus
	for _, p := range tier.CIDRs {
		ps := PrefixStatus{CIDR: p}
		pool, err := ipam.NewPool(p, tier.Gateways, tier.Reserved)
		if err == nil {
			ps.Free = pool.Size()
		}
		for _, a := range attached {
			for _, addr := range a.Addresses {
				if !p.Contains(addr) {
					continue
				}
				ps.Used++
				if ps.Free > 0 && free(tier, addr) {
					ps.Free--
				}
			}
		}
		out = append(out, ps)
	}
	return out
}

func (s *statuses) attachment(spec *model.AttachmentSpec) *AttachmentStatus {
	st := &AttachmentStatus{Addresses: spec.Addresses, MAC: spec.MAC, InterfaceID: spec.InterfaceID}
	if p := s.ports[spec.InterfaceID]; p != nil {
		st.Up = p.Up
	}
	binding, bound := s.bindings[spec.InterfaceID]
	if bound {
		st.Chassis = binding.Chassis
	}
	if st.Up != nil && *st.Up && spec.Enabled {
		return st
	}
	st.Reason = s.reason(spec, st, binding, bound)
	return st
}

// reason is why an attachment isn't up, as far as it is known.
func (s *statuses) reason(spec *model.AttachmentSpec, st *AttachmentStatus, binding nbdb.Binding, bound bool) string {
	switch {
	case !spec.Enabled:
		return "it is disabled (spec.enabled)"
	case st.Up == nil:
		return "ovn-northd has not processed it yet"
	case s.bindings != nil && !bound:
		return "ovn-northd has not processed it yet"
	case s.bindings != nil && spec.Chassis != "" && binding.RequestedChassis == "":
		return fmt.Sprintf("the chassis %q that it asks for is not registered with OVN", spec.Chassis)
	case s.bindings != nil && binding.Chassis != "":
		return fmt.Sprintf("the chassis %q has it, and has not finished its flows", binding.Chassis)
	}
	who := "no hypervisor has an"
	if spec.Chassis != "" {
		who = fmt.Sprintf("the chassis %q has no", spec.Chassis)
	}
	return who + " interface with external_ids:iface-id=" + spec.InterfaceID
}

// Export are the resources that bring an empty database to the same state:
// without the built-in lists, addresses and MACs included.
func (e *Engine) Export(ctx context.Context, vpc string) ([]*model.Resource, error) {
	s := scope{all: vpc == ""}
	if vpc != "" {
		s.vpcs = []string{vpc}
	}
	w, err := e.read(ctx, s)
	if err != nil {
		return nil, err
	}
	var out []*model.Resource
	for _, r := range sorted(w.resources) {
		if vpc == "" || vpcOf(r.ID()) == vpc || w.offers(vpc, r) {
			out = append(out, r)
		}
	}
	return out, e.mentionUnread(w, Filter{VPC: vpc})
}

// offers tells whether a resource is the offering that a VPC uses.
func (w *world) offers(vpc string, r *model.Resource) bool {
	v := w.resources[model.ID{Kind: model.KindVPC, Name: vpc}]
	return r.Kind == model.KindVPCOffering && v != nil && v.Spec.(*model.VPCSpec).Offering == r.Metadata.Name
}

// ParseLabels reads a selector such as `env=prod,tier=web`.
func ParseLabels(selector string) (map[string]string, error) {
	out := map[string]string{}
	for _, part := range strings.Split(selector, ",") {
		if part == "" {
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		if !ok || k == "" || strings.HasSuffix(k, "!") {
			return nil, fmt.Errorf("the label selector %q is not of the form key=value,key=value", selector)
		}
		out[k] = strings.TrimPrefix(v, "=")
	}
	return out, nil
}

// Names are the names of a kind's resources, for completion.
func (e *Engine) Names(ctx context.Context, kind model.Kind, vpc string) ([]string, error) {
	objects, err := e.Get(ctx, Filter{Kind: kind, VPC: vpc})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.Resource.Metadata.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
