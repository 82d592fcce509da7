package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// OVN's limits (ovn-architecture(7), Tunnel Encapsulations): keys for
// datapaths and, on one of them, for ports. VXLAN has room for fewer.
const (
	vxlanDatapaths  = 4095
	vxlanPorts      = 2047
	geneveDatapaths = 1<<24 - 65536 - 1 // what ovn-northd writes as max_tunid
	genevePorts     = 32767
)

// datapathLimit is how many switches and routers OVN can realise:
// NB_Global's options:max_tunid; where nobody wrote it, VXLAN is assumed.
func (w *world) datapathLimit() int {
	n, err := strconv.Atoi(w.global.Options["max_tunid"])
	if err != nil || n <= 0 {
		return vxlanDatapaths
	}
	return min(n, geneveDatapaths)
}

func (w *world) portLimit() int {
	if w.datapathLimit() <= vxlanDatapaths {
		return vxlanPorts
	}
	return genevePorts
}

// checkCapacity refuses a plan that passes OVN's limits: the database would
// take it, and hypervisors never realise it.
func (d *desire) checkCapacity(p *Plan) {
	w := d.world
	added, cause := 0, (*model.Resource)(nil)
	ports := map[nbdb.UUID]int{} // by switch
	count := func(table string, from nbdb.UUID, column string, n int) {
		if table == nbdb.TableLogicalSwitch && column == "ports" {
			ports[from] += n
		}
	}
	for _, part := range p.VPCs {
		for _, tx := range part.Transactions {
			for _, r := range tx.Rows {
				if isDatapath(r.Table) && r.Op != nbdb.Update {
					added += map[nbdb.Op]int{nbdb.Insert: 1, nbdb.Delete: -1}[r.Op]
				}
				for _, c := range r.Columns {
					if list, ok := c.New.([]string); ok && r.Op == nbdb.Insert {
						count(r.Table, r.UUID, c.Column, len(list))
					}
				}
			}
			for _, x := range tx.Edges {
				count(x.Table, x.From, x.Column, len(x.Add)-len(x.Remove))
			}
		}
	}
	for _, r := range d.input {
		if w.resources[r.ID()] == nil && (r.Kind == model.KindTier || r.Kind == model.KindVPC) {
			cause = r
			break
		}
	}
	if added > 0 && cause != nil {
		d.bound(cause, "logical switches and routers in the database, of all owners", w.datapaths, added, w.datapathLimit())
	}
	for _, r := range sortedIf(d.resources, isTier) {
		n := ports[translate.SwitchUUID(w.owner, r.Metadata.VPC, r.Metadata.Name)]
		if n > 0 {
			d.bound(r, "ports on its switch, the router's included", len(w.ports(r.Metadata.VPC, r.Metadata.Name)), n, w.portLimit())
		}
	}
}

func (d *desire) bound(r *model.Resource, what string, have, add, limit int) {
	mode := "Geneve"
	if limit <= vxlanDatapaths {
		mode = "VXLAN"
	}
	problem := fmt.Sprintf("%d %s: there are %d and the plan adds %d; OVN realises at most %d with %s", have+add, what, have, add, limit, mode)
	switch {
	case have+add > limit:
		d.found = append(d.found, r.Fault("", problem, "use fewer, or move all hypervisors from VXLAN to Geneve").Coded(model.CodeLimit))
	case (have+add)*10 >= limit*8:
		d.found = append(d.found, r.Warning("", problem, ""))
	}
}

// Faults are those that the resources of an input have beside each other and
// beside what is stored. The input may have faults of its own already, so
// nothing is allocated or planned.
func (e *Engine) Faults(ctx context.Context, set *model.Set) (model.Diagnostics, error) {
	s := e.scopeOf(wish{put: set.Resources})
	s.puts = nil
	w, err := e.read(ctx, s)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(set.Resources)
	for _, r := range sorted(w.resources) {
		if set.Get(r.ID()) == nil {
			all = append(all, r)
		}
	}
	found := model.Check(all, w.before, func(string) bool { return true })
	w.mentionLost(found, func(id model.ID) bool { return set.Get(id) != nil })
	return found, nil
}

// checkNames refuses names that resources bring and that another row of the database
// has already. Names of switch ports and router ports share one space: ovn-northd
// fails on a switch port that is named like a router port.
func (e *Engine) checkNames(ctx context.Context, d *desire, brought []*model.Resource) error {
	if len(brought) == 0 {
		return nil
	}
	w := d.world
	taken := w.foreignNames()
	reserved := map[string]*model.Resource{}
	for _, t := range d.resources {
		if t.Kind == model.KindTier {
			reserved[translate.RouterPortName(t.Metadata.VPC, t.Metadata.Name)] = t
			reserved[translate.SwitchRouterPortName(t.Metadata.VPC, t.Metadata.Name)] = t
		}
	}
	for _, r := range brought {
		if value, ok := w.global.ExternalIDs[translate.KeyOfferingPrefix+r.Metadata.Name]; ok && r.Kind == model.KindVPCOffering && offeringOwner(value) != w.owner {
			by := "another tool"
			if owner := offeringOwner(value); owner != "" {
				by = "the installation " + strconv.Quote(owner)
			}
			d.found = append(d.found, r.Fault("metadata.name", "the name is taken by an offering of "+by, "choose another name").
				Coded(model.CodeTaken))
		}
		for _, n := range namesOf(r) {
			if row := taken[n.group+n.name]; row != nil && !d.made(r, row.ID()) {
				owner, err := e.ownerOf(ctx, row, r.Scope())
				if err != nil {
					return err
				}
				found := r.Fault(n.field, fmt.Sprintf("the name %q is taken by a row of %s of %s", n.name, row.Table(), owner), n.fix).
					Coded(model.CodeTaken)
				found.Reveals, _ = strings.CutPrefix(owner, ofVPC)
				d.found = append(d.found, found)
			}
			if t := reserved[n.name]; t != nil && r.Kind == model.KindAttachment {
				d.found = append(d.found, r.Fault(n.field, fmt.Sprintf("the name %q belongs to the router port of %s", n.name, t.ID()), n.fix).
					Coded(model.CodeTaken).With(t))
			}
		}
	}
	return nil
}

// foreignNames are the names of rows that are not ours, by kind of name.
func (w *world) foreignNames() map[string]nbdb.Row {
	owned := make(map[nbdb.UUID]bool, 2*len(w.rows))
	for _, rows := range w.rows {
		for _, r := range rows {
			if _, rule := r.(*nbdb.ACL); !rule { // of which there are many, and their names are free
				owned[r.ID()] = true
			}
		}
	}
	for _, r := range w.strays {
		owned[r.ID()] = true
	}
	taken := map[string]nbdb.Row{}
	note := func(group string, r nbdb.Row, name string) {
		if !owned[r.ID()] {
			taken[group+name] = r
		}
	}
	w.state.Each(nbdb.TableLogicalSwitchPort, func(r nbdb.Row) { note("port ", r, r.(*nbdb.LogicalSwitchPort).Name) })
	for _, r := range nbdb.All[*nbdb.LogicalRouterPort](w.state) {
		note("port ", r, r.Name)
	}
	for _, r := range nbdb.All[*nbdb.LogicalSwitch](w.state) {
		note("switch ", r, r.Name)
	}
	for _, r := range nbdb.All[*nbdb.LogicalRouter](w.state) {
		note("router ", r, r.Name)
	}
	for _, r := range nbdb.All[*nbdb.PortGroup](w.state) {
		note("group ", r, r.Name)
	}
	return taken
}

// made tells whether a row has the UUID that we give to one of a resource's
// rows: then it is ours, and has lost its marks.
func (d *desire) made(r *model.Resource, row nbdb.UUID) bool {
	f, err := fragment(r, d.world.context(d.resources))
	return err == nil && slices.ContainsFunc(f.Rows, func(x nbdb.Row) bool { return x.ID() == row })
}

// ofVPC stands before the name of the VPC whose a row is.
const ofVPC = "VPC "

// ownerOf says whose a row is. One of the VPC itself was not there when the
// VPC was read: a *nbdb.ConflictError.
func (e *Engine) ownerOf(ctx context.Context, r nbdb.Row, vpc string) (string, error) {
	state, err := e.NB.Read(ctx, nbdb.Query{Table: r.Table(), Where: map[string]any{"_uuid": string(r.ID())}})
	if err != nil {
		return "", fmt.Errorf("reading whose row %s of %s is: %w", r.ID(), r.Table(), err)
	}
	full := state.Get(r.Table(), r.ID())
	if full == nil {
		return "somebody who has just removed it", nil
	}
	switch owner := full.IDs()[translate.KeyOwner]; {
	case owner == "":
		return "another tool", nil
	case owner == e.Owner && full.IDs()[translate.KeyVPC] == vpc:
		return "", &nbdb.ConflictError{What: full.IDs()[translate.KeyKey] + " exists by now"}
	case owner == e.Owner:
		return ofVPC + full.IDs()[translate.KeyVPC], nil
	default:
		return "the installation " + strconv.Quote(owner), nil
	}
}

// offeringOwner is the installation that an entry of an offering names, "" if it
// names none.
func offeringOwner(value string) string {
	var o translate.StoredEntry
	if json.Unmarshal([]byte(value), &o) != nil {
		return ""
	}
	return o.Owner
}

// checkGuests refuses to delete a switch or router that holds rows of others:
// they would vanish with it.
func (e *Engine) checkGuests(ctx context.Context, d *desire, p *Plan, touched map[string][]*change) error {
	var guests []nbdb.Edge
	for _, part := range p.VPCs {
		for _, tx := range part.Transactions {
			for _, r := range tx.Rows {
				if r.Op == nbdb.Delete {
					guests = append(guests, d.world.guests(r)...)
				}
			}
		}
	}
	if len(guests) == 0 {
		return nil
	}
	holders := holdersOf(touched)
	names := []string{"_uuid", "name"}
	all, err := e.NB.Read(ctx, nbdb.Query{Table: nbdb.TableLogicalSwitchPort, Columns: names}, nbdb.Query{Table: nbdb.TableLogicalRouterPort, Columns: names})
	if err != nil {
		return fmt.Errorf("reading the names of foreign ports: %w", err)
	}
	for _, g := range guests {
		what := "an ACL row"
		if p := nbdb.Lookup[*nbdb.LogicalSwitchPort](all, g.Target); p != nil {
			what = "the port " + strconv.Quote(p.Name)
		} else if p := nbdb.Lookup[*nbdb.LogicalRouterPort](all, g.Target); p != nil {
			what = "the router port " + strconv.Quote(p.Name)
		} else if g.Column == "policies" {
			what = "a router policy"
		}
		id := holders[g.From]
		on := cmp.Or(d.resources[id], d.world.before(id), &model.Resource{Kind: id.Kind, Metadata: model.Metadata{VPC: id.VPC, Name: id.Name}})
		d.found = append(d.found, fault(on, "it holds %s that somebody else made (row %s)", "remove that first", what, g.Target).
			Coded(model.CodeInUse))
	}
	return nil
}

// guests are the references of a switch or router to what is not ours, which would
// go with it.
func (w *world) guests(r nbdb.RowChange) []nbdb.Edge {
	row := w.state.Get(r.Table, r.UUID)
	if row == nil || !isDatapath(r.Table) {
		return nil
	}
	return slices.DeleteFunc(nbdb.EdgesOf(row), func(x nbdb.Edge) bool {
		known := w.state.Get(targetTable(x), x.Target)
		return known != nil && w.owns(known)
	})
}

type usedName struct{ group, name, field, fix string }

// namesOf are the names of the rows that a resource brings.
func namesOf(r *model.Resource) []usedName {
	m := r.Metadata
	const rename = "choose another name, or remove the other row"
	switch spec := r.Spec.(type) {
	case *model.VPCSpec:
		return []usedName{{"router ", translate.RouterName(m.Name), "metadata.name", rename},
			{"group ", translate.PortGroupName(m.Name, model.ACLDefaultAllow), "metadata.name", rename},
			{"group ", translate.PortGroupName(m.Name, model.ACLDefaultDeny), "metadata.name", rename}}
	case *model.TierSpec:
		names := []usedName{{"switch ", translate.SwitchName(m.VPC, m.Name), "metadata.name", rename},
			{"port ", translate.RouterPortName(m.VPC, m.Name), "metadata.name", rename},
			{"port ", translate.SwitchRouterPortName(m.VPC, m.Name), "metadata.name", rename}}
		for _, page := range translate.PageNames(m.VPC, m.Name, spec) {
			names = append(names, usedName{"group ", page, "metadata.name", rename})
		}
		return names
	case *model.ACLSpec:
		return []usedName{{"group ", translate.PortGroupName(m.VPC, m.Name), "metadata.name", rename}}
	case *model.AttachmentSpec:
		return []usedName{{"port ", spec.InterfaceID, "spec.interfaceID", "choose another interfaceID: it is unique in the whole database"}}
	}
	return nil
}

// checkVersion refuses what the server's OVN is too old for.
func (e *Engine) checkVersion(d *desire) {
	if e.SchemaVersion == nil {
		return
	}
	version := e.SchemaVersion()
	if !older(version, 6, 3) {
		return
	}
	for _, r := range d.input {
		if spec, ok := r.Spec.(*model.AttachmentSpec); ok && spec.MigratingTo != "" {
			d.found = append(d.found, r.Fault("spec.migratingTo",
				"live migration needs OVN 22.09 or newer; the database has schema "+version, "upgrade OVN, or change spec.chassis"))
		}
	}
}

// older compares a schema version such as 7.0.0.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

// checkChassis warns of hypervisors that nobody knows, where the southbound
// database can be read: OVN says nothing about them.
func (e *Engine) checkChassis(ctx context.Context, d *desire) {
	type named struct {
		by          *model.Resource
		field, name string
	}
	var all []named
	for _, r := range d.input {
		switch spec := r.Spec.(type) {
		case *model.AttachmentSpec:
			all = append(all, named{r, "spec.chassis", spec.Chassis}, named{r, "spec.migratingTo", spec.MigratingTo})
		case *model.VPCSpec:
			all = append(all, named{r, "spec.chassis", spec.Chassis})
		}
	}
	all = slices.DeleteFunc(all, func(n named) bool { return n.name == "" })
	if e.SB == nil || len(all) == 0 {
		return
	}
	chassis, err := e.SB.ReadChassis(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return // whatever comes next says so
		}
		e.Log.Warn("the southbound database can't be read", "error", err)
		return
	}
	for _, n := range all {
		if !slices.ContainsFunc(chassis, func(c nbdb.Chassis) bool { return c.Name == n.name || c.Hostname == n.name }) {
			d.found = append(d.found, n.by.Warning(n.field, fmt.Sprintf("no chassis %q is registered with OVN", n.name),
				"start ovn-controller there, or correct the name"))
		}
	}
}
