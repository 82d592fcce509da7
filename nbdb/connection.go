package nbdb

import (
	"context"
	"errors"
	"fmt"
)

func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// swap puts a connection in the place of the present one.
func (c *Client) swap(conn *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(conn)
}

// replace is swap for who has the lock.
func (c *Client) replace(conn *session) {
	if c.conn != nil {
		c.conn.close()
	}
	if c.conn = conn; conn != nil {
		c.schema = conn.schema
	}
}

// drop forgets a connection that failed, unless another has replaced it. Calls
// that wait for its answers end.
func (c *Client) drop(conn *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		c.replace(nil)
	}
}

// errSilent says that calls need not wait: somebody else does.
var errSilent = errors.New("no server answers, or the one that does has lost its cluster; it is tried again and again")

// stands fails where the connection has been lost since, as it is when its server
// has lost the lead: that one carries out anew what it had under way, and may
// refuse as contradicting what it finds a transaction that was committed
// (ovsdb/trigger.c, «cluster error»).
func (s *session) stands(ctx context.Context) error {
	var reply []any
	return s.call(ctx, "echo", []any{}, &reply)
}

// silent notes that the server at remote, or with "" none of them, answers: calls
// that wait for it end, and others fail at once, until one is heard of again.
func (c *Client) silent(remote string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.conn.remote != remote {
		return // another has been found meanwhile
	}
	c.hush(errSilent)
	c.replace(nil)
}

// speaks notes that a server answers, or that nobody knows.
func (c *Client) speaks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard.Err() != nil {
		c.heard, c.hush = context.WithCancelCause(context.Background())
	}
}

// connected is the connection, made anew where there is none. It fails as soon
// as those who follow know that no server answers.
func (c *Client) connected(ctx context.Context) (*session, error) {
	c.mu.Lock()
	heard := c.heard
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(heard, func() { cancel(context.Cause(heard)) })()
	if cause := context.Cause(heard); cause != nil {
		cancel(cause) // the function above may be late
	}
	return c.reach(ctx)
}

// reach is connected for those who follow.
func (c *Client) reach(ctx context.Context) (*session, error) {
	unreachable := func(err error) error {
		return &UnreachableError{fmt.Errorf("connecting to %s at %s: %w", c.database, c.shown, err)}
	}
	if ctx.Err() != nil {
		return nil, unreachable(context.Cause(ctx))
	}
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return nil, unreachable(context.Cause(ctx))
	}
	if conn := c.current(); conn != nil && !conn.broken() {
		return conn, nil
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	c.swap(conn)
	go c.guard(conn)
	return conn, nil
}

// guard drops a connection that has broken, and in a cluster one whose server is
// silent or has lost the lead: it never answers the calls under way.
func (c *Client) guard(conn *session) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	deposed := make(chan error, 1)
	if c.leaderOnly {
		go func() {
			looking, stop := context.WithTimeout(ctx, followTimeout)
			defer stop()
			deposed <- c.follow(ctx, looking, conn.remote, conn.schema, nil, nil)
		}()
	}
	select {
	case <-conn.rpc.DisconnectNotify():
	case err := <-deposed:
		c.log.Debug("giving up the connection", "remote", conn.remote, "error", err)
	case <-conn.ended.Done():
	}
	c.drop(conn)
}
