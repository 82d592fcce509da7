// Package nbdb is the northbound database: its rows, the difference between
// two states of them, the transaction that carries it, and the connection.
// It knows OVN's schema (ovn-nb(5)) and nothing of VPCs.
package nbdb

// UUID identifies a row; the client chooses it on insert (RFC 7047, 5.2.1
// with OVSDB's "uuid" member, ovsdb(7)).
type UUID string

// Row is one row of the northbound database: a pointer to one of the structs
// of this file. Fields carry the column in the tag `ovsdb`, and what the
// project does with the column in the tag `role`:
//
//	(none)   owned: the row's fragment says the whole value
//	edges    a set of references that other fragments add to (Edge)
//	status   written by OVN, only read
//
// Columns with the tag `seldom` are empty in nearly all rows: of many rows they are
// asked for where they are not, since for a server an empty column is nearly as
// much work as another.
type Row interface {
	// Table is the table's name in the schema.
	Table() string
	// ID is the row's UUID.
	ID() UUID
	// IDs are the row's external_ids: identity, ownership, stored spec.
	IDs() map[string]string
}

// NBGlobal is the single row of NB_Global. It is never inserted or deleted:
// only single keys of its external_ids are ours (Entry).
type NBGlobal struct {
	UUID        UUID              `ovsdb:"_uuid"`
	NbCfg       int               `ovsdb:"nb_cfg" role:"status"`
	SbCfg       int               `ovsdb:"sb_cfg" role:"status"`
	HvCfg       int               `ovsdb:"hv_cfg" role:"status"`
	Options     map[string]string `ovsdb:"options" role:"status"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalSwitch is a row of Logical_Switch.
type LogicalSwitch struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Ports       []UUID            `ovsdb:"ports" role:"edges"`
	ACLs        []UUID            `ovsdb:"acls" role:"edges"`
	OtherConfig map[string]string `ovsdb:"other_config"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalSwitchPort is a row of Logical_Switch_Port.
type LogicalSwitchPort struct {
	UUID          UUID              `ovsdb:"_uuid"`
	Name          string            `ovsdb:"name"`
	Type          string            `ovsdb:"type" seldom:"true"`
	Addresses     []string          `ovsdb:"addresses"`
	PortSecurity  []string          `ovsdb:"port_security"`
	Enabled       *bool             `ovsdb:"enabled" seldom:"true"`
	ParentName    *string           `ovsdb:"parent_name" seldom:"true"`
	Tag           *int              `ovsdb:"tag" seldom:"true"`
	Dhcpv4Options *UUID             `ovsdb:"dhcpv4_options"`
	Dhcpv6Options *UUID             `ovsdb:"dhcpv6_options"`
	Options       map[string]string `ovsdb:"options"`
	Up            *bool             `ovsdb:"up" role:"status"`
	ExternalIDs   map[string]string `ovsdb:"external_ids"`
}

// LogicalRouter is a row of Logical_Router.
type LogicalRouter struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Enabled     *bool             `ovsdb:"enabled"`
	Ports       []UUID            `ovsdb:"ports" role:"edges"`
	Policies    []UUID            `ovsdb:"policies" role:"edges"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalRouterPort is a row of Logical_Router_Port.
type LogicalRouterPort struct {
	UUID          UUID              `ovsdb:"_uuid"`
	Name          string            `ovsdb:"name"`
	MAC           string            `ovsdb:"mac"`
	Networks      []string          `ovsdb:"networks"`
	Enabled       *bool             `ovsdb:"enabled"`
	Peer          *string           `ovsdb:"peer"`
	Ipv6RaConfigs map[string]string `ovsdb:"ipv6_ra_configs"`
	Options       map[string]string `ovsdb:"options"`
	ExternalIDs   map[string]string `ovsdb:"external_ids"`
}

// LogicalRouterPolicy is a row of Logical_Router_Policy.
type LogicalRouterPolicy struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Priority    int               `ovsdb:"priority"`
	Match       string            `ovsdb:"match"`
	Action      string            `ovsdb:"action"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// ACL is a row of ACL.
type ACL struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Name        *string           `ovsdb:"name"`
	Priority    int               `ovsdb:"priority"`
	Direction   string            `ovsdb:"direction"`
	Match       string            `ovsdb:"match"`
	Action      string            `ovsdb:"action"`
	Log         bool              `ovsdb:"log"`
	Severity    *string           `ovsdb:"severity"`
	Meter       *string           `ovsdb:"meter"`
	Label       int               `ovsdb:"label"`
	Tier        int               `ovsdb:"tier"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// PortGroup is a row of Port_Group.
type PortGroup struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Ports       []UUID            `ovsdb:"ports"`
	ACLs        []UUID            `ovsdb:"acls" role:"edges"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// DHCPOptions is a row of DHCP_Options.
type DHCPOptions struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Cidr        string            `ovsdb:"cidr"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// The tables' names in the schema.
const (
	TableNBGlobal            = "NB_Global"
	TableLogicalSwitch       = "Logical_Switch"
	TableLogicalSwitchPort   = "Logical_Switch_Port"
	TableLogicalRouter       = "Logical_Router"
	TableLogicalRouterPort   = "Logical_Router_Port"
	TableLogicalRouterPolicy = "Logical_Router_Policy"
	TableACL                 = "ACL"
	TablePortGroup           = "Port_Group"
	TableDHCPOptions         = "DHCP_Options"
)

func (*NBGlobal) Table() string            { return TableNBGlobal }
func (*LogicalSwitch) Table() string       { return TableLogicalSwitch }
func (*LogicalSwitchPort) Table() string   { return TableLogicalSwitchPort }
func (*LogicalRouter) Table() string       { return TableLogicalRouter }
func (*LogicalRouterPort) Table() string   { return TableLogicalRouterPort }
func (*LogicalRouterPolicy) Table() string { return TableLogicalRouterPolicy }
func (*ACL) Table() string                 { return TableACL }
func (*PortGroup) Table() string           { return TablePortGroup }
func (*DHCPOptions) Table() string         { return TableDHCPOptions }

func (r *NBGlobal) ID() UUID            { return r.UUID }
func (r *LogicalSwitch) ID() UUID       { return r.UUID }
func (r *LogicalSwitchPort) ID() UUID   { return r.UUID }
func (r *LogicalRouter) ID() UUID       { return r.UUID }
func (r *LogicalRouterPort) ID() UUID   { return r.UUID }
func (r *LogicalRouterPolicy) ID() UUID { return r.UUID }
func (r *ACL) ID() UUID                 { return r.UUID }
func (r *PortGroup) ID() UUID           { return r.UUID }
func (r *DHCPOptions) ID() UUID         { return r.UUID }

func (r *NBGlobal) IDs() map[string]string            { return r.ExternalIDs }
func (r *LogicalSwitch) IDs() map[string]string       { return r.ExternalIDs }
func (r *LogicalSwitchPort) IDs() map[string]string   { return r.ExternalIDs }
func (r *LogicalRouter) IDs() map[string]string       { return r.ExternalIDs }
func (r *LogicalRouterPort) IDs() map[string]string   { return r.ExternalIDs }
func (r *LogicalRouterPolicy) IDs() map[string]string { return r.ExternalIDs }
func (r *ACL) IDs() map[string]string                 { return r.ExternalIDs }
func (r *PortGroup) IDs() map[string]string           { return r.ExternalIDs }
func (r *DHCPOptions) IDs() map[string]string         { return r.ExternalIDs }
