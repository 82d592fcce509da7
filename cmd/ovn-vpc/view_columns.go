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

func offeringColumns() []column {
	type object = *model.VPCOfferingSpec
	cell := func(f func(object) string) func(engine.Object) string {
		return as(func(s object, _ *engine.OfferingStatus) string { return f(s) })
	}
	return []column{
		{"DISTRIBUTED", false, cell(func(s object) string { return yes(s.Capabilities.DistributedRouting) })},
		{"TIERS", false, cell(func(s object) string { return limit(s.Limits.Tiers) })},
		{"ATTACHMENTS", false, cell(func(s object) string { return limit(s.Limits.Attachments) })},
		{"ACL-RULES", false, cell(func(s object) string { return limit(s.Limits.ACLRules) })},
		{"USED-BY", false, as(func(_ object, s *engine.OfferingStatus) string { return strings.Join(s.UsedBy, ",") })},
	}
}
