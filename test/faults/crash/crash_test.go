// Package crash_test kills commands that write, at moments spread over all of
// what they do, and looks at what they leave.
package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
	"github.com/ovn-vpc/ovn-vpc/test/program"
)

const (
	// byDefault is how many kills there are in all.
	byDefault = 36
	// ordinary is how many scenarios share them.
	ordinary = 9
	// few is how many of them come to one of a large scenario.
	few = 40
	// patience bounds each command.
	patience = 3 * time.Minute
)

// TestWritersKilled kills commands with SIGKILL: most when a given part of
// a message to or from the database has passed, the others by the clock. The
// database then is as it was, or as it is to be, or, where the command takes
// several transactions, as it is after some of them; and the same command again
// completes what it had begun.
func TestWritersKilled(t *testing.T) {
	binary := program.Build(t, "../../..")
	for _, s := range scenarios() {
		if s.kills() == 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) { newRun(t, binary, s).play() })
	}
}

// run is a scenario on a database.
type run struct {
	scenario
	t      *testing.T
	box    *lab.Sandbox
	engine *engine.Engine
	binary string
	args   []string
	way    *way
	remote string // by the way
	dice   *rand.Rand
	states []string // before, and after each transaction
	took   time.Duration
	found  []int // how often the database was as in each state
}

func newRun(t *testing.T, binary string, s scenario) *run {
	r := &run{scenario: s, t: t, binary: binary, dice: rand.New(rand.NewPCG(1, uint64(len(s.name))))}
	r.box = labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: !s.northd})
	c, err := nbdb.Dial(t.Context(), nbdb.Options{Remotes: r.box.NB()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r.engine = engine.New(c, "default", "cli")
	r.way, r.remote = newWay(t, labtest.TempDir(t), r.box.NB())
	file := filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(file, []byte(s.spec), 0o600))
	for _, arg := range s.args {
		r.args = append(r.args, strings.ReplaceAll(arg, "SPEC", file))
	}
	return r
}

// kills is how many a scenario has.
func (s scenario) kills() int {
	all := testflag.Cases(byDefault)
	switch {
	case s.rare:
		return all / few
	case s.large:
		return max(2, all/few)
	}
	return max(2, (all+ordinary-1)/ordinary)
}

func (r *run) play() {
	r.rehearse()
	at, elsewhere := r.way.moments(r.dice)
	kills := r.kills()
	for i := range kills {
		r.reset()
		switch i % 4 {
		case 0, 2:
			r.cutAt(at[i/2%len(at)])
		case 1:
			r.killAfter(time.Duration((float64(i) + r.dice.Float64()) / float64(kills) * float64(r.took)))
		case 3:
			r.cutAt(elsewhere[i/4%len(elsewhere)])
		}
	}
	r.t.Logf("%d kills; the database was then as in the states %v of the %d transactions", kills, r.found, r.steps)
	for _, report := range faults.Audit(r.t, kills, filepath.Join(r.box.Dir(), "nb.db")) {
		require.Empty(r.t, report.Standing)
	}
}

// rehearse puts somebody else's rows into the database, lets the command run to
// its end, and notes the states that the database is in on the way.
func (r *run) rehearse() {
	r.nbctl("ls-add", "elsewhere", "--", "acl-add", "elsewhere", "to-lport", "1", "ip", "drop", "--", "lsp-add", "elsewhere", "theirs")
	r.reset()
	r.states = []string{r.dump()}
	r.way.begin(nil, nil, func() { r.states = append(r.states, r.dump()) })
	began := time.Now()
	out, err := r.command(r.remote).CombinedOutput()
	r.took = time.Since(began)
	require.NoError(r.t, err, "%s", out)
	require.Len(r.t, r.states, r.steps+1)
	require.Equal(r.t, r.states[r.steps], r.dump())
	require.Len(r.t, slices.Compact(slices.Sorted(slices.Values(r.states))), r.steps+1, "a transaction changes nothing")
	r.found = make([]int, len(r.states))
}

// reset makes the database what it is before the command. It says that ovn-nbctl
// has done it, so that the audit takes it for damage.
func (r *run) reset() {
	operations := []any{nbdb.Northbound, map[string]any{"op": "comment", "comment": "ovn-nbctl: reset"},
		map[string]any{"op": "update", "table": nbdb.TableNBGlobal, "where": []any{}, "row": map[string]any{"external_ids": []any{"map", []any{}}}}}
	ours := []any{[]any{"external_ids", "includes", []any{"map", []any{[]any{"ovn-vpc:owner", r.engine.Owner}}}}}
	for _, table := range []string{nbdb.TableLogicalSwitch, nbdb.TableLogicalRouter, nbdb.TablePortGroup, nbdb.TableDHCPOptions} {
		operations = append(operations, map[string]any{"op": "delete", "table": table, "where": ours})
	}
	text, err := json.Marshal(operations)
	require.NoError(r.t, err)
	out, err := r.box.Binaries().Run(r.t.Context(), "ovsdb-client", "transact", r.box.NB(), string(text))
	require.NoError(r.t, err)
	require.NotContains(r.t, out, "error")
	if r.northd {
		r.nbctl("--wait=sb", "sync")
	}
	set, found := model.Load(model.Input{Name: "spec.yaml", Data: []byte(r.before)})
	require.False(r.t, found.HasErrors(), found.String())
	_, err = r.engine.Apply(r.t.Context(), set, false, engine.WaitNone)
	require.NoError(r.t, err)
	for _, args := range r.hand {
		r.nbctl(args...)
	}
}

func (r *run) nbctl(args ...string) {
	_, err := r.box.NBCtl(r.t.Context(), args...)
	require.NoError(r.t, err)
}

func (r *run) command(nb string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return exec.CommandContext(ctx, r.binary, append(slices.Clone(r.args), "--nb", nb, "--timeout", patience.String())...)
}

// cutAt kills the command at a moment of its talk with the database.
func (r *run) cutAt(c cut) {
	cmd := r.command(r.remote)
	reached, gone := make(chan struct{}), make(chan struct{})
	r.way.begin(&c, func() {
		close(reached)
		<-gone
	}, nil)
	require.NoError(r.t, cmd.Start())
	select {
	case <-reached:
		_ = cmd.Process.Kill() // one that has ended by itself shows below
		err := cmd.Wait()
		close(gone)
		r.killed(err, c.String())
	case <-time.After(patience):
		close(gone)
		r.t.Fatalf("the command does not come to the moment %s", c)
	}
}

// killAfter kills the command so long after its start, or at half of that where
// it has ended by then.
func (r *run) killAfter(d time.Duration) {
	r.way.begin(nil, nil, nil)
	for {
		cmd := r.command(r.remote)
		require.NoError(r.t, cmd.Start())
		timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() }) // it may have ended
		err := cmd.Wait()
		timer.Stop()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() < 0 {
			r.killed(err, d.String()+" after its start")
			return
		}
		require.NoError(r.t, err)
		r.reset()
		d /= 2
	}
}

// killed looks at what the command has left, and lets it do its work again.
func (r *run) killed(err error, moment string) {
	require.ErrorContains(r.t, err, "signal: killed", moment)
	left := r.dump()
	at := slices.Index(r.states, left)
	if at < 0 {
		require.Equal(r.t, r.states[0], left, "killed %s, it has left neither what was nor what is to be", moment)
	}
	r.found[at]++
	again := r.command(r.box.NB())
	out, err := again.CombinedOutput()
	if r.gone == 0 || again.ProcessState.ExitCode() != r.gone || slices.Index(r.states, r.dump()) != r.steps {
		require.NoError(r.t, err, "killed %s: again: %s", moment, out)
	}
	require.Equal(r.t, r.states[r.steps], r.dump(), "killed %s, and done again", moment)
}

// dump is the whole database as text, but for what no spec says: counters, what
// OVN reports, and notes of a run. Of many ports the names have to do; the audit
// looks at them all.
func (r *run) dump() string {
	var queries []nbdb.Query
	for _, table := range tables() {
		q := nbdb.Query{Table: table}
		if r.large && (table == nbdb.TableLogicalSwitchPort || table == nbdb.TablePortGroup) {
			q.Columns = []string{"name"}
		}
		queries = append(queries, q)
	}
	state, err := r.engine.NB.Read(r.t.Context(), queries...)
	require.NoError(r.t, err)
	var f nbdb.Fragment
	for _, table := range tables() {
		for _, row := range state.Rows(table) {
			for key := range row.IDs() {
				if strings.HasPrefix(key, "ovn-vpc-") && !strings.HasPrefix(key, "ovn-vpc-attachment:") && !strings.HasPrefix(key, "ovn-vpc-expectation:") {
					delete(row.IDs(), key)
				}
			}
			switch of := row.(type) {
			case *nbdb.NBGlobal:
				row = &nbdb.NBGlobal{UUID: of.UUID, ExternalIDs: of.ExternalIDs}
			case *nbdb.LogicalSwitchPort:
				of.Up = nil
			}
			f.Rows = append(f.Rows, row)
		}
	}
	var text bytes.Buffer
	require.NoError(r.t, nbdb.Dump(&text, f))
	return text.String()
}

func tables() []string {
	return []string{nbdb.TableNBGlobal, nbdb.TableLogicalRouter, nbdb.TableLogicalRouterPort, nbdb.TableLogicalRouterPolicy, nbdb.TableLogicalSwitch,
		nbdb.TableLogicalSwitchPort, nbdb.TableACL, nbdb.TablePortGroup, nbdb.TableDHCPOptions}
}
