package nbdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// The databases of OVN.
const (
	Northbound = "OVN_Northbound"
	Southbound = "OVN_Southbound"
)

const (
	// remoteTimeout is how long one of several remotes may take to answer
	// before the next is tried.
	remoteTimeout = 5 * time.Second
	// electionPause is the time between two rounds over the remotes of a
	// cluster that is without a leader; an election takes 1 to 2 seconds.
	electionPause = 100 * time.Millisecond
)

// Client is a connection to one database. It connects again by itself where
// the server has gone or, in a cluster, has lost the lead. It may be used
// from several goroutines.
type Client struct {
	remotes    []string
	shown      string // the remotes as they were given
	database   string
	leaderOnly bool
	tls        *tls.Config
	log        *slog.Logger
	patience   time.Duration // with a server that is silent

	connecting chan struct{} // holds an element while somebody connects

	mu     sync.Mutex // guards what follows
	conn   *session
	gone   chan struct{} // closed when conn is no longer the client's
	schema *Schema
}

// Dial connects to the first remote that answers, within ctx's deadline.
// Where all refuse it fails at once; a cluster that is electing a leader is
// waited for until the deadline.
func Dial(ctx context.Context, o Options) (*Client, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	if _, _, err := c.connected(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// New is a client that connects when it is first used.
func New(o Options) (*Client, error) {
	remotes, err := parseRemotes(o.Remotes)
	if err != nil {
		return nil, err
	}
	config, err := o.tlsConfig(remotes)
	if err != nil {
		return nil, err
	}
	c := &Client{
		remotes: remotes, shown: o.Remotes, database: o.Database, tls: config,
		leaderOnly: o.LeaderOnly || len(remotes) > 1, log: o.Logger, patience: followPatience,
		connecting: make(chan struct{}, 1),
	}
	if c.database == "" {
		c.database = Northbound
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() { c.swap(nil, nil) }

// Schema is the schema of the server that was last connected to, nil before
// the first.
func (c *Client) Schema() *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.schema
}

func (c *Client) current() (*session, *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn, c.schema
}

// swap puts a connection in the place of the present one.
func (c *Client) swap(conn *session, schema *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		close(c.gone)
		c.conn.close()
	}
	c.conn, c.gone = conn, make(chan struct{})
	if schema != nil {
		c.schema = schema
	}
}

// drop forgets a connection that failed, unless another has replaced it.
func (c *Client) drop(conn *session) {
	if present, _ := c.current(); present == conn {
		c.swap(nil, nil)
	}
}

// connected is the connection, made anew where there is none.
func (c *Client) connected(ctx context.Context) (*session, *Schema, error) {
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return nil, nil, &UnreachableError{fmt.Errorf("connecting to %s at %s: %w", c.database, c.shown, ctx.Err())}
	}
	if conn, schema := c.current(); conn != nil && !conn.broken() {
		return conn, schema, nil
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, nil, &UnreachableError{fmt.Errorf("connecting to %s at %s: %w", c.database, c.shown, err)}
	}
	schema := &Schema{db: conn.schema}
	c.swap(conn, schema)
	return conn, schema, nil
}

// connect goes round the remotes until one takes us or there is no hope.
func (c *Client) connect(ctx context.Context) (*session, error) {
	var before error // why the round before the present one failed
	for {
		conn, electing, err := c.round(ctx)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			if before != nil {
				err = before // it says more than that the time is up
			}
			return nil, fmt.Errorf("%w (%w)", err, ctx.Err())
		}
		if !electing {
			return nil, err
		}
		before = err
		select {
		case <-ctx.Done():
		case <-time.After(electionPause):
		}
	}
}

// round tries each remote once. electing says whether one answered that it
// is not the leader of its cluster, or one of several did not answer: then
// another round may find one.
func (c *Client) round(ctx context.Context) (conn *session, electing bool, err error) {
	var causes []string
	for i, remote := range c.remotes {
		conn, err := c.try(ctx, remote, len(c.remotes)-i)
		if err == nil {
			return conn, false, nil
		}
		electing = electing || errors.Is(err, errNotLeader) || errors.Is(err, errNoCluster) ||
			len(c.remotes) > 1 && errors.Is(err, context.DeadlineExceeded)
		cause := causeOf(err)
		if len(c.remotes) > 1 {
			cause = remote + ": " + cause
		}
		causes = append(causes, cause)
	}
	return nil, electing, errors.New(strings.Join(causes, "; "))
}

// try connects to one remote, the first of left that are still to be tried:
// one that is silent may not use up the time of the others.
func (c *Client) try(ctx context.Context, remote string, left int) (*session, error) {
	if left > 1 {
		timeout := remoteTimeout
		if deadline, ok := ctx.Deadline(); ok {
			timeout = min(timeout, time.Until(deadline)/time.Duration(left))
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	conn, err := openSession(ctx, remote, c.database, c.leaderOnly, c.tls)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // net has words of its own for it
	}
	return conn, err
}

// causeOf is why a remote could not be connected to.
func causeOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer"
	}
	return err.Error()
}

// transact is the one place that talks to the server. sent is false where
// certainly nothing was sent. The call runs beside us since it writes to the
// socket without heeding the context.
func (c *Client) transact(ctx context.Context, build func(*Schema) ([]ovsdb.Operation, error)) (results []result, sent bool, err error) {
	conn, schema, err := c.connected(ctx)
	if err != nil {
		return nil, false, err
	}
	ops, err := build(schema)
	if err != nil || len(ops) == 0 {
		return nil, false, err
	}
	// The same is looked at in Transact, whose error looks like a lost answer.
	if !schema.db.ValidateOperations(ops...) {
		return nil, false, fmt.Errorf("the schema of %s has no such tables or columns as the operations name", c.database)
	}
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	gone := c.lost(conn)
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan answer, 1)
	go func() {
		defer cancel()
		results, err := conn.Transact(call, ops...)
		done <- answer{results, err}
	}()
	var a answer
	select {
	case a = <-done:
		if a.err != nil {
			c.drop(conn)
		}
	case <-gone:
		cancel()
		a.err = errLost
	case <-ctx.Done():
		a.err = ctx.Err()
		go func() {
			defer cancel()
			c.outlive(conn, gone, done)
		}()
	}
	if a.err != nil {
		return nil, true, &UnreachableError{fmt.Errorf("%s at %s: %w", c.database, c.shown, a.err)}
	}
	if len(a.results) < len(ops) {
		return nil, true, fmt.Errorf("%s at %s: %d results for %d operations", c.database, c.shown, len(a.results), len(ops))
	}
	return a.results, true, nil
}

// answer is what the server said to a transaction.
type answer struct {
	results []result
	err     error
}

// errLost says that a connection was given up while a call was under way.
var errLost = errors.New("the connection was given up: the server is silent, or it was closed")

// lost is closed when a connection is no longer the client's.
func (c *Client) lost(conn *session) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		return c.gone
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// outlive waits for an answer that its caller no longer wants. Others use the
// connection too: only a server that stays silent loses it.
func (c *Client) outlive(conn *session, gone <-chan struct{}, done <-chan answer) {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case a := <-done:
		if a.err == nil {
			return
		}
	case <-gone:
		return
	case <-timer.C:
	}
	c.drop(conn)
}
