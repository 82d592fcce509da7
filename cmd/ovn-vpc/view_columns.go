package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// cell makes a column's cell of a kind's spec and status.
func cell[Spec, Status any](text func(*Spec, *Status) string) func(engine.Object) string {
	return func(o engine.Object) string {
		spec, isSpec := any(o.Resource.Spec).(*Spec)
		status, isStatus := o.Status.(*Status)
		if !isSpec || !isStatus || status == nil {
			return ""
		}
		return text(spec, status)
	}
}

func vpcColumns() []column {
	type spec = model.VPCSpec
	type status = engine.VPCStatus
	return []column{
		{"CIDRS", false, cell(func(s *spec, _ *status) string { return list(s.CIDRs) })},
		{"ROUTING", false, cell(func(s *spec, _ *status) string { return routing(s) })},
		{"TIERS", false, cell(func(_ *spec, s *status) string { return strconv.Itoa(s.Tiers) })},
		{"ATTACHMENTS", false, cell(func(_ *spec, s *status) string { return strconv.Itoa(s.Attachments) })},
		{"ACLS", true, cell(func(_ *spec, s *status) string { return strconv.Itoa(s.ACLs) })},
		{"CHASSIS", true, cell(func(s *spec, _ *status) string { return s.Chassis })},
		{"OFFERING", true, cell(func(s *spec, _ *status) string { return s.Offering })},
		{"MTU", true, cell(func(s *spec, _ *status) string { return strconv.Itoa(s.MTU) })},
	}
}

func offeringColumns() []column {
	type spec = model.VPCOfferingSpec
	type status = engine.OfferingStatus
	return []column{
		{"DISTRIBUTED", false, cell(func(s *spec, _ *status) string { return yes(s.Capabilities.DistributedRouting) })},
		{"TIERS", false, cell(func(s *spec, _ *status) string { return limit(s.Limits.Tiers) })},
		{"ATTACHMENTS", false, cell(func(s *spec, _ *status) string { return limit(s.Limits.Attachments) })},
		{"ACL-RULES", false, cell(func(s *spec, _ *status) string { return limit(s.Limits.ACLRules) })},
		{"USED-BY", false, cell(func(_ *spec, s *status) string { return strings.Join(s.UsedBy, ",") })},
	}
}

func tierColumns() []column {
	type spec = model.TierSpec
	type status = engine.TierStatus
	return []column{
		{"CIDRS", false, cell(func(s *spec, _ *status) string { return list(s.CIDRs) })},
		{"ACL", false, cell(func(s *spec, _ *status) string { return s.ACL })},
		{"ATTACHMENTS", false, cell(func(_ *spec, s *status) string { return strconv.Itoa(s.Attachments) })},
		{"GATEWAYS", true, cell(func(s *spec, _ *status) string { return list(s.Gateways) })},
		{"USED", true, cell(func(_ *spec, s *status) string {
			return each(s.Prefixes, func(p engine.PrefixStatus) string { return amount(p.Used) })
		})},
		{"FREE", true, cell(func(_ *spec, s *status) string {
			return each(s.Prefixes, func(p engine.PrefixStatus) string { return amount(p.Free) })
		})},
		{"ROUTER-MAC", true, cell(func(_ *spec, s *status) string { return string(s.RouterMAC) })},
		{"DHCP", true, cell(func(s *spec, _ *status) string { return yes(s.DHCP.Enabled) })},
	}
}

func aclColumns() []column {
	type spec = model.ACLSpec
	type status = engine.ACLStatus
	return []column{
		{"INGRESS", false, cell(func(s *spec, st *status) string { return rules(st.Ingress, s.Defaults.Ingress) })},
		{"EGRESS", false, cell(func(s *spec, st *status) string { return rules(st.Egress, s.Defaults.Egress) })},
		{"STATELESS", false, cell(func(s *spec, _ *status) string { return yes(s.Stateless) })},
		{"USED-BY", false, cell(func(_ *spec, s *status) string { return strings.Join(s.UsedBy, ",") })},
	}
}

func attachmentColumns() []column {
	type spec = model.AttachmentSpec
	type status = engine.AttachmentStatus
	return []column{
		{"TIER", false, cell(func(s *spec, _ *status) string { return s.Tier })},
		{"ADDRESSES", false, cell(func(_ *spec, s *status) string { return list(s.Addresses) })},
		{"UP", false, cell(func(_ *spec, s *status) string { return up(s.Up) })},
		{"CHASSIS", false, cell(func(_ *spec, s *status) string { return s.Chassis })},
		{"MAC", true, cell(func(_ *spec, s *status) string { return string(s.MAC) })},
		{"INTERFACE-ID", true, cell(func(_ *spec, s *status) string { return s.InterfaceID })},
		{"REASON", true, cell(func(_ *spec, s *status) string { return s.Reason })},
	}
}

func expectationColumns() []column {
	type spec = model.ExpectationSpec
	text := func(of func(*spec) string) func(engine.Object) string {
		return func(o engine.Object) string { return of(o.Resource.Spec.(*spec)) }
	}
	return []column{
		{"EXPECT", false, text(func(s *spec) string { return string(s.Expect) })},
		{"FROM", false, text(func(s *spec) string { return s.From })},
		{"TO", false, text(func(s *spec) string { return s.To })},
		{"TRAFFIC", false, text(func(s *spec) string { return s.Traffic.String() })},
		{"DESCRIPTION", true, text(func(s *spec) string { return s.Description })},
	}
}

func routing(s *model.VPCSpec) string {
	if s.DistributedRouting {
		return "distributed"
	}
	return "centralised"
}

// rules is how many rules a direction has, and what is done with the rest.
func rules(n int, rest model.Action) string { return fmt.Sprintf("%d+%s", n, rest) }

func list[T fmt.Stringer](values []T) string { return each(values, T.String) }

func each[T any](values []T, text func(T) string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = text(v)
	}
	return strings.Join(parts, ",")
}

func pairs(labels map[string]string) string {
	return each(slices.Sorted(maps.Keys(labels)), func(k string) string { return k + "=" + labels[k] })
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// up is whether an attachment is plugged; nobody may have said.
func up(b *bool) string {
	if b == nil {
		return "unknown"
	}
	return yes(*b)
}

func limit(n *int) string {
	if n == nil {
		return "unlimited"
	}
	return strconv.Itoa(*n)
}

// amount is a number, in powers of ten where it is one of IPv6.
func amount(n uint64) string {
	const readable = 1_000_000
	if n >= readable {
		return fmt.Sprintf("%.1e", float64(n))
	}
	return strconv.FormatUint(n, 10)
}
