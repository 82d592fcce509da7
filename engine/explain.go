package engine

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Explanation says what is behind a row of the northbound database.
type Explanation struct {
	Row      nbdb.UUID       `json:"row"`
	Table    string          `json:"table"`
	Name     string          `json:"name,omitempty"`
	Key      string          `json:"key"`
	Resource string          `json:"resource"` // such as ACL shop/db
	VPC      string          `json:"vpc,omitempty"`
	Decision *reach.Decision `json:"decision,omitempty"` // of a list's row
	File     string          `json:"file,omitempty"`
	Line     int             `json:"line,omitempty"`
	Match    string          `json:"match,omitempty"` // of an ACL
	Action   string          `json:"action,omitempty"`
}

// Explain finds the rows that a text speaks of, in the order in which it does: a
// row's UUID, the first 8 hexadecimal digits of one (a logical flow's
// stage-hint) or an ACL's label, an ACL's name, or lines of ovn-controller's
// log, of ovn-trace or of ovn-sbctl lflow-list. With a set its rows count
// too, and its files' lines are told; nil for none.
func (e *Engine) Explain(ctx context.Context, text string, set *model.Set) ([]Explanation, error) {
	w, err := e.read(ctx, scope{all: true})
	if err != nil {
		return nil, err
	}
	x := &explainer{world: w, byName: map[string][]nbdb.Row{}, byHint: map[string][]nbdb.Row{}, byFlow: map[string][]*nbdb.ACL{}}
	if set != nil {
		p, err := e.Plan(ctx, set, false)
		if err != nil {
			return nil, err
		}
		if err := x.plan(p.then); err != nil {
			return nil, err
		}
	}
	x.index()
	out := []Explanation{}
	seen := map[nbdb.UUID]bool{}
	for _, row := range x.find(text) {
		if !seen[row.ID()] {
			seen[row.ID()] = true
			found := x.explain(row)
			found.Locate(set)
			out = append(out, found)
		}
	}
	return out, nil
}

// explainer knows the rows that are, and those that a set would bring.
type explainer struct {
	world  *world
	byName map[string][]nbdb.Row  // ACLs
	byHint map[string][]nbdb.Row  // by the first 8 digits of the UUID
	byFlow map[string][]*nbdb.ACL // by pipeline and priority of the logical flow
}

// plan adds the rows of resources to those that are read.
func (x *explainer) plan(resources map[model.ID]*model.Resource) error {
	c := x.world.context(resources)
	var fragments []nbdb.Fragment
	for _, r := range sorted(resources) {
		f, err := fragment(r, c)
		if err != nil {
			return err
		}
		fragments = append(fragments, f)
	}
	for _, f := range fragments {
		for _, row := range f.Rows {
			if x.world.state.Get(row.Table(), row.ID()) == nil {
				x.world.state.Put(row)
			}
		}
		for _, edge := range f.Edges {
			if sw := nbdb.Lookup[*nbdb.LogicalSwitch](x.world.state, edge.From); sw != nil && edge.Column == "acls" && !slices.Contains(sw.ACLs, edge.Target) {
				sw.ACLs = append(sw.ACLs, edge.Target)
			}
		}
	}
	return nil
}

func (x *explainer) index() {
	pipelines := map[string]string{"from-lport": "in", "to-lport": "out"}
	for _, table := range ownedTables {
		for _, row := range x.world.state.Rows(table) {
			if !x.world.owns(row) {
				continue
			}
			hint := string(row.ID()[:8])
			x.byHint[hint] = append(x.byHint[hint], row)
			acl, ok := row.(*nbdb.ACL)
			if !ok {
				continue
			}
			if acl.Name != nil {
				x.byName[*acl.Name] = append(x.byName[*acl.Name], row)
			}
			flow := fmt.Sprint(pipelines[acl.Direction], acl.Priority+aclOffset)
			x.byFlow[flow] = append(x.byFlow[flow], acl)
		}
	}
}

// patterns are what a text may speak of: in a log `name="shop/db/ingress/20"`,
// in traces and listings the datapath and the flows of ACLs.
type patterns struct {
	name, datapath, traced, listed, uuid, hint *regexp.Regexp
}

func newPatterns() patterns {
	return patterns{
		name:     regexp.MustCompile(`\bname="([^"]+)"`),
		datapath: regexp.MustCompile(`(?:\bdp=|\bDatapath: )"([^"]+)"`),
		traced:   regexp.MustCompile(`\bls_(?P<pipeline>in|out)_acl\w*(?: \([^)]*\))?: (?P<match>.*), priority (?P<priority>\d+)`),
		listed:   regexp.MustCompile(`\(ls_(?P<pipeline>in|out)_acl\w*\s*\), priority=(?P<priority>\d+)\s*, match=\((?P<match>.*)\), action=`),
		uuid:     regexp.MustCompile(`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`),
		hint:     regexp.MustCompile(`^(?:0x)?([0-9a-f]{8})$`),
	}
}

// aclOffset is what ovn-northd adds to an ACL's priority (northd.h,
// OVN_ACL_PRI_OFFSET).
const aclOffset = 1000

func (x *explainer) find(text string) []nbdb.Row {
	var found []nbdb.Row
	p, datapath := newPatterns(), ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := p.datapath.FindStringSubmatch(line); m != nil {
			datapath = m[1]
		}
		found = append(found, x.byName[line]...)
		for _, m := range p.name.FindAllStringSubmatch(line, -1) {
			found = append(found, x.byName[m[1]]...)
		}
		if m := p.hint.FindStringSubmatch(line); m != nil {
			found = append(found, x.byHint[m[1]]...)
		} else if label, err := strconv.ParseUint(line, 10, 32); err == nil {
			found = append(found, x.byHint[fmt.Sprintf("%08x", label)]...)
		}
		for _, uuid := range p.uuid.FindAllString(line, -1) {
			for _, row := range x.byHint[uuid[:8]] {
				if string(row.ID()) == uuid {
					found = append(found, row)
				}
			}
		}
		for _, flow := range []*regexp.Regexp{p.traced, p.listed} {
			if m := flow.FindStringSubmatch(line); m != nil {
				part := func(name string) string { return m[flow.SubexpIndex(name)] }
				found = append(found, x.flow(datapath, part("pipeline")+part("priority"), part("match"))...)
			}
		}
	}
	return found
}

// flow are the ACLs that a logical flow realises: of its pipeline and priority,
// their match the last part of the flow's, in force at the datapath.
func (x *explainer) flow(datapath, key, match string) []nbdb.Row {
	var found []nbdb.Row
	for _, acl := range x.byFlow[key] {
		whole := match == acl.Match || strings.HasSuffix(match, "("+acl.Match+")") || strings.HasSuffix(match, "&& "+acl.Match)
		if whole && x.inForce(acl.UUID, datapath) {
			found = append(found, acl)
		}
	}
	return found
}

// inForce tells whether a switch has an ACL; where it isn't known which switch
// is meant any may.
func (x *explainer) inForce(acl nbdb.UUID, datapath string) bool {
	known := false
	for _, sw := range nbdb.All[*nbdb.LogicalSwitch](x.world.state) {
		if sw.Name == datapath {
			known = true
			if slices.Contains(sw.ACLs, acl) {
				return true
			}
		}
	}
	return !known
}

// explain says what is behind a row.
func (x *explainer) explain(row nbdb.Row) Explanation {
	key := row.IDs()[translate.KeyKey]
	out := Explanation{Row: row.ID(), Table: row.Table(), Key: key}
	id, ok := x.world.resourceOf(row)
	if !ok {
		if r := readStored(row).resource; r != nil {
			id = r.ID()
		}
	}
	out.Resource, out.VPC = id.String(), row.IDs()[translate.KeyVPC]
	acl, ok := row.(*nbdb.ACL)
	if !ok {
		return out
	}
	if acl.Name != nil {
		out.Name = *acl.Name
	}
	out.Match, out.Action = acl.Match, acl.Action
	if list, ok := translate.ListRowOf(key); ok {
		out.Decision = &reach.Decision{List: list.ACL, Direction: list.Direction, Rule: list.Number, Action: model.Action(verdictOf(acl.Action))}
	}
	return out
}

// Locate adds where the resource, or the rule, stands in a set's files.
func (x *Explanation) Locate(set *model.Set) {
	id, ok := model.ParseID(x.Resource)
	if set == nil || !ok {
		return
	}
	if r := set.Get(id); r != nil && r.Source != nil && r.Source.File != "" {
		x.File = r.Source.File
		x.Line, _ = r.Source.Pos("metadata.name")
	}
	if x.Decision == nil {
		return
	}
	if locate(set, x.VPC, x.Decision); x.Decision.File != "" {
		x.File, x.Line = x.Decision.File, x.Decision.Line
	}
}
