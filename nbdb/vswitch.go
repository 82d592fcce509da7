package nbdb

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// OpenVSwitch is the database of a hypervisor's Open vSwitch.
const OpenVSwitch = "Open_vSwitch"

// VSwitch is what a hypervisor's Open vSwitch is told to be
// (ovs-vswitchd.conf.db(5)).
type VSwitch struct {
	ExternalIDs map[string]string // of the one row of Open_vSwitch: system-id, ovn-remote
	Bridges     map[string]Bridge // by name
}

// Bridge is a bridge with its interfaces.
type Bridge struct {
	Datapath    string // datapath_type: "" or system for the kernel's, netdev for the userspace one
	ExternalIDs map[string]string
	Interfaces  []Interface
}

// Interface is an interface of a bridge, and its port's only one unless the
// port is a bond.
type Interface struct {
	UUID        UUID
	Port        UUID
	Name        string
	Type        string // "" for one of the kernel's, internal
	ExternalIDs map[string]string
	OFPort      int    // 0: ovs-vswitchd has not opened it, negative: it failed
	Error       string // why it failed
}

type vswitchRow struct {
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type bridgeRow struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Datapath    string            `ovsdb:"datapath_type"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	Ports       []UUID            `ovsdb:"ports"`
}

type portRow struct {
	UUID       UUID   `ovsdb:"_uuid"`
	Interfaces []UUID `ovsdb:"interfaces"`
}

type interfaceRow struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Type        string            `ovsdb:"type"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	OFPort      *int              `ovsdb:"ofport"`
	Error       *string           `ovsdb:"error"`
}

// ReadVSwitch reads one consistent state of a hypervisor's Open vSwitch. For a
// client of OpenVSwitch, as the methods below.
func (c *Client) ReadVSwitch(ctx context.Context) (*VSwitch, error) {
	root, bridge := southboundType[vswitchRow](OpenVSwitch), southboundType[bridgeRow]("Bridge")
	port, iface := southboundType[portRow]("Port"), southboundType[interfaceRow]("Interface")
	results, err := c.selects(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		return []ovsdb.Operation{selectAll(s, root), selectAll(s, bridge), selectAll(s, port), selectAll(s, iface)}, nil
	})
	if err != nil {
		return nil, err
	}
	roots, err := decodeAll[vswitchRow](root, results[0].Rows)
	if err != nil {
		return nil, err
	}
	if len(roots) != 1 {
		return nil, fmt.Errorf("table %s has %d rows instead of one: Open vSwitch is not initialised", OpenVSwitch, len(roots))
	}
	bridges, err := decodeAll[bridgeRow](bridge, results[1].Rows)
	if err != nil {
		return nil, err
	}
	ports, err := decodeAll[portRow](port, results[2].Rows)
	if err != nil {
		return nil, err
	}
	interfaces, err := decodeAll[interfaceRow](iface, results[3].Rows)
	if err != nil {
		return nil, err
	}
	return joined(roots[0], bridges, ports, interfaces), nil
}

func joined(root vswitchRow, bridges []bridgeRow, ports []portRow, interfaces []interfaceRow) *VSwitch {
	in := map[UUID][]UUID{}
	for _, p := range ports {
		in[p.UUID] = p.Interfaces
	}
	by := map[UUID]interfaceRow{}
	for _, i := range interfaces {
		by[i.UUID] = i
	}
	v := &VSwitch{ExternalIDs: root.ExternalIDs, Bridges: map[string]Bridge{}}
	for _, b := range bridges {
		bridge := Bridge{Datapath: b.Datapath, ExternalIDs: b.ExternalIDs}
		for _, p := range b.Ports {
			for _, uuid := range in[p] {
				row := by[uuid]
				i := Interface{UUID: uuid, Port: p, Name: row.Name, Type: row.Type, ExternalIDs: row.ExternalIDs}
				if row.OFPort != nil {
					i.OFPort = *row.OFPort
				}
				if row.Error != nil {
					i.Error = *row.Error
				}
				bridge.Interfaces = append(bridge.Interfaces, i)
			}
		}
		v.Bridges[b.Name] = bridge
	}
	return v
}

// ReadInterfaceIDs reads the external_ids of an interface, nil where it is gone.
func (c *Client) ReadInterfaceIDs(ctx context.Context, uuid UUID) (map[string]string, error) {
	t := southboundType[interfaceRow]("Interface")
	results, err := c.selects(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		op := selectAll(s, t)
		op.Where = isRow(uuid)
		return []ovsdb.Operation{op}, nil
	})
	if err != nil {
		return nil, err
	}
	rows, err := decodeAll[interfaceRow](t, results[0].Rows)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0].ExternalIDs, nil
}

// NewInterface is an interface to add to a bridge.
type NewInterface struct {
	Name        string
	Type        string
	MAC         string // for type internal: the address of the port itself; "" leaves it to Open vSwitch
	MTU         int    // for type internal, in bytes; 0 likewise
	ExternalIDs map[string]string
}

// AddInterface adds an interface in a port of its own. A port or interface of
// that name, on any bridge, is a *ConstraintError, a bridge that isn't there a
// *ConflictError, both with nothing written.
func (c *Client) AddInterface(ctx context.Context, bridge string, i NewInterface) error {
	row := ovsdb.Row{"name": i.Name, "type": i.Type, columnExternalIDs: wireMap(i.ExternalIDs)}
	if i.MAC != "" {
		row["mac"] = i.MAC
	}
	if i.MTU > 0 {
		row["mtu_request"] = i.MTU
	}
	return c.change(ctx, func() []step {
		return []step{
			{what: "bridge " + bridge, op: wait("Bridge", named(bridge), []string{"name"}, ovsdb.WaitConditionEqual, ovsdb.Row{"name": bridge})},
			{what: "interface " + i.Name, op: ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Interface", Row: row, UUIDName: "interface"}},
			{what: "port " + i.Name, op: ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Port", UUIDName: "port",
				Row: ovsdb.Row{"name": i.Name, "interfaces": [2]string{"named-uuid", "interface"}}}},
			{what: "bridge " + bridge, op: ovsdb.Operation{Op: ovsdb.OperationMutate, Table: "Bridge", Where: named(bridge),
				Mutations: []ovsdb.Mutation{{Column: "ports", Mutator: ovsdb.MutateOperationInsert, Value: [2]string{"named-uuid", "port"}}}}},
		}
	})
}

// SetInterface sets keys of an interface's external_ids, and removes those
// whose value is "". Other keys stay. It is a *ConflictError if by now the
// interface does not hold the pairs of mine.
func (c *Client) SetInterface(ctx context.Context, uuid UUID, mine, set map[string]string) error {
	return c.change(ctx, func() []step {
		return []step{held(uuid, mine), {what: "interface " + string(uuid), op: ovsdb.Operation{
			Op: ovsdb.OperationMutate, Table: "Interface", Where: isRow(uuid), Mutations: settingIDs(set)}}}
	})
}

// SetBridge sets and removes keys of a bridge's external_ids in the same way,
// if there is a bridge of that name.
func (c *Client) SetBridge(ctx context.Context, bridge string, set map[string]string) error {
	return c.change(ctx, func() []step { return []step{setBridge(bridge, set)} })
}

func setBridge(bridge string, set map[string]string) step {
	return step{what: "bridge " + bridge, op: ovsdb.Operation{Op: ovsdb.OperationMutate, Table: "Bridge", Where: named(bridge), Mutations: settingIDs(set)}}
}

// settingIDs sets keys of external_ids, and removes those whose value is "".
func settingIDs(set map[string]string) []ovsdb.Mutation {
	fresh := maps.Clone(set)
	maps.DeleteFunc(fresh, func(_, value string) bool { return value == "" })
	return []ovsdb.Mutation{
		{Column: columnExternalIDs, Mutator: ovsdb.MutateOperationDelete, Value: []any{"set", slices.Sorted(maps.Keys(set))}},
		{Column: columnExternalIDs, Mutator: ovsdb.MutateOperationInsert, Value: wireMap(fresh)},
	}
}

func named(name string) []ovsdb.Condition {
	return []ovsdb.Condition{{Column: "name", Function: ovsdb.ConditionEqual, Value: name}}
}

// RemoveInterface takes an interface's port off its bridge and, with that, sets
// keys of a bridge as SetBridge does. It is a *ConflictError if by now the
// interface does not hold the pairs of mine.
func (c *Client) RemoveInterface(ctx context.Context, i Interface, mine map[string]string, bridge string, set map[string]string) error {
	return c.change(ctx, func() []step {
		return []step{held(i.UUID, mine), {what: "port " + i.Name, op: ovsdb.Operation{
			Op: ovsdb.OperationMutate, Table: "Bridge", Where: []ovsdb.Condition{includes("ports", ref(i.Port))},
			Mutations: []ovsdb.Mutation{{Column: "ports", Mutator: ovsdb.MutateOperationDelete, Value: ref(i.Port)}}}}, setBridge(bridge, set)}
	})
}

// held demands that an interface holds pairs in its external_ids.
func held(uuid UUID, mine map[string]string) step {
	where := append(isRow(uuid), includes(columnExternalIDs, wireMap(mine)))
	return step{what: "interface " + string(uuid), op: wait("Interface", where, []string{columnUUID},
		ovsdb.WaitConditionEqual, ovsdb.Row{columnUUID: ref(uuid)})}
}

// change sends a transaction without a plan: one whose steps say themselves
// what they rely on.
func (c *Client) change(ctx context.Context, build func() []step) error {
	var steps []step
	results, sent, err := c.transact(ctx, func(*Schema) ([]ovsdb.Operation, error) {
		steps = build()
		ops := make([]ovsdb.Operation, len(steps))
		for i, st := range steps {
			ops[i] = st.op
		}
		return ops, nil
	})
	if err != nil && sent {
		return &UnknownOutcomeError{Err: err}
	}
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Error == "" {
			continue
		}
		what := ""
		if i < len(steps) {
			what = steps[i].what
		}
		return refusal(r, what)
	}
	return nil
}
