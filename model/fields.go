package model

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// FieldDoc explains one field of a kind's documents.
type FieldDoc struct {
	Path string `json:"path"` // spec.rules[].ports
	Type string `json:"type"` // "list of prefixes"
	Doc  string `json:"doc"`  // meaning, unit and default
}

// FieldDocs explains the fields of a kind, parents before their parts, in the
// order in which documents are printed.
func FieldDocs(kind Kind) []FieldDoc {
	spec := NewSpec(kind)
	if spec == nil {
		return nil
	}
	var docs []FieldDoc
	add := func(root string, t reflect.Type) { docs = appendFields(docs, root, t) }
	add("metadata", reflect.TypeFor[Metadata]())
	add("spec", reflect.TypeOf(spec).Elem())
	return docs
}

func appendFields(docs []FieldDoc, parent string, t reflect.Type) []FieldDoc {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		path := parent + "." + name
		docs = append(docs, FieldDoc{Path: path, Type: typeName(field.Type), Doc: field.Tag.Get("doc")})
		inner := field.Type
		if inner.Kind() == reflect.Slice {
			inner, path = inner.Elem(), path+"[]"
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && typeName(inner) == "object" {
			docs = appendFields(docs, path, inner)
		}
	}
	return docs
}

func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[netip.Prefix]():
		return "prefix"
	case reflect.TypeFor[netip.Addr]():
		return "address"
	case reflect.TypeFor[AddrRange]():
		return "address or range"
	case reflect.TypeFor[PortRange]():
		return "port or range"
	case reflect.TypeFor[traffic.Set]():
		return "traffic"
	case reflect.TypeFor[MAC]():
		return "MAC"
	case reflect.TypeFor[Severity]():
		return "boolean or severity"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Map:
		return "mapping of texts"
	case reflect.Struct:
		return "object"
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "integer"
	case reflect.String:
		return "text"
	}
	return fmt.Sprint(t)
}
