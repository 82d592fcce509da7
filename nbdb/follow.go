package nbdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/cenkalti/rpc2"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const (
	// followTimeout is how long it may take to find a server to follow.
	followTimeout = 10 * time.Second
	// loadTimeout is how long it may take until all rows are there.
	loadTimeout = 2 * time.Minute
	// followPatience is how long a server that is followed may be silent. It is
	// asked for a sign of life twice in that time.
	followPatience = 10 * time.Second
)

// serverDatabase tells about the databases of a server (ovsdb-server(5)).
const serverDatabase = "_Server"

// The names of the monitors on a connection.
const (
	monitorOfRows   = "rows"
	monitorOfServer = "server"
)

// Sink receives the rows that Follow reads. Its methods are called one at a
// time, in the order of commits. While one runs nothing is read, and the
// server may put the changes of several transactions together.
type Sink interface {
	// Row gives a row that is new (old is nil), has changed, or is gone (now is
	// nil), with the columns asked for. Neither may be altered, but for a new one. A
	// new row for which it returns false is not followed: nothing more is heard of it.
	Row(old, now Row) (keep bool)
	// Done says that the rows given since it was last called complete a state of
	// the database: all rows the first time, changes from then on.
	Done()
}

// Syncer is a Sink that can be asked whether it has been given everything.
type Syncer interface {
	Sink
	// Synced is called once all rows are there, beside the Sink's methods. Until
	// Follow returns, what ask returns waits until all has been given that had been
	// committed before ask was called, on the server that is followed.
	Synced(ask func() (await func(context.Context) error))
}

// Amender is a Sink that makes rows what they are after a change: the server
// sends what is different, and a large row need not be made anew.
type Amender interface {
	Sink
	// Amend is called in the place of Row for a row that has changed, and
	// returns the row that is old from now on.
	Amend(old Row, d Difference) (now Row)
}

// Follow gives all rows that the queries pick, then their changes, until ctx
// ends, the connection breaks, or the server is silent, has lost its cluster
// or, where only the leader will do, its lead. It always returns an error,
// after the last call of the sink; called again it starts anew. Each table may
// have one query, with one condition. Every call has a connection of its own.
//
// Where it ends because nobody answers, or nobody who knows what is true, all
// calls of the client fail at once until it is called again and finds somebody,
// or ends for another reason.
//
// It doesn't use libovsdb's monitors: their cache drops events when it is
// behind, and takes about twice the time and memory to load.
func (c *Client) Follow(ctx context.Context, sink Sink, queries ...Query) error {
	looking, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	remote := ""
	conn, err := c.reach(looking)
	if err == nil {
		remote = conn.remote
		if err = c.follow(ctx, looking, remote, conn.schema, sink, queries); ctx.Err() != nil {
			err = ctx.Err()
		}
		err = fmt.Errorf("following %s at %s: %w", c.database, c.shown, err)
	}
	timeout := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	if timeout {
		err = fmt.Errorf("no answer: %w", err)
	}
	// Where only the leader will do, it is looked for among the others.
	if alone := errors.Is(err, errNoCluster) && !c.leaderOnly; (timeout || alone) && ctx.Err() == nil {
		c.silent(remote)
	} else {
		c.speaks()
	}
	return err
}

// follow follows the server at remote, which is to answer while looking lasts:
// without queries only what it says about itself.
func (c *Client) follow(ctx, looking context.Context, remote string, schema *Schema, sink Sink, queries []Query) error {
	requests, err := monitorRequests(schema, queries)
	if err != nil {
		return err
	}
	opened, err := dialRemote(looking, remote, c.tls)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	conn := &followedConn{Conn: opened}
	// Closing it ends a read or a write that hangs.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	member := &membership{leaderOnly: c.leaderOnly, rows: southboundType[databaseRow]("Database")}
	server := heeded(fail, func(data []byte) error {
		if len(queries) == 0 {
			conn.patience = c.patience
		}
		return member.update(data)
	})
	kept := newReplica(sink)
	rows := heeded(fail, func(data []byte) error {
		if ctx.Err() != nil { // what comes behind an update that can't be taken is no state
			return context.Cause(ctx)
		}
		conn.patience = c.patience // this is the goroutine that reads
		return kept.update(data)
	})
	rpc := serve(conn, fail, map[string]*updates{monitorOfServer: server, monitorOfRows: rows})
	defer func() {
		_ = conn.Close()
		<-rpc.DisconnectNotify()
	}()

	err = rpc.CallWithContext(looking, "monitor_cond", []any{serverDatabase, monitorOfServer, membershipRequest(c.database)}, server)
	if err == nil {
		c.speaks()
	}
	if err == nil && len(queries) > 0 {
		loading, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		err = rpc.CallWithContext(loading, "monitor_cond", []any{c.database, monitorOfRows, requests}, rows)
	}
	if err == nil {
		if s, ok := sink.(Syncer); ok {
			s.Synced(func() func(context.Context) error { return barrier(rpc) })
		}
		err = probe(rpc, conn, c.patience/2)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// heeded are updates that fail where they can't be taken.
func heeded(fail context.CancelCauseFunc, take updates) *updates {
	taking := updates(func(data []byte) error {
		err := take(data)
		if err != nil {
			fail(err)
		}
		return err
	})
	return &taking
}

// serve answers what the server sends, in the order in which it comes and by
// one goroutine: the rows of monitors go to takers, by the monitors' names.
func serve(conn net.Conn, fail context.CancelCauseFunc, takers map[string]*updates) *rpc2.Client {
	rpc := rpc2.NewClientWithCodec(&codec{conn: conn})
	rpc.SetBlocking(true)
	rpc.Handle("echo", func(_ *rpc2.Client, args []any, reply *[]any) error {
		*reply = args
		return nil
	})
	rpc.Handle("update2", func(_ *rpc2.Client, params []json.RawMessage, _ *[]any) error {
		var name string
		if len(params) != 2 || json.Unmarshal(params[0], &name) != nil || takers[name] == nil {
			fail(errors.New("the server sent an update that nobody has asked for"))
			return nil
		}
		_ = (*takers[name])(params[1]) // has told fail
		return nil
	})
	go rpc.Run()
	return rpc
}

// barrier is answered behind all updates of what was committed before: the
// server sends what its monitors have before any answer, but that to an echo.
func barrier(rpc *rpc2.Client) (await func(context.Context) error) {
	call := rpc.Go("list_dbs", []any{}, new([]string), make(chan *rpc2.Call, 1))
	return func(ctx context.Context) error {
		select {
		case <-call.Done:
			return call.Error
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// probe asks for a sign of life again and again, until the connection ends,
// and tells why it did.
func probe(rpc *rpc2.Client, conn *followedConn, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-rpc.DisconnectNotify():
			if conn.failure == nil {
				return errors.New("the server sent what can't be read")
			}
			return conn.failure
		case <-ticker.C:
			var reply []any
			rpc.Go("echo", []any{}, &reply, nil)
		}
	}
}

// followedConn gives up reading when nothing comes. Its fields are those of
// the goroutine that reads; others may look at them after it has ended.
type followedConn struct {
	net.Conn
	patience time.Duration // 0: without end
	failure  error         // of the last read
}

func (c *followedConn) Read(p []byte) (n int, err error) {
	if c.patience > 0 {
		if err = c.SetReadDeadline(time.Now().Add(c.patience)); err != nil {
			return 0, err
		}
	}
	n, c.failure = c.Conn.Read(p)
	runtime.Gosched() // an answer to a transaction that came along, on another connection, is waited for
	if c.failure == io.EOF {
		c.failure = errClosed
		return n, io.EOF
	}
	return n, c.failure
}

// membership is what a server says about itself.
type membership struct {
	leaderOnly bool
	rows       *rowType
	database   databaseRow
}

type databaseRow struct {
	Model     string `ovsdb:"model"`
	Connected bool   `ovsdb:"connected"`
	Leader    bool   `ovsdb:"leader"`
}

func membershipRequest(database string) map[string][]monitorRequest {
	return map[string][]monitorRequest{"Database": {{Columns: []string{"model", "connected", "leader"},
		Where: []ovsdb.Condition{{Column: "name", Function: ovsdb.ConditionEqual, Value: database}}}}}
}

// update fails where the server is no longer to be believed.
func (m *membership) update(data []byte) error {
	err := eachUpdate(data, nil, func(s *scanner, _ string, _ UUID, kind string) {
		if kind == updateDelete {
			s.raw()
			m.database = databaseRow{}
			return
		}
		m.rows.read(s, &m.database)
	})
	switch {
	case err != nil:
		return err
	case !m.database.Connected:
		return errNoCluster
	case m.leaderOnly && m.database.Model == "clustered" && !m.database.Leader:
		return errNotLeader
	}
	return nil
}
