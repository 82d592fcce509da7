package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/trace"
	"github.com/ovn-vpc/ovn-vpc/traffic"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

// TraceQuery asks what becomes of traffic from one end to another.
type TraceQuery struct {
	VPC string `json:"vpc,omitempty"` // "": the only one
	// An end is the name of an attachment or a tier, attachment/NAME or tier/NAME
	// where both have it, an address, or outside.
	From    string `json:"from"`
	To      string `json:"to"`
	Traffic string `json:"traffic,omitempty"` // as traffic.Parse reads it; "": ping
	// Set asks for the state as it would be after applying it; nil: as it is.
	Set *model.Set `json:"-"`
}

// TraceReport is what becomes of the packets that stand for traffic.
type TraceReport struct {
	VPC         string            `json:"vpc"`
	From        string            `json:"from"`
	To          string            `json:"to"`
	Traffic     string            `json:"traffic"`
	Planned     bool              `json:"planned"`   // of the state after an apply
	Reachable   bool              `json:"reachable"` // all packets pass
	Paths       []TracePath       `json:"paths"`
	Notes       []string          `json:"notes,omitempty"`
	Diagnostics model.Diagnostics `json:"diagnostics,omitempty"` // warnings

	resources []*model.Resource
}

// TracePath is the way of one packet. It stands for all that are judged alike,
// by the same rules.
type TracePath struct {
	From    TraceEnd      `json:"from"`
	To      TraceEnd      `json:"to"`
	Packet  string        `json:"packet"`
	Passes  bool          `json:"passes"` // what the lists let out to outside passes too
	Outcome trace.Outcome `json:"outcome"`
	Reason  string        `json:"reason,omitempty"` // where no row decided
	Hops    []TraceHop    `json:"hops"`
	Reply   *TraceReply   `json:"reply,omitempty"` // nil where none is to be expected
	Alike   int           `json:"alike"`           // how many pairs of ends it stands for; of outside, parts that lists tell apart
	// OVN is what ovn-trace says, nil where it wasn't asked.
	OVN *OVNVerdict `json:"ovn,omitempty"`

	frame   match.Packet
	verdict trace.Verdict
}

// TraceEnd is where a packet starts or is meant to arrive.
type TraceEnd struct {
	Attachment string `json:"attachment,omitempty"` // "" where nobody has the address
	Tier       string `json:"tier,omitempty"`       // "" for outside
	Address    string `json:"address"`
	Chassis    string `json:"chassis,omitempty"` // where it is plugged, as far as is known
}

// TraceHop is a place that judges the packet, or passes it on.
type TraceHop struct {
	Where    string          `json:"where"` // such as tier web, router shop
	Chassis  string          `json:"chassis,omitempty"`
	Verdict  string          `json:"verdict"` // allow, deny, reject, or what is done with it
	Decision *reach.Decision `json:"decision,omitempty"`
	Text     string          `json:"text,omitempty"` // where it is no list's decision
	Row      nbdb.UUID       `json:"row,omitempty"`  // of the northbound database
	Match    string          `json:"match,omitempty"`
}

// TraceReply is what becomes of the answer to a packet that has passed.
type TraceReply struct {
	Passes bool       `json:"passes"`
	Hops   []TraceHop `json:"hops"`
}

// OVNVerdict is OVN's own word on a packet.
type OVNVerdict struct {
	Outcome trace.Outcome `json:"outcome"`
	Routed  bool          `json:"routed"` // the router has got it
	Agrees  bool          `json:"agrees"`
}

// Trace tells what becomes of traffic, by the rows of the database or those of
// a plan. It sends a packet for each kind of verdict; nothing is written.
func (e *Engine) Trace(ctx context.Context, q TraceQuery) (*TraceReport, error) {
	if err := e.traceVPC(ctx, &q); err != nil {
		return nil, err
	}
	headers, text, err := headersOf(q.Traffic)
	if err != nil {
		return nil, err
	}
	r := &TraceReport{VPC: q.VPC, From: q.From, To: q.To, Traffic: text, Planned: q.Set != nil, Reachable: true, Paths: []TracePath{}}
	t := &tracing{engine: e, vpc: q.VPC, report: r}
	if err := t.load(ctx, q.Set); err != nil {
		return nil, err
	}
	if err := t.run(ctx, q, headers); err != nil {
		return nil, err
	}
	t.locateChassis(ctx)
	r.Locate(q.Set)
	return r, nil
}

// Resources are those of the state that was traced, nil for a report from a
// server.
func (r *TraceReport) Resources() []*model.Resource { return r.resources }

// Locate adds to decisions where their rules stand in a set's files.
func (r *TraceReport) Locate(set *model.Set) {
	if set == nil {
		return
	}
	for i := range r.Paths {
		hops := [][]TraceHop{r.Paths[i].Hops}
		if reply := r.Paths[i].Reply; reply != nil {
			hops = append(hops, reply.Hops)
		}
		for _, h := range slices.Concat(hops...) {
			if h.Decision != nil {
				locate(set, r.VPC, h.Decision)
			}
		}
	}
}

// locate finds the lines of a decision's rule, or of its list's default.
func locate(set *model.Set, vpc string, d *reach.Decision) {
	list := set.Get(model.ID{Kind: model.KindACL, VPC: vpc, Name: d.List})
	if list == nil || list.Source == nil || list.Source.File == "" {
		return
	}
	field := "spec.defaults." + string(d.Direction)
	if i := slices.IndexFunc(list.Spec.(*model.ACLSpec).Rules, func(r model.Rule) bool { return r.Number == d.Rule }); i >= 0 {
		field = fmt.Sprintf("spec.rules[%d]", i)
	}
	d.File = list.Source.File
	d.Line, _ = list.Source.Pos(field)
}

// tracing is one query at work.
type tracing struct {
	engine    *Engine
	vpc       string
	report    *TraceReport
	resources map[model.ID]*model.Resource
	state     *nbdb.State
	network   *trace.Network
	tiers     []*model.Resource // of the VPC
	guests    []*model.Resource // attachments of the VPC
}

// traceVPC finds the VPC where none is named.
func (e *Engine) traceVPC(ctx context.Context, q *TraceQuery) error {
	if q.VPC != "" {
		if q.Set != nil && !slices.Contains(q.Set.VPCs(), q.VPC) {
			return refuse("the input holds nothing of VPC "+q.VPC, "leave it away to trace what is stored")
		}
		return nil
	}
	var names []string
	if q.Set != nil {
		names = q.Set.VPCs()
	} else {
		var err error
		if names, err = e.Names(ctx, model.KindVPC, ""); err != nil {
			return err
		}
	}
	switch len(names) {
	case 0:
		return refuse("there is no VPC to trace in", "apply one; ovn-vpc drift tells where somebody has removed its rows")
	case 1:
		q.VPC = names[0]
		return nil
	default:
		return refuse(fmt.Sprintf("there are %d VPCs to trace in", len(names)), "name one with --vpc")
	}
}

// refuse is the error for a question that can't be answered.
func refuse(problem, fix string) error {
	return &InvalidError{Diagnostics: model.Diagnostics{{Severity: model.LevelError, Problem: problem, Fix: fix}}}
}

// load reads the rows: those of the database, or those that the set would
// bring.
func (t *tracing) load(ctx context.Context, set *model.Set) error {
	var err error
	if set == nil {
		err = t.loadStored(ctx)
	} else {
		err = t.loadPlanned(ctx, set)
	}
	if err != nil {
		return err
	}
	id := model.ID{Kind: model.KindVPC, Name: t.vpc}
	if t.resources[id] == nil {
		return &NotFoundError{ID: id}
	}
	for _, r := range sorted(t.resources) {
		if vpcOf(r.ID()) != t.vpc && r.Kind != model.KindVPCOffering {
			continue
		}
		t.report.resources = append(t.report.resources, r)
		switch r.Kind {
		case model.KindTier:
			t.tiers = append(t.tiers, r)
		case model.KindAttachment:
			t.guests = append(t.guests, r)
		}
	}
	if t.network, err = trace.NewNetwork(t.state); err != nil {
		return &DamagedError{VPC: t.vpc, Err: fmt.Errorf("tracing: %w", err)}
	}
	return nil
}

func (t *tracing) loadStored(ctx context.Context) error {
	w, err := t.engine.read(ctx, scope{vpcs: []string{t.vpc}})
	if err != nil {
		return err
	}
	if err := whole(w.lost, w.resources, t.vpc); err != nil {
		return err
	}
	t.resources, t.state = w.resources, w.state
	return t.engine.readForeign(ctx, w.state)
}

// readForeign adds what others have put into switches and routers.
func (e *Engine) readForeign(ctx context.Context, state *nbdb.State) error {
	tables := map[string]string{
		nbdb.TableLogicalSwitch + ".ports": nbdb.TableLogicalSwitchPort, nbdb.TableLogicalSwitch + ".acls": nbdb.TableACL,
		nbdb.TableLogicalRouter + ".ports": nbdb.TableLogicalRouterPort, nbdb.TableLogicalRouter + ".policies": nbdb.TableLogicalRouterPolicy,
	}
	var missing []nbdb.Query
	for _, container := range []string{nbdb.TableLogicalSwitch, nbdb.TableLogicalRouter} {
		for _, row := range state.Rows(container) {
			for _, edge := range nbdb.EdgesOf(row) {
				table := tables[edge.Table+"."+edge.Column]
				if table != "" && state.Get(table, edge.Target) == nil {
					missing = append(missing, nbdb.Query{Table: table, Where: map[string]any{"_uuid": string(edge.Target)}})
				}
			}
		}
	}
	for queries := range slices.Chunk(missing, chunk) {
		found, err := e.NB.Read(ctx, queries...)
		if err != nil {
			return fmt.Errorf("reading the rows of others: %w", err)
		}
		for _, table := range tables {
			for _, row := range found.Rows(table) {
				state.Put(row)
			}
		}
	}
	return nil
}

func (t *tracing) loadPlanned(ctx context.Context, set *model.Set) error {
	p, err := t.engine.plan(ctx, wish{put: set.Resources, judging: judgeMildly}, 0)
	if err != nil {
		return err
	}
	if err := whole(p.lost, p.then, t.vpc); err != nil {
		return err
	}
	t.report.Diagnostics = p.Diagnostics
	t.resources = p.then
	c := (&world{owner: t.engine.Owner, global: &nbdb.NBGlobal{}}).context(p.then)
	var fragments []nbdb.Fragment
	for _, r := range sorted(p.then) {
		if vpcOf(r.ID()) != t.vpc {
			continue
		}
		f, err := fragment(r, c)
		if err != nil {
			return err
		}
		fragments = append(fragments, f)
	}
	t.state, err = nbdb.StateOf(fragments...)
	return err
}

// manyHeaders is how many packets one query may ask for.
const manyHeaders = 16

// headersOf are the packets that traffic means, and its text in full.
func headersOf(text string) ([]traffic.Packet, string, error) {
	switch strings.TrimSpace(text) {
	case "":
		text = "icmp echo; icmpv6 echo"
	case "icmp", "icmpv6":
		text = strings.TrimSpace(text) + " echo"
	}
	set, err := traffic.Parse(text)
	if err != nil {
		return nil, "", refuse(err.Error(), "write such as tcp/443, udp/53, icmp/3, protocol/47")
	}
	headers, whole := set.Headers(manyHeaders << 8)
	headers = slices.DeleteFunc(headers, func(p traffic.Packet) bool {
		code0 := p
		code0.Code = 0
		return p.Code > 0 && set.Contains(code0) // the type is meant
	})
	if !whole || len(headers) > manyHeaders {
		return nil, "", refuse(fmt.Sprintf("%q means more than %d different packets", text, manyHeaders), "name ports or types; reach tells about sets")
	}
	unfragmented := func(p traffic.Packet) bool { return !p.Fragment }
	if slices.ContainsFunc(headers, unfragmented) {
		headers = slices.DeleteFunc(headers, func(p traffic.Packet) bool { return p.Fragment })
	}
	for i := range headers {
		if h := &headers[i]; h.Fragment && h.Family == traffic.IPv6 {
			h.Protocol = protoFragment
		}
	}
	return slices.Compact(headers), set.String(), nil
}

// protoFragment is what Open vSwitch takes for the protocol of later IPv6
// fragments (IPv6-Frag).
const protoFragment = 44

// locateChassis tells where the ends are plugged.
func (t *tracing) locateChassis(ctx context.Context) {
	ports := map[string]string{}
	for _, g := range t.guests {
		ports[g.Metadata.Name] = g.Spec.(*model.AttachmentSpec).InterfaceID
	}
	var wanted []string
	for _, p := range t.report.Paths {
		wanted = append(wanted, ports[p.From.Attachment], ports[p.To.Attachment])
	}
	wanted = slices.DeleteFunc(wanted, func(name string) bool { return name == "" })
	if len(wanted) == 0 {
		return
	}
	bindings := t.engine.bindings(ctx, wanted...)
	central := t.resources[model.ID{Kind: model.KindVPC, Name: t.vpc}].Spec.(*model.VPCSpec).Chassis
	for i := range t.report.Paths {
		p := &t.report.Paths[i]
		p.From.Chassis = bindings[ports[p.From.Attachment]].Chassis
		p.To.Chassis = bindings[ports[p.To.Attachment]].Chassis
		place(p.Hops, p.From, p.To, central)
		if p.Reply != nil {
			place(p.Reply.Hops, p.To, p.From, central)
		}
	}
}

// place tells of hops from one end to another on which hypervisor they are. A
// distributed router is where the packet comes from.
func place(hops []TraceHop, from, to TraceEnd, central string) {
	for i := range hops {
		switch h := &hops[i]; {
		case strings.HasPrefix(h.Where, routerPlace):
			h.Chassis = cmp.Or(central, from.Chassis)
		case i == 0 && h.Where == from.place():
			h.Chassis = from.Chassis
		case h.Where == to.place():
			h.Chassis = to.Chassis
		}
	}
}
