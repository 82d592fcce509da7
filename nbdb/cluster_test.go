package nbdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startCluster runs three servers of one clustered database.
func startCluster(t *testing.T) []*server {
	dir := newDir(t)
	raft := func(i int) string { return fmt.Sprintf("unix:%s/%d.raft", dir, i) }
	var servers []*server
	for i := range 3 {
		s := &server{t: t, dir: newDir(t)}
		db := filepath.Join(s.dir, "nb.db")
		if i == 0 {
			run(t, "ovsdb-tool", "create-cluster", db, packagedSchema, raft(0))
		} else {
			run(t, "ovsdb-tool", "join-cluster", db, Northbound, raft(i), raft(0))
		}
		s.args = []string{"--unixctl=" + s.dir + "/ctl", "--remote=punix:" + s.dir + "/db.sock", db}
		s.start()
		require.Eventually(t, func() bool { return strings.Contains(s.status(), "Status: cluster member") }, 2*time.Minute, 50*time.Millisecond)
		servers = append(servers, s)
	}
	return servers
}

// status is empty while the server can't be asked.
func (s *server) status() string {
	out, _ := exec.CommandContext(testContext(s.t), "ovs-appctl", "-t", s.dir+"/ctl", "cluster/status", Northbound).Output()
	return string(out)
}

func leaderOf(t *testing.T, servers []*server) *server {
	var leader *server
	require.Eventually(t, func() bool {
		for _, s := range servers {
			if s.cmd != nil && strings.Contains(s.status(), "Role: leader") {
				leader = s
			}
		}
		return leader != nil
	}, 2*time.Minute, 50*time.Millisecond)
	return leader
}

// persist commits as a careful caller does: after an unknown outcome it looks
// whether the row is there.
func persist(t *testing.T, c *Client, f Fragment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	for {
		attempt, stop := context.WithTimeout(ctx, 3*time.Second)
		_, err := c.Commit(attempt, Diff(Fragment{}, f), false)
		stop()
		if err == nil {
			return
		}
		var unknown *UnknownOutcomeError
		require.True(t, errors.As(err, &unknown), "%v", err)
		s, err := c.Read(ctx, Query{Table: f.Rows[0].Table()})
		require.NoError(t, err)
		if s.Get(f.Rows[0].Table(), f.Rows[0].ID()) != nil {
			return
		}
	}
}

func TestClusterFailover(t *testing.T) {
	servers := startCluster(t)
	var remotes []string
	for _, s := range servers {
		remotes = append(remotes, s.remote())
	}
	all := strings.Join(remotes, ",")
	c := dial(t, Options{Remotes: all})
	require.Equal(t, leaderOf(t, servers).remote(), c.current().remote)
	row := func(n int) Fragment {
		return Fragment{Rows: []Row{&LogicalSwitch{UUID: uid(n), Name: fmt.Sprint(n), ExternalIDs: ids(fmt.Sprint(n))}}}
	}
	persist(t, c, row(1))

	// The leader hangs; then it is back, as a follower.
	old := leaderOf(t, servers)
	require.NoError(t, old.cmd.Process.Signal(syscall.SIGSTOP))
	persist(t, c, row(2))
	require.NotEqual(t, old.remote(), c.current().remote)
	require.NoError(t, old.cmd.Process.Signal(syscall.SIGCONT))

	leaderOf(t, servers).stop()
	persist(t, c, row(3))
	persist(t, dial(t, Options{Remotes: all}), row(4))
	have := read(t, c, Query{Table: TableLogicalSwitch})
	require.Len(t, have.Rows(TableLogicalSwitch), 4)

	// One of three has no majority: the deadline ends the search for a leader.
	leaderOf(t, servers).stop()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	_, err := Dial(ctx, Options{Remotes: all})
	require.ErrorContains(t, err, all)
	require.NotContains(t, err.Error(), "\n")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestFollowerIsNotLeader(t *testing.T) {
	servers := startCluster(t)
	leader := leaderOf(t, servers)
	for _, s := range servers {
		if s == leader {
			continue
		}
		dial(t, Options{Remotes: s.remote()}) // one remote: any server will do
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := Dial(ctx, Options{Remotes: s.remote(), LeaderOnly: true})
		cancel()
		require.ErrorContains(t, err, "not the leader of its cluster")
	}
}

// A server that has lost its cluster goes on to answer reads: it is not believed,
// also where it is the only one that was named.
func TestMemberWithoutItsCluster(t *testing.T) {
	servers := startCluster(t)
	leader := leaderOf(t, servers)
	commit(t, dial(t, Options{Remotes: leader.remote()}), Diff(Fragment{}, counting(1)))
	var alone *server
	for _, s := range servers {
		if s != leader {
			alone = s
		}
	}
	before := dial(t, Options{Remotes: alone.remote()})
	look := func(c *Client) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Read(ctx, Query{Table: TableLogicalSwitch})
		return err
	}
	require.NoError(t, look(before))
	signal := func(s syscall.Signal) {
		for _, other := range servers {
			if other != alone {
				require.NoError(t, other.cmd.Process.Signal(s))
			}
		}
	}
	signal(syscall.SIGSTOP)
	// It finds out within some elections' time.
	require.Eventually(t, func() bool { return look(before) != nil }, time.Minute, 50*time.Millisecond)
	require.ErrorContains(t, look(before), errNoCluster.Error())
	require.ErrorContains(t, look(dialer(t, alone.remote())), errNoCluster.Error())

	signal(syscall.SIGCONT)
	for _, c := range []*Client{before, dialer(t, alone.remote())} {
		require.Eventually(t, func() bool { return look(c) == nil }, time.Minute, 50*time.Millisecond)
	}
}

// dialer is a client that connects when it is first used.
func dialer(t *testing.T, remote string) *Client {
	c, err := New(Options{Remotes: remote})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// A leader that loses its cluster answers nothing that was asked of it before:
// calls end all the same, by what it says of itself.
func TestCallsEndWithTheLead(t *testing.T) {
	servers := startCluster(t)
	var remotes []string
	for _, s := range servers {
		remotes = append(remotes, s.remote())
	}
	for n, several := range []bool{true, false} {
		leader := leaderOf(t, servers)
		c := dial(t, Options{Remotes: strings.Join(remotes, ",")})
		if !several {
			c = dial(t, Options{Remotes: leader.remote()})
			(&follower{t: t}).follow(c, Query{Table: TableLogicalSwitch}) // tells
		}
		for _, s := range servers {
			if s != leader {
				require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
			}
		}
		row := Fragment{Rows: []Row{&LogicalSwitch{UUID: uid(n + 1), Name: fmt.Sprint(n), ExternalIDs: ids(fmt.Sprint(n))}}}
		_, err := c.Commit(testContext(t), Diff(Fragment{}, row), false)
		var unknown *UnknownOutcomeError
		require.ErrorAs(t, err, &unknown)
		require.ErrorIs(t, err, errLost)
		if !several { // what it still has may be out of date
			_, err = c.Read(testContext(t), Query{Table: TableLogicalSwitch})
			require.ErrorIs(t, err, errSilent)
		}
		for _, s := range servers {
			if s != leader {
				require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
			}
		}
		leader = leaderOf(t, servers)
		require.Eventually(t, func() bool { return strings.Contains(leader.status(), "Status: cluster member") }, time.Minute, 50*time.Millisecond)
		followAgain(t, c, Query{Table: TableLogicalSwitch}).sees(c, Query{Table: TableLogicalSwitch})
	}
}

// startDeposed is a proxy in front of a server that carries transactions out,
// says that it has refused them, and hangs up at the next message: as a leader
// may that has lost the lead in the middle of one.
func startDeposed(t *testing.T, s *server) (remote string) {
	path := filepath.Join(newDir(t), "d.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	between := func(client, server net.Conn) {
		defer client.Close()
		defer server.Close()
		var deposed atomic.Bool
		go func() {
			defer client.Close()
			for d := json.NewDecoder(client); ; {
				var message json.RawMessage
				if d.Decode(&message) != nil || deposed.Load() {
					return
				}
				_, _ = server.Write(message)
			}
		}()
		for d := json.NewDecoder(server); ; {
			var message map[string]any
			if d.Decode(&message) != nil {
				return
			}
			refuse := false
			results, _ := message["result"].([]any)
			for _, result := range results {
				fields, _ := result.(map[string]any)
				refuse = refuse || fields["count"] != nil
			}
			if refuse {
				deposed.Store(true)
				clear(results)
				results[0] = map[string]any{"error": timedOut, "details": "the row is not as it was"}
			}
			if json.NewEncoder(client).Encode(message) != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if server, err := net.Dial("unix", s.dir+"/db.sock"); err == nil {
				go between(client, server)
			}
		}
	}()
	return "unix:" + path
}

func TestRefusalOfADeposedLeader(t *testing.T) {
	s := startServer(t, packagedSchema)
	commit(t, s.dial(), Diff(Fragment{}, counting(1)))
	c := dial(t, Options{Remotes: startDeposed(t, s), LeaderOnly: true})
	_, err := c.Commit(testContext(t), Diff(counting(1), counting(2)), false)
	var unknown *UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
	have := read(t, s.dial(), Query{Table: TableLogicalSwitch})
	require.Equal(t, "000002", Lookup[*LogicalSwitch](have, uid(1)).ExternalIDs["ovn-vpc:n"])
}
