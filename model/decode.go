package model

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// decoder reads YAML nodes into specs. Unlike yaml.Unmarshal it knows the
// place and path of every fault and goes on after it: an element that can't
// be read stays zero, so that paths still count right.
type decoder struct {
	file     string
	offset   int    // lines before the text the nodes count from
	resource string // as ID.String, once known
	report   func(Diagnostic)
	faulty   []string // paths of this document's faults
	types    map[reflect.Type][]property
}

// property is one field of a struct by its name in documents.
type property struct {
	name  string
	index int
}

// entry is one key of a mapping, merge keys resolved.
type entry struct {
	key   *yaml.Node
	value *yaml.Node
}

func (d *decoder) fault(n *yaml.Node, path, problem, fix string) {
	d.faulty = append(d.faulty, path)
	d.report(Diagnostic{
		Severity: LevelError, File: d.file, Line: n.Line + d.offset, Column: n.Column,
		Resource: d.resource, Field: path, Problem: problem, Fix: fix,
	})
}

// faultFrom reports an error of a parse function.
func (d *decoder) faultFrom(n *yaml.Node, path string, err error) {
	var f *fault
	if errors.As(err, &f) {
		d.fault(n, path, f.problem, f.fix)
		return
	}
	d.fault(n, path, err.Error(), "")
}

func (d *decoder) mismatch(n *yaml.Node, path, want, fix string) {
	d.fault(n, path, fmt.Sprintf("is %s where %s is expected", describe(n), want), fix)
}

// describe names what a node is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	names := map[string]string{"!!str": "the text", "!!int": "the number", "!!float": "the number", "!!bool": "the boolean", "!!timestamp": "the date"}
	if name, ok := names[n.ShortTag()]; ok {
		return name + " " + quote(n.Value)
	}
	if isNull(n) {
		return "null"
	}
	return "a value with tag " + quote(n.ShortTag())
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// entries are the keys of a mapping, those of merge keys last unless the
// mapping has them itself.
func (d *decoder) entries(n *yaml.Node, path string) []entry {
	if n = target(n); n.Kind != yaml.MappingNode {
		if !isNull(n) {
			d.mismatch(n, path, "a mapping", "write key: value pairs")
		}
		return nil
	}
	own := make([]entry, 0, len(n.Content)/2)
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := target(n.Content[i]), n.Content[i+1]
		switch first := seen[key.Value]; {
		case isMerge(key):
			merges = append(merges, value)
		case key.Kind != yaml.ScalarNode:
			d.fault(n.Content[i], path, "has a key that is "+describe(key), "keys are plain words")
		case first != nil:
			d.fault(n.Content[i], member(path, key.Value), fmt.Sprintf("key is given twice, first in line %d, column %d", first.Line+d.offset, first.Column), "remove one of them")
		default:
			seen[key.Value] = n.Content[i]
			own = append(own, entry{n.Content[i], value})
		}
	}
	for _, merge := range merges {
		for _, from := range mergeSources(merge) {
			if target(from).Kind != yaml.MappingNode {
				d.mismatch(from, member(path, "<<"), "a mapping or a list of mappings", "merge an alias of a mapping, as in <<: *name")
				continue
			}
			for _, e := range d.entries(from, path) {
				if name := target(e.key).Value; seen[name] == nil {
					seen[name] = e.key
					own = append(own, e)
				}
			}
		}
	}
	return own
}

// object reads a mapping into a struct whose defaults are set.
func (d *decoder) object(n *yaml.Node, path string, v reflect.Value) {
	properties := d.properties(v.Type())
	for _, e := range d.entries(n, path) {
		name := target(e.key).Value
		at := -1
		for _, p := range properties {
			if p.name == name {
				at = p.index
				break
			}
		}
		if at < 0 {
			names := make([]string, len(properties))
			for i, p := range properties {
				names[i] = p.name
			}
			d.unknown(e.key, path, name, names)
			continue
		}
		d.value(e.value, member(path, name), v.Field(at))
	}
}

func (d *decoder) unknown(key *yaml.Node, path, name string, known []string) {
	d.fault(key, member(path, name), "unknown field", suggest(name, known, "known are "+strings.Join(known, ", ")))
}

func (d *decoder) properties(t reflect.Type) []property {
	if known, ok := d.types[t]; ok {
		return known
	}
	var list []property
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		list = append(list, property{name, i})
	}
	d.types[t] = list
	return list
}

// value reads a node into a field; null leaves the default.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	if n = target(n); isNull(n) {
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *netip.Prefix:
		parse := ParsePrefix
		if strings.HasPrefix(path, "spec.allowedAddresses") {
			parse = parseHostPrefix
		}
		text(d, n, path, p, parse)
		return
	case *netip.Addr:
		text(d, n, path, p, ParseAddr)
		return
	case *AddrRange:
		text(d, n, path, p, ParseAddrRange)
		return
	case *PortRange:
		text(d, n, path, p, ParsePortRange)
		return
	case *Protocol:
		text(d, n, path, p, ParseProtocol)
		return
	case *MAC:
		text(d, n, path, p, ParseMAC)
		return
	case *Action:
		text(d, n, path, p, ParseAction)
		return
	case *Direction:
		text(d, n, path, p, ParseDirection)
		return
	case *traffic.Set:
		text(d, n, path, p, traffic.Parse)
		return
	case *Severity:
		d.severity(n, path, p)
		return
	case *map[string]string:
		d.texts(n, path, p)
		return
	}
	d.plain(n, path, v)
}

// plain reads a node into a field whose type has no form of its own.
func (d *decoder) plain(n *yaml.Node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		d.object(n, path, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setDefaults(v)
		d.value(n, path, v.Elem())
	case reflect.Slice:
		d.list(n, path, v)
	case reflect.String:
		d.str(n, path, v)
	case reflect.Bool:
		d.boolean(n, path, v)
	case reflect.Int:
		d.integer(n, path, v)
	default:
		d.fault(n, path, "can't be read: no reader for "+v.Type().String(), "")
	}
}

func setDefaults(pointer reflect.Value) {
	if s, ok := pointer.Interface().(defaulter); ok {
		s.setDefaults()
	}
}

// maxElements bounds a list: some checks compare each element with each other.
const maxElements = 10_000

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.mismatch(n, path, "a list", "write [ ] around it")
		return
	}
	most := maxElements
	if v.Type() == reflect.TypeFor[[]Rule]() {
		most = 4 * MaxRules // the check of rules says what is too many of a direction
	}
	if len(n.Content) > most {
		d.fault(n, path, fmt.Sprintf("has %d elements", len(n.Content)), fmt.Sprintf("at most %d", most))
		return
	}
	if len(n.Content) == 0 {
		v.SetZero()
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, element := range n.Content {
		setDefaults(v.Index(i).Addr())
		at := index(path, i)
		if isNull(target(element)) {
			d.fault(element, at, "is empty", "give a value or remove it")
			continue
		}
		d.value(element, at, v.Index(i))
	}
}

// text reads a scalar whose written form is parsed.
func text[T any](d *decoder, n *yaml.Node, path string, into *T, parse func(string) (T, error)) {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!timestamp":
	default:
		d.mismatch(n, path, "a text", "write it as text")
		return
	}
	value, err := parse(n.Value)
	if err != nil {
		d.faultFrom(n, path, err)
		return
	}
	*into = value
}

func (d *decoder) str(n *yaml.Node, path string, v reflect.Value) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		v.SetString(n.Value)
	case "!!int", "!!float", "!!bool":
		d.mismatch(n, path, "a text", "put it in quotes")
	default:
		d.mismatch(n, path, "a text", "write it as text")
	}
}

func (d *decoder) boolean(n *yaml.Node, path string, v reflect.Value) {
	if n.ShortTag() != "!!bool" {
		d.mismatch(n, path, "true or false", "write true or false, without quotes")
		return
	}
	v.SetBool(strings.EqualFold(n.Value, "true"))
}

func (d *decoder) integer(n *yaml.Node, path string, v reflect.Value) {
	switch digits := strings.TrimPrefix(n.Value, "-"); {
	case n.ShortTag() == "!!str":
		d.mismatch(n, path, "a number", "write digits, without quotes")
		return
	case n.ShortTag() != "!!int" && n.ShortTag() != "!!float" || !isDecimal(digits):
		d.mismatch(n, path, "a whole number", "write decimal digits, without leading zeros")
		return
	}
	value, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || value < -math.MaxUint32 || value > math.MaxUint32 {
		d.fault(n, path, quote(n.Value)+" is out of range", "give a smaller number")
		return
	}
	v.SetInt(value)
}

func (d *decoder) severity(n *yaml.Node, path string, into *Severity) {
	if n.ShortTag() != "!!bool" {
		text(d, n, path, into, ParseSeverity)
		return
	}
	*into = ""
	if strings.EqualFold(n.Value, "true") {
		*into = SeverityInfo
	}
}

// texts reads a mapping of texts. Numbers, booleans and lists are taken as
// they are written, for the values of DHCP options; labels want texts.
func (d *decoder) texts(n *yaml.Node, path string, into *map[string]string) {
	entries := d.entries(n, path)
	if len(entries) == 0 {
		return
	}
	*into = make(map[string]string, len(entries))
	for _, e := range entries {
		name := target(e.key).Value
		at := member(path, name)
		if path != "metadata.labels" {
			if value, ok := d.scalars(target(e.value), at); ok {
				(*into)[name] = value
			}
			continue
		}
		var value string
		d.value(e.value, at, reflect.ValueOf(&value).Elem())
		(*into)[name] = value
	}
}

// scalars reads a scalar, or a list of them as one text joined by commas.
func (d *decoder) scalars(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		return n.Value, true
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.mismatch(n, path, "a value or a list of values", "give a value, or remove the option")
		return "", false
	}
	values := make([]string, len(n.Content))
	for i, element := range n.Content {
		element = target(element)
		if element.Kind != yaml.ScalarNode || isNull(element) {
			d.mismatch(element, index(path, i), "a value", "give a value or remove it")
			return "", false
		}
		values[i] = element.Value
	}
	return strings.Join(values, ","), true
}
