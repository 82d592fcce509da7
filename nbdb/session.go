package nbdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/cenkalti/rpc2"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

var (
	errClosed    = errors.New("the server has closed the connection")
	errNotLeader = errors.New("the server is not the leader of its cluster")
	errNoCluster = errors.New("the server has lost its cluster")
)

// session is a connection to one server of a database. It ends when the server
// closes it, has lost its cluster or, where only the leader will do, is the leader
// no more.
//
// It is not libovsdb's client since a connection that breaks while that one is
// at the end of Connect brings the program down: the goroutine that cleans up
// is started before those that it waits for are counted, and takes the cache
// away that they, or the watch for the leader, go on to use. Besides, that
// watch is never ended.
type session struct {
	remote, database string
	schema           *Schema
	rpc              *rpc2.Client
	ended            context.Context // its cause says why
	end              context.CancelCauseFunc
}

// openSession opens a session with a remote as parseRemotes returns it.
func openSession(ctx context.Context, remote, database string, leaderOnly bool, config *tls.Config) (*session, error) {
	conn, err := dialRemote(ctx, remote, config)
	if err != nil {
		return nil, err
	}
	s := &session{remote: remote, database: database}
	s.ended, s.end = context.WithCancelCause(context.Background())
	// Closing the connection ends a read or a write that hangs.
	context.AfterFunc(s.ended, func() { _ = conn.Close() })
	defer context.AfterFunc(ctx, func() { s.end(ctx.Err()) })()
	if err := s.begin(ctx, conn, leaderOnly); err != nil {
		s.end(err)
		return nil, context.Cause(s.ended)
	}
	return s, nil
}

func (s *session) begin(ctx context.Context, conn net.Conn, leaderOnly bool) error {
	server := heeded(s.end, (&membership{leaderOnly: leaderOnly, rows: southboundType[databaseRow]("Database")}).update)
	s.rpc = serve(conn, s.end, map[string]*updates{monitorOfServer: server})
	var names []string
	if err := s.call(ctx, "list_dbs", nil, &names); err != nil {
		if ctx.Err() == nil && strings.HasPrefix(s.remote, "ssl:") { // it says no more to whom it doesn't trust
			err = fmt.Errorf("%w (does it know the CA of the certificate of -c?)", err)
		}
		return err
	}
	if !slices.Contains(names, s.database) {
		return fmt.Errorf("target database %s not found", s.database)
	}
	s.schema = &Schema{}
	if err := s.call(ctx, "get_schema", []any{s.database}, &s.schema.db); err != nil {
		return err
	}
	// One that has lost its cluster goes on to answer from what it has.
	if !leaderOnly && !slices.Contains(names, serverDatabase) {
		return nil
	}
	return s.call(ctx, "monitor_cond", []any{serverDatabase, monitorOfServer, membershipRequest(s.database)}, server)
}

// call asks the server. It doesn't heed ctx while the request is sent.
func (s *session) call(ctx context.Context, method string, args, reply any) error {
	err := s.rpc.CallWithContext(ctx, method, args, reply)
	if err == nil || ctx.Err() != nil && context.Cause(s.ended) == nil {
		return err
	}
	return s.failure(err)
}

// failure is why a call has failed.
func (s *session) failure(err error) error {
	if cause := context.Cause(s.ended); cause != nil {
		return cause
	}
	if s.broken() {
		return errClosed
	}
	return err
}

// asked is a transaction that the server was asked for.
type asked struct {
	session *session
	done    chan *rpc2.Call
	answer  scanner
}

// Transact asks for operations. The request is written beside us: that heeds no
// context, and an answer that is there before the write has returned need not
// wait for it.
func (s *session) Transact(ops ...ovsdb.Operation) (*asked, error) {
	params, err := transaction(s.database, ops)
	if err != nil {
		return nil, &unsendableError{err}
	}
	a := &asked{session: s, done: make(chan *rpc2.Call, 1)}
	go s.rpc.Go("transact", params, &a.answer, a.done)
	return a, nil
}

// results are what a call that is done has come to.
func (a *asked) results(call *rpc2.Call) ([]result, error) {
	if call.Error != nil {
		return nil, a.session.failure(call.Error)
	}
	return readResults(&a.answer)
}

// broken tells whether the session has ended.
func (s *session) broken() bool {
	select {
	case <-s.rpc.DisconnectNotify():
		return true
	default:
		return s.ended.Err() != nil
	}
}

// close ends the session and its calls.
func (s *session) close() { s.end(errLost) }
