package model

import "fmt"

// VPCOfferingSpec is the spec of a VPCOffering. A nil limit is none.
type VPCOfferingSpec struct {
	Capabilities Capabilities `json:"capabilities" doc:"what the offering permits its VPCs"`
	Limits       Limits       `json:"limits" doc:"bounds of what one VPC may hold"`
}

// Capabilities are what an offering permits its VPCs.
type Capabilities struct {
	DistributedRouting bool `json:"distributedRouting" doc:"VPCs may have distributedRouting true; default false"`
}

// Limits bound what one VPC under an offering may hold.
type Limits struct {
	Tiers       *int `json:"tiers,omitempty" doc:"tiers of one VPC; absent: no limit"`
	Attachments *int `json:"attachments,omitempty" doc:"attachments of one VPC; absent: no limit"`
	ACLRules    *int `json:"aclRules,omitempty" doc:"rules of all lists of one VPC together; absent: no limit"` // defaults not counted
}

func (s *VPCOfferingSpec) setDefaults() {}

func (s *VPCOfferingSpec) complete(*Resource) {}

func (s *VPCOfferingSpec) check(c *checker) {
	for _, quota := range s.Limits.quotas() {
		if quota.limit != nil && *quota.limit < 0 {
			c.fault(quota.field, fmt.Sprintf("%d is negative", *quota.limit), "give 0 or more, or remove it for no limit")
		}
	}
}

// quota is one limit: how many of what.
type quota struct {
	field string
	what  string // plural, for messages
	kind  Kind   // the kind whose resources use it up
	limit *int
}

func (l Limits) quotas() []quota {
	return []quota{
		{"spec.limits.tiers", "tiers", KindTier, l.Tiers},
		{"spec.limits.attachments", "attachments", KindAttachment, l.Attachments},
		{"spec.limits.aclRules", "ACL rules", KindACL, l.ACLRules},
	}
}
