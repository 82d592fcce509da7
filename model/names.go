package model

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A rule of syntax says what is wrong with a text, "" if nothing.
type syntax func(text string) *fault

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
func digit(r rune) bool  { return r >= '0' && r <= '9' }

// only holds if every rune is a letter, a digit or one of the others.
func only(text, others string) bool {
	return strings.IndexFunc(text, func(r rune) bool {
		return !letter(r) && !digit(r) && !strings.ContainsRune(others, r)
	}) < 0
}

func alphanumericEnds(text string) bool {
	first, last := rune(text[0]), rune(text[len(text)-1])
	return (letter(first) || digit(first)) && (letter(last) || digit(last))
}

// isLabel is the syntax of RFC 1123, 2.1 for one label, either case.
func isLabel(text string) bool {
	return text != "" && len(text) <= 63 && only(text, "-") && alphanumericEnds(text)
}

func dnsLabel(text string) *fault {
	switch {
	case len(text) > 63:
		return &fault{fmt.Sprintf("%s has %d characters", quote(text), len(text)), "a DNS label has 1 to 63"}
	case !isLabel(text) || strings.ToLower(text) != text:
		return &fault{quote(text) + " is not a DNS label", "use lower-case letters, digits and hyphens, a letter or digit at both ends"}
	}
	return nil
}

// dnsName is a host or domain name (RFC 1123, 2.1), without a final dot.
func dnsName(text string) *fault {
	bad := len(text) > 253
	for _, label := range strings.Split(text, ".") {
		bad = bad || !isLabel(label)
	}
	if bad {
		return &fault{quote(text) + " is not a DNS name", "use labels of letters, digits and hyphens, joined by dots"}
	}
	return nil
}

// chassisName is the syntax of a chassis: it stands in a comma-separated list
// (ovn-nb(5), options:requested-chassis).
func chassisName(text string) *fault {
	return token(text, "a chassis name")
}

// token is printable ASCII without what ends or quotes a word in OVN's
// expressions and lists.
func token(text, what string) *fault {
	const refused = "\"'`\\,;{}()"
	bad := text == "" || len(text) > maxNameLen || strings.ContainsAny(text, refused) ||
		strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0
	if bad {
		return &fault{quote(text) + " is not " + what,
			fmt.Sprintf("use 1 to %d printable ASCII characters without spaces and without any of %s", maxNameLen, refused)}
	}
	return nil
}

// labelKey and labelValue are the syntax of Kubernetes
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/).
func labelKey(text string) *fault {
	name := text
	if prefix, rest, ok := strings.Cut(text, "/"); ok {
		if dnsName(prefix) != nil || strings.ToLower(prefix) != prefix {
			return &fault{quote(text) + " is not a label key", "before the slash stands a lower-case DNS name"}
		}
		name = rest
	}
	if name == "" || labelValue(name) != nil {
		return &fault{quote(text) + " is not a label key", "use 1 to 63 letters, digits, - _ and ., a letter or digit at both ends"}
	}
	return nil
}

func labelValue(text string) *fault {
	if text != "" && (len(text) > 63 || !only(text, "-_.") || !alphanumericEnds(text)) {
		return &fault{quote(text) + " is not a label value", "use at most 63 letters, digits, - _ and ., a letter or digit at both ends"}
	}
	return nil
}

func sentence(text string) *fault {
	if n := utf8.RuneCountInString(text); n > maxSentence {
		return &fault{fmt.Sprintf("has %d characters", n), fmt.Sprintf("use at most %d", maxSentence)}
	}
	if strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return &fault{quote(text) + " holds a control character", "write one line of text"}
	}
	return nil
}

// required and optional check the text of a field against a syntax.
func (c *checker) required(field, text string, rule syntax) {
	if text == "" {
		c.fault(field, "is missing", "give it")
		return
	}
	c.optional(field, text, rule)
}

func (c *checker) optional(field, text string, rule syntax) {
	if text == "" {
		return
	}
	if f := rule(text); f != nil {
		c.fault(field, f.problem, f.fix)
	}
}

// metadata checks the envelope.
func (c *checker) metadata() {
	meta := c.resource.Metadata
	c.required("metadata.name", meta.Name, dnsLabel)
	if !c.resource.Kind.Global() {
		c.required("metadata.vpc", meta.VPC, dnsLabel)
	}
	for _, key := range sortedKeys(meta.Labels) {
		field := member("metadata.labels", key)
		if f := labelKey(key); f != nil {
			c.fault(field, f.problem, f.fix)
		} else if f := labelValue(meta.Labels[key]); f != nil {
			c.fault(field, f.problem, f.fix)
		}
	}
}

// twice reports the elements of a list that stand in it before.
func twice[T comparable](c *checker, field string, list []T) {
	var zero T
	seen := make(map[T]int, len(list))
	for i, value := range list {
		if first, ok := seen[value]; ok {
			c.fault(index(field, i), fmt.Sprintf("%v is given twice, first in %s", value, c.written(index(field, first))), "remove one of them")
		} else if value != zero {
			seen[value] = i
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// quote and shorten keep a message short whatever the input holds.
func quote(text string) string { return fmt.Sprintf("%q", shorten(text)) }

func shorten(text string) string { return cut(text, 60) }

// Brief is what somebody else has written, or an error about it, as it is shown: cut
// where it is longer than what we write.
func Brief(text string) string { return cut(text, 300) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// suggest names the word that was probably meant, or else says otherwise.
func suggest(text string, words []string, otherwise string) string {
	if near := nearest(text, words); near != "" {
		return "did you mean " + near + "?"
	}
	return otherwise
}

// nearest is the word closest to a text, "" if none is close.
func nearest(text string, words []string) string {
	if len(text) > 64 {
		return ""
	}
	text = strings.ToLower(text)
	best, least := "", 2+len(text)/4
	for _, word := range words {
		if d := editDistance(text, strings.ToLower(word)); d < least {
			best, least = word, d
		}
	}
	return best
}

// editDistance is Levenshtein's: inserted, deleted and replaced bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
