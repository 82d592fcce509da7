package nbdb

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFollowEndsWithTheServer(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	commit(t, c, Diff(Fragment{}, counting(1)))
	query := Query{Table: TableLogicalSwitch}

	f := (&follower{t: t}).follow(c, query)
	s.stop()
	require.ErrorContains(t, f.failure(), s.remote())
	require.NotContains(t, f.failure().Error(), "\n")
	(&follower{t: t}).begin(c, query) // nobody there
	s.start()
	(&follower{t: t}).follow(c, query).sees(c, query)

	// It hangs.
	hasty := s.dial()
	hasty.patience = 300 * time.Millisecond
	f = (&follower{t: t}).follow(hasty, query)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	require.ErrorContains(t, f.failure(), "no answer")
	f = &follower{t: t}
	f.begin(hasty, query)
	f.end() // while it connects
	require.ErrorIs(t, f.failure(), context.Canceled)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
	(&follower{t: t}).follow(hasty, query).sees(c, query)

	// Its schema changes under it.
	f = (&follower{t: t}).follow(c, query)
	run(t, "ovsdb-client", "convert", s.remote(), editSchema(t, func(tables map[string]any) {
		delete(tables["Logical_Switch"].(map[string]any)["columns"].(map[string]any), "acls")
	}))
	require.Error(t, f.failure())
	followAgain(t, c, query).sees(c, query)
}

// startBetween is a proxy in front of a server that sends the client something
// of its own first. Answers to that, which have the id "q", come on the channel
// and don't reach the server.
func startBetween(t *testing.T, s *server, first string) (remote string, answers <-chan string) {
	path, heard := filepath.Join(newDir(t), "b.sock"), make(chan string, 10)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	forward := func(server, client net.Conn) {
		defer server.Close()
		for d := json.NewDecoder(client); ; {
			var message json.RawMessage
			if d.Decode(&message) != nil {
				return
			}
			if strings.Contains(string(message), `"id":"q"`) {
				heard <- string(message)
			} else if _, err := server.Write(message); err != nil {
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
			server, err := net.Dial("unix", s.dir+"/db.sock")
			if err != nil {
				_ = client.Close()
				continue
			}
			_, _ = client.Write([]byte(first))
			go forward(server, client)
			go func() {
				defer client.Close()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	return "unix:" + path, heard
}

// Once it is known that the server hangs, calls don't wait for it: neither those
// under way nor new ones. What was sent may still be carried out.
func TestCallsEndWithTheServer(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	c.patience = 300 * time.Millisecond
	query := Query{Table: TableLogicalSwitch}
	f := (&follower{t: t}).follow(c, query)
	read, committed := make(chan error, 1), make(chan error, 1)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	go func() {
		_, err := c.Read(context.Background(), query)
		read <- err
	}()
	go func() {
		_, err := c.Commit(context.Background(), Diff(Fragment{}, counting(1)), false)
		committed <- err
	}()
	require.ErrorContains(t, f.failure(), "no answer")
	var unreachable *UnreachableError
	require.ErrorAs(t, <-read, &unreachable)
	require.ErrorAs(t, <-committed, &unreachable)
	_, err := c.Read(context.Background(), query)
	require.ErrorAs(t, err, &unreachable)
	require.ErrorIs(t, err, errSilent)
	require.NotContains(t, err.Error(), "\n")

	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
	f = followAgain(t, c, query)
	_, err = c.Read(testContext(t), query)
	require.NoError(t, err)
	// Who no longer follows can't tell that nobody answers.
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	require.ErrorContains(t, f.failure(), "no answer")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, c.Follow(ctx, f, query), context.Canceled)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
	_, err = c.Read(testContext(t), query)
	require.NoError(t, err)
}

func TestFollowTalksToTheServer(t *testing.T) {
	s := startServer(t, packagedSchema)
	conn, err := s.dial().connected(testContext(t))
	require.NoError(t, err)
	follow := func(first string) (*follower, <-chan string, <-chan error) {
		remote, answers := startBetween(t, s, first)
		c, err := New(Options{Remotes: remote})
		require.NoError(t, err)
		c.patience = time.Minute
		ctx := testContext(t)
		f, end := &follower{t: t, rows: NewState()}, make(chan error, 1)
		go func() { end <- c.follow(ctx, ctx, remote, conn.schema, f, []Query{{Table: TableLogicalSwitch}}) }()
		return f, answers, end
	}
	f, answers, _ := follow(`{"method":"echo","params":["are you there"],"id":"q"}`)
	require.JSONEq(t, `{"id":"q","result":["are you there"],"error":null}`, <-answers)
	require.Eventually(t, func() bool { _, states, _ := f.look(); return states == 1 }, time.Minute, 10*time.Millisecond)

	for first, message := range map[string]string{
		`{"method":"update2","params":["else",{}],"id":null}`:                                                         "nobody has asked for",
		`{"method":"update2","params":["rows",[]],"id":null}`:                                                         "where an object is expected",
		`{"method":"update2","params":["rows",{"Logical_Switch":{"u":{"insert":{"name":["set",[1,2]]}}}}],"id":null}`: "column name",
		`{"method":"update2","params":["rows",{"Nothing":{"u":{"insert":{}}}}],"id":null}`:                            "nobody has asked for",
		`{"method":1}`: "",
	} {
		f, _, end := follow(first)
		err := <-end
		require.ErrorContains(t, err, message, first)
		require.Zero(t, f.states)
	}
}

func TestFollowLeavesNoGoroutine(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	commit(t, c, Diff(Fragment{}, counting(1)))
	before := runtime.NumGoroutine()
	for range 20 {
		(&follower{t: t}).follow(c, Query{Table: TableLogicalSwitch}).end()
	}
	// One goroutine is that of the condition.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, 20*time.Millisecond)
}

func TestFollowTheLeader(t *testing.T) {
	servers := startCluster(t)
	var remotes []string
	for _, s := range servers {
		remotes = append(remotes, s.remote())
	}
	c, err := New(Options{Remotes: strings.Join(remotes, ",")})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	c.patience = 2 * time.Minute // here the servers have to tell
	persist(t, c, counting(1))
	query := Query{Table: TableLogicalSwitch}
	f := (&follower{t: t}).follow(c, query)

	// The leader hangs, and is a follower when it is back.
	old := leaderOf(t, servers)
	require.NoError(t, old.cmd.Process.Signal(syscall.SIGSTOP))
	var others []*server
	for _, s := range servers {
		if s != old {
			others = append(others, s)
		}
	}
	leaderOf(t, others)
	require.NoError(t, old.cmd.Process.Signal(syscall.SIGCONT))
	require.ErrorContains(t, f.failure(), "not the leader")

	f = followAgain(t, c, query)
	leaderOf(t, servers).stop()
	require.Error(t, f.failure())
	f = followAgain(t, c, query)
	f.sees(c, query)

	// One that has lost the others does not know what is going on.
	last := leaderOf(t, servers)
	alone := dial(t, Options{Remotes: last.remote()})
	f = followAgain(t, alone, query)
	for _, s := range servers {
		if s != last {
			s.stop()
		}
	}
	require.ErrorContains(t, f.failure(), "lost its cluster")
	f = &follower{t: t}
	f.begin(alone, query)
	require.ErrorContains(t, f.failure(), "lost its cluster")
	require.Zero(t, f.states)
}

// followAgain follows as soon as there is somebody to follow.
func followAgain(t *testing.T, c *Client, query Query) *follower {
	t.Helper()
	for range 60 {
		f := &follower{t: t}
		if f.begin(c, query); f.loaded() {
			return f
		}
	}
	t.Fatal("nobody to follow")
	return nil
}
