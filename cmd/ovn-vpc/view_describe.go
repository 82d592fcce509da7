package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// showObject shows one resource, and of all that was read what belongs to it.
func (a *app) showObject(o *engine.Object, all []engine.Object) error {
	r := o.Resource
	facts := [][]string{{"Kind:", string(r.Kind)}, {"Name:", r.Metadata.Name}}
	if r.Metadata.VPC != "" {
		facts = append(facts, []string{"VPC:", r.Metadata.VPC})
	}
	facts = append(facts, []string{"Labels:", pairs(r.Metadata.Labels)}, []string{"Manager:", r.Manager})
	switch spec := r.Spec.(type) {
	case *model.VPCSpec:
		return a.showVPC(facts, r, spec, all)
	case *model.VPCOfferingSpec, *model.ExpectationSpec:
		return a.showColumnsOf(facts, *o)
	case *model.TierSpec:
		return a.showTier(facts, *o, spec, all)
	case *model.ACLSpec:
		return a.showACL(facts, *o, spec)
	case *model.AttachmentSpec:
		return a.showAttachment(facts, *o, spec)
	}
	return nil
}

// showColumnsOf shows the facts and the columns of the kind's widest table.
func (a *app) showColumnsOf(facts [][]string, o engine.Object) error {
	known := []string{"NAME", "VPC", "LABELS"}
	for _, c := range columnsOf(o.Resource.Kind) {
		if !slices.Contains(known, c.title) {
			facts = append(facts, []string{heading(c.title), c.cell(o)})
		}
	}
	return a.align("", facts)
}

// heading is a column's title as it stands before one value: Router MAC.
func heading(title string) string {
	words := strings.Split(title, "-")
	for i, w := range words {
		switch w {
		case "ACL", "ACLS", "MAC", "CIDRS", "DHCP", "MTU", "ID":
			words[i] = strings.Replace(w, "RS", "Rs", 1)
			words[i] = strings.Replace(words[i], "LS", "Ls", 1)
		default:
			w = strings.ToLower(w)
			if i == 0 {
				w = strings.ToUpper(w[:1]) + w[1:]
			}
			words[i] = w
		}
	}
	return strings.Join(words, " ") + ":"
}

func (a *app) showVPC(facts [][]string, r *model.Resource, _ *model.VPCSpec, all []engine.Object) error {
	for _, o := range all {
		if o.Resource == r {
			if st, ok := o.Status.(*engine.VPCStatus); ok && st.Expectations > 0 {
				facts = append(facts, []string{"Expectations:", expectations(st)})
			}
			if err := a.showColumnsOf(facts, o); err != nil {
				return err
			}
		}
	}
	for _, kind := range []model.Kind{model.KindTier, model.KindACL} {
		if err := a.showMembers(kind, all, func(m *model.Resource) bool { return m.Metadata.VPC == r.Metadata.Name }); err != nil {
			return err
		}
	}
	return nil
}

// expectations is such as "3, 2 hold".
func expectations(st *engine.VPCStatus) string {
	text := strconv.Itoa(st.Expectations)
	if st.ExpectationsHeld != nil {
		text += ", " + strconv.Itoa(*st.ExpectationsHeld) + " hold"
	}
	return text
}

// showMembers shows a table of those resources of a kind that belong.
func (a *app) showMembers(kind model.Kind, all []engine.Object, belongs func(*model.Resource) bool) error {
	var members []engine.Object
	for _, o := range withoutBuiltins(all) {
		if o.Resource.Kind == kind && belongs(o.Resource) {
			members = append(members, o)
		}
	}
	a.printf("\n%s:", title(kind))
	if len(members) == 0 {
		a.printf(" none\n")
		return nil
	}
	a.printf("\n")
	columns := slices.DeleteFunc(columnsOf(kind), func(c column) bool { return c.title == "VPC" })
	return a.showTable(columns, members, false)
}

func (a *app) showTier(facts [][]string, o engine.Object, spec *model.TierSpec, all []engine.Object) error {
	meta, d := o.Resource.Metadata, spec.DHCP
	facts = append(facts, []string{"ACL:", spec.ACL}, []string{"Reserved:", list(spec.Reserved)}, []string{"DHCP:", yes(d.Enabled)})
	if d.Enabled {
		facts = append(facts, []string{"Lease time:", strconv.Itoa(d.LeaseTime) + " s"}, []string{"DNS servers:", list(d.DNSServers)},
			[]string{"Domain:", d.Domain}, []string{"DHCP options:", pairs(d.Options)})
	}
	if st, ok := o.Status.(*engine.TierStatus); ok {
		facts = append(facts, []string{"Router MAC:", string(st.RouterMAC)})
	}
	if err := a.align("", facts); err != nil {
		return err
	}
	if st, ok := o.Status.(*engine.TierStatus); ok {
		rows := [][]string{{"PREFIX", "GATEWAY", "USED", "FREE"}}
		for i, p := range st.Prefixes {
			rows = append(rows, []string{p.CIDR.String(), spec.Gateways[i].String(), amount(p.Used), amount(p.Free)})
		}
		a.printf("\nPrefixes:\n")
		if err := a.align("", rows); err != nil {
			return err
		}
	}
	return a.showMembers(model.KindAttachment, all, func(m *model.Resource) bool {
		attached, ok := m.Spec.(*model.AttachmentSpec)
		return ok && m.Metadata.VPC == meta.VPC && attached.Tier == meta.Name
	})
}

func (a *app) showACL(facts [][]string, o engine.Object, spec *model.ACLSpec) error {
	if st, ok := o.Status.(*engine.ACLStatus); ok {
		facts = append(facts, []string{"Used by:", strings.Join(st.UsedBy, ",")})
	}
	facts = append(facts, []string{"Stateless:", yes(spec.Stateless)})
	if err := a.align("", facts); err != nil {
		return err
	}
	rows := [][]string{{"DIRECTION", "NUMBER", "ACTION", "PROTOCOL", "PORTS", "FAR-SIDE", "LOG", "DESCRIPTION"}}
	for _, direction := range []model.Direction{model.Ingress, model.Egress} {
		rest := spec.Defaults.Ingress
		if direction == model.Egress {
			rest = spec.Defaults.Egress
		}
		for _, rule := range spec.Rules {
			if rule.Direction == direction {
				rows = append(rows, ruleCells(rule))
			}
		}
		rows = append(rows, []string{string(direction), "default", string(rest), string(model.ProtoAll), "", "any", "", ""})
	}
	a.printf("\nRules:\n")
	return a.align("", rows)
}

func ruleCells(r model.Rule) []string {
	ports := list(r.Ports)
	if r.ICMP != nil {
		ports = "type " + strconv.Itoa(r.ICMP.Type)
		if r.ICMP.Code >= 0 {
			ports += " code " + strconv.Itoa(r.ICMP.Code)
		}
	}
	var far []string
	for _, p := range r.CIDRs {
		far = append(far, p.String())
	}
	for _, t := range r.Tiers {
		far = append(far, "tier:"+t)
	}
	if len(far) == 0 {
		far = []string{"any"}
	}
	return []string{string(r.Direction), strconv.Itoa(r.Number), string(r.Action), string(r.Protocol), ports,
		strings.Join(far, ","), string(r.Log), r.Description}
}

func (a *app) showAttachment(facts [][]string, o engine.Object, spec *model.AttachmentSpec) error {
	facts = append(facts,
		[]string{"Asked chassis:", spec.Chassis}, []string{"Migrating to:", spec.MigratingTo},
		[]string{"Port security:", yes(spec.PortSecurity)}, []string{"Allowed addresses:", list(spec.AllowedAddresses)},
		[]string{"Hostname:", spec.Hostname}, []string{"Enabled:", yes(spec.Enabled)})
	return a.showColumnsOf(facts, o)
}
