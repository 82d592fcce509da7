package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// ruleLists are a list of two tiers, one of nobody, and a stateless one.
const ruleLists = 3

// ruled gives a fixture a VPC with lists.
func ruled(f *fixture) {
	f.apply(vpc("shop", "10.0.0.0/16, fd00:10::/48") + acl("shop", "l0", "{number: 3}") + acl("shop", "l1", "") +
		document("ACL", "shop", "l2", "stateless: true") +
		tierWith("shop", "web", "cidrs: [10.0.0.0/24], acl: l0") + tierWith("shop", "small", "cidrs: [10.0.1.0/29, fd00:10:0:1::/64], acl: l0") +
		tierWith("shop", "packets", "cidrs: [10.0.2.0/24], acl: l2"))
}

// ruleEdit is what is done to one rule of a list: it goes where there is none.
type ruleEdit struct {
	list   string
	number int
	rule   *model.Rule
}

var errNoRule = errors.New("no such rule")

func (x ruleEdit) apply(rules []model.Rule) ([]model.Rule, error) {
	at, there := slices.BinarySearchFunc(rules, x.number, func(r model.Rule, n int) int { return cmp.Compare(r.Number, n) })
	switch rules = slices.Clone(rules); {
	case x.rule == nil && !there:
		return nil, errNoRule
	case x.rule == nil:
		return slices.Delete(rules, at, at+1), nil
	case there:
		rules[at] = *x.rule
		return rules, nil
	}
	return slices.Insert(rules, at, *x.rule), nil
}

func (x ruleEdit) edit(hasty bool) engine.Edit {
	return engine.Edit{ID: aclID("shop", x.list), Hasty: hasty, Rules: hasty, Change: func(now *model.Resource) (*model.Resource, error) {
		if now == nil {
			return nil, errNoRule
		}
		next, spec := *now, *now.Spec.(*model.ACLSpec)
		var err error
		if spec.Rules, err = x.apply(spec.Rules); err != nil {
			return nil, err
		}
		next.Spec = &spec
		return &next, nil
	}}
}

func drawRuleEdit(r *rapid.T) ruleEdit {
	x := ruleEdit{list: fmt.Sprintf("l%d", rapid.IntRange(0, ruleLists-1).Draw(r, "list")), number: rapid.IntRange(1, 6).Draw(r, "number")}
	if rapid.IntRange(0, 3).Draw(r, "gone") == 0 {
		return x
	}
	text := rapid.SampledFrom([]string{"protocol: tcp, ports: [22]", "protocol: tcp, ports: [80, 443]", "protocol: all", "protocol: icmpv6"}).Draw(r, "protocol")
	text += rapid.SampledFrom([]string{"", ", tiers: [web]", ", tiers: [small, web]", `, cidrs: [192.0.2.0/24, "2001:db8::/32"]`,
		`, cidrs: ["2001:db8::/32"], tiers: [packets]`}).Draw(r, "far")
	text += rapid.SampledFrom([]string{"", ", direction: egress", ", action: deny"}).Draw(r, "what")
	text += rapid.SampledFrom([]string{"", ", log: true", `, description: "a & b"`}).Draw(r, "more")
	rule, found := model.LoadRule(model.Input{Data: []byte("{" + text + "}")}, aclID("shop", x.list))
	require.Empty(r, found)
	rule.Number = x.number
	x.rule = rule
	return x
}

// ruleModel is what lists are to hold.
type ruleModel map[string][]model.Rule

// take notes an edit, and demands that it went as it should.
func (m ruleModel) take(t require.TestingT, x ruleEdit, edited engine.Edited, err error) {
	require.NoError(t, err)
	rules, refused := x.apply(m[x.list])
	require.ErrorIs(t, edited.Err, refused)
	if refused == nil {
		m[x.list] = rules
	}
}

// read makes the model what is stored.
func (m ruleModel) read(f *fixture) {
	f.t.Helper()
	for i := range ruleLists {
		name := fmt.Sprintf("l%d", i)
		m[name] = f.get(aclID("shop", name)).Resource.Spec.(*model.ACLSpec).Rules
	}
}

// hold demands that engines read what the model says.
func (m ruleModel) hold(t require.TestingT, fixtures ...*fixture) {
	for _, f := range fixtures {
		is := ruleModel{}
		is.read(f)
		for list, rules := range m {
			require.True(t, slices.EqualFunc(rules, is[list], model.Rule.Equal), "%s: %v, not %v", list, is[list], rules)
		}
	}
}

// Edits of rules in haste leave what edits of whole lists leave, also beside
// somebody else who writes, and can be taken back as those.
func TestHastyRules(t *testing.T) {
	f := newFixture(t, false)
	ruled(f)
	f.mirror()
	other := connect(t, f.sandbox, "default") // reads the database
	narrow, back := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		want, states := ruleModel{}, map[int]string{}
		want.read(other)
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			x := drawRuleEdit(r)
			if engine.RulesAlone(f.Engine, x.edit(true)) {
				narrow++
			}
			var theirs []engine.Edit
			var y ruleEdit
			switch rapid.IntRange(0, 3).Draw(r, "other") {
			case 0:
				if y = drawRuleEdit(r); y.list != x.list || y.number != x.number {
					theirs = append(theirs, y.edit(false))
				}
			case 1:
				list := rapid.SampledFrom([]string{"l0", "l1", "l2"}).Draw(r, "of the tier")
				theirs = append(theirs, put(t, tierWith("shop", "packets", "cidrs: ["+rapid.SampledFrom([]string{"10.0.2.0/24", "10.0.3.0/24"}).Draw(r, "cidr")+"], acl: "+list)))
			}
			var beside sync.WaitGroup
			var done []engine.Edited
			var failed error
			beside.Go(func() {
				if theirs != nil {
					done, _, failed = other.Edit(f.ctx, theirs, false)
				}
			})
			edited, _, err := f.Edit(f.ctx, []engine.Edit{x.edit(true)}, false)
			beside.Wait()
			require.NoError(r, failed)
			require.Len(r, edited, 1)
			want.take(r, x, edited[0], err)
			if theirs != nil && theirs[0].ID.Kind == model.KindACL {
				want.take(r, y, done[0], failed)
			}
			want.hold(r, f, other)
			other.noDrift()
			states[f.history("shop").Entries[0].Number] = other.structure("shop")
		}
		for number, state := range states {
			require.Equal(r, state, f.state("shop", number))
		}
		if len(states) > 1 && rapid.Bool().Draw(r, "rollback") {
			number := slices.Min(slices.Collect(maps.Keys(states)))
			f.rollback("shop", engine.RollbackOptions{To: number})
			require.Equal(r, states[number], other.structure("shop"))
			other.noDrift()
			back++
		}
	})
	require.Positive(t, narrow)
	require.Positive(t, back)
}

// An edit in haste tells what one without tells, and leaves the same rows.
func TestHastyRulesTellTheSame(t *testing.T) {
	f, slow := newFixture(t, false), newFixture(t, false)
	ruled(f)
	ruled(slow)
	f.mirror()
	store := &counted{Store: f.NB}
	f.NB = store
	narrow := 0
	rapid.Check(t, func(r *rapid.T) {
		x := drawRuleEdit(r)
		if rapid.IntRange(0, 9).Draw(r, "wrong") == 0 && x.rule != nil {
			x.rule.Tiers = []string{"nosuch"}
		}
		require.Eventually(t, func() bool { return f.Mirror.Current(f.ctx) }, time.Minute, time.Millisecond)
		alone, before := engine.RulesAlone(f.Engine, x.edit(true)), store.commits
		got, want := f.edit(x.edit(true)), slow.edit(x.edit(false))
		require.Equal(r, fmt.Sprint(want[0].Err), fmt.Sprint(got[0].Err))
		want[0].Err, got[0].Err = nil, nil
		require.Equal(r, want, got)
		if alone {
			require.LessOrEqual(r, store.commits, before+1, "what is planned in haste lands")
			narrow++
		}
		require.Equal(r, lines(slow.history("shop")), lines(f.history("shop")))
		require.Equal(r, slow.rows(), f.rows())
	})
	require.Positive(t, narrow)
}

// What has been done by hand to the rows of the rule that an edit is about is mended
// by it; what has been done to others may be left to a repair.
func TestHastyRulesMendTheirRows(t *testing.T) {
	f := newFixture(t, false)
	ruled(f)
	f.mirror()
	other := connect(t, f.sandbox, "default")
	tampered, left := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		for range 3 {
			f.edit(drawRuleEdit(r).edit(true))
		}
		x := drawRuleEdit(r)
		if number := f.tamperRowOf(r); number != 0 {
			tampered++
			if rapid.Bool().Draw(r, "the same") {
				x = f.sameRule(r, number, x)
			}
		}
		require.Eventually(t, func() bool { return f.Mirror.Current(f.ctx) }, time.Minute, time.Millisecond)
		edited := f.edit(x.edit(true))
		require.True(r, edited[0].Err == nil || errors.Is(edited[0].Err, errNoRule), "%v", edited[0].Err)
		rows := other.rowsOfRule(x)
		drift, err := other.Drift(f.ctx, "", true, engine.WaitNone)
		require.NoError(r, err)
		left += len(drift.Faults)
		other.noDrift()
		require.Equal(r, other.rowsOfRule(x), rows)
	})
	require.Positive(t, tampered)
	require.Positive(t, left)
}

// sameRule is an edit of the rule of a number in l0, which it leaves much as it is or
// makes another.
func (f *fixture) sameRule(r *rapid.T, number int, x ruleEdit) ruleEdit {
	x.list, x.number = "l0", number
	for _, rule := range f.get(aclID("shop", "l0")).Resource.Spec.(*model.ACLSpec).Rules {
		if rule.Number == number && rapid.Bool().Draw(r, "described") {
			rule.Description = "now " + rule.Description[:min(len(rule.Description), 9)]
			x.rule = &rule
		}
	}
	if x.rule != nil {
		x.rule.Number = number
	}
	return x
}

// tamperRowOf changes the row of a rule of l0, or takes it from who refers to it, and
// tells the rule's number; 0 where there is none.
func (f *fixture) tamperRowOf(r *rapid.T) int {
	var rows []string
	numbers := map[string]int{}
	for _, row := range nbdb.All[*nbdb.ACL](f.acls()) {
		if of := strings.Split(row.ExternalIDs[translate.KeyKey], "/"); of[0] == "acl-rule" && of[2] == "l0" {
			number, err := strconv.Atoi(of[4])
			require.NoError(r, err)
			rows = append(rows, string(row.UUID))
			numbers[string(row.UUID)] = number
		}
	}
	if len(rows) == 0 {
		return 0
	}
	slices.Sort(rows)
	row := rapid.SampledFrom(rows).Draw(r, "row")
	switch rapid.IntRange(0, 5).Draw(r, "damage") {
	case 0:
		f.nbctl("set", "ACL", row, "action=drop")
	case 1:
		f.nbctl("set", "ACL", row, "priority=7")
	case 2:
		f.nbctl("set", "ACL", row, "match=ip4", "direction=to-lport")
	case 3:
		f.nbctl("remove", "Port_Group", "ovnvpc.shop.l0", "acls", row)
	case 4:
		f.nbctl("remove", "Logical_Switch", "shop/web", "acls", row)
	case 5:
		f.nbctl("remove", "Port_Group", "ovnvpc.shop.l0", "acls", row, "--", "remove", "Logical_Switch", "shop/web", "acls", row,
			"--", "remove", "Logical_Switch", "shop/small", "acls", row)
	}
	return numbers[row]
}

func (f *fixture) acls() *nbdb.State {
	f.t.Helper()
	state, err := f.NB.Read(f.ctx, nbdb.Query{Table: nbdb.TableACL})
	require.NoError(f.t, err)
	return state
}

// rowsOfRule are those of the rule that an edit is about.
func (f *fixture) rowsOfRule(x ruleEdit) map[string]nbdb.Row {
	rows := map[string]nbdb.Row{}
	for _, row := range f.acls().Rows(nbdb.TableACL) {
		key := row.IDs()[translate.KeyKey]
		if of := strings.Split(key, "/"); of[0] == "acl-rule" && of[2] == x.list && of[4] == fmt.Sprint(x.number) {
			rows[key] = row
		}
	}
	return rows
}

// A retry knows that a rule has been added or removed, of which the answer was lost.
func TestHastyRulesOfUnknownOutcome(t *testing.T) {
	f := newFixture(t, false)
	ruled(f)
	slow := connect(t, f.sandbox, "default")
	slow.mirror()
	way := sever(t, f)
	slow.NB = way
	list := aclID("shop", "l0")
	appended := engine.Edit{ID: list, Hasty: true, Rules: true, Change: func(now *model.Resource) (*model.Resource, error) {
		rules := now.Spec.(*model.ACLSpec).Rules
		last := rules[len(rules)-1]
		last.Number++
		return ruleEdit{"l0", last.Number, &last}.edit(true).Change(now)
	}}
	for _, lost := range []string{"request", "answer"} {
		for _, c := range []struct {
			edit engine.Edit
			want []int
		}{{appended, []int{3, 4}}, {appended, []int{3, 4, 5}}, {ruleEdit{list: "l0", number: 4}.edit(true), []int{3, 5}}, {ruleEdit{list: "l0", number: 5}.edit(true), []int{3}}} {
			require.Eventually(t, func() bool { return slow.Mirror.Current(f.ctx) }, time.Minute, time.Millisecond)
			require.True(t, engine.RulesAlone(slow.Engine, c.edit))
			slow.history("shop") // is connected again
			way.armed = []string{lost}
			edited := slow.edit(c.edit)
			require.NoError(t, edited[0].Err, lost)
			require.True(t, edited[0].Existed)
			require.Equal(t, f.get(list), edited[0].Object)
			require.Equal(t, engine.Change, edited[0].Result.VPCs[0].Changes[0].Action)
			require.Equal(t, 1, edited[0].Result.VPCs[0].Landed)
			numbers := []int{}
			for _, rule := range f.get(list).Resource.Spec.(*model.ACLSpec).Rules {
				numbers = append(numbers, rule.Number)
			}
			require.Equal(t, c.want, numbers, lost)
		}
	}
	f.noDrift()
}

// A list that an older version has stored with its rules in one text gets each of
// them a key of its own with the first edit, also of one rule.
func TestHastyRuleOfAListStoredWhole(t *testing.T) {
	f := newFixture(t, false)
	ruled(f)
	list := aclID("shop", "l0")
	f.storeWhole()
	other := connect(t, f.sandbox, "default")
	f.mirror()
	rules := []model.Rule{{Number: 3, Action: model.Allow, Direction: model.Ingress, Protocol: model.ProtoAll}, {Number: 7, Action: model.Deny, Direction: model.Ingress, Protocol: model.ProtoTCP}}
	require.NoError(t, f.edit(ruleEdit{"l0", 7, &rules[1]}.edit(true))[0].Err)
	require.Equal(t, rules, other.get(list).Resource.Spec.(*model.ACLSpec).Rules)
	require.Contains(t, f.stored(), translate.KeyRulePrefix+"3")
	other.noDrift()
}

// In such a list a key of a rule that somebody adds by hand says nothing.
func TestMirrorOfAListStoredWhole(t *testing.T) {
	f := newFixture(t, false)
	ruled(f)
	f.storeWhole()
	f.mirror()
	f.nbctl("set", "Port_Group", "ovnvpc.shop.l0", `external_ids:"ovn-vpc:rule/9"="{\"number\":9,\"action\":\"allow\",\"direction\":\"ingress\",\"protocol\":\"all\"}"`)
	require.Contains(t, f.stored(), translate.KeyRulePrefix+"9")
	mirrored, fresh, err := engine.Worlds(f.ctx, f.Engine)
	require.NoError(t, err)
	require.Equal(t, fresh, mirrored)
}

// storeWhole stores l0 as an older version has.
func (f *fixture) storeWhole() {
	f.t.Helper()
	whole, err := model.MarshalStored(f.get(aclID("shop", "l0")).Resource)
	require.NoError(f.t, err)
	was := nbdb.PortGroup{UUID: translate.PortGroupUUID("default", "shop", "l0"), ExternalIDs: map[string]string{}}
	for key, value := range f.stored() {
		if key == translate.KeySpec || strings.HasPrefix(key, translate.KeyRulePrefix) {
			was.ExternalIDs[key] = value
		}
	}
	is := was
	is.ExternalIDs = map[string]string{translate.KeySpec: string(whole)}
	_, err = f.NB.Commit(f.ctx, nbdb.Diff(nbdb.Fragment{Rows: []nbdb.Row{&was}}, nbdb.Fragment{Rows: []nbdb.Row{&is}}), false)
	require.NoError(f.t, err)
}

// stored are the external_ids of l0's home.
func (f *fixture) stored() map[string]string {
	f.t.Helper()
	state, err := f.NB.Read(f.ctx, nbdb.Query{Table: nbdb.TablePortGroup})
	require.NoError(f.t, err)
	return nbdb.Lookup[*nbdb.PortGroup](state, translate.PortGroupUUID("default", "shop", "l0")).ExternalIDs
}
