package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Action is what a rule does with a packet.
type Action string

// Direction says which way a rule looks, seen from the tier.
type Direction string

// Severity is the syslog level of a rule's log (ovn-nb(5), ACL severity), the
// empty string for no log. Documents may also say true (info) or false.
type Severity string

// The values of Action, Direction.
const (
	Allow  Action = "allow"
	Deny   Action = "deny"
	Reject Action = "reject"

	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

// SeverityInfo is what `log: true` means.
const SeverityInfo Severity = "info"

// Protocol is "all", "tcp", "udp", "sctp", "icmp", "icmpv6" or the decimal
// number of another protocol; a number that has a name is stored as the name.
type Protocol string

// The named protocols.
const (
	ProtoAll    Protocol = "all"
	ProtoTCP    Protocol = "tcp"
	ProtoUDP    Protocol = "udp"
	ProtoSCTP   Protocol = "sctp"
	ProtoICMP   Protocol = "icmp"
	ProtoICMPv6 Protocol = "icmpv6"
)

// PortRange is a closed range of ports, written `80` or `8000-9000`.
type PortRange struct{ First, Last uint16 }

// AddrRange is a closed range of addresses, written `a` or `a-b`.
type AddrRange struct{ First, Last netip.Addr }

// MAC is an Ethernet address in lower-case colon notation, or empty.
type MAC string

// fault is a value that can't be read, and how to mend it.
type fault struct{ problem, fix string }

func (f *fault) Error() string {
	if f.fix == "" {
		return f.problem
	}
	return f.problem + " (" + f.fix + ")"
}

// HasPorts tells whether the protocol's packets carry ports.
func (p Protocol) HasPorts() bool {
	return p == ProtoTCP || p == ProtoUDP || p == ProtoSCTP
}

// IsICMP tells whether the protocol's packets carry a type and a code.
func (p Protocol) IsICMP() bool { return p == ProtoICMP || p == ProtoICMPv6 }

// ParseProtocol reads a protocol by name or number (IANA Assigned Internet
// Protocol Numbers) and gives its canonical form.
func ParseProtocol(text string) (Protocol, error) {
	named := [...]Protocol{ProtoAll, ProtoTCP, ProtoUDP, ProtoSCTP, ProtoICMP, ProtoICMPv6}
	for _, p := range named {
		if string(p) == text {
			return p, nil
		}
	}
	if !isDecimal(text) {
		var names []string
		for _, p := range named {
			names = append(names, string(p))
		}
		return "", &fault{quote(text) + " is not a protocol", suggest(text, names, "one of "+strings.Join(names, ", ")+" or a number 0 to 255")}
	}
	number, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return "", &fault{"protocol " + quote(text) + " is out of range", "give a number 0 to 255"}
	}
	switch number {
	case 1:
		return ProtoICMP, nil
	case 6:
		return ProtoTCP, nil
	case 17:
		return ProtoUDP, nil
	case 58:
		return ProtoICMPv6, nil
	case 132:
		return ProtoSCTP, nil
	}
	return Protocol(strconv.FormatUint(number, 10)), nil
}

// ParsePortRange reads `80` or `8000-9000`; port 0 is reserved (RFC 6335) and
// refused.
func ParsePortRange(text string) (PortRange, error) {
	low, high, isRange := strings.Cut(text, "-")
	if isRange && !isDecimal(low) {
		low = text // such as -1
	}
	first, err := parsePort(low)
	if err != nil {
		return PortRange{}, err
	}
	if !isRange {
		return PortRange{first, first}, nil
	}
	last, err := parsePort(high)
	if err != nil {
		return PortRange{}, err
	}
	if last < first {
		return PortRange{}, &fault{fmt.Sprintf("range %s runs backwards", quote(text)), fmt.Sprintf("write %d-%d", last, first)}
	}
	return PortRange{first, last}, nil
}

func parsePort(text string) (uint16, error) {
	if !isDecimal(text) {
		return 0, &fault{quote(text) + " is not a port", "write a port such as 80 or a range such as 8000-9000"}
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, &fault{"port " + shorten(text) + " is out of range", "ports are 1 to 65535"}
	}
	return uint16(port), nil
}

// String is `80` or `8000-9000`.
func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// mergePorts is the same set of ports in ascending, disjoint ranges that do
// not touch.
func mergePorts(ranges []PortRange) []PortRange {
	if len(ranges) < 2 {
		return slices.Clip(ranges)
	}
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b PortRange) int { return cmp.Compare(a.First, b.First) })
	var merged []PortRange
	for _, r := range sorted {
		if n := len(merged); n > 0 && int(r.First) <= int(merged[n-1].Last)+1 {
			merged[n-1].Last = max(merged[n-1].Last, r.Last)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// ParseMAC reads an Ethernet address and gives its canonical form.
func ParseMAC(text string) (MAC, error) {
	hw, err := net.ParseMAC(text)
	if err != nil || len(hw) != 6 {
		return "", &fault{quote(text) + " is not an Ethernet address", "write six bytes such as 0a:00:00:00:00:01"}
	}
	return MAC(hw.String()), nil
}

// bytes are the six bytes of a MAC that ParseMAC has given.
func (m MAC) bytes() net.HardwareAddr {
	hw, err := net.ParseMAC(string(m))
	if err != nil || len(hw) != 6 {
		return make(net.HardwareAddr, 6)
	}
	return hw
}

func parseWord[T ~string](text, what string, words ...T) (T, error) {
	for _, word := range words {
		if string(word) == text {
			return word, nil
		}
	}
	names := make([]string, len(words))
	for i, word := range words {
		names[i] = string(word)
	}
	return "", &fault{quote(text) + " is not " + what, suggest(text, names, "one of "+strings.Join(names, ", "))}
}

// ParseAction reads an action.
func ParseAction(text string) (Action, error) {
	return parseWord(text, "an action", Allow, Deny, Reject)
}

// ParseDirection reads a direction.
func ParseDirection(text string) (Direction, error) {
	return parseWord(text, "a direction", Ingress, Egress)
}

// ParseSeverity reads a syslog level as ovn-nb(5) names them.
func ParseSeverity(text string) (Severity, error) {
	return parseWord[Severity](text, "a log severity", "alert", "warning", "notice", SeverityInfo, "debug")
}

// MarshalJSON writes a single port as a number, a range as a string.
func (r PortRange) MarshalJSON() ([]byte, error) {
	if r.First == r.Last {
		return []byte(r.String()), nil
	}
	return []byte(`"` + r.String() + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *PortRange) UnmarshalJSON(data []byte) error {
	text := string(data)
	if data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("port range: %w", err)
		}
	}
	return r.UnmarshalText([]byte(text))
}

// UnmarshalText reads a port range; as ParsePortRange.
func (r *PortRange) UnmarshalText(text []byte) (err error) {
	*r, err = ParsePortRange(string(text))
	return err
}

// UnmarshalText reads a MAC; as ParseMAC.
func (m *MAC) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMAC(string(text))
	return err
}

// UnmarshalText reads a protocol; as ParseProtocol.
func (p *Protocol) UnmarshalText(text []byte) (err error) {
	*p, err = ParseProtocol(string(text))
	return err
}

// UnmarshalText reads an action; as ParseAction.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAction(string(text))
	return err
}

// UnmarshalText reads a direction; as ParseDirection.
func (d *Direction) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDirection(string(text))
	return err
}

// UnmarshalText reads a severity; as ParseSeverity.
func (s *Severity) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSeverity(string(text))
	return err
}

// isDecimal holds for digits without a sign, spaces or leading zeros (which
// YAML 1.1 takes for octal).
func isDecimal(text string) bool {
	if text == "" || len(text) > 1 && text[0] == '0' {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }) < 0
}
