// Package model holds the kinds: what a user writes, with defaults and
// checks. It knows nothing of OVN's tables.
package model

import (
	"strings"
	"sync"
)

// APIVersion is the only version of the envelope.
const APIVersion = "ovn-vpc/v1"

// Kind names a kind of resource as it stands in an envelope.
type Kind string

// The kinds.
const (
	KindVPC         Kind = "VPC"
	KindVPCOffering Kind = "VPCOffering"
	KindTier        Kind = "Tier"
	KindACL         Kind = "ACL"
	KindAttachment  Kind = "Attachment"
	KindExpectation Kind = "Expectation"
)

// ID identifies a resource within an installation. VPC is empty for the
// global kinds (VPC, VPCOffering).
type ID struct {
	Kind Kind
	VPC  string
	Name string
}

// String is the form of messages: "Tier shop/web", "VPC shop".
func (id ID) String() string {
	switch {
	case id.Name == "":
		return string(id.Kind)
	case id.VPC == "":
		return string(id.Kind) + " " + id.Name
	}
	return string(id.Kind) + " " + id.VPC + "/" + id.Name
}

// ParseID reads what ID.String has written.
func ParseID(text string) (ID, bool) {
	kind, path, ok := strings.Cut(text, " ")
	if _, known := Kind(kind).info(); !known || !ok {
		return ID{}, false
	}
	if vpc, name, scoped := strings.Cut(path, "/"); scoped {
		return ID{Kind: Kind(kind), VPC: vpc, Name: name}, true
	}
	return ID{Kind: Kind(kind), Name: path}, true
}

// Metadata names a resource.
type Metadata struct {
	Name   string            `json:"name" doc:"DNS label (RFC 1123): 1 to 63 lower-case letters, digits and hyphens"`
	VPC    string            `json:"vpc,omitempty" doc:"the VPC the resource belongs to; not for VPC and VPCOffering"`
	Labels map[string]string `json:"labels,omitempty" doc:"free keys and values, in the syntax of Kubernetes labels"`
}

// Resource is one document: an envelope with the spec of its kind, defaults
// filled in. Spec is one of *VPCSpec, *VPCOfferingSpec, *TierSpec, *ACLSpec,
// *AttachmentSpec, *ExpectationSpec.
type Resource struct {
	Kind     Kind
	Metadata Metadata
	Spec     Spec
	// Manager is who brought the resource (`apply --manager`). It is kept
	// beside the spec, not in it, and no part of documents.
	Manager string
	// Request marks the request that created the resource, so that it is known
	// when it comes again ("" for none; ValidRequest). It is kept beside the spec,
	// like Manager, and never changes.
	Request string
	// Source is where the resource was read, nil for one from the database.
	Source *Source
}

// Spec is what a kind says about itself. The methods are for this package;
// others switch on the type.
type Spec interface {
	defaulter
	// complete fills in what follows from other fields and brings lists into
	// their canonical order. It is idempotent.
	complete(r *Resource)
	// check reports what can be seen to be wrong within the one resource.
	check(c *checker)
}

// defaulter sets the defaults of fields before a document is read over them.
type defaulter interface{ setDefaults() }

// ID is the resource's identity.
func (r *Resource) ID() ID {
	return ID{Kind: r.Kind, VPC: r.Metadata.VPC, Name: r.Metadata.Name}
}

// Scope is the name of the VPC the resource is part of: its own name for a
// VPC, empty for a VPCOffering.
func (r *Resource) Scope() string {
	if r.Kind == KindVPC {
		return r.Metadata.Name
	}
	return r.Metadata.VPC
}

// maxRequest bounds Resource.Request.
const maxRequest = 64

// ValidRequest tells whether a text can mark a request: at most 64 letters,
// digits, hyphens and spaces.
func ValidRequest(text string) bool {
	return len(text) <= maxRequest && strings.Trim(text, "- 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == "" &&
		strings.TrimSpace(text) == text
}

// Check reports what is wrong with the resource by itself. Load has done it
// for what it returns.
func (r *Resource) Check() Diagnostics {
	c := &checker{resource: r}
	c.metadata()
	r.Spec.check(c)
	return c.found
}

// kindInfo is what the registry knows of a kind.
type kindInfo struct {
	kind    Kind
	plural  string
	aliases []string // further words a command line may use
	global  bool     // not within a VPC
	newSpec func() Spec
}

// registry lists the kinds in the order in which they depend on each other. It
// is made once and constant from then on.
func registry() []kindInfo { return registryOnce() }

var registryOnce = sync.OnceValue(func() []kindInfo {
	return []kindInfo{
		{KindVPCOffering, "vpcofferings", []string{"offering", "offerings"}, true, func() Spec { return new(VPCOfferingSpec) }},
		{KindVPC, "vpcs", nil, true, func() Spec { return new(VPCSpec) }},
		{KindACL, "acls", nil, false, func() Spec { return new(ACLSpec) }},
		{KindTier, "tiers", nil, false, func() Spec { return new(TierSpec) }},
		{KindAttachment, "attachments", nil, false, func() Spec { return new(AttachmentSpec) }},
		{KindExpectation, "expectations", nil, false, func() Spec { return new(ExpectationSpec) }},
	}
})

func (k Kind) info() (kindInfo, bool) {
	for _, info := range registry() {
		if info.kind == k {
			return info, true
		}
	}
	return kindInfo{}, false
}

// Kinds lists the kinds so that none stands before one it may refer to.
func Kinds() []Kind {
	var kinds []Kind
	for _, info := range registry() {
		kinds = append(kinds, info.kind)
	}
	return kinds
}

// Plural is the kind's lower-case plural, as in `get tiers`.
func (k Kind) Plural() string {
	info, _ := k.info()
	return info.plural
}

// Global tells whether the kind stands outside of VPCs (no metadata.vpc).
func (k Kind) Global() bool {
	info, _ := k.info()
	return info.global
}

// ParseKind reads a kind as a user types it on a command line: singular or
// plural, in any case.
func ParseKind(word string) (Kind, bool) {
	lower := strings.ToLower(word)
	for _, info := range registry() {
		if lower == strings.ToLower(string(info.kind)) || lower == info.plural {
			return info.kind, true
		}
		for _, alias := range info.aliases {
			if lower == alias {
				return info.kind, true
			}
		}
	}
	return "", false
}

// NewSpec is an empty spec of the kind with its defaults, nil for an unknown
// kind.
func NewSpec(kind Kind) Spec {
	info, ok := kind.info()
	if !ok {
		return nil
	}
	spec := info.newSpec()
	spec.setDefaults()
	return spec
}
