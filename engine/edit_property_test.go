package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Whatever edits come together: those that land are stored as they say, those
// that fail have changed nothing, and all fits together afterwards.
func TestAnyEditsTogether(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	f.anyEdits()
}

// The same, planned from the mirror.
func TestAnyEditsFromTheMirror(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	f.mirror()
	f.anyEdits()
}

func (f *fixture) anyEdits() {
	t := f.t
	rapid.Check(t, func(r *rapid.T) {
		before := f.everything()
		var edits []engine.Edit
		for range rapid.IntRange(1, 8).Draw(r, "edits") {
			x := drawEdit(t, r)
			if !slices.ContainsFunc(edits, func(y engine.Edit) bool { return y.ID == x.ID }) {
				edits = append(edits, x)
			}
		}
		edited := f.edit(edits...)
		after := f.everything()
		touched := map[model.ID]bool{}
		// A removal that has come after the others may have taken some along.
		later := slices.ContainsFunc(edited, func(x engine.Edited) bool {
			return x.Err == nil && x.Existed && x.Object.Resource.Kind != model.KindAttachment && after[x.Object.Resource.ID()].Resource == nil
		})
		for i, x := range edited {
			id := edits[i].ID
			if x.Err != nil {
				var invalid *engine.InvalidError
				require.True(r, errors.As(x.Err, &invalid) || errors.Is(x.Err, errExists), x.Err)
				require.Empty(r, x.Result.VPCs)
				continue
			}
			if stored, there := after[id]; !later {
				require.Equal(r, before[id].Resource != nil, x.Existed)
				if there {
					require.Equal(r, stored, x.Object)
				} else if x.Existed {
					require.Equal(r, before[id].Resource, x.Object.Resource)
				}
			}
			for _, v := range x.Result.VPCs {
				require.True(r, v.Done)
				for _, c := range v.Changes {
					touched[c.ID()] = true
				}
			}
		}
		for id, o := range before {
			if !touched[id] {
				require.Equal(r, o.Resource, after[id].Resource, "%s has changed, and no edit says so", id)
			}
		}
		f.noDrift()
	})
}

func (f *fixture) everything() map[model.ID]engine.Object {
	f.t.Helper()
	objects, err := f.Get(f.ctx, engine.Filter{VPC: "shop"})
	require.NoError(f.t, err)
	out := map[model.ID]engine.Object{}
	for _, o := range objects {
		out[o.Resource.ID()] = o
	}
	return out
}

func drawEdit(t *testing.T, r *rapid.T) engine.Edit {
	tiers := rapid.SampledFrom([]string{"web", "small", "t0", "t1", "none"})
	name := func(prefix string) string { return fmt.Sprintf("%s%d", prefix, rapid.IntRange(0, 5).Draw(r, prefix)) }
	kind := rapid.SampledFrom([]model.Kind{model.KindAttachment, model.KindAttachment, model.KindAttachment, model.KindTier, model.KindACL, model.KindVPC}).Draw(r, "kind")
	if kind != model.KindVPC && rapid.IntRange(0, 3).Draw(r, "remove") == 0 {
		id := map[model.Kind]model.ID{
			model.KindAttachment: id(kind, "shop", name("a")),
			model.KindTier:       id(kind, "shop", tiers.Draw(r, "tier")),
			model.KindACL:        id(kind, "shop", name("l")),
		}[kind]
		return remove(id, kind != model.KindTier || id.Name != "web" && rapid.Bool().Draw(r, "cascade"))
	}
	text := ""
	switch kind {
	case model.KindAttachment:
		spec := "tier: " + tiers.Draw(r, "tier")
		if rapid.Bool().Draw(r, "fixed") {
			spec += fmt.Sprintf(", addresses: [10.0.%d.%d]", rapid.IntRange(0, 2).Draw(r, "net"), rapid.IntRange(1, 6).Draw(r, "host"))
		}
		if rapid.IntRange(0, 3).Draw(r, "named") == 0 {
			spec += ", interfaceID: i" + name("i")
		}
		text = document("Attachment", "shop", name("a"), spec)
	case model.KindVPC:
		text = fmt.Sprintf("---\n{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: shop, labels: {n: %q}}, spec: {cidrs: [10.0.0.0/16], mtu: %d}}\n",
			name("n"), rapid.SampledFrom([]int{1400, 1400, 1300}).Draw(r, "mtu"))
	case model.KindTier:
		n := rapid.IntRange(0, 1).Draw(r, "n")
		text = tierWith("shop", fmt.Sprintf("t%d", n), fmt.Sprintf("cidrs: [10.0.%d.0/29], acl: %s", rapid.IntRange(1, 3).Draw(r, "net"),
			rapid.SampledFrom([]string{"default-deny", "l0", "l1"}).Draw(r, "acl")))
	default:
		text = document("ACL", "shop", name("l"), "rules: [{tiers: ["+tiers.Draw(r, "tier")+"]}]")
	}
	if rapid.Bool().Draw(r, "create") {
		return create(t, text)
	}
	return put(t, text)
}
