package nbdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/rpc2"
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
	schema *Schema
	heard  context.Context // ended while those who follow find nobody who answers
	hush   context.CancelCauseFunc
}

// Dial connects to the first remote that answers, within ctx's deadline.
// Where all refuse it fails at once; a cluster that is electing a leader is
// waited for until the deadline.
func Dial(ctx context.Context, o Options) (*Client, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	if _, err := c.connected(ctx); err != nil {
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
	c.heard, c.hush = context.WithCancelCause(context.Background())
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() { c.swap(nil) }

// Schema is the schema of the server that was last connected to, nil before
// the first.
func (c *Client) Schema() *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.schema
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
			return nil, fmt.Errorf("%w (%w)", err, context.Cause(ctx))
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

// transact asks the server for operations, anew on a new connection where the one
// there was has turned out to be broken. sent is false where certainly nothing was sent.
func (c *Client) transact(ctx context.Context, build func(*Schema) ([]ovsdb.Operation, error)) (results []result, sent bool, err error) {
	for again := true; ; again = false {
		conn, err := c.connected(ctx)
		if err != nil {
			return nil, false, err
		}
		results, sent, err := c.ask(ctx, conn, build)
		if err == nil || sent || !again || !conn.broken() || ctx.Err() != nil {
			return results, sent, err
		}
		c.log.DebugContext(ctx, "asking again: the connection was broken", "error", err)
	}
}

// ask is the one place that talks to the server.
func (c *Client) ask(ctx context.Context, conn *session, build func(*Schema) ([]ovsdb.Operation, error)) (results []result, sent bool, err error) {
	ops, err := build(conn.schema)
	if err != nil || len(ops) == 0 {
		return nil, false, err
	}
	// The same is looked at in Transact, whose error looks like a lost answer.
	if !conn.schema.db.ValidateOperations(ops...) {
		return nil, false, fmt.Errorf("the schema of %s has no such tables or columns as the operations name", c.database)
	}
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	asked, err := conn.Transact(ops...)
	if err != nil {
		return nil, false, err
	}
	sent = true
	select {
	case call := <-asked.done:
		results, err = asked.results(call)
		sent = !errors.Is(call.Error, rpc2.ErrShutdown) && !errors.As(call.Error, new(*unsentError))
		if unsendable := (*unsendableError)(nil); errors.As(err, &unsendable) {
			return nil, false, unsendable
		}
		if err == nil && c.leaderOnly && refused(results) {
			err = conn.stands(ctx)
		}
		if err != nil {
			c.drop(conn)
		}
	case <-conn.ended.Done():
		err = errLost
	case <-ctx.Done():
		err = ctx.Err()
		go c.outlive(conn, asked.done)
	}
	if err != nil {
		return nil, sent, &UnreachableError{fmt.Errorf("%s at %s: %w", c.database, c.shown, err)}
	}
	if len(results) < len(ops) {
		return nil, true, fmt.Errorf("%s at %s: %d results for %d operations", c.database, c.shown, len(results), len(ops))
	}
	return results, true, nil
}

// refused tells whether an operation or the commit failed.
func refused(results []result) bool {
	return slices.ContainsFunc(results, func(r result) bool { return r.Error != "" })
}

// errLost says that a connection was given up while a call was under way.
var errLost = errors.New("the connection was given up: the server is silent, or it was closed")

// outlive waits for an answer that its caller no longer wants. Others use the
// connection too: only a server that stays silent loses it.
func (c *Client) outlive(conn *session, done <-chan *rpc2.Call) {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case call := <-done:
		if call.Error == nil {
			return
		}
	case <-conn.ended.Done():
		return
	case <-timer.C:
	}
	c.drop(conn)
}
