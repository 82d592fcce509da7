package nbdb

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Schema is what a server's database has: OVN adds columns and tables from
// version to version, and only what the server has may be written.
type Schema struct {
	db ovsdb.DatabaseSchema
}

// ParseSchema reads a schema in its JSON form (RFC 7047, 3.2), the form of
// the *.ovsschema files.
func ParseSchema(text []byte) (*Schema, error) {
	var db ovsdb.DatabaseSchema
	if err := json.Unmarshal(text, &db); err != nil {
		return nil, fmt.Errorf("parsing a database schema: %w", err)
	}
	return &Schema{db: db}, nil
}

// Name is the database's name, such as OVN_Northbound.
func (s *Schema) Name() string { return s.db.Name }

// Version is the schema's version, such as 7.0.0; not the version of OVN. Of
// no schema it is "".
func (s *Schema) Version() string {
	if s == nil {
		return ""
	}
	return s.db.Version
}

// Has says whether the server has the column, or with an empty column the table.
func (s *Schema) Has(table, column string) bool {
	return s.column(table, column) != nil || column == "" && s.db.Table(table) != nil
}

func (s *Schema) column(table, column string) *ovsdb.ColumnSchema {
	t, ok := s.db.Tables[table]
	if !ok {
		return nil
	}
	if column == columnUUID {
		return &ovsdb.UUIDColumn
	}
	return t.Columns[column]
}

// encode is the value on the wire; ok is false where the server lacks the
// column and the value is its default, so that there is nothing to write.
func (s *Schema) encode(table, column string, value any) (wire any, ok bool, err error) {
	c := s.column(table, column)
	if c == nil {
		if isDefault(value) && s.Has(table, "") {
			return nil, false, nil
		}
		if !s.Has(table, "") {
			column = ""
		}
		return nil, false, &FeatureError{Table: table, Column: column, Schema: s.Version(), Since: since(table, column)}
	}
	wire, err = toWire(c, value)
	if err != nil {
		return nil, false, fmt.Errorf("table %s, column %s: %w", table, column, err)
	}
	return wire, true, nil
}

// present are those of a type's columns that the server has.
func (s *Schema) present(t *rowType) []string {
	var columns []string
	for _, f := range t.fields {
		if s.Has(t.table, f.column) {
			columns = append(columns, f.column)
		}
	}
	return columns
}

// since is the OVN version that brought a column or a table, as the release
// notes (NEWS in OVN's source) say; empty where it is older than those here.
func since(table, column string) string {
	switch table {
	case "Load_Balancer_Group":
		return "21.12"
	case "Sample", "Sample_Collector", "Sampling_App":
		return "24.09"
	}
	switch table + "." + column {
	case "ACL.label":
		return "21.09"
	case "Logical_Switch.load_balancer_group", "Logical_Router.load_balancer_group":
		return "21.12"
	case "ACL.options":
		return "22.03"
	case "ACL.tier":
		return "23.06"
	case "ACL.sample_new", "ACL.sample_est":
		return "24.09"
	}
	return ""
}

// equalValues compares two canonical values.
func equalValues(a, b any) bool {
	switch x := a.(type) {
	case []string, map[string]string:
		return reflect.DeepEqual(a, b)
	default:
		return x == b
	}
}
