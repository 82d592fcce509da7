package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

func id(kind model.Kind, vpc, name string) model.ID {
	return model.ID{Kind: kind, VPC: vpc, Name: name}
}

// put is an edit that makes a resource what a document says, whatever it is.
func put(t *testing.T, text string) engine.Edit {
	t.Helper()
	r := load(t, text).Resources[0]
	return engine.Edit{ID: r.ID(), Change: func(*model.Resource) (*model.Resource, error) { return r, nil }}
}

var errExists = errors.New("exists")

// create is one that refuses what is there already.
func create(t *testing.T, text string) engine.Edit {
	t.Helper()
	x := put(t, text)
	change := x.Change
	x.Change = func(now *model.Resource) (*model.Resource, error) {
		if now != nil {
			return nil, errExists
		}
		return change(now)
	}
	return x
}

func remove(id model.ID, cascade bool) engine.Edit {
	return engine.Edit{ID: id, Cascade: cascade, Change: func(*model.Resource) (*model.Resource, error) { return nil, nil }}
}

func (f *fixture) edit(edits ...engine.Edit) []engine.Edited {
	f.t.Helper()
	edited, _, err := f.Edit(f.ctx, edits, false)
	require.NoError(f.t, err)
	require.Len(f.t, edited, len(edits))
	return edited
}

// get is one resource as Get reads it.
func (f *fixture) get(id model.ID) engine.Object {
	f.t.Helper()
	objects, err := f.Get(f.ctx, engine.Filter{Kind: id.Kind, VPC: id.VPC, Name: id.Name})
	require.NoError(f.t, err)
	require.Len(f.t, objects, 1, id)
	return objects[0]
}

// counted counts the transactions that change something.
type counted struct {
	engine.Store
	commits int
}

func (c *counted) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	if !p.Empty() || bump {
		c.commits++
	}
	return c.Store.Commit(ctx, p, bump)
}

func shop(f *fixture) {
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24") + tier("shop", "small", "10.0.1.0/29"))
}

func web(i int) string { return fmt.Sprintf("a%d", i) }

func TestEditsLandTogether(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	store := &counted{Store: f.NB}
	f.NB = store
	var edits []engine.Edit
	for i := range 64 {
		edits = append(edits, create(t, att("shop", web(i), "web")))
	}
	edited := f.edit(edits...)
	require.Equal(t, 1, store.commits)
	stored, err := f.Get(f.ctx, engine.Filter{Kind: model.KindAttachment})
	require.NoError(t, err)
	for i, x := range edited {
		require.NoError(t, x.Err)
		require.False(t, x.Existed)
		require.Contains(t, stored, x.Object)
		require.Len(t, x.Result.VPCs, 1)
		v := x.Result.VPCs[0]
		require.Equal(t, []engine.ResourceChange{{Action: engine.Create, Kind: model.KindAttachment, VPC: "shop", Name: web(i)}}, v.Changes)
		require.True(t, v.Done)
		require.Equal(t, 1, v.Landed)
	}
	f.checkTier("shop", 64)

	// Again: nothing changes, and nothing is sent.
	edited = f.edit(put(t, att("shop", web(0), "web")), engine.Edit{ID: edits[1].ID,
		Change: func(now *model.Resource) (*model.Resource, error) { return now, nil }}, remove(id(model.KindAttachment, "shop", "none"), false))
	require.Equal(t, 1, store.commits)
	for i, x := range edited {
		require.NoError(t, x.Err)
		require.Empty(t, x.Result.VPCs)
		require.Equal(t, i < 2, x.Existed)
	}
	require.Equal(t, f.get(edits[0].ID), edited[0].Object)
	require.Equal(t, f.get(edits[1].ID), edited[1].Object)
	require.Nil(t, edited[2].Object.Resource)

	// A removed resource is told as it was.
	was := f.get(edits[5].ID)
	edited = f.edit(remove(edits[5].ID, false))
	require.Equal(t, was, edited[0].Object)
	require.True(t, edited[0].Existed)
	require.Equal(t, engine.Remove, edited[0].Result.VPCs[0].Changes[0].Action)
	f.checkTier("shop", 63)
}

func TestEditOfEachKind(t *testing.T) {
	f := newFixture(t, false)
	offering := func(limit int) string {
		return fmt.Sprintf("---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {capabilities: {distributedRouting: true}, limits: {tiers: %d}}}\n", limit)
	}
	network := "---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/16], offering: small}}\n"
	texts := []string{offering(2), network, document("ACL", "shop", "l", "rules: [{protocol: tcp}]"), tierWith("shop", "web", "cidrs: [10.0.0.0/24], acl: l"), att("shop", "a", "web")}
	for _, text := range texts {
		x := create(t, text)
		edited := f.edit(x)
		require.NoError(t, edited[0].Err)
		require.Equal(t, f.get(x.ID), edited[0].Object, x.ID)
	}
	f.noDrift()
	edited := f.edit(put(t, offering(3)))
	require.NoError(t, edited[0].Err)
	require.True(t, edited[0].Existed)
	require.Equal(t, []string{"shop"}, edited[0].Object.Status.(*engine.OfferingStatus).UsedBy)

	edited = f.edit(remove(id(model.KindTier, "shop", "web"), false))
	requireCode(t, edited[0].Err, model.CodeInUse, "Attachment shop/a")
	edited = f.edit(remove(id(model.KindVPCOffering, "", "small"), false))
	requireCode(t, edited[0].Err, model.CodeInUse, "VPC shop")

	// A cascade tells all that goes along.
	edited, nbCfg, err := f.Edit(f.ctx, []engine.Edit{remove(id(model.KindVPC, "", "shop"), true)}, true)
	require.NoError(t, err)
	require.Positive(t, nbCfg)
	require.NoError(t, edited[0].Err)
	require.Equal(t, "shop", edited[0].Object.Resource.Metadata.Name)
	require.Equal(t, &engine.VPCStatus{Tiers: 1, ACLs: 1, Attachments: 1}, edited[0].Object.Status)
	require.Len(t, edited[0].Result.VPCs[0].Changes, 4)
	edited = f.edit(remove(id(model.KindVPCOffering, "", "small"), false))
	require.NoError(t, edited[0].Err)
	require.NotContains(t, f.dump(), "ovn-vpc")
}

func requireCode(t *testing.T, err error, code model.Code, words ...string) {
	t.Helper()
	var invalid *engine.InvalidError
	require.ErrorAs(t, err, &invalid)
	for _, d := range invalid.Diagnostics.Errors() {
		require.Equal(t, code, d.Code, d)
	}
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
}

// One that fails fails alone, whatever is wrong with it.
func TestAnEditFailsAlone(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	f.apply(document("Attachment", "shop", "old", "tier: web, addresses: [10.0.0.9]"))
	f.nbctl("ls-add", "foreign", "--", "lsp-add", "foreign", "theirs")
	mine := errors.New("mine")
	edits := []engine.Edit{
		create(t, att("shop", "one", "web")),
		engine.Edit{ID: id(model.KindAttachment, "shop", "two"), Change: func(*model.Resource) (*model.Resource, error) { return nil, mine }},
		create(t, att("shop", "three", "nowhere")),
		create(t, document("Attachment", "shop", "four", "tier: web, addresses: [10.0.0.9]")),
		create(t, document("Attachment", "shop", "five", "tier: web, interfaceID: theirs")),
		put(t, document("Attachment", "shop", "old", "tier: small")),
		create(t, att("shop", "seven", "web")),
		create(t, document("Attachment", "shop", "eight", "tier: web, addresses: [10.0.9.9]")),
		engine.Edit{ID: id(model.KindAttachment, "shop", "nine"), Change: put(t, att("shop", "another", "web")).Change},
	}
	edited := f.edit(edits...)
	require.NoError(t, edited[0].Err)
	require.ErrorIs(t, edited[1].Err, mine)
	requireCode(t, edited[2].Err, "", "nowhere")
	requireCode(t, edited[3].Err, model.CodeTaken, "10.0.0.9", "Attachment shop/old")
	requireCode(t, edited[4].Err, model.CodeTaken, "theirs")
	requireCode(t, edited[5].Err, model.CodeImmutable, "spec.tier")
	require.NoError(t, edited[6].Err)
	requireCode(t, edited[7].Err, "", "10.0.9.9")
	require.ErrorContains(t, edited[8].Err, "makes it")
	for i, x := range edited {
		var invalid *engine.InvalidError
		if errors.As(x.Err, &invalid) {
			for _, d := range invalid.Diagnostics {
				require.Equal(t, edits[i].ID.String(), d.Resource)
			}
			require.Empty(t, x.Result.VPCs)
		}
	}
	f.checkTier("shop", 3)
}

// Of those that don't fit together the earlier win.
func TestEarlierEditsWin(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	claim := func(name string, addresses string) engine.Edit {
		return create(t, document("Attachment", "shop", name, "tier: web, addresses: ["+addresses+"]"))
	}
	// z has the address though a comes first by name; b collides with a alone.
	edited := f.edit(claim("z", "10.0.0.9"), claim("a", "10.0.0.9, 10.0.0.10"), claim("b", "10.0.0.10"), create(t, att("shop", "m", "web")))
	require.NoError(t, edited[0].Err)
	requireCode(t, edited[1].Err, model.CodeTaken, "10.0.0.9")
	require.NoError(t, edited[2].Err)
	require.NoError(t, edited[3].Err)

	// A tier with room for five: one that fails by itself holds no address.
	var edits []engine.Edit
	f.nbctl("ls-add", "foreign", "--", "lsp-add", "foreign", "theirs")
	edits = append(edits, create(t, document("Attachment", "shop", "s", "tier: small, interfaceID: theirs")))
	for i := range 12 {
		edits = append(edits, create(t, att("shop", fmt.Sprintf("s%d", i), "small")))
	}
	edited = f.edit(edits...)
	requireCode(t, edited[0].Err, model.CodeTaken)
	for i, x := range edited[1:] {
		if i < 5 {
			require.NoError(t, x.Err)
		} else {
			requireCode(t, x.Err, model.CodeLimit, "no free address")
		}
	}
	f.checkTier("shop", 3+5)
}

func TestLimitsOfAnOfferingAmongEdits(t *testing.T) {
	f := newFixture(t, false)
	f.apply("---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {capabilities: {distributedRouting: true}, limits: {attachments: 10}}}\n" +
		"---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/16], offering: small}}\n" + tier("shop", "web", "10.0.0.0/24") + att("shop", "z", "web"))
	edits := []engine.Edit{put(t, document("Attachment", "shop", "z", "tier: web, hostname: z"))}
	for i := range 20 {
		edits = append(edits, create(t, att("shop", web(20-i), "web")))
	}
	edited := f.edit(edits...)
	for i, x := range edited {
		if i < 10 {
			require.NoError(t, x.Err, i)
		} else {
			requireCode(t, x.Err, model.CodeLimit, "permits 10")
		}
	}
	f.checkTier("shop", 10)
}

// A limit holds among writers that don't know of each other, and those count too
// that the edits don't look at.
func TestLimitOfAnOfferingAmongWriters(t *testing.T) {
	const limit = 20
	f := newFixture(t, false)
	f.apply("---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: small}, spec: {capabilities: {distributedRouting: true}, limits: {attachments: 20}}}\n" +
		"---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop}, spec: {cidrs: [10.0.0.0/16], offering: small}}\n" + tier("shop", "web", "10.0.0.0/24") + att("shop", "z", "web"))
	var writers sync.WaitGroup
	outcomes := make([]error, 0, 2*limit)
	var mu sync.Mutex
	for k, w := range []*fixture{f, connect(t, f.sandbox, "default")} {
		w.mirror()
		var edits []engine.Edit
		for i := range limit {
			x := create(t, att("shop", fmt.Sprintf("a-%d-%d", k, i), "web"))
			x.Hasty = i%2 == 0
			edits = append(edits, x)
		}
		writers.Go(func() {
			for _, x := range edits {
				edited, _, err := w.Edit(f.ctx, []engine.Edit{x}, false)
				if err == nil {
					err = edited[0].Err
				}
				mu.Lock()
				outcomes = append(outcomes, err)
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	made := 1
	for _, err := range outcomes {
		if err == nil {
			made++
		} else {
			requireCode(t, err, model.CodeLimit, "permits 20")
		}
	}
	require.Equal(t, limit, made)
	f.checkTier("shop", limit)
	f.noDrift()
}

// Edits of the structure and of what is in it, together.
func TestMixedEdits(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	edited := f.edit(create(t, att("shop", "first", "late")), create(t, tier("shop", "late", "10.0.2.0/24")), create(t, tier("shop", "over", "10.0.0.0/23")))
	require.NoError(t, edited[0].Err)
	require.NoError(t, edited[1].Err)
	requireCode(t, edited[2].Err, model.CodeTaken, "overlaps")

	// What comes into a tier that goes: either, not both.
	edited = f.edit(remove(id(model.KindTier, "shop", "small"), false), create(t, att("shop", "second", "small")))
	requireCode(t, edited[0].Err, model.CodeInUse, "Attachment shop/second")
	require.NoError(t, edited[1].Err)
	// A cascade takes along what has come with it.
	edited = f.edit(remove(id(model.KindTier, "shop", "small"), true), create(t, att("shop", "third", "small")))
	require.NoError(t, edited[0].Err)
	require.Len(t, edited[0].Result.VPCs[0].Changes, 3)
	require.NoError(t, edited[1].Err)

	// A list that is changed while a cascade takes a tier out of it.
	f.apply(document("ACL", "shop", "l", "rules: [{tiers: [late, web]}]"))
	edited = f.edit(put(t, document("ACL", "shop", "l", "rules: [{tiers: [late, web], protocol: tcp}]")), remove(id(model.KindTier, "shop", "late"), true))
	require.NoError(t, edited[0].Err)
	require.NoError(t, edited[1].Err)
	require.Equal(t, []string{"web"}, f.get(edited[0].Object.Resource.ID()).Resource.Spec.(*model.ACLSpec).Rules[0].Tiers)
	f.noDrift()

	_, _, err := f.Edit(f.ctx, []engine.Edit{remove(id(model.KindVPC, "", "shop"), true), remove(id(model.KindVPC, "", "other"), true)}, false)
	require.ErrorContains(t, err, "two VPCs")
	_, _, err = f.Edit(f.ctx, []engine.Edit{remove(id(model.KindVPC, "", "shop"), true), remove(id(model.KindVPC, "", "shop"), true)}, false)
	require.ErrorContains(t, err, "two edits")
	edited, _, err = f.Edit(f.ctx, nil, true)
	require.NoError(t, err)
	require.Empty(t, edited)
}

// Two engines, sixteen writers each, in batches into one tier.
func TestManyWritersOfBatches(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16, 2001:db8::/48") + tier("shop", "web", "10.0.0.0/20, 2001:db8::/64"))
	var mu sync.Mutex
	given := map[string][]netip.Addr{}
	var wg sync.WaitGroup
	for e := range 2 {
		c := connect(t, f.sandbox, "default")
		for w := range 16 {
			wg.Go(func() {
				for round := range 4 {
					var edits []engine.Edit
					for i := range 8 {
						edits = append(edits, create(t, att("shop", fmt.Sprintf("e%d-w%d-r%d-%d", e, w, round, i), "web")))
					}
					edited, _, err := c.Edit(c.ctx, edits, false)
					if err != nil {
						var conflict *engine.ConflictError
						require.ErrorAs(t, err, &conflict)
						continue
					}
					mu.Lock()
					for i, x := range edited {
						require.NoError(t, x.Err)
						given[edits[i].ID.Name] = x.Object.Resource.Spec.(*model.AttachmentSpec).Addresses
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	require.NotEmpty(t, given)
	f.checkTier("shop", len(given))
	for name, spec := range f.attachments("shop") {
		require.Equal(t, given[name], spec.Addresses)
	}
}
