package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// manyNames is from how many names on one scan is cheaper than asking for each.
const manyNames = 32

// manyVPCs is from how many VPCs on one scan is cheaper than asking for each.
const manyVPCs = 4

// read reads the scope in one transaction, or takes it from the mirror.
func (e *Engine) read(ctx context.Context, s scope) (*world, error) {
	if e.Mirror.lock(ctx) {
		defer e.Mirror.mu.RUnlock()
		s.attachments = nil
		return e.Mirror.wide(s)
	}
	if s.attachments == nil {
		return e.readFresh(ctx, s)
	}
	w, err := e.readFresh(ctx, s)
	if err != nil || !w.expects() {
		return w, err
	}
	s.attachments = nil
	return e.readFresh(ctx, s)
}

// readBeside reads what a change of a tier's list hangs on: without a mirror all of its
// VPC.
func (e *Engine) readBeside(ctx context.Context, tier model.ID) (*world, error) {
	if !e.Mirror.lock(ctx) {
		return e.read(ctx, scope{vpcs: []string{tier.VPC}})
	}
	defer e.Mirror.mu.RUnlock()
	if names, known := e.Mirror.judging(tier.VPC); known {
		if w, err := e.Mirror.narrow([]Edit{{ID: tier}}, names...); w != nil || err != nil {
			return w, err
		}
	}
	return e.Mirror.wide(scope{vpcs: []string{tier.VPC}})
}

// expects tells whether there are expectations, which may be about attachments.
func (w *world) expects() bool {
	for id := range w.resources {
		if id.Kind == model.KindExpectation {
			return true
		}
	}
	return slices.ContainsFunc(w.lost, func(r *model.Resource) bool { return r.Kind == model.KindExpectation })
}

// readFresh reads the scope from the database itself. Of attachments it reads all
// or none. The names of all ports are read where some of those that are asked for
// have none yet: a name belongs to one port.
func (e *Engine) readFresh(ctx context.Context, s scope) (*world, error) {
	names := nameQueries(s.puts)
	all := len(names) > 0 && names[len(names)-1].Table == nbdb.TableLogicalSwitchPort && names[len(names)-1].Where == nil
	if all {
		names = everyName(false)
	}
	state, err := e.NB.Read(ctx, e.queries(s, names)...)
	if err != nil {
		return nil, fmt.Errorf("reading the northbound database: %w", err)
	}
	w, err := newWorld(e.Owner, s, state, readStored)
	if err != nil || !all || !slices.ContainsFunc(s.puts, w.unnamed) {
		return w, err
	}
	return w, e.addNames(ctx, w, e.elsewhere(s, everyName(true)))
}

// unnamed tells whether a resource lacks the port that is to have its name.
func (w *world) unnamed(r *model.Resource) bool {
	name := portName(r)
	return name != "" && !slices.ContainsFunc(w.rows[r.ID()], func(row nbdb.Row) bool {
		port, ok := row.(*nbdb.LogicalSwitchPort)
		return ok && port.Name == name
	})
}

// portName is the name of the switch port that a resource brings, "" if none.
func portName(r *model.Resource) string {
	switch spec := r.Spec.(type) {
	case *model.AttachmentSpec:
		return spec.InterfaceID
	case *model.TierSpec:
		return translate.SwitchRouterPortName(r.Metadata.VPC, r.Metadata.Name)
	}
	return ""
}

// queries are what has to be read of a scope, beside what finds out about names.
func (e *Engine) queries(s scope, aboutNames []nbdb.Query) []nbdb.Query {
	names := []string{"_uuid", "name"}
	queries := []nbdb.Query{
		{Table: nbdb.TableNBGlobal},
		// Everybody's switches and routers count for the capacity; names of
		// all tables are shared with other owners.
		{Table: nbdb.TableLogicalSwitch, Columns: names},
		{Table: nbdb.TableLogicalRouter, Columns: names},
	}
	queries = append(queries, e.elsewhere(s, aboutNames)...)
	owned := func(includes map[string]string) {
		for _, table := range ownedTables {
			q := nbdb.Query{Table: table, Includes: includes, NoStatus: s.noStatus && table == nbdb.TableLogicalSwitchPort}
			if s.attachments != nil && table == nbdb.TableLogicalSwitchPort {
				q.Where = map[string]any{"type": translate.RouterPortType}
			}
			queries = append(queries, q)
		}
	}
	if s.all || len(s.vpcs) > manyVPCs {
		owned(map[string]string{translate.KeyOwner: e.Owner})
	} else {
		for _, v := range s.vpcs {
			owned(map[string]string{translate.KeyOwner: e.Owner, translate.KeyVPC: v})
		}
	}
	return queries
}

// nameQueries find out who has the names of resources' ports; the names of router
// ports and port groups go along.
func nameQueries(puts []*model.Resource) []nbdb.Query {
	if len(puts) == 0 {
		return nil
	}
	all := everyName(true)
	queries, names := everyName(false), all[0].Columns
	for _, r := range puts {
		n := portName(r)
		if n == "" {
			continue
		}
		if queries = append(queries, nbdb.Query{Table: nbdb.TableLogicalSwitchPort, Columns: names, Where: map[string]any{"name": n}}); len(queries) > manyNames+len(all)-1 {
			return all
		}
	}
	return queries
}

// everyName are the queries for more names than are asked for one by one, those of
// switch ports among them or not.
func everyName(ports bool) []nbdb.Query {
	names := []string{"_uuid", "name"}
	queries := []nbdb.Query{{Table: nbdb.TableLogicalRouterPort, Columns: names}, {Table: nbdb.TablePortGroup, Columns: names}}
	if ports {
		queries = append(queries, nbdb.Query{Table: nbdb.TableLogicalSwitchPort, Columns: names})
	}
	return queries
}

// elsewhere cuts queries for the names of all ports down to the ports that are
// not read anyway, where that can be said: those of others, and of other VPCs.
func (e *Engine) elsewhere(s scope, queries []nbdb.Query) []nbdb.Query {
	last := len(queries) - 1
	if last < 0 || queries[last].Where != nil {
		return queries
	}
	one := !s.all && len(s.vpcs) == 1
	if one {
		vpcs := queries[last]
		vpcs.Excludes = map[string]string{translate.KeyVPC: s.vpcs[0]}
		queries = append(queries, vpcs)
	}
	if one || s.all || len(s.vpcs) > manyVPCs {
		queries[last].Excludes = map[string]string{translate.KeyOwner: e.Owner}
	}
	return queries
}

// readNames adds to a world that was read without them who has the names of
// resources.
func (e *Engine) readNames(ctx context.Context, w *world, puts []*model.Resource) error {
	if len(puts) == 0 {
		return nil
	}
	return e.addNames(ctx, w, nameQueries(puts))
}

func (e *Engine) addNames(ctx context.Context, w *world, queries []nbdb.Query) error {
	state, err := e.NB.Read(ctx, queries...)
	if err != nil {
		return fmt.Errorf("reading names: %w", err)
	}
	for _, table := range []string{nbdb.TableLogicalRouterPort, nbdb.TablePortGroup, nbdb.TableLogicalSwitchPort} {
		for _, r := range state.Rows(table) {
			if w.state.Get(table, r.ID()) == nil {
				w.state.Put(r)
			}
		}
	}
	return nil
}
