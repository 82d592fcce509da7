package nbdb

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// follower is a sink that keeps what it is given, and holds Follow to what it
// promises.
type follower struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}
	pass   func(old, now Row) // called for each row, may be nil
	wanted func(now Row) bool // nil: all

	mu     sync.Mutex // guards what follows
	rows   *State
	states int // calls of Done
	err    error
}

func (f *follower) Row(old, now Row) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pass != nil {
		f.pass(old, now)
	}
	if now == nil {
		if f.rows.Get(old.Table(), old.ID()) != old {
			f.t.Errorf("%v is gone, which was not there as it is said to have been", old)
		}
		delete(f.rows.tables[old.Table()], old.ID())
		return false
	}
	if had := f.rows.Get(now.Table(), now.ID()); had != old {
		f.t.Errorf("%v was %v, and is said to have been %v", now, had, old)
	}
	if f.wanted != nil && !f.wanted(now) {
		return false
	}
	f.rows.Put(now)
	return true
}

func (f *follower) Done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states++
}

func (f *follower) look() (*State, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := NewState()
	for table, all := range f.rows.tables {
		rows.tables[table] = maps.Clone(all)
	}
	return rows, f.states, f.err
}

// follow begins to follow, and waits for the first state.
func (f *follower) follow(c *Client, queries ...Query) *follower {
	f.t.Helper()
	if f.begin(c, queries...); !f.loaded() {
		f.t.Fatalf("nothing comes: %v", f.failure())
	}
	return f
}

func (f *follower) begin(c *Client, queries ...Query) {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.ended, f.rows = cancel, make(chan struct{}), NewState()
	go func() {
		err := c.Follow(ctx, f, queries...)
		f.mu.Lock()
		f.err = err
		f.mu.Unlock()
		close(f.ended)
	}()
	f.t.Cleanup(f.end)
}

func (f *follower) loaded() bool {
	for range 6000 {
		if _, states, _ := f.look(); states > 0 {
			return true
		}
		select {
		case <-f.ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return false
}

func (f *follower) end() {
	f.cancel()
	f.failure()
}

// failure is the error with which following ends.
func (f *follower) failure() error {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(time.Minute):
		f.t.Error("following goes on")
		return nil
	}
	_, _, err := f.look()
	return err
}

// sees waits until what is followed equals what is read.
func (f *follower) sees(c *Client, queries ...Query) {
	f.t.Helper()
	want := read(f.t, c, queries...)
	for _, q := range queries {
		if want.tables[q.Table] == nil {
			want.tables[q.Table] = map[UUID]Row{}
		}
	}
	var have *State
	same := func() bool {
		var err error
		have, _, err = f.look()
		require.NoError(f.t, err)
		for table, rows := range want.tables {
			if len(rows) != len(have.tables[table]) {
				return false
			}
			for uuid, row := range rows {
				got := have.Get(table, uuid)
				if got == nil || fmt.Sprint(Columns(got)) != fmt.Sprint(Columns(row)) {
					return false
				}
			}
		}
		return true
	}
	require.Eventually(f.t, same, time.Minute, 20*time.Millisecond)
	for table, rows := range want.tables {
		for uuid, row := range rows {
			require.Equal(f.t, row, have.Get(table, uuid))
		}
	}
}

// followed are queries with maps, sets, optional columns and a condition.
func followed() []Query {
	owned := map[string]string{"ovn-vpc:owner": "default"}
	return []Query{
		{Table: TableNBGlobal, Columns: []string{columnExternalIDs}},
		{Table: TableLogicalSwitch, Includes: owned},
		{Table: TableLogicalSwitchPort, Includes: owned},
		{Table: TablePortGroup, Includes: owned, Columns: []string{"name", columnExternalIDs}},
	}
}

// scribble changes rows at random for a while.
func scribble(t *testing.T, c *Client, seed int) {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	have := Fragment{}
	for i := range 60 {
		sw := &LogicalSwitch{UUID: uid(seed << 16), Name: fmt.Sprint(seed), OtherConfig: map[string]string{"n": fmt.Sprint(r.IntN(3))}, ExternalIDs: ids("s")}
		group := &PortGroup{UUID: uid(seed<<16 + 1), Name: fmt.Sprintf("g%d", seed), ExternalIDs: ids("g")}
		want := Fragment{Rows: []Row{sw, group}}
		for k := range 8 {
			if r.IntN(3) == 0 {
				continue
			}
			port := &LogicalSwitchPort{UUID: uid(seed<<16 + 2 + k), Name: fmt.Sprintf("%d/%d", seed, k), ExternalIDs: ids("p")}
			port.ExternalIDs["ovn-vpc:random"] = fmt.Sprint(r.IntN(4))
			if r.IntN(3) == 0 {
				delete(port.ExternalIDs, "ovn-vpc:owner")
			}
			if r.IntN(2) == 0 {
				port.Enabled = ptr(r.IntN(2) == 0)
			}
			for a := range r.IntN(4) {
				port.Addresses = append(port.Addresses, fmt.Sprintf("02:00:00:00:00:%02x", a*2+r.IntN(2)))
			}
			want.Rows = append(want.Rows, port)
			want.Edges = append(want.Edges, Edge{Table: TableLogicalSwitch, From: sw.UUID, Column: "ports", Target: port.UUID})
			group.ExternalIDs[fmt.Sprintf("ovn-vpc:entry/%d", k)] = fmt.Sprint(r.IntN(3))
		}
		if i%7 == 3 {
			want = Fragment{}
		}
		plan := Diff(have, want)
		if !plan.Empty() {
			_, err := c.Commit(testContext(t), plan, false)
			require.NoError(t, err)
		}
		have = want
	}
}

func TestFollowedRowsAreThoseThatAreRead(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	commit(t, c, Diff(Fragment{}, sample()))
	f := (&follower{t: t}).follow(c, followed()...)
	f.sees(c, followed()...)
	commit(t, c, Diff(sample(), Fragment{}))
	var wg sync.WaitGroup
	for seed := range 3 {
		wg.Go(func() { scribble(t, s.dial(), seed+1) })
	}
	late := (&follower{t: t}).follow(c, followed()...)
	wg.Wait()
	run(t, "ovn-nbctl", "--db="+s.remote(), "ls-add", "byhand", "--", "set", "Logical_Switch", "byhand", "external_ids:ovn-vpc\\:owner=default",
		"--", "set", "NB_Global", ".", "external_ids:note=1")
	f.sees(c, followed()...)
	late.sees(c, followed()...)
	run(t, "ovn-nbctl", "--db="+s.remote(), "ls-del", "byhand", "--", "clear", "NB_Global", ".", "external_ids")
	f.sees(c, followed()...)
	late.sees(c, followed()...)

	f.end()
	require.ErrorIs(t, f.failure(), context.Canceled)
}

// counting is a switch with a number.
func counting(n int) Fragment {
	notes := ids("counter")
	notes["ovn-vpc:n"] = fmt.Sprintf("%06d", n)
	return Fragment{Rows: []Row{&LogicalSwitch{UUID: uid(1), Name: "counter", ExternalIDs: notes}}}
}

func TestFollowInTheOrderOfCommits(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	commit(t, c, Diff(Fragment{}, counting(0)))
	last, gate := "", make(chan struct{})
	f := &follower{t: t}
	f.pass = func(_, now Row) {
		n := now.IDs()["ovn-vpc:n"]
		if n <= last {
			t.Errorf("%s comes after %s", n, last)
		}
		if last = n; n == "000003" {
			<-gate // a sink that is slow: the server may skip states, and never the last
		}
	}
	f.follow(c, Query{Table: TableLogicalSwitch})
	const changes = 500
	for n := range changes {
		commit(t, c, Diff(counting(n), counting(n+1)))
	}
	close(gate)
	f.sees(c, Query{Table: TableLogicalSwitch})
	rows, states, _ := f.look()
	require.Equal(t, fmt.Sprintf("%06d", changes), rows.Get(TableLogicalSwitch, uid(1)).IDs()["ovn-vpc:n"])
	require.Greater(t, states, 3)
}

// A sink that takes longer than a server may be silent does not end it.
func TestFollowWithASlowSink(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	c.patience = 200 * time.Millisecond
	commit(t, c, Diff(Fragment{}, counting(0)))
	gate := make(chan struct{})
	f := &follower{t: t}
	f.pass = func(_, now Row) {
		if now.IDs()["ovn-vpc:n"] == "000001" {
			<-gate
		}
	}
	f.follow(c, Query{Table: TableLogicalSwitch})
	commit(t, c, Diff(counting(0), counting(1)))
	other := (&follower{t: t}).follow(c, Query{Table: TableLogicalSwitch})
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	require.ErrorContains(t, other.failure(), "no answer") // longer than patience has passed
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
	close(gate)
	followAgain(t, c, Query{Table: TableLogicalSwitch})
	commit(t, c, Diff(counting(1), counting(2)))
	f.sees(c, Query{Table: TableLogicalSwitch})
}

func TestFollowOnlyTheRowsThatAreWanted(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	seen := map[UUID]int{}
	f := &follower{t: t, wanted: func(now Row) bool { return now.ID() != uid(1) }}
	f.pass = func(old, now Row) {
		for _, r := range []Row{old, now} {
			if r != nil {
				seen[r.ID()]++
			}
		}
	}
	f.follow(c, Query{Table: TableLogicalSwitch})
	want := counting(1)
	want.Rows = append(want.Rows, &LogicalSwitch{UUID: uid(2), Name: "wanted", ExternalIDs: ids("w")})
	commit(t, c, Diff(Fragment{}, want))
	commit(t, c, Diff(counting(1), counting(2)))
	commit(t, c, Diff(want, Fragment{Rows: want.Rows[1:]}))
	commit(t, c, Diff(Fragment{Rows: want.Rows[1:]}, Fragment{}))
	f.sees(c, Query{Table: TableLogicalSwitch})
	require.Equal(t, map[UUID]int{uid(1): 1, uid(2): 2}, seen)
}

func TestFollowRefusesWhatAMonitorCannotDo(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	f := &follower{t: t, rows: NewState()}
	for _, queries := range [][]Query{
		{{Table: TableLogicalSwitch, Where: map[string]any{"name": "a"}, Includes: ids("a")}},
		{{Table: TableLogicalSwitch}, {Table: TableLogicalSwitch}},
		{{Table: "Nothing"}},
	} {
		require.Error(t, c.Follow(testContext(t), f, queries...))
	}
	require.Zero(t, f.states)
}

// A server that lacks columns or tables is followed as it is.
func TestFollowAnOldSchema(t *testing.T) {
	s := startServer(t, editSchema(t, func(tables map[string]any) {
		delete(tables["Logical_Switch_Port"].(map[string]any)["columns"].(map[string]any), "up")
		delete(tables["Logical_Switch"].(map[string]any)["columns"].(map[string]any), "acls")
	}))
	c := s.dial()
	f := (&follower{t: t}).follow(c, followed()...)
	scribble(t, c, 1)
	f.sees(c, followed()...)
}
