package translate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/internal/golden"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// TestPlanGolden plans the files after*.yaml for a database that holds what
// before*.yaml says, with the word prune in the comment as `apply --prune`
// does. The file `plan` says what would be sent; rows stand with their keys.
func TestPlanGolden(t *testing.T) {
	golden.Archives(t, "testdata/plan/*.txtar", "plan", func(t *testing.T, archive *txtar.Archive) []byte {
		before := load(t, archive, func(name string) bool { return strings.HasPrefix(name, "before") })
		have := union(t, before)
		var inputs []model.Input
		for _, f := range archive.Files {
			if strings.HasPrefix(f.Name, "after") {
				inputs = append(inputs, model.Input{Name: f.Name, Data: f.Data})
			}
		}
		prune := strings.Contains(string(archive.Comment), "prune")
		db := database{state: stateOf(have)}
		set, found := model.Load(inputs...)
		require.Empty(t, found.String())
		text := plan(t, db, set, prune, names(have))
		slices.Reverse(set.Resources)
		again := plan(t, db, set, prune, names(have))
		require.Equal(t, string(text), string(again), "the plan depends on the order of the documents")
		return text
	})
}

// plan is the engine's plan as text.
func plan(t *testing.T, db database, set *model.Set, prune bool, k keys) []byte {
	e := engine.New(db, "default", "cli")
	e.Now = func() time.Time { return time.Unix(1700000000, 0) }
	e.Rand = func() uint64 { return 1 }
	p, err := e.Plan(t.Context(), set, prune)
	require.NoError(t, err)
	require.Empty(t, p.Diagnostics.String())
	w := &planText{keys: k}
	for _, v := range p.VPCs {
		for _, tx := range v.Transactions {
			for _, r := range tx.Rows {
				w.keys[r.UUID] = "@" + r.Key
			}
		}
		w.vpc(v)
	}
	return w.keys.replace(w.text.Bytes())
}

// database is a northbound database at one moment. It answers a query with
// every row: more than was asked for.
type database struct{ state *nbdb.State }

func (d database) Read(context.Context, ...nbdb.Query) (*nbdb.State, error) { return d.state, nil }

func (database) Follow(context.Context, nbdb.Sink, ...nbdb.Query) error {
	return errors.New("a plan follows nothing")
}

func (database) Commit(context.Context, nbdb.Plan, bool) (int, error) {
	return 0, errors.New("a plan writes nothing")
}

func (database) WaitCfg(context.Context, string, int) error { return nil }

// stateOf puts the edges and entries of a whole desired state into its rows.
func stateOf(f nbdb.Fragment) *nbdb.State {
	state := nbdb.NewState(append(slices.Clone(f.Rows), &nbdb.NBGlobal{UUID: globalRow, ExternalIDs: map[string]string{}})...)
	for _, e := range f.Edges {
		set := edgeSet(state.Get(e.Table, e.From), e.Column)
		*set = append(*set, e.Target)
	}
	for _, e := range f.Entries {
		state.Get(e.Table, e.Row).IDs()[e.Key] = e.Value
	}
	return state
}

func edgeSet(r nbdb.Row, column string) *[]nbdb.UUID {
	switch r := r.(type) {
	case *nbdb.LogicalSwitch:
		return map[string]*[]nbdb.UUID{"ports": &r.Ports, "acls": &r.ACLs}[column]
	case *nbdb.LogicalRouter:
		return map[string]*[]nbdb.UUID{"ports": &r.Ports, "policies": &r.Policies}[column]
	case *nbdb.PortGroup:
		return map[string]*[]nbdb.UUID{"acls": &r.ACLs}[column]
	}
	return nil
}

// planText writes a plan for readers: changes, then each transaction with
// guards, rows, edges and entries.
type planText struct {
	text bytes.Buffer
	keys keys
}

func (w *planText) line(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

func (w *planText) vpc(v engine.VPCPlan) {
	w.line("VPC %s", v.VPC)
	for _, c := range v.Changes {
		w.line("    %s", c)
		for _, f := range c.Fields {
			w.line("        %s: %s -> %s", f.Field, value(f.Old), value(f.New))
		}
	}
	for _, tx := range v.Transactions {
		w.line("transaction")
		for _, g := range tx.Guards {
			w.guard(g)
		}
		for _, r := range tx.Rows {
			w.row(r)
		}
		for _, e := range tx.Edges {
			w.line("    %s %s %s%s%s", e.Table, e.From, e.Column, w.references(" +=", e.Add), w.references(" -=", e.Remove))
		}
		for _, e := range tx.Entries {
			w.line("    %s %s external_ids:%s: %s -> %s", e.Table, e.Row, e.Key, value(e.Old), value(e.New))
		}
	}
}

func (w *planText) guard(g nbdb.Guard) {
	s := fmt.Sprintf("    guard %s", g.Table)
	if g.Row != "" {
		s += " " + string(g.Row)
	} else {
		s += fmt.Sprintf(" rows %v", g.Rows)
	}
	if g.Match != "" {
		s += fmt.Sprintf(" %s has %s", g.Match, g.Ref)
	}
	for _, key := range slices.Sorted(maps.Keys(g.Includes)) {
		s += fmt.Sprintf(" %s=%s", key, g.Includes[key])
	}
	for _, column := range slices.Sorted(maps.Keys(g.Columns)) {
		s += fmt.Sprintf(" %s=%v", column, g.Columns[column])
	}
	w.line("%s", s)
}

func (w *planText) row(r nbdb.RowChange) {
	w.line("    %s %s %s", r.Op, r.Table, r.UUID)
	for _, c := range r.Columns {
		switch r.Op {
		case nbdb.Insert:
			w.line("        %s = %s", c.Column, value(c.New))
		case nbdb.Update:
			w.line("        %s: %s -> %s", c.Column, value(c.Old), value(c.New))
		}
	}
}

func (w *planText) references(sign string, ids []nbdb.UUID) string {
	if len(ids) == 0 {
		return ""
	}
	var shown []string
	for _, id := range ids {
		shown = append(shown, string(w.keys.replace([]byte(id))))
	}
	slices.Sort(shown)
	return fmt.Sprintf("%s %v", sign, shown)
}

func value(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
