package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// In a VPC with expectations, and where nothing may be opened, an edit looks at the
// attachments that count, and comes to what it comes to when it looks at all.
func TestEditsBesideExpectations(t *testing.T) {
	all, some := newFixture(t, false), newFixture(t, false)
	now := time.Unix(1700000000, 0)
	for _, f := range []*fixture{all, some} {
		f.Now = func() time.Time { return now }
		f.apply(guarded() + att("shop", "a-0", "app") + att("shop", "other", "db"))
	}
	some.mirror()
	refused, landed := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.SampledFrom([]string{"a-0", "a-1", "a-2", "app"})
		for range rapid.IntRange(1, 5).Draw(r, "steps") {
			x, rule := edit(t, r, name)
			if x == nil && rapid.Bool().Draw(r, "list") {
				list := rapid.SampledFrom([]string{"app", "db", "default-allow", "none"}).Draw(r, "in force")
				require.Equal(r, all.replace(list), some.replace(list))
				continue
			}
			if x == nil {
				text := expectation("shop", rapid.SampledFrom([]string{"e-0", "e-1"}).Draw(r, "expectation"), drawExpectation(r, name))
				drop := rapid.IntRange(0, 2).Draw(r, "drop") == 0
				require.Equal(r, all.expect(text, drop), some.expect(text, drop))
				continue
			}
			x.Hasty = rapid.Bool().Draw(r, "hasty")
			x.Rules = rule && x.Hasty
			if x.Hasty && x.ID.Kind == model.KindAttachment { // a second attempt draws another address
				require.True(r, some.Mirror.Current(some.ctx))
			}
			engines := []*engine.Engine{all.Engine, some.Engine}
			if rapid.IntRange(0, 4).Draw(r, "confirming") == 0 {
				for i, e := range engines {
					engines[i] = e.Confirming([]reach.Opening{})
				}
			}
			if x.ID.Kind != model.KindTier || x.ID.Name == "more" {
				require.True(r, engine.Narrow(engines[1], *x))
			}
			var outcomes [2]string
			var objects [2]engine.Object
			for i, e := range engines {
				edited, _, err := e.Edit(all.ctx, []engine.Edit{*x}, false)
				require.NoError(r, err)
				objects[i] = edited[0].Object
				outcomes[i] = fmt.Sprint(edited[0].Err, " ", edited[0].Result)
				if edited[0].Err != nil {
					refused++
				} else {
					landed++
				}
			}
			require.Equal(r, outcomes[0], outcomes[1], "%s", x.ID)
			require.Equal(r, objects[0], objects[1])
		}
		require.True(r, some.Mirror.Current(some.ctx))
		is, want := some.everything(), all.everything()
		require.Len(r, is, len(want))
		for id, o := range want {
			require.Equal(r, o.Resource, is[id].Resource)
		}
		some.noDrift()
	})
	require.NotZero(t, refused)
	require.NotZero(t, landed)
}

// An attachment that has moved to another row counts as before.
func TestMovedAttachmentsCount(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + expectation("shop", "quiet", "from: app, to: db, traffic: tcp/22, expect: deny"))
	f.mirror()
	for i := range 20 { // rows come in any order
		moved := fmt.Sprintf("tier: app, addresses: [10.0.1.%d], allowedAddresses: [192.0.2.0/24]", 50+i)
		require.NoError(t, f.edit(put(t, document("Attachment", "shop", "vpn", moved)))[0].Err)
		opened := f.edit(put(t, acl("shop", "db", "{number: 20, protocol: tcp, ports: [22], cidrs: [192.0.2.0/24]}")))
		require.ErrorContains(t, opened[0].Err, "will not hold")
	}
}

// An edit of a tier tells how full it is, also where it looks at no attachment.
func TestEditedTierTellsOfItsAttachments(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + att("shop", "a-0", "app") + att("shop", "other", "db"))
	f.mirror()
	of := id(model.KindTier, "shop", "app")
	for _, list := range []string{"default-allow", "default-allow", "app"} {
		edited := f.edit(put(t, tierWith("shop", "app", "cidrs: [10.0.1.0/24], acl: "+list)))
		require.Equal(t, f.get(of), edited[0].Object)
		both := f.edit(put(t, tierWith("shop", "app", "cidrs: [10.0.1.0/24], acl: db")), put(t, att("shop", "a-1", "app")))
		require.Equal(t, f.get(of), both[0].Object)
		gone := f.edit(put(t, tierWith("shop", "app", "cidrs: [10.0.1.0/24], acl: "+list)), remove(id(model.KindAttachment, "shop", "a-1"), false))
		require.Equal(t, 1, gone[0].Object.Status.(*engine.TierStatus).Attachments)
	}
}

// edit is one of an attachment, a tier, a list's rule or the VPC, nil for none.
func edit(t *testing.T, r *rapid.T, name *rapid.Generator[string]) (x *engine.Edit, rule bool) {
	switch rapid.IntRange(0, 8).Draw(r, "what") {
	case 0:
		return nil, false
	case 6:
		x := put(t, tierWith("shop", "more", "cidrs: [10.0.3.0/24], acl: db"))
		return &x, false
	case 7:
		x := remove(id(model.KindTier, "shop", rapid.SampledFrom([]string{"more", "more", "app"}).Draw(r, "of")), false)
		return &x, false
	case 8:
		x := put(t, fmt.Sprintf("---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop, labels: {n: %q}}, spec: {cidrs: [10.0.0.0/16]}}\n", name.Draw(r, "label")))
		return &x, false
	case 5:
		x := put(t, tierWith("shop", rapid.SampledFrom([]string{"app", "db"}).Draw(r, "of"), "cidrs: [10.0."+rapid.SampledFrom([]string{"1", "2"}).Draw(r, "net")+".0/24], acl: "+rapid.SampledFrom([]string{"app", "db", "default-allow"}).Draw(r, "acl")))
		return &x, false
	case 1, 2:
		one := drawRuleEdit(r)
		one.list = rapid.SampledFrom([]string{"app", "db"}).Draw(r, "of")
		if one.rule != nil && len(one.rule.Tiers) > 0 {
			one.rule.Tiers = []string{"app"}
		}
		x := one.edit(false)
		return &x, true
	}
	of := name.Draw(r, "attachment")
	if rapid.IntRange(0, 3).Draw(r, "gone") == 0 {
		x := remove(id(model.KindAttachment, "shop", of), false)
		return &x, false
	}
	spec := "tier: " + rapid.SampledFrom([]string{"app", "app", "db", "db", "more"}).Draw(r, "tier")
	spec += rapid.SampledFrom([]string{"", "", ", allowedAddresses: [192.0.2.0/24]", ", allowedAddresses: [10.0.2.77]"}).Draw(r, "allowed")
	spec += rapid.SampledFrom([]string{"", "", ", enabled: false"}).Draw(r, "enabled")
	x2 := put(t, document("Attachment", "shop", of, spec))
	return &x2, false
}

func drawExpectation(r *rapid.T, name *rapid.Generator[string]) string {
	end := func(label string) string {
		return rapid.SampledFrom([]string{"app", "db", "outside", "192.0.2.7", "10.0.2.77", name.Draw(r, label+" name"), "attachment/" + name.Draw(r, label+" attachment"), "tier/app"}).Draw(r, label)
	}
	from, to := end("from"), end("to")
	if from == to {
		from, to = "app", "db"
	}
	return fmt.Sprintf("from: %s, to: %s, traffic: %s, expect: %s", from, to,
		rapid.SampledFrom([]string{"all", "tcp/22", "tcp/5432"}).Draw(r, "traffic"), rapid.SampledFrom([]string{"allow", "deny"}).Draw(r, "expect"))
}

// replace puts a list in force at a tier, and tells what came of it.
func (f *fixture) replace(list string) string {
	result, err := f.ReplaceACL(f.ctx, "shop", "db", list, engine.WaitNone)
	return fmt.Sprint(result, err)
}

// expect applies an expectation, or drops it, and tells what came of it.
func (f *fixture) expect(text string, drop bool) string {
	set := load(f.t, text)
	if drop {
		result, err := f.Delete(f.ctx, []model.ID{set.Resources[0].ID()}, false, engine.WaitNone)
		return fmt.Sprint(result, err)
	}
	result, err := f.Apply(f.ctx, set, false, engine.WaitNone)
	return fmt.Sprint(result, err)
}
