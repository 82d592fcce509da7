package nbdb

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// A column's value has one of these canonical forms: string, int, bool,
// []string (a set: sorted, without repetition, never nil), map[string]string
// (never nil), or nil for an optional column that is empty. A reference is
// its UUID as a string.

// kind is the shape of a field, and with it of its column.
type kind int

const (
	kindString kind = iota
	kindInt
	kindBool
	kindSet
	kindMap
	kindOptString
	kindOptBool
	kindOptInt
)

// role says what the project does with a column; see Row.
type role string

const (
	roleOwned  role = ""
	roleEdges  role = "edges"
	roleStatus role = "status"
)

const (
	columnUUID        = "_uuid"
	columnExternalIDs = "external_ids"
)

// field ties a struct field to its column.
type field struct {
	column string
	index  int
	kind   kind
	role   role
	seldom bool // it is empty in most rows
	ref    bool // the values are UUIDs
}

// rowType is the field table of one struct type, in the struct's order.
type rowType struct {
	table  string
	typ    reflect.Type // the struct
	fields []field
	named  map[string]int // column -> index in fields
	rank   int            // the table's place in plans and dumps
}

// rowTypes has the field table of every row type, by table name. It is
// computed once and constant from then on.
func rowTypes() map[string]*rowType { return rowTypesOnce() }

var rowTypesOnce = sync.OnceValue(func() map[string]*rowType {
	// The order is that of plans and dumps: containers before what they hold.
	rows := []Row{
		&NBGlobal{}, &LogicalRouter{}, &LogicalRouterPort{}, &LogicalRouterPolicy{},
		&LogicalSwitch{}, &PortGroup{}, &ACL{}, &DHCPOptions{}, &LogicalSwitchPort{},
	}
	types := make(map[string]*rowType, len(rows))
	for rank, r := range rows {
		t := newRowType(reflect.TypeOf(r).Elem())
		t.table, t.rank = r.Table(), rank
		types[t.table] = t
	}
	return types
})

// newRowType reads the tags of a struct type. A field of a type that no
// column has is a mistake in the program, hence the panic.
func newRowType(typ reflect.Type) *rowType {
	t := &rowType{typ: typ, named: map[string]int{}}
	for i := range typ.NumField() {
		sf := typ.Field(i)
		k, ok := kindOf(sf.Type)
		if !ok {
			panic(fmt.Sprintf("nbdb: no column has the type of %s.%s", typ.Name(), sf.Name))
		}
		f := field{column: sf.Tag.Get("ovsdb"), index: i, kind: k, role: role(sf.Tag.Get("role")), seldom: sf.Tag.Get("seldom") != ""}
		elem := sf.Type
		if elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
			elem = elem.Elem()
		}
		f.ref = elem == reflect.TypeFor[UUID]()
		t.named[f.column] = len(t.fields)
		t.fields = append(t.fields, f)
	}
	return t
}

func kindOf(t reflect.Type) (kind, bool) {
	switch t.Kind() {
	case reflect.String:
		return kindString, true
	case reflect.Int:
		return kindInt, true
	case reflect.Bool:
		return kindBool, true
	case reflect.Slice:
		return kindSet, t.Elem().Kind() == reflect.String
	case reflect.Map:
		return kindMap, t == reflect.TypeFor[map[string]string]()
	case reflect.Pointer:
		switch t.Elem().Kind() {
		case reflect.String:
			return kindOptString, true
		case reflect.Bool:
			return kindOptBool, true
		case reflect.Int:
			return kindOptInt, true
		}
	}
	return 0, false
}

// typeOf is the field table of a row. Row is a closed set of types, so a
// table without one is a mistake in the program.
func typeOf(r Row) *rowType {
	t, ok := rowTypes()[r.Table()]
	if !ok {
		panic("nbdb: no row type for table " + r.Table())
	}
	return t
}

// get reads a field in canonical form.
func (f field) get(structure reflect.Value) any {
	v := structure.Field(f.index)
	switch f.kind {
	case kindString:
		return v.String()
	case kindInt:
		return int(v.Int())
	case kindBool:
		return v.Bool()
	case kindMap:
		if v.Len() == 0 {
			return map[string]string{}
		}
		return v.Interface().(map[string]string)
	case kindSet:
		set := make([]string, v.Len())
		for i := range set {
			set[i] = v.Index(i).String()
		}
		return canonicalSet(set)
	}
	if v.IsNil() {
		return nil
	}
	switch f.kind {
	case kindOptBool:
		return v.Elem().Bool()
	case kindOptInt:
		return int(v.Elem().Int())
	default:
		return v.Elem().String()
	}
}

// set writes a canonical value into a field.
func (f field) set(structure reflect.Value, value any) error {
	v := structure.Field(f.index)
	if value == nil {
		v.SetZero()
		return nil
	}
	ok := true
	switch f.kind {
	case kindString, kindOptString:
		var s string
		if s, ok = value.(string); ok {
			target(v).SetString(s)
		}
	case kindInt, kindOptInt:
		var n int
		if n, ok = value.(int); ok {
			target(v).SetInt(int64(n))
		}
	case kindBool, kindOptBool:
		var b bool
		if b, ok = value.(bool); ok {
			target(v).SetBool(b)
		}
	case kindMap:
		var m map[string]string
		if m, ok = value.(map[string]string); ok {
			if len(m) == 0 {
				m = nil
			}
			v.Set(reflect.ValueOf(m))
		}
	case kindSet:
		var set []string
		if set, ok = value.([]string); ok {
			f.setSlice(v, set)
		}
	}
	if !ok {
		return fmt.Errorf("column %s: unexpected value %#v", f.column, value)
	}
	return nil
}

func (f field) setSlice(v reflect.Value, set []string) {
	if len(set) == 0 {
		v.SetZero()
		return
	}
	if same, ok := v.Addr().Interface().(*[]string); ok {
		*same = set
		return
	}
	slice := reflect.MakeSlice(v.Type(), len(set), len(set))
	for i, s := range set {
		slice.Index(i).SetString(s)
	}
	v.Set(slice)
}

// target is the value to set: for a pointer field what it points to from now on.
func target(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Pointer {
		return v
	}
	v.Set(reflect.New(v.Type().Elem()))
	return v.Elem()
}

func canonicalSet(set []string) []string {
	slices.Sort(set)
	return slices.Compact(set)
}

// isDefault says whether a canonical value is what a column holds that an
// insert doesn't mention (RFC 7047, 5.2.1).
func isDefault(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case int:
		return v == 0
	case bool:
		return !v
	case []string:
		return len(v) == 0
	case map[string]string:
		return len(v) == 0
	}
	return false
}

// Columns are the values of a row in canonical form, by column: everything
// but the UUID and what is at its default.
func Columns(r Row) map[string]any {
	t := typeOf(r)
	columns := map[string]any{}
	v := reflect.ValueOf(r).Elem()
	for _, f := range t.fields {
		value := f.get(v)
		if f.column != columnUUID && f.matters(value) {
			columns[f.column] = value
		}
	}
	return columns
}

func (f field) optional() bool { return f.kind >= kindOptString }

// matters says whether a value differs from the column's default. An optional
// column that holds "", 0 or false isn't empty.
func (f field) matters(value any) bool {
	return value != nil && (f.optional() || !isDefault(value))
}

// EdgesOf are the references that stand in the row's role:"edges" columns.
func EdgesOf(r Row) []Edge {
	t := typeOf(r)
	v := reflect.ValueOf(r).Elem()
	var edges []Edge
	for _, f := range t.fields {
		if f.role != roleEdges {
			continue
		}
		for _, target := range f.get(v).([]string) {
			edges = append(edges, Edge{Table: t.table, From: r.ID(), Column: f.column, Target: UUID(target)})
		}
	}
	return edges
}

// toWire prepares a canonical value for a column of the server's schema to be sent.
func toWire(column *ovsdb.ColumnSchema, value any) (any, error) {
	reference := column.Type == ovsdb.TypeUUID ||
		column.TypeObj != nil && column.TypeObj.Key != nil && column.TypeObj.Key.Type == ovsdb.TypeUUID
	switch v := value.(type) {
	case nil:
		return wireTexts{}, nil
	case string:
		if reference {
			return [2]string{"uuid", v}, nil
		}
		return v, nil
	case int, bool:
		return v, nil
	case []string:
		if !reference {
			return wireTexts(v), nil
		}
		return wireRefs[string](v), nil
	case map[string]string:
		return wireMap(v), nil
	}
	return nil, fmt.Errorf("unexpected value %#v", value)
}
