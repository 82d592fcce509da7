package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// later moves the engine's clock on.
func (f *fixture) later(d time.Duration) {
	now := f.Now
	f.Now = func() time.Time { return now().Add(d) }
}

// provisional applies a change that has to be confirmed within a minute.
func (f *fixture) provisional(text string) engine.Unconfirmed {
	f.t.Helper()
	r, err := f.Provisional(time.Minute).Apply(f.ctx, load(f.t, text), false, engine.WaitNone)
	require.NoError(f.t, err)
	require.Len(f.t, r.Unconfirmed, 1)
	return r.Unconfirmed[0]
}

// conflicts is an error that says that something else stands in the way.
func conflicts(t *testing.T, err error, words string) {
	t.Helper()
	var conflict *engine.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.ErrorContains(t, err, words)
}

// A change that waits for its confirmation stands in the way of others of the
// VPC's structure, and of nothing else; once confirmed it stays.
func TestConfirmInTime(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	_, err := f.Confirm(f.ctx, "shop")
	conflicts(t, err, "VPC shop: no change waits for its confirmation")
	_, err = f.Confirm(f.ctx, "nosuch")
	require.EqualError(t, err, "VPC nosuch not found")
	f.Manager = "ops"
	u := f.provisional(tier("shop", "web", "10.0.3.0/24"))
	require.Equal(t, []string{"web"}, u.Tiers)
	require.Equal(t, 2, u.Number)
	require.WithinDuration(t, time.Now().Add(time.Minute), u.Until, 30*time.Second)
	require.Equal(t, u.ID, f.history("shop").Unconfirmed.ID)

	const waits = "VPC shop: the change 2 of ops waits for its confirmation until "
	other := acl("shop", "other", "")
	_, err = f.Apply(f.ctx, load(t, other), false, engine.WaitNone)
	conflicts(t, err, waits)
	_, err = f.Provisional(time.Minute).Apply(f.ctx, load(t, other), false, engine.WaitNone)
	conflicts(t, err, waits)
	_, err = f.Delete(f.ctx, []model.ID{{Kind: model.KindVPC, Name: "shop"}}, true, engine.WaitNone)
	conflicts(t, err, waits)
	edited, _, err := f.Edit(f.ctx, []engine.Edit{{ID: aclID("shop", "other"),
		Change: func(*model.Resource) (*model.Resource, error) { return load(t, other).Resources[0], nil }}}, false)
	require.Nil(t, edited)
	conflicts(t, err, waits)
	p, err := f.Plan(f.ctx, load(t, other), false)
	require.NoError(t, err)
	require.Contains(t, p.Diagnostics[0].Problem, "the change 2 of ops waits for its confirmation until ")
	_, err = f.ApplyPlan(f.ctx, p, engine.WaitNone)
	conflicts(t, err, waits)

	f.apply(guarded()) // changes nothing
	f.apply(att("shop", "app-1", "app"))
	f.apply(vpc("lab", "10.0.0.0/8"))
	f.refused(att("shop", "web-1", "web"), `Attachment shop/web-1: its tier "web" may be taken back: `, "attach when it is confirmed")
	_, err = f.Drift(f.ctx, "", true, engine.WaitNone)
	require.NoError(t, err)

	done, err := f.Confirm(f.ctx, "shop")
	require.NoError(t, err)
	require.Equal(t, u.ID, done.ID)
	require.Nil(t, f.history("shop").Unconfirmed)
	require.False(t, f.history("shop").TakenBack(&u))
	f.apply(other + att("shop", "web-1", "web"))
	f.later(time.Hour)
	f.apply(acl("shop", "third", ""))
	require.Len(t, f.history("shop").Entries, 4)
	require.NotContains(t, f.nbctl("list", "NB_Global"), "unconfirmed")
	f.noDrift()
}

// What is not confirmed in time is taken back by the next command that changes
// the VPC, which says so; and by a confirmation that comes too late.
func TestConfirmTooLate(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	before := f.structure("shop")
	u := f.provisional(tier("shop", "web", "10.0.3.0/24") + att("shop", "web-1", "web") + acl("shop", "db", ""))
	f.later(time.Hour)
	_, err := f.Confirm(f.ctx, "shop")
	conflicts(t, err, "the confirmation comes too late, the change 2 was taken back")
	require.Equal(t, before, f.structure("shop"))
	require.Empty(t, f.attachments("shop"), "what the change attached goes with its tier")
	require.True(t, f.history("shop").TakenBack(&u))
	_, err = f.Confirm(f.ctx, "shop")
	conflicts(t, err, "the last one came too late: at ")

	for _, next := range []string{acl("shop", "more", ""), att("shop", "app-1", "app")} {
		before = f.structure("shop")
		u = f.provisional(acl("shop", "db", "{number: 7}") + expectation("shop", "e", "from: app, to: db, expect: allow"))
		f.later(time.Hour)
		r := f.apply(next)
		require.Contains(t, r.Diagnostics.String(), "was not confirmed until ")
		require.NotContains(t, f.structure("shop"), `"number":7`)
		require.True(t, f.history("shop").TakenBack(&u))
		f.noDrift()
	}
	require.Equal(t, before, f.structure("shop"))
	require.Equal(t, "8 cli expiry: ~1 acl -1 expectation (to 6)", lines(f.history("shop"))[0])

	// A new VPC goes as a whole.
	u = f.provisional(vpc("lab", "10.0.0.0/8") + tier("lab", "a", "10.1.0.0/24") + att("lab", "a-1", "a"))
	require.Equal(t, 1, u.Number)
	f.later(time.Hour)
	_, err = f.Confirm(f.ctx, "lab")
	conflicts(t, err, "too late")
	_, err = f.History(f.ctx, "lab")
	require.EqualError(t, err, "VPC lab not found")
	require.NotContains(t, f.nbctl("list", "NB_Global"), "unconfirmed")
}

// A rollback ends the waiting, to the state before or to another one.
func TestRollbackOfWhatIsUnconfirmed(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	f.apply(acl("shop", "more", ""))
	before := f.structure("shop")
	u := f.provisional(tier("shop", "web", "10.0.3.0/24") + att("shop", "web-1", "web"))
	f.rollback("shop", engine.RollbackOptions{Unconfirmed: u.Number})
	require.Equal(t, before, f.structure("shop"))
	require.Equal(t, "4 cli rollback: -1 tier (to 2)", lines(f.history("shop"))[0])
	_, err := f.Rollback(f.ctx, "shop", engine.RollbackOptions{Unconfirmed: u.Number}, engine.WaitNone)
	conflicts(t, err, "the change 3 doesn't wait for its confirmation")
	f.provisional(acl("shop", "db", ""))
	f.rollback("shop", engine.RollbackOptions{To: 1})
	require.Nil(t, f.history("shop").Unconfirmed)
	require.Equal(t, f.state("shop", 1), f.structure("shop"))
}

// What can't be taken back is not begun.
func TestProvisionalRefuses(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	const gold = "---\n{apiVersion: ovn-vpc/v1, kind: VPCOffering, metadata: {name: gold}, spec: {limits: {tiers: %d}}}\n"
	f.apply(fmt.Sprintf(gold, 7))
	_, err := f.Provisional(time.Minute).Apply(f.ctx, load(t, fmt.Sprintf(gold, 8)), false, engine.WaitNone)
	require.ErrorContains(t, err, "VPCOffering gold: its change could not be taken back")
	r, err := f.Provisional(time.Minute).Apply(f.ctx, load(t, att("shop", "app-1", "app")), false, engine.WaitNone)
	require.NoError(t, err)
	require.Empty(t, r.Unconfirmed, "new attachments need no confirmation")

	for _, attachments := range []struct {
		text  string
		prune bool
	}{{document("Attachment", "shop", "app-1", "tier: app, hostname: x"), false}, {tier("shop", "web", "10.0.3.0/24"), true}} {
		_, err = f.Provisional(time.Minute).Apply(f.ctx, load(t, attachments.text), attachments.prune, engine.WaitNone)
		require.ErrorContains(t, err, "Attachment shop/app-1: its change could not be taken back")
	}

	// Nor does what can't be read stand in anybody's way.
	f.nbctl("set", "NB_Global", ".", `external_ids:"ovn-vpc-run:unconfirmed/default/shop"="{}x"`)
	f.apply(acl("shop", "more", ""))
	f.provisional(acl("shop", "more", "{number: 7}"))
	_, err = f.Confirm(f.ctx, "shop")
	require.NoError(t, err)
}

// A change that can't be taken back stays until somebody decides; attachments go on.
func TestOverdueChangeThatStays(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	u := f.provisional(acl("shop", "db", "{number: 7}"))
	f.nbctl("remove", "Port_Group", "ovnvpc.shop.default_deny", "external_ids", "ovn-vpc-history\\:2")
	f.later(time.Hour)
	_, err := f.Apply(f.ctx, load(t, acl("shop", "more", "")), false, engine.WaitNone)
	conflicts(t, err, "and can't be taken back: ")
	f.apply(att("shop", "app-1", "app"))
	done, err := f.Confirm(f.ctx, "shop")
	require.NoError(t, err)
	require.Equal(t, u.ID, done.ID)
	f.apply(acl("shop", "more", ""))
}

// Of several that take back what is overdue one does, once.
func TestTakeBackByOneOfSeveral(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	before := f.structure("shop")
	f.provisional(acl("shop", "db", "{number: 7}"))
	ctx, stop := context.WithCancel(f.ctx)
	var servers sync.WaitGroup
	for range 3 {
		server := connect(t, f.sandbox, "default")
		servers.Go(func() { server.TakeBackOverdue(ctx) })
		late := connect(t, f.sandbox, "default")
		late.later(time.Hour)
		servers.Go(func() { late.TakeBackOverdue(ctx) })
	}
	require.Eventually(t, func() bool { return f.history("shop").Unconfirmed == nil }, time.Minute, 50*time.Millisecond)
	for range 3 { // those that came second have had time to do harm
		f.apply(att("shop", "app-1", "app"))
	}
	stop()
	servers.Wait()
	require.Equal(t, before, f.structure("shop"))
	require.Len(t, f.history("shop").Entries, 3)
}

// A confirmation and the end of its time at once: one of both holds, whole.
func TestConfirmationAgainstExpiry(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	late := connect(t, f.sandbox, "default")
	late.later(time.Hour)
	for range 10 {
		before := f.structure("shop")
		u := f.provisional(acl("shop", "db", "{number: 7}"))
		var both sync.WaitGroup
		var confirmed, back error
		both.Go(func() { _, confirmed = f.Confirm(f.ctx, "shop") })
		both.Go(func() {
			_, back = late.Rollback(f.ctx, "shop", engine.RollbackOptions{Unconfirmed: u.Number}, engine.WaitNone)
		})
		both.Wait()
		require.NotEqual(t, confirmed == nil, back == nil, "%v, %v", confirmed, back)
		require.Equal(t, back == nil, f.history("shop").TakenBack(&u))
		require.Equal(t, back == nil, before == f.structure("shop"))
		f.apply(acl("shop", "db", ""))
	}
}

// mute is a store whose first answer is lost on the way.
type mute struct {
	engine.Store
	lost bool
}

func (m *mute) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	n, err := m.Store.Commit(ctx, p, bump)
	if !m.lost && err == nil {
		m.lost = true
		return 0, &nbdb.UnknownOutcomeError{Err: io.ErrUnexpectedEOF}
	}
	return n, err
}

// What landed although the answer was lost is known for what it is.
func TestLostAnswersAboutConfirmation(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	nb := f.NB
	before := f.structure("shop")
	for _, settle := range []func(u engine.Unconfirmed){
		func(u engine.Unconfirmed) {
			done, err := f.Confirm(f.ctx, "shop")
			require.NoError(t, err)
			require.Equal(t, u.ID, done.ID)
			require.False(t, f.history("shop").TakenBack(&u))
			f.rollback("shop", engine.RollbackOptions{})
		},
		func(u engine.Unconfirmed) {
			f.rollback("shop", engine.RollbackOptions{})
			require.True(t, f.history("shop").TakenBack(&u))
		},
	} {
		f.NB = &mute{Store: nb}
		u := f.provisional(acl("shop", "db", "{number: 7}"))
		f.NB = &mute{Store: nb}
		settle(u)
		require.Equal(t, before, f.structure("shop"))
		require.Nil(t, f.history("shop").Unconfirmed)
		f.NB = nb
	}
	require.Len(t, f.history("shop").Entries, 5, "nothing was done twice")
}

// A rollback of the newest change doesn't undo one that comes meanwhile.
func TestRollbackIsOvertaken(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded())
	f.apply(acl("shop", "one", ""))
	other := connect(t, f.sandbox, "default")
	nb := f.NB
	f.NB = &meanwhile{Store: nb, commits: []func(){func() { other.apply(acl("shop", "two", "")) }}}
	_, err := f.Rollback(f.ctx, "shop", engine.RollbackOptions{}, engine.WaitNone)
	conflicts(t, err, "VPC shop has changed meanwhile, to the state 3")
	require.Equal(t, []string{"3 cli apply: +1 acl", "2 cli apply: +1 acl"}, lines(f.history("shop"))[:2])

	// Where a state is asked for, it is that state.
	f.NB = &meanwhile{Store: nb, commits: []func(){func() { other.apply(acl("shop", "three", "")) }}}
	f.rollback("shop", engine.RollbackOptions{To: 1})
	require.Equal(t, f.state("shop", 1), f.structure("shop"))
}

// A change in several transactions is one for its confirmation: what has landed of
// it when its writer is killed is taken back.
func TestProvisionalInPart(t *testing.T) {
	f := newFixture(t, false)
	f.apply(guarded() + tier("shop", "old", "10.0.9.0/24"))
	before := f.structure("shop")
	set := load(t, guarded()+tier("shop", "new", "10.0.8.0/24")+att("shop", "new-1", "new"))
	nb := f.NB
	broken := errors.New("broken")
	f.NB = &meanwhile{Store: nb, refusals: []error{nil, broken}}
	r, err := f.Provisional(time.Minute).Apply(f.ctx, set, true, engine.WaitNone)
	require.ErrorIs(t, err, broken)
	require.Len(t, r.Unconfirmed, 1)
	f.NB = nb
	require.Equal(t, "2 cli apply: -1 tier", lines(f.history("shop"))[0])
	f.later(time.Hour)
	f.Manager = "guests" // whom prune leaves alone
	f.apply(att("shop", "app-1", "app"))
	f.Manager = "cli"
	require.Equal(t, before, f.structure("shop"))

	// Overtaken between its transactions, it goes on.
	f.NB = &meanwhile{Store: nb, refusals: []error{nil, &nbdb.ConflictError{What: "the test"}}}
	u, err := f.Provisional(2*time.Hour).Apply(f.ctx, set, true, engine.WaitNone)
	require.NoError(t, err)
	require.Len(t, u.Unconfirmed, 1)
	require.Equal(t, u.Unconfirmed[0].Number+1, f.history("shop").Entries[0].Number)
	f.rollback("shop", engine.RollbackOptions{})
	require.Equal(t, before, f.structure("shop"))
	require.Len(t, f.attachments("shop"), 1)
	f.noDrift()

	// In two transactions it is one change for a rollback too.
	f.NB = nb
	_, err = f.Apply(f.ctx, set, true, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, 1, f.history("shop").Entries[0].Part)
	f.rollback("shop", engine.RollbackOptions{Cascade: true})
	require.Equal(t, before, f.structure("shop"))
}
