package nbdb

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Binding says where a logical port is (ovn-sb(5), Port_Binding).
type Binding struct {
	LogicalPort       string
	Chassis           string   // name of the chassis that has it, "" for none
	AdditionalChassis []string // names of others that have it, while it migrates
	RequestedChassis  string   // name of the chassis asked for, "" for none or an unknown one
	Up                bool
}

// Chassis is a hypervisor or gateway (ovn-sb(5), Chassis).
type Chassis struct {
	Name       string // system-id
	Hostname   string
	EncapTypes []string // such as geneve, vxlan; sorted
}

type portBinding struct {
	LogicalPort string `ovsdb:"logical_port"`
	Chassis     *UUID  `ovsdb:"chassis"`
	Additional  []UUID `ovsdb:"additional_chassis"`
	Requested   *UUID  `ovsdb:"requested_chassis"`
	Up          *bool  `ovsdb:"up"`
}

type chassisRow struct {
	UUID     UUID   `ovsdb:"_uuid"`
	Name     string `ovsdb:"name"`
	Hostname string `ovsdb:"hostname"`
	Encaps   []UUID `ovsdb:"encaps"`
}

type encapRow struct {
	UUID UUID   `ovsdb:"_uuid"`
	Type string `ovsdb:"type"`
}

// manyPorts is from how many ports on the whole table is read at once: a
// select by name scans the table each time.
const manyPorts = 8

// ReadBindings reads the bindings of logical ports by name, of all ports when
// none is named. Ports without a binding are missing from the result. For a
// client of the Southbound.
func (c *Client) ReadBindings(ctx context.Context, ports ...string) (map[string]Binding, error) {
	bindings, chassis := southboundType[portBinding]("Port_Binding"), southboundType[chassisRow]("Chassis")
	results, err := c.selects(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		ops := []ovsdb.Operation{selectAll(s, chassis)}
		if len(ports) == 0 || len(ports) >= manyPorts {
			return append(ops, selectAll(s, bindings)), nil
		}
		for _, port := range ports {
			op := selectAll(s, bindings)
			op.Where = []ovsdb.Condition{{Column: "logical_port", Function: ovsdb.ConditionEqual, Value: port}}
			ops = append(ops, op)
		}
		return ops, nil
	})
	if err != nil {
		return nil, err
	}
	known, err := decodeAll[chassisRow](chassis, results[0].Rows)
	if err != nil {
		return nil, err
	}
	names := map[UUID]string{}
	for _, ch := range known {
		names[ch.UUID] = ch.Name
	}
	wanted := map[string]Binding{}
	for _, result := range results[1:] {
		rows, err := decodeAll[portBinding](bindings, result.Rows)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if len(ports) == 0 || slices.Contains(ports, row.LogicalPort) {
				wanted[row.LogicalPort] = row.binding(names)
			}
		}
	}
	return wanted, nil
}

func (row portBinding) binding(names map[UUID]string) Binding {
	b := Binding{LogicalPort: row.LogicalPort, Up: row.Up != nil && *row.Up}
	if row.Chassis != nil {
		b.Chassis = names[*row.Chassis]
	}
	if row.Requested != nil {
		b.RequestedChassis = names[*row.Requested]
	}
	for _, uuid := range row.Additional {
		b.AdditionalChassis = append(b.AdditionalChassis, names[uuid])
	}
	slices.Sort(b.AdditionalChassis)
	return b
}

// ReadChassis reads all chassis, ordered by name. For a client of the Southbound.
func (c *Client) ReadChassis(ctx context.Context) ([]Chassis, error) {
	chassis, encaps := southboundType[chassisRow]("Chassis"), southboundType[encapRow]("Encap")
	results, err := c.selects(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		return []ovsdb.Operation{selectAll(s, chassis), selectAll(s, encaps)}, nil
	})
	if err != nil {
		return nil, err
	}
	rows, err := decodeAll[chassisRow](chassis, results[0].Rows)
	if err != nil {
		return nil, err
	}
	tunnels, err := decodeAll[encapRow](encaps, results[1].Rows)
	if err != nil {
		return nil, err
	}
	types := map[UUID]string{}
	for _, e := range tunnels {
		types[e.UUID] = e.Type
	}
	all := make([]Chassis, 0, len(rows))
	for _, row := range rows {
		ch := Chassis{Name: row.Name, Hostname: row.Hostname}
		for _, e := range row.Encaps {
			ch.EncapTypes = append(ch.EncapTypes, types[e])
		}
		ch.EncapTypes = canonicalSet(ch.EncapTypes)
		all = append(all, ch)
	}
	slices.SortFunc(all, func(a, b Chassis) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// progressRow says how far a chassis has come: a row of Chassis_Private, or of
// Chassis before OVN 20.09.
type progressRow struct {
	Name  string `ovsdb:"name"`
	NbCfg int    `ovsdb:"nb_cfg"`
}

// ReadBehind names the chassis that have not carried out what was committed
// with nbCfg, sorted. For a client of the Southbound.
func (c *Client) ReadBehind(ctx context.Context, nbCfg int) ([]string, error) {
	t := southboundType[progressRow]("Chassis_Private")
	results, err := c.selects(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		if !s.Has(t.table, "") {
			t.table = tableChassis
		}
		return []ovsdb.Operation{selectAll(s, t)}, nil
	})
	if err != nil {
		return nil, err
	}
	rows, err := decodeAll[progressRow](t, results[0].Rows)
	if err != nil {
		return nil, err
	}
	var behind []string
	for _, row := range rows {
		if row.NbCfg < nbCfg {
			behind = append(behind, row.Name)
		}
	}
	slices.Sort(behind)
	return behind, nil
}

func southboundType[T any](table string) *rowType {
	t := newRowType(reflect.TypeFor[T]())
	t.table = table
	return t
}

func selectAll(s *Schema, t *rowType) ovsdb.Operation {
	return ovsdb.Operation{Op: ovsdb.OperationSelect, Table: t.table, Columns: s.present(t)}
}

func decodeAll[T any](t *rowType, raw json.RawMessage) ([]T, error) {
	var rows []T
	s := newScanner(raw, nil)
	s.array(func() {
		var row T
		t.read(s, &row)
		rows = append(rows, row)
	})
	if s.err != nil {
		return nil, fmt.Errorf("reading the southbound database: %w", s.err)
	}
	return rows, nil
}
