package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ovn-vpc/ovn-vpc/engine"
)

// call is one request.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
	media        string // of the body, JSON if it is empty
	wait         engine.Wait
	// reads tells that the server changes nothing, again that the request may
	// be sent again when its answer is lost.
	reads, again bool
	breaks       bool // it may break expectations
}

// answer is what came back, whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

const (
	mediaJSON  = "application/json"
	mediaPatch = "application/merge-patch+json"
	mediaPlan  = "application/vnd.ovn-vpc.plan+json"

	// maxPause bounds what a server can make us wait before the next.
	maxPause = 5 * time.Second
	// maxWait is the longest that the server waits for hypervisors.
	maxWait = 60 * time.Second
	// leastWait is worth asking for once more.
	leastWait = 500 * time.Millisecond
)

// encode is the body of a request.
func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	return data, nil
}

// do sends a request and returns the answer. One that is no success is
// returned together with its error. It sends again what may be sent again,
// after a broken connection or where the server has no database at the moment.
func (c *Client) do(ctx context.Context, req call) (*answer, error) {
	if c.options.Timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
		ctx = bounded
	}
	for attempt := 1; ; attempt++ {
		r, err := c.request(ctx, req)
		if err != nil {
			return nil, err
		}
		a, err := c.once(r)
		least := time.Duration(0)
		switch {
		case err == nil && a.status < 300:
			return a, nil
		case err == nil:
			err = failure(a)
			if a.status != http.StatusServiceUnavailable || !req.again && !req.reads {
				return a, err
			}
			least = retryAfter(a.header)
		case hopeless(err):
			return nil, err
		case unsent(err):
		case !req.reads && !req.again:
			return nil, &UnknownOutcomeError{err}
		}
		if attempt >= c.options.Attempts || !c.pause(ctx, attempt, least) {
			return a, err
		}
		c.log.Info("asking again", "method", req.method, "path", req.path, "error", err)
	}
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxPause)
}

// pause waits before another attempt, longer each time and by chance; false if
// the context ends before.
func (c *Client) pause(ctx context.Context, attempt int, least time.Duration) bool {
	most := min(c.unit<<min(attempt, 10), maxPause)
	wait := max(least, most/2+time.Duration(c.rand()%uint64(most/2)))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once sends a request one time.
func (c *Client) once(r *http.Request) (*answer, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.broken(err)
	}
	defer resp.Body.Close() // it is read to its end, or the connection given up
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.broken(err)
	}
	if len(body) > maxAnswer {
		return nil, c.broken(errTooLarge)
	}
	return &answer{resp.StatusCode, resp.Header, body}, nil
}

// broken names the server in an error of the connection.
func (c *Client) broken(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("asking the server at %s: %w", c.base.Redacted(), err)
}

func (c *Client) request(ctx context.Context, req call) (*http.Request, error) {
	query := url.Values{}
	for k, v := range req.query {
		query[k] = v
	}
	if req.breaks && c.options.OverrideExpectations {
		query.Set("overrideExpectations", "true")
	}
	if waits(req.wait) {
		query.Set("wait", string(req.wait))
		query.Set("timeout", strconv.FormatInt(patience(ctx).Milliseconds(), 10)+"ms")
	}
	target := c.base.JoinPath(req.path)
	target.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, req.method, target.String(), bytes.NewReader(req.body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	for k, v := range req.header {
		r.Header[k] = v
	}
	r.Header.Set("User-Agent", c.options.UserAgent)
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", mediaJSON)
	}
	if req.body != nil {
		r.Header.Set("Content-Type", mediaJSON)
		if req.media != "" {
			r.Header.Set("Content-Type", req.media)
		}
	}
	if c.options.Token != nil {
		token, err := c.options.Token()
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, nil
}

func waits(w engine.Wait) bool { return w != "" && w != engine.WaitNone }

// patience is how long the server may wait before it says what is pending: so
// long that its answer still comes in time.
func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return maxWait
	}
	return max(0, min(maxWait, time.Until(deadline)*3/4))
}

// decode reads an answer. Fields that are not known are passed over.
func decode(a *answer, into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	return nil
}
