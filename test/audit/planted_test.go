package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/test/audit"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

type object = map[string]any

func named(name string) []any { return []any{[]any{"name", "==", name}} }

func row(id nbdb.UUID) []any { return []any{[]any{"_uuid", "==", reference(id)}} }

func reference(id nbdb.UUID) []any { return []any{"uuid", string(id)} }

func update(table string, where []any, columns object) object {
	return object{"op": "update", "table": table, "where": where, "row": columns}
}

func mutate(table string, where []any, column, mutator string, value any) object {
	return object{"op": "mutate", "table": table, "where": where, "mutations": []any{[]any{column, mutator, value}}}
}

func pair(key, value string) []any { return []any{"map", []any{[]any{key, value}}} }

// marks are the external_ids of an owned row.
func marks(key string) []any {
	return []any{"map", []any{[]any{"ovn-vpc:owner", "default"}, []any{"ovn-vpc:key", key}, []any{"ovn-vpc:vpc", "ward"}}}
}

// plant is a fault as a transaction makes it, and what kinds of violations it is.
type plant struct {
	name       string
	operations func(d *database) []any
	kinds      []audit.Kind
	about      string // is in the first violation of the first kind
}

func plants() []plant {
	const switches, ports = nbdb.TableLogicalSwitch, nbdb.TableLogicalSwitchPort
	list := func(name string) nbdb.UUID { return translate.DefaultUUID("default", "ward", name, "ingress") }
	do := func(operations ...any) func(*database) []any {
		return func(*database) []any { return operations }
	}
	// own is a change that somebody may make of his own row.
	own := update(nbdb.TableDHCPOptions, []any{[]any{"cidr", "==", "10.9.1.0/24"}}, object{"options": pair("mtu", "9")})
	return []plant{
		{"an address twice", func(d *database) []any {
			return []any{update(ports, named("ward/two"), object{"addresses": "0a:58:0a:09:02:03 " + d.address("ward/one")})}
		}, []audit.Kind{audit.Address, audit.Unexplained}, "is held by"},
		{"a gateway's address", do(update(ports, named("ward/two"), object{"addresses": "0a:58:0a:09:02:03 10.9.2.1"})),
			[]audit.Kind{audit.Address, audit.Unexplained}, "10.9.2.1 of the VPC ward is held by"},
		{"tiers that overlap", do(update(nbdb.TableLogicalRouterPort, named("ward/old/gw"), object{"networks": "10.9.3.1/22"})),
			[]audit.Kind{audit.Overlap, audit.Unexplained}, "10.9.3.1/22 of tier-gateway/ward/old"},
		{"a port on two switches", func(d *database) []any {
			return []any{mutate(switches, named("ward/stay"), "ports", "insert", reference(d.port("ward/one")))}
		}, []audit.Kind{audit.Place}, "belongs on tier/ward/old"},
		{"a port on another switch", func(d *database) []any {
			return []any{
				mutate(switches, named("ward/old"), "ports", "delete", reference(d.port("ward/one"))),
				mutate(switches, named("ward/stay"), "ports", "insert", reference(d.port("ward/one"))),
			}
		}, []audit.Kind{audit.Place}, "it is on tier/ward/stay"},
		{"a port on a foreign switch", func(d *database) []any {
			return []any{mutate(switches, named("elsewhere"), "ports", "insert", reference(d.port("ward/one")))}
		}, []audit.Kind{audit.Place}, "belongs on tier/ward/old"},
		{"a list's row away", do(mutate(switches, named("ward/old"), "acls", "delete", reference(list("loose")))),
			[]audit.Kind{audit.List}, "do not refer to acl-default/ward/loose/ingress"},
		{"another list's row", do(mutate(switches, named("ward/old"), "acls", "insert", reference(list("named")))),
			[]audit.Kind{audit.List}, "refer to acl-default/ward/named/ingress, by no stored spec"},
		{"no list", do(update(switches, named("ward/old"), object{"acls": []any{"set", []any{}}})),
			[]audit.Kind{audit.List, audit.Unexplained}, "do not refer to"},
		{"a list's home empty", do(update(nbdb.TablePortGroup, named("ovnvpc.ward.loose"), object{"acls": []any{"set", []any{}}})),
			[]audit.Kind{audit.Unexplained}, "acls do not refer to"},
		{"a rule with another match", do(update(nbdb.TableACL, row(list("loose")), object{"match": "ip"})),
			[]audit.Kind{audit.Unexplained}, "match is ip"},
		{"a row of no spec", do(
			object{"op": "insert", "table": ports, "uuid-name": "p", "row": object{"name": "stray", "external_ids": marks("address/ward/10.9.2.77")}},
			mutate(switches, named("ward/stay"), "ports", "insert", []any{"named-uuid", "p"})),
			[]audit.Kind{audit.Unexplained}, "no stored spec explains the row"},
		{"a row away", do(object{"op": "delete", "table": nbdb.TableDHCPOptions, "where": []any{[]any{"cidr", "==", "10.9.2.0/24"}}}),
			[]audit.Kind{audit.Unexplained}, "it is not there"},
		{"marks away", do(update(nbdb.TableDHCPOptions, []any{[]any{"cidr", "==", "10.9.2.0/24"}}, object{"external_ids": []any{"map", []any{}}})),
			[]audit.Kind{audit.Unexplained}, "it is not there"},
		{"a spec without its rows", func(d *database) []any {
			return []any{mutate(ports, named("ward/two"), "external_ids", "delete", pair("ovn-vpc:manager", "cli")),
				mutate(ports, named("ward/two"), "external_ids", "insert", pair("ovn-vpc:manager", "another"))}
		}, []audit.Kind{audit.Unexplained}, "external_ids:ovn-vpc-attachment:two is not"},
		{"no second copy", do(mutate(nbdb.TablePortGroup, named("ovnvpc.ward.stay.attachments"), "external_ids", "delete", []any{"set", []any{"ovn-vpc-attachment:two"}})),
			[]audit.Kind{audit.Unexplained}, "external_ids:ovn-vpc-attachment:two is not"},
		{"a spec that can't be read", func(d *database) []any {
			return []any{mutate(ports, named("ward/two"), "external_ids", "delete", []any{"set", []any{"ovn-vpc:spec"}}),
				mutate(ports, named("ward/two"), "external_ids", "insert", pair("ovn-vpc:spec", "{"))}
		}, []audit.Kind{audit.Unexplained}, ""},
		{"a foreign row along", do(own, update(switches, named("elsewhere"), object{"other_config": pair("a", "b")})),
			[]audit.Kind{audit.Foreign, audit.Unexplained}, "in other_config is changed"},
		{"a foreign row deleted along", do(own, object{"op": "delete", "table": switches, "where": named("elsewhere")}),
			[]audit.Kind{audit.Foreign, audit.Unexplained}, "somebody else's row is deleted"},
		{"a row of another table along", do(own, update("Address_Set", named("friends"), object{"addresses": "192.0.2.1"})),
			[]audit.Kind{audit.Foreign, audit.Unexplained}, "columns [addresses] of somebody else's row"},
		{"a foreign key on an owned row", do(own, mutate(switches, named("ward/old"), "external_ids", "delete", []any{"set", []any{"colour"}})),
			[]audit.Kind{audit.Foreign, audit.Unexplained}, "in external_ids is changed"},
		{"a foreign reference on an owned row", do(own, mutate(switches, named("ward/old"), "ports", "delete", reference("11111111-1111-4111-8111-111111111111"))),
			[]audit.Kind{audit.Foreign, audit.Unexplained}, "in ports is changed"},
		{"a foreign column on an owned row", do(own, update(switches, named("ward/old"), object{"load_balancer_group": []any{"set", []any{}}, "copp": []any{"set", []any{}}, "dns_records": []any{"set", []any{}}})),
			[]audit.Kind{audit.Foreign, audit.Unexplained}, "in dns_records is changed"},
		{"two owners at once", do(own, update(ports, named("other/x"), object{"enabled": false})),
			[]audit.Kind{audit.Foreign, audit.Unexplained}, "rows of the owners [default other] are changed at once"},
	}
}

func (d *database) port(name string) nbdb.UUID {
	s, err := d.NB.Read(d.ctx, nbdb.Query{Table: nbdb.TableLogicalSwitchPort, Where: object{"name": name}})
	require.NoError(d.t, err)
	return s.Rows(nbdb.TableLogicalSwitchPort)[0].ID()
}

func (d *database) address(port string) string {
	s, err := d.NB.Read(d.ctx, nbdb.Query{Table: nbdb.TableLogicalSwitchPort, Where: object{"name": port}})
	require.NoError(d.t, err)
	text := s.Rows(nbdb.TableLogicalSwitchPort)[0].(*nbdb.LogicalSwitchPort).Addresses[0]
	return text[len("00:00:00:00:00:00 "):]
}

// prepare has rows of all who may be met: of an owner, of another, of nobody.
func (d *database) prepare() {
	d.apply(load(d.t, network), false)
	other := engine.New(d.NB, "other", "cli")
	_, err := other.Apply(d.ctx, load(d.t, document("VPC", "", "other", "cidrs: [10.9.0.0/16]")+
		document("Tier", "other", "t", "cidrs: [10.9.1.0/24]")+document("Attachment", "other", "x", "tier: t")), false, engine.WaitNone)
	require.NoError(d.t, err)
	const neighbour = "11111111-1111-4111-8111-111111111111"
	d.transact(
		object{"op": "insert", "table": nbdb.TableLogicalSwitch, "row": object{"name": "elsewhere"}},
		object{"op": "insert", "table": "Address_Set", "row": object{"name": "friends"}},
		object{"op": "insert", "table": nbdb.TableLogicalSwitchPort, "uuid": neighbour, "row": object{"name": "neighbour"}},
		object{"op": "insert", "table": "DNS", "uuid-name": "dns", "row": object{"records": pair("a", "10.9.1.9")}},
		mutate(nbdb.TableLogicalSwitch, named("ward/old"), "dns_records", "insert", []any{"named-uuid", "dns"}),
		mutate(nbdb.TableLogicalSwitch, named("ward/old"), "external_ids", "insert", pair("colour", "blue")),
		mutate(nbdb.TableLogicalSwitch, named("ward/old"), "ports", "insert", reference(neighbour)),
		object{"op": "comment", "comment": "ovn-nbctl: of somebody else"},
	)
}

func TestPlantedFaults(t *testing.T) {
	for _, p := range plants() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, lab.SandboxOptions{NoNorthd: true})
			d.prepare()
			before := d.check("nb")
			require.Empty(t, before.Violations)
			d.transact(p.operations(d)...)
			// A later state has no new violation; the old ones stand.
			_, err := d.box.NBCtl(d.ctx, "ls-add", "later")
			require.NoError(t, err)
			after := d.check("nb")
			require.Equal(t, before.States+2, after.States)
			kinds := map[audit.Kind]audit.Violation{}
			for _, v := range after.Violations {
				require.Equal(t, before.States+1, v.Transaction.Number, v.String())
				if _, seen := kinds[v.Kind]; !seen || v.Kind == audit.Unexplained {
					kinds[v.Kind] = v
				}
			}
			require.Len(t, kinds, len(p.kinds), "%v", after.Violations)
			for _, k := range p.kinds {
				require.Contains(t, kinds, k)
			}
			found := ""
			for _, v := range after.Violations {
				if v.Kind == p.kinds[0] {
					found += v.String() + "\n"
				}
			}
			require.Contains(t, found, p.about)
			require.Empty(t, after.Damage)
			if p.kinds[0] != audit.Foreign {
				require.NotEmpty(t, after.Standing)
			}
		})
	}
}
