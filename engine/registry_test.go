package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// A tier's registry is one row or, where there is room for many attachments, several.
func TestRegistryHasPagesWhereThereIsMuchRoom(t *testing.T) {
	f := newFixture(t, false)
	text := vpc("v", "10.0.0.0/8")
	for name, prefix := range map[string]string{"small": "10.1.0.0/22", "large": "10.2.0.0/16"} {
		text += tier("v", name, prefix)
		for i := range 40 {
			text += att("v", fmt.Sprintf("%s-%d", name, i), name)
		}
	}
	f.apply(text)
	small, large := f.copies("small"), f.copies("large")
	require.Equal(t, map[string]int{"ovnvpc.v.small.attachments": 40}, small)
	require.Len(t, large, 8)
	for name, n := range large {
		require.Less(t, n, 20, name)
	}
	f.apply(tier("v", "small", "10.1.0.0/22, 10.3.0.0/22"))
	require.Len(t, f.copies("small"), 8, "the copies are where they belong in a tier that has grown")
	f.noDrift()
	f.delete(true, id(model.KindTier, "v", "large"))
	require.Empty(t, f.copies("large"))
	f.noDrift()
}

// Where the registry of a tier, or a page of it, is gone or was never there, attachments
// come, change and go all the same, and bring it back.
func TestAttachmentsBringBackTheirTiersRegistry(t *testing.T) {
	const small, large = "10.1.0.0/24", "10.1.0.0/16"
	for name, c := range map[string]struct {
		prefix string
		lose   func(f *fixture)
	}{
		"registry": {small, func(f *fixture) { f.nbctl("pg-del", "ovnvpc.v.a.attachments") }},
		"pages":    {large, func(f *fixture) { f.losePages(false) }},
		"all": {large, func(f *fixture) {
			f.losePages(false)
			f.nbctl("pg-del", "ovnvpc.v.a.attachments")
		}},
		"one row had all copies": {large, func(f *fixture) { f.losePages(true) }},
		"copies in other pages":  {large, func(f *fixture) { f.shufflePages() }},
		"marks": {small, func(f *fixture) {
			f.nbctl("remove", "Port_Group", "ovnvpc.v.a.attachments", "external_ids", `"ovn-vpc:owner"`)
		}},
		"marks of a page": {large, func(f *fixture) {
			f.nbctl("remove", "Port_Group", "ovnvpc.v.a.attachments.2", "external_ids", `"ovn-vpc:vpc"`)
		}},
	} {
		for _, mirrored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, mirror %t", name, mirrored), func(t *testing.T) {
				f := newFixture(t, false)
				text := vpc("v", "10.0.0.0/8") + tier("v", "a", c.prefix)
				for i := range 30 {
					text += att("v", fmt.Sprintf("x-%d", i), "a")
				}
				f.apply(text)
				if mirrored {
					f.mirror()
				}
				c.lose(f)
				for i := range 10 {
					comes, changes := put(t, att("v", fmt.Sprintf("y-%d", i), "a")), put(t, document("Attachment", "v", fmt.Sprintf("x-%d", i), "tier: a, enabled: false"))
					goes := remove(id(model.KindAttachment, "v", fmt.Sprintf("x-%d", 10+i)), false)
					for _, x := range []engine.Edit{comes, changes, goes} {
						x.Hasty = i%2 == 0
						require.NoError(t, f.edit(x)[0].Err, "%s", x.ID)
					}
				}
				f.apply(att("v", "z-0", "a") + att("v", "z-1", "a"))
				require.Len(t, f.attachments("v"), 32)
				copied := map[string]bool{}
				for _, group := range f.registry("a") {
					for key := range group.ExternalIDs {
						require.False(t, copied[key] && strings.HasPrefix(key, translate.KeyAttachmentPrefix), "%s has two copies", key)
						copied[key] = true
					}
				}
				_, err := f.Drift(f.ctx, "", true, engine.WaitNone)
				require.NoError(t, err)
				f.noDrift()
				total := 0
				for _, n := range f.copies("a") {
					total += n
				}
				require.Equal(t, 32, total)
			})
		}
	}
}

// So does a change of the VPC that only what is attached depends on.
func TestWhatFollowsBringsBackItsTiersRegistry(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("v", "10.0.0.0/8") + tierWith("v", "a", "cidrs: [10.1.0.0/16], dhcp: {enabled: false}") +
		document("Attachment", "v", "x", "tier: a, chassis: h, plug: {type: tap}"))
	f.losePages(false)
	f.nbctl("pg-del", "ovnvpc.v.a.attachments")
	f.apply(strings.Replace(vpc("v", "10.0.0.0/8"), "cidrs:", "mtu: 1300, cidrs:", 1))
	f.noDrift()
}

// A page whose name somebody else's row has is refused, with the reason.
func TestPagesWhoseNameIsTaken(t *testing.T) {
	for _, mirrored := range []bool{false, true} {
		t.Run(fmt.Sprintf("mirror %t", mirrored), func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(vpc("v", "10.0.0.0/8") + tier("v", "a", "10.1.0.0/16") + tier("v", "b", "10.2.0.0/24"))
			f.nbctl("pg-del", "ovnvpc.v.a.attachments.2", "--", "pg-add", "ovnvpc.v.a.attachments.2", "--", "pg-add", "ovnvpc.v.b.attachments.2")
			if mirrored {
				f.mirror()
			}
			attached, grown := att("v", "x-0", "a"), tier("v", "b", "10.2.0.0/24, 10.3.0.0/16")
			f.refused(attached, "Tier v/a", "ovnvpc.v.a.attachments.2", "another tool")
			before := f.dump()
			for _, x := range []engine.Edit{put(t, attached), put(t, grown)} {
				requireCode(t, f.edit(x)[0].Err, model.CodeTaken, "attachments.2", "another tool")
			}
			require.Equal(t, before, f.dump())
		})
	}
}

// Rows of a tier that have lost their marks go with it all the same, and with its VPC:
// pages, which no attachment's copy is looked for in, and others.
func TestPagesWithoutMarksGoWithTheirTier(t *testing.T) {
	for _, what := range []model.ID{tierID("v", "a"), vpcID("v")} {
		for _, by := range []string{"delete", "edit", "edit in a mirror", "prune"} {
			if by == "prune" && what.Kind == model.KindVPC {
				continue // which it leaves
			}
			t.Run(what.String()+" by "+by, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, false)
				bare := vpc("v", "10.0.0.0/8")
				f.apply(bare + tier("v", "a", "10.1.0.0/16") + att("v", "x-0", "a"))
				for i, key := range []string{"owner", "key", "vpc", "owner"} {
					f.nbctl("remove", "Port_Group", fmt.Sprintf("ovnvpc.v.a.attachments.%d", 1+i), "external_ids", `"ovn-vpc:`+key+`"`)
				}
				if what.Kind == model.KindVPC {
					f.nbctl("clear", "Port_Group", "ovnvpc.v.default_allow", "external_ids")
				}
				f.nbctl("pg-del", "ovnvpc.v.a.attachments.5", "--", "pg-add", "ovnvpc.v.a.attachments.5") // nobody's
				switch by {
				case "edit in a mirror":
					f.mirror()
					fallthrough
				case "edit":
					require.NoError(t, f.edit(remove(what, true))[0].Err)
				case "prune":
					_, err := f.Apply(f.ctx, load(t, bare), true, engine.WaitNone)
					require.NoError(t, err)
				default:
					f.delete(true, what)
				}
				require.Equal(t, map[string]int{"ovnvpc.v.a.attachments.5": 0}, f.copies("a"))
				if what.Kind == model.KindVPC {
					require.NotContains(t, f.nbctl("list", "Port_Group"), "default")
				}
			})
		}
	}
}

// A page does not come back to a tier that has shrunk meanwhile.
func TestPageOfATierThatShrinks(t *testing.T) {
	f := newFixture(t, false)
	small := tier("v", "a", "10.1.0.0/24")
	f.apply(vpc("v", "10.0.0.0/8") + small + att("v", "x", "a"))
	f.apply(tier("v", "a", "10.1.0.0/24, 10.2.0.0/16"))
	f.losePages(false)
	fast := connect(t, f.sandbox, "default")
	f.NB = &overtaken{Store: f.NB, comes: func() { fast.apply(small) }}
	require.NoError(t, f.edit(put(t, document("Attachment", "v", "x", "tier: a, enabled: false")))[0].Err)
	f.noDrift()
	require.Equal(t, map[string]int{"ovnvpc.v.a.attachments": 1}, f.copies("a"))
}

// What is deleted leaves no second copy, also where somebody brings that back meanwhile.
func TestCopyThatComesBackWhileItsAttachmentGoes(t *testing.T) {
	for name, lose := range map[string]func(f *fixture){
		"page": func(f *fixture) { f.losePages(false) },
		"copy": func(f *fixture) {
			f.nbctl("remove", "Port_Group", "ovnvpc.v.a.attachments.7", "external_ids", `"ovn-vpc-attachment:x"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, false)
			f.apply(vpc("v", "10.0.0.0/8") + tier("v", "a", "10.1.0.0/16") + att("v", "x", "a"))
			lose(f)
			repairer := connect(t, f.sandbox, "default")
			f.NB = &overtaken{Store: f.NB, comes: func() {
				_, err := repairer.Drift(repairer.ctx, "", true, engine.WaitNone)
				require.NoError(t, err)
			}}
			f.delete(false, id(model.KindAttachment, "v", "x"))
			f.noDrift()
		})
	}
}

// copies are how many second copies each row of a tier's registry has.
func (f *fixture) copies(tier string) map[string]int {
	out := map[string]int{}
	for _, group := range f.registry(tier) {
		out[group.Name] = 0
		for key := range group.ExternalIDs {
			if strings.HasPrefix(key, translate.KeyAttachmentPrefix) {
				out[group.Name]++
			}
		}
	}
	return out
}

func (f *fixture) registry(tier string) (groups []*nbdb.PortGroup) {
	f.t.Helper()
	state, err := f.NB.Read(f.ctx, nbdb.Query{Table: nbdb.TablePortGroup})
	require.NoError(f.t, err)
	for _, group := range nbdb.All[*nbdb.PortGroup](state) {
		if strings.HasPrefix(group.Name, translate.RegistryName("v", tier)) {
			groups = append(groups, group)
		}
	}
	return groups
}

// shufflePages moves the copies of each page to the next.
func (f *fixture) shufflePages() {
	f.t.Helper()
	groups := f.registry("a")
	var have, want nbdb.Fragment
	for i, group := range groups {
		for key, value := range group.ExternalIDs {
			if strings.HasPrefix(key, translate.KeyAttachmentPrefix) {
				copied := nbdb.Entry{Table: nbdb.TablePortGroup, Row: group.UUID, Key: key, Value: value}
				have.Entries = append(have.Entries, copied)
				copied.Row = groups[(i+1)%len(groups)].UUID
				want.Entries = append(want.Entries, copied)
			}
		}
	}
	_, err := f.NB.Commit(f.ctx, nbdb.Diff(have, want), false)
	require.NoError(f.t, err)
}

// losePages deletes the pages of a registry, and keeps their copies in the registry
// itself, as before there were pages, or loses them.
func (f *fixture) losePages(keep bool) {
	f.t.Helper()
	home := translate.RegistryUUID(f.Owner, "v", "a")
	var have, want nbdb.Fragment
	for _, group := range f.registry("a") {
		if group.UUID == home {
			continue
		}
		have.Rows = append(have.Rows, group)
		for key, value := range group.ExternalIDs {
			if keep && strings.HasPrefix(key, translate.KeyAttachmentPrefix) {
				want.Entries = append(want.Entries, nbdb.Entry{Table: nbdb.TablePortGroup, Row: home, Key: key, Value: value})
			}
		}
	}
	_, err := f.NB.Commit(f.ctx, nbdb.Diff(have, want), false)
	require.NoError(f.t, err)
}

// A tombstone that says nothing is written anew.
func TestTombstoneOfNoTime(t *testing.T) {
	f := newFixture(t, false)
	f.apply(referring + document("Attachment", "shop", "x", "tier: web, addresses: [10.0.1.9]"))
	f.nbctl("set", "Port_Group", "ovnvpc.shop.web.attachments", `external_ids:"ovn-vpc-run:freed/10.0.1.9"=99999999999999999999`)
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindAttachment, VPC: "shop", Name: "x"}}, false, engine.WaitNone)
	require.NoError(t, err)
	require.NotContains(t, f.nbctl("get", "Port_Group", "ovnvpc.shop.web.attachments", "external_ids"), "99999999999999999999")
}
