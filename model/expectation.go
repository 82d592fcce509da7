package model

import (
	"net/netip"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// ExpectationSpec is the spec of an Expectation: what the lists of its VPC are
// meant to let pass, or to stop. It changes no packet's way.
type ExpectationSpec struct {
	From        string      `json:"from" doc:"where the traffic comes from: a tier or an attachment (NAME, tier/NAME, attachment/NAME), an address, or outside"`
	To          string      `json:"to" doc:"where it goes, in the same form"`
	Traffic     traffic.Set `json:"traffic" doc:"what it is, such as tcp/5432 or \"tcp 8080, 8443; icmp echo\"; default all"`
	Expect      Action      `json:"expect" doc:"allow: all of the traffic passes between all addresses of the ends; deny: none of it"`
	Description string      `json:"description,omitempty" doc:"one line of text"`
}

// The words for ends of traffic.
const (
	endOutside    = "outside"
	endTier       = "tier"
	endAttachment = "attachment"
)

func (s *ExpectationSpec) setDefaults() { s.Traffic = traffic.All() }

func (s *ExpectationSpec) complete(*Resource) {
	for _, end := range []*string{&s.From, &s.To} {
		if addr, err := netip.ParseAddr(*end); err == nil {
			*end = addr.String()
		}
	}
}

func (s *ExpectationSpec) check(c *checker) {
	c.required("spec.from", s.From, endSyntax)
	c.required("spec.to", s.To, endSyntax)
	if s.From == s.To && s.From != "" && !isTier(s.From) {
		c.fault("spec.to", quote(s.To)+" is where the traffic comes from", "name two ends")
	}
	if s.Traffic.Empty() {
		c.fault("spec.traffic", "is no traffic", "give some, such as tcp/443, or remove it for all")
	}
	switch s.Expect {
	case Allow, Deny:
	case "":
		c.fault("spec.expect", "is missing", "allow or deny")
	default:
		c.fault("spec.expect", quote(string(s.Expect))+" is no expectation", "allow or deny")
	}
	c.optional("spec.description", s.Description, sentence)
}

// isTier tells whether an end may be a tier, within which there is traffic.
func isTier(end string) bool {
	kind, _, ok := SplitEnd(end)
	_, err := netip.ParseAddr(end)
	return ok && err != nil && (kind == endTier || kind == "")
}

func endSyntax(text string) *fault {
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" || addr.Is4In6() {
			return &fault{quote(text) + " is not an address of a guest", "write an IPv4 or IPv6 address without a zone"}
		}
		if prefixOf(Unrouted(), addr) >= 0 {
			return &fault{quote(text) + " is an address that no router forwards", "write the address of a host"}
		}
		return nil
	}
	kind, name, ok := SplitEnd(text)
	if !ok {
		return &fault{quote(text) + " is no end of traffic", "one of NAME, tier/NAME, attachment/NAME, an address, outside"}
	}
	if kind == endOutside {
		return nil
	}
	return dnsLabel(name)
}

// SplitEnd reads what names one end of traffic: outside, tier/NAME,
// attachment/NAME, or NAME alone, which leaves the kind open.
func SplitEnd(text string) (kind, name string, ok bool) {
	kind, name, named := strings.Cut(text, "/")
	switch {
	case text == endOutside:
		return endOutside, "", true
	case !named:
		kind, name = "", text
	case kind != endTier && kind != endAttachment:
		return "", "", false
	}
	return kind, name, name != "" && !strings.ContainsAny(name, "/, ")
}

// ends are the resources that the two ends are, of those that there may be by
// their names the first that exists. An address and outside are none.
func (s *ExpectationSpec) ends(vpc string, exists func(ID) bool) (ends [2]ID) {
	for i, text := range []string{s.From, s.To} {
		kind, name, ok := SplitEnd(text)
		if _, err := netip.ParseAddr(text); err == nil || !ok || kind == endOutside {
			continue
		}
		tier, attachment := ID{KindTier, vpc, name}, ID{KindAttachment, vpc, name}
		ends[i] = tier
		if kind == endAttachment || kind == "" && !exists(tier) && exists(attachment) {
			ends[i] = attachment
		}
	}
	return ends
}

// Attachments are the names that the ends give of what may be attachments.
func (s *ExpectationSpec) Attachments() []string {
	var names []string
	for _, end := range s.ends("", func(id ID) bool { return id.Kind == KindAttachment }) {
		if end.Kind == KindAttachment {
			names = append(names, end.Name)
		}
	}
	return names
}

func (c *crossChecker) expectation(r *Resource, spec *ExpectationSpec) {
	exists := func(id ID) bool { return c.state.byID[id] != nil }
	for i, id := range spec.ends(r.Metadata.VPC, exists) {
		at := spot{r, [...]string{"spec.from", "spec.to"}[i]}
		if id != (ID{}) && sound(r, at.field) {
			c.refer(at, id)
		}
	}
}
