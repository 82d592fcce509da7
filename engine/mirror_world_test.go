package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Worlds are what the mirror and the database itself say of an installation, in
// an order that does not hang on chance.
func Worlds(ctx context.Context, e *Engine) (mirrored, fresh any, err error) {
	if e.Mirror.lock(ctx) {
		defer e.Mirror.mu.RUnlock()
	}
	m, err := e.Mirror.wide(scope{all: true})
	if err != nil {
		return nil, nil, err
	}
	f, err := e.readFresh(ctx, scope{all: true})
	return summary(m), summary(f), err
}

func summary(w *world) any {
	byID := func(rows []nbdb.Row) []nbdb.Row {
		return slices.SortedFunc(slices.Values(rows), func(a, b nbdb.Row) int { return cmp.Compare(a.ID(), b.ID()) })
	}
	rows := map[model.ID][]nbdb.Row{}
	edges := map[model.ID][]nbdb.Edge{}
	for id, list := range w.rows {
		rows[id] = byID(list)
		edges[id] = slices.SortedFunc(slices.Values(w.have(id).Edges), func(a, b nbdb.Edge) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Target, b.Target))
		})
	}
	return map[string]any{"resources": w.resources, "digests": w.digests, "rows": rows, "edges": edges, "stored": w.stored,
		"edited": w.edited, "copies": w.copies, "strays": byID(w.strays), "lost": w.lost, "unread": len(w.unread), "datapaths": w.datapaths}
}

// Looked counts the rows of rules and of switch ports that are looked at for a filter.
func Looked(ctx context.Context, e *Engine, f Filter) (rules, ports int, err error) {
	w, err := e.readFor(ctx, f)
	if err != nil {
		return 0, 0, err
	}
	return w.state.Len(nbdb.TableACL), w.state.Len(nbdb.TableLogicalSwitchPort), nil
}

// RulesAlone tells whether an edit of rules is planned from what these come to.
func RulesAlone(e *Engine, x Edit) bool {
	e.Mirror.mu.RLock()
	defer e.Mirror.mu.RUnlock()
	return e.Mirror.rulesOf(x) != nil
}

// Narrow tells whether an edit is planned in a world without attachments that don't
// count for it.
func Narrow(e *Engine, x Edit) bool {
	e.Mirror.mu.RLock()
	defer e.Mirror.mu.RUnlock()
	b := &batch{engine: e, edits: []Edit{x}, runner: e.newRunner(false), outcomes: make([]outcome, 1)}
	_, err := b.lookNarrowly(e.Mirror)
	if err != nil || b.world == nil {
		return false
	}
	_, all := b.world.resources[model.ID{Kind: model.KindAttachment, VPC: x.ID.VPC, Name: "other"}]
	return !all
}
