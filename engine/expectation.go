package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// readExpectations reads what the routers store beside their VPCs, then the
// second copies of what somebody has removed or damaged there.
func (w *world) readExpectations(owned []nbdb.Row) {
	for _, r := range owned {
		router, ok := r.(*nbdb.LogicalRouter)
		if !ok {
			continue
		}
		for key, value := range router.ExternalIDs {
			_, res, err := expectation(w.owner, router, key, value)
			switch {
			case err != nil:
				id := model.ID{Kind: model.KindExpectation, VPC: router.IDs()[translate.KeyVPC], Name: strings.TrimPrefix(key, translate.KeyExpectationPrefix)}
				w.unread = append(w.unread, unreadable{router, key, id, err})
			case res != nil:
				w.resources[res.ID()] = res
			}
		}
	}
	for _, r := range owned {
		home, ok := r.(*nbdb.PortGroup)
		if !ok || home.UUID != translate.HistoryUUID(w.owner, home.ExternalIDs[translate.KeyVPC]) {
			continue
		}
		for key, value := range home.ExternalIDs {
			id, res, _ := expectation(w.owner, home, key, value)
			if id == (model.ID{}) {
				continue
			}
			w.copies[id] = []nbdb.Entry{{Table: nbdb.TablePortGroup, Row: home.UUID, Key: key, Value: value}}
			if res != nil && w.resources[id] == nil {
				w.lost = append(w.lost, res)
			}
		}
	}
}

// expectation is the one that an entry of one of its VPC's rows is for, which is
// none for the zero ID, and what it stores.
func expectation(owner string, row nbdb.Row, key, value string) (id model.ID, r *model.Resource, err error) {
	name, ok := strings.CutPrefix(key, translate.KeyExpectationPrefix)
	if !ok {
		return model.ID{}, nil, nil
	}
	id = model.ID{Kind: model.KindExpectation, VPC: row.IDs()[translate.KeyVPC], Name: name}
	r, err = entry(id, owner, key, value)
	return id, r, err
}

// expectation are the entries in which an expectation is stored, those that can't
// be read too.
func (w *world) expectation(id model.ID) []nbdb.Entry {
	entries := slices.Clone(w.copies[id])
	key := translate.KeyExpectationPrefix + id.Name
	if router := nbdb.Lookup[*nbdb.LogicalRouter](w.state, translate.RouterUUID(w.owner, id.VPC)); router != nil {
		if value, ok := router.ExternalIDs[key]; ok {
			entries = append(entries, nbdb.Entry{Table: nbdb.TableLogicalRouter, Row: router.UUID, Key: key, Value: value})
		}
	}
	return entries
}

// expectation relies on the tiers and attachments that an expectation names.
func (g *guarder) expectation(c *change) {
	if c.after == nil {
		return
	}
	ends := slices.Concat(g.all(model.KindTier), g.all(model.KindAttachment))
	users := model.Users(append(slices.Clone(ends), c.after))
	for _, r := range ends {
		if slices.Contains(users[r.ID()], c.id) {
			g.digest(r.ID())
		}
	}
}

// expectations relies on the VPC having those that were read: on the note that
// changes with them, or where none has been written yet on the router's keys.
func (g *guarder) expectations() {
	owner := g.desire.world.owner
	switch note := g.notes[translate.NoteExpected]; {
	case note != nil:
		g.add("expectations", nbdb.Guard{Table: nbdb.TablePortGroup, Row: translate.HistoryUUID(owner, g.vpc),
			Includes: map[string]string{translate.NoteExpected: *note}})
	case g.router != nil:
		g.add("expectations", nbdb.Guard{Table: nbdb.TableLogicalRouter, Row: translate.RouterUUID(owner, g.vpc),
			Columns: map[string]any{"external_ids": maps.Clone(g.router)}})
	}
}

// concernsItself tells whether a change of an attachment that was there concerns
// an expectation that names it: there may be one by now.
func concernsItself(c *change) bool {
	switch {
	case c.id.Kind != model.KindAttachment || c.before == nil:
		return false
	case c.after == nil:
		return true
	}
	was, is := c.before.Spec.(*model.AttachmentSpec), c.after.Spec.(*model.AttachmentSpec)
	return was.Enabled != is.Enabled || !slices.Equal(was.Addresses, is.Addresses)
}

// overtake overtakes with expectations what was planned without them, and what
// relies on the addresses that attachments have and may use with a change of these: an
// expectation, and what was found to break none or to open nothing else.
func (g *guarder) overtake(changes []*change) {
	home := translate.HistoryUUID(g.desire.world.owner, g.vpc)
	if slices.ContainsFunc(g.tx.Rows, func(r nbdb.RowChange) bool { return r.Op == nbdb.Insert && r.UUID == home }) {
		// Of its own: what was planned in a VPC of the same name that was there before is overtaken.
		first := strconv.FormatInt(g.engine.Now().UnixNano(), 36)
		g.tx.Entries = append(g.tx.Entries, nbdb.EntryChange{Table: nbdb.TablePortGroup, Row: home, Key: translate.NoteExpected, New: &first})
		return
	}
	if g.desire.world.historyHome(g.vpc) == nil && g.notes[translate.NoteExpected] == nil || g.desire.resources[model.ID{Kind: model.KindVPC, Name: g.vpc}] == nil {
		return
	}
	expected, relies, adds := false, false, false
	for _, c := range changes {
		expected = expected || c.id.Kind == model.KindExpectation
		relies = relies || c.id.Kind == model.KindExpectation && c.after != nil ||
			g.judged && (c.id.Kind == model.KindTier || c.id.Kind == model.KindACL)
		adds = adds || c.id.Kind == model.KindAttachment && !slices.Equal(allowed(c.before), allowed(c.after)) || c.after != nil && concernsItself(c)
	}
	if expected {
		g.move(translate.NoteExpected, false)
	}
	if relies || adds {
		g.move(translate.NoteAllowed, !relies)
	}
}

// move gives a note at the row HistoryUUID a new value, with over whatever it is
// by now.
func (g *guarder) move(note string, over bool) {
	fresh := strconv.FormatUint(g.engine.Rand(), 36)
	c := nbdb.EntryChange{Table: nbdb.TablePortGroup, Row: translate.HistoryUUID(g.desire.world.owner, g.vpc), Key: note, New: &fresh, Over: over}
	if !over {
		c.Old = g.notes[note]
	}
	g.tx.Entries = append(g.tx.Entries, c)
}

// followRouter is what a transaction makes of the keys of the VPC's router.
func (g *guarder) followRouter() {
	row := translate.RouterUUID(g.desire.world.owner, g.vpc)
	for _, r := range g.tx.Rows {
		if r.UUID != row {
			continue
		}
		if r.Op == nbdb.Delete {
			g.router = nil
			continue
		}
		for _, col := range r.Columns {
			if col.Column != "external_ids" {
				continue
			}
			was, _ := col.Old.(map[string]string)
			is, _ := col.New.(map[string]string)
			if g.router == nil {
				g.router = map[string]string{}
			}
			maps.DeleteFunc(g.router, func(key, _ string) bool { _, ours := was[key]; return ours })
			maps.Copy(g.router, is)
		}
	}
	for _, x := range g.tx.Entries {
		switch {
		case x.Row != row || g.router == nil:
		case x.New == nil:
			delete(g.router, x.Key)
		default:
			g.router[x.Key] = *x.New
		}
	}
}
