package traffic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Parse reads what String writes, and tcp/22 for tcp 22.
func Parse(text string) (Set, error) {
	rest, all := strings.CutPrefix(strings.TrimSpace(text), "all")
	rest = strings.TrimSpace(rest)
	if all && rest == "" {
		return All(), nil
	}
	but, negated := strings.CutPrefix(rest, "but ")
	switch {
	case all && !negated:
		return Set{}, fmt.Errorf("%q: after all comes nothing, or but and what is left out", text)
	case negated && !all:
		return Set{}, fmt.Errorf("%q: before but comes all", text)
	case rest == "none":
		return Set{}, nil
	case all:
		rest = but
	}
	var s Set
	for c := range strings.SplitSeq(rest, ";") {
		one, err := parseClause(strings.TrimSpace(c))
		if err != nil {
			return Set{}, fmt.Errorf("traffic %q: %w", text, err)
		}
		s = s.Union(one)
	}
	if all {
		return All().Minus(s), nil
	}
	return s, nil
}

// UnmarshalText reads a set; as Parse.
func (s *Set) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

func parseClause(text string) (Set, error) {
	for _, f := range Families() {
		rest, ok := strings.CutPrefix(text, f.String())
		if ok && rest == "" {
			return All().Only(f), nil
		}
		if ok && rest[0] == ' ' {
			s, err := parseClause(strings.TrimSpace(rest))
			return s.Only(f), err
		}
	}
	name, rest := text, ""
	if i := strings.IndexAny(text, " /"); i >= 0 {
		name, rest = text[:i], strings.TrimSpace(text[i+1:])
		if rest == "" {
			return Set{}, fmt.Errorf("%q lacks what comes after %s", text, name)
		}
	}
	switch name {
	case "tcp":
		return parseItems(TCP, Protocol(TCP), rest, portItem(TCP))
	case "udp":
		return parseItems(UDP, Protocol(UDP), rest, portItem(UDP))
	case "sctp":
		return parseItems(SCTP, Protocol(SCTP), rest, portItem(SCTP))
	case "icmp":
		return parseItems(ICMP, Protocol(ICMP).Only(IPv4), rest, icmpItem(IPv4))
	case "icmpv6":
		return parseItems(ICMPv6, Protocol(ICMPv6).Only(IPv6), rest, icmpItem(IPv6))
	case "protocol":
		return parseProtocols(rest)
	}
	return Set{}, fmt.Errorf("%q starts with none of tcp, udp, sctp, icmp, icmpv6, protocol, ipv4, ipv6", text)
}

func parseItems(protocol uint8, whole Set, text string, item func(string) (Set, error)) (Set, error) {
	switch text {
	case "":
		return whole, nil
	case "unfragmented":
		return whole.Minus(Fragments(protocol)), nil
	}
	var s Set
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "fragments" {
			s = s.Union(Fragments(protocol).Intersect(whole))
			continue
		}
		one, err := item(word)
		if err != nil {
			return Set{}, err
		}
		s = s.Union(one)
	}
	return s, nil
}

func portItem(protocol uint8) func(string) (Set, error) {
	return func(word string) (Set, error) {
		first, last, err := parseRange(word, "a port", values-1)
		return Ports(protocol, uint16(first), uint16(last)), err
	}
}

// icmpItem reads echo, 8, 3-5, 3/1 and unreachable/0-3.
func icmpItem(f Family) func(string) (Set, error) {
	return func(word string) (Set, error) {
		kind, code, coded := strings.Cut(word, "/")
		first, named := typeNames(f)[kind]
		last := first
		if !named {
			a, b, err := parseRange(kind, "an ICMP type", 255)
			if err != nil {
				return Set{}, err
			}
			first, last = uint8(a), uint8(b)
		}
		if !coded {
			return ICMPTypes(f, first, last), nil
		}
		if first != last {
			return Set{}, fmt.Errorf("%q: a code belongs to one type", word)
		}
		a, b, err := parseRange(code, "an ICMP code", 255)
		return ICMPCodes(f, first, uint8(a), uint8(b)), err
	}
}

func parseProtocols(text string) (Set, error) {
	words := strings.Fields(text)
	suffix := ""
	if n := len(words); n > 1 && slices.Contains([]string{"fragments", "unfragmented"}, words[n-1]) {
		suffix = words[n-1]
		text = strings.TrimSuffix(strings.TrimSpace(text), suffix)
	}
	var s Set
	for word := range strings.SplitSeq(text, ",") {
		first, last, err := parseRange(strings.TrimSpace(word), "a protocol", 255)
		if err != nil {
			return Set{}, err
		}
		for p := first; p <= last; p++ {
			one := Protocol(uint8(p))
			switch suffix {
			case "fragments":
				one = Fragments(uint8(p))
			case "unfragmented":
				one = one.Minus(Fragments(uint8(p)))
			}
			s = s.Union(one)
		}
	}
	return s, nil
}

func parseRange(text, what string, most uint64) (first, last uint64, err error) {
	low, high, ranged := strings.Cut(text, "-")
	if !ranged {
		high = low
	}
	first, err = strconv.ParseUint(low, 10, 32)
	if err == nil {
		last, err = strconv.ParseUint(high, 10, 32)
	}
	if err != nil || last > most || first > last {
		return 0, 0, fmt.Errorf("%q is not %s or a range of them, 0 to %d", text, what, most)
	}
	return first, last, nil
}
