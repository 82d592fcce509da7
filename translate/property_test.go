package translate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
	"github.com/ovn-vpc/ovn-vpc/translate/match"
)

func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := genDocuments(t)
		want := dump(t, union(t, loadInputs(t, inputOf(docs, "shop"))))
		shuffled := rapid.Permutation(docs).Draw(t, "order")
		got := dump(t, union(t, loadInputs(t, inputOf(shuffled, "shop"))))
		require.Equal(t, string(want), string(got))
	})
}

// OVN leaves equal priorities undefined. The halves of a rule are of two
// families: never does a packet match both.
func TestPriorities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := union(t, loadInputs(t, inputOf(genDocuments(t), "shop")))
		rows := rowsOf[*nbdb.ACL](f)
		type place struct {
			from      nbdb.UUID
			direction string
			priority  int
		}
		taken := map[place]string{}
		for _, e := range f.Edges {
			if e.Column != "acls" {
				continue
			}
			acl := rows[e.Target]
			require.NotNil(t, acl)
			require.LessOrEqual(t, acl.Priority, 32767, "the schema's limit")
			require.GreaterOrEqual(t, acl.Priority, 0)
			key := acl.ExternalIDs[translate.KeyKey]
			at := place{e.From, acl.Direction, acl.Priority}
			other, twice := taken[at]
			taken[at] = key
			if twice {
				require.ElementsMatch(t, []string{rule(key) + "/ipv4", rule(key) + "/ipv6"}, []string{key, other})
			}
		}
	})
}

// rule is the key of a half's rule.
func rule(key string) string {
	return strings.TrimSuffix(strings.TrimSuffix(key, "/ipv4"), "/ipv6")
}

// OVN takes any text as a match, and forgets the row whose text it can't read.
func TestMatchesParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := union(t, loadInputs(t, inputOf(genDocuments(t), "shop")))
		for _, r := range f.Rows {
			text := ""
			switch r := r.(type) {
			case *nbdb.ACL:
				text = r.Match
			case *nbdb.LogicalRouterPolicy:
				text = r.Match
			default:
				continue
			}
			e, err := match.Parse(text)
			require.NoError(t, err, text)
			require.Equal(t, text, match.Render(e))
		}
	})
}

// Two VPCs of equal content share no row, and no name that OVN holds unique.
func TestIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := genDocuments(t)
		resources := loadInputs(t, inputOf(docs, "shop"), inputOf(docs, "shop-2"))
		rows, uniqueKeys, uniqueNames := map[nbdb.UUID]bool{}, map[string]bool{}, map[string]bool{}
		once := func(set map[string]bool, s string) {
			require.False(t, set[s], "twice: %s", s)
			set[s] = true
		}
		for _, r := range union(t, resources).Rows {
			require.False(t, rows[r.ID()], "two rows of one UUID")
			rows[r.ID()] = true
			require.Equal(t, translate.RowUUID("default", r.Table(), r.IDs()[translate.KeyKey]), r.ID())
			once(uniqueKeys, r.IDs()[translate.KeyKey])
			if name, ok := nbdb.Columns(r)["name"].(string); ok && r.Table() != nbdb.TableACL {
				once(uniqueNames, space(r.Table())+name)
			}
		}
	})
}

// space is where a name has to be unique. Ports of switches and routers share
// one: ovn-northd makes a Port_Binding of each.
func space(table string) string {
	if table == nbdb.TableLogicalRouterPort || table == nbdb.TableLogicalSwitchPort {
		return "port "
	}
	return table + " "
}

// A row tells which resource made it, by its key or, an attachment's port, by
// the spec that it stores; so does its digest of what was stored.
func TestRowsTellTheirResource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resources := loadInputs(t, inputOf(genDocuments(t), "shop"))
		c := contextOf(resources)
		for _, r := range resources {
			principals := 0
			for _, row := range fragment(t, r, c).Rows {
				ids := row.IDs()
				require.Equal(t, "default", ids[translate.KeyOwner])
				require.Equal(t, "shop", ids[translate.KeyVPC])
				id, ok := translate.ResourceOf(ids[translate.KeyKey])
				require.Equal(t, r.Kind != model.KindAttachment, ok)
				if ok {
					require.Equal(t, r.ID(), id)
				}
				_, stored := ids[translate.KeySpec]
				if !stored {
					continue
				}
				principals++
				read, err := model.ParseStored(r.Kind, []byte(translate.StoredSpec(ids)))
				require.NoError(t, err)
				require.Equal(t, r.ID(), read.ID())
				require.Equal(t, r.Spec, read.Spec)
				require.Equal(t, translate.Digest([]byte(translate.StoredSpec(ids)), "cli"), ids[translate.KeyDigest])
			}
			require.Equal(t, 1, principals, "rows of %s with a spec", r.ID())
		}
	})
}

// What fragments refer to is there, and every row but roots is referred to:
// OVSDB drops the others.
func TestReferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := union(t, loadInputs(t, inputOf(genDocuments(t), "shop")))
		there, referred := map[nbdb.UUID]string{}, map[nbdb.UUID]bool{}
		for _, r := range f.Rows {
			there[r.ID()] = r.Table()
		}
		for _, e := range f.Edges {
			require.Equal(t, e.Table, there[e.From])
			require.Contains(t, there, e.Target)
			referred[e.Target] = true
		}
		for _, e := range f.Entries {
			require.Equal(t, e.Table, there[e.Row])
		}
		for _, p := range rowsOf[*nbdb.LogicalSwitchPort](f) {
			for _, options := range []*nbdb.UUID{p.Dhcpv4Options, p.Dhcpv6Options} {
				if options != nil {
					require.Equal(t, nbdb.TableDHCPOptions, there[*options])
				}
			}
		}
		for id, table := range there {
			switch table {
			case nbdb.TableACL, nbdb.TableLogicalSwitchPort, nbdb.TableLogicalRouterPort, nbdb.TableLogicalRouterPolicy:
				require.True(t, referred[id], "a row of %s without a reference", table)
			}
		}
	})
}

// No edge is in two fragments: each belongs to one resource, and goes with it.
func TestFragmentsAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := union(t, loadInputs(t, inputOf(genDocuments(t), "shop")))
		edges := map[nbdb.Edge]bool{}
		for _, e := range f.Edges {
			require.False(t, edges[e])
			edges[e] = true
		}
	})
}

func rowsOf[T nbdb.Row](f nbdb.Fragment) map[nbdb.UUID]T {
	rows := map[nbdb.UUID]T{}
	for _, r := range f.Rows {
		if typed, ok := r.(T); ok {
			rows[r.ID()] = typed
		}
	}
	return rows
}
