package nbdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/cenkalti/rpc2"
)

// codec is JSON-RPC as a database server speaks it (RFC 7047, 4) for one rpc2
// client that handles requests in the order in which they come. Of what the
// server sends it finds the parts and leaves them as they are, where rpc2's own
// reads each answer four times, which are megabytes.
type codec struct {
	conn   io.ReadWriteCloser
	ahead  []byte          // read beyond the last message
	body   []byte          // params or result of the last message
	result *scanner        // at the result of the last message
	ends   map[int]int     // where what is long in the last message ends, by where it begins
	asked  json.RawMessage // id of the server's last request
}

// request and reply are what is sent. A server wants params to be an array, and
// a reply to have both a result and an error.
type (
	request struct {
		Method string `json:"method"`
		Params any    `json:"params"`
		ID     uint64 `json:"id"`
	}
	reply struct {
		Result any             `json:"result"`
		Error  any             `json:"error"`
		ID     json.RawMessage `json:"id"`
	}
)

// A read has room for readSize; short messages share a chunk.
const readSize, chunk = 4 << 10, 16 << 10

// What stands at most outer deep in a message and is longer than much is found
// again without reading it: in an answer to a transaction the rows of a select.
const outer, much = 4, 1 << 10

// frame reads the next message, which is an object.
func (c *codec) frame() ([]byte, error) {
	buf := c.ahead
	depth, quoted := 0, false
	c.ends = map[int]int{}
	var begun [outer]int
	for i := 0; ; i++ {
		for i >= len(buf) {
			if cap(buf)-len(buf) < readSize {
				// A message of megabytes is copied seldom. slices.Grow would clear what
				// it adds, and so make memory of all of it.
				buf = append(make([]byte, 0, len(buf)+max(chunk, 3*len(buf))), buf...)
			}
			n, err := c.conn.Read(buf[len(buf):cap(buf)])
			if buf = buf[:len(buf)+n]; n == 0 && err != nil {
				return nil, err
			}
		}
		for quoted && buf[i] != '"' && buf[i] != '\\' && i+1 < len(buf) {
			i++
		}
		switch b := buf[i]; {
		case quoted && b == '\\':
			i++
		case b == '"' && depth > 0:
			quoted = !quoted
		case quoted:
		case depth == 0 && b != '{':
			if b > ' ' {
				return nil, fmt.Errorf("%q between messages", b)
			}
		case b == '{' || b == '[':
			if depth < len(begun) {
				begun[depth] = i
			}
			depth++
		case b == '}' || b == ']':
			if depth--; depth < len(begun) && i-begun[depth] > much {
				c.ends[begun[depth]] = i + 1
			}
			if depth == 0 {
				// The message is kept by who reads it: what follows a long one moves.
				if c.ahead = buf[i+1:]; cap(buf) > 2*chunk {
					c.ahead = slices.Clone(c.ahead)
				}
				return buf[: i+1 : i+1], nil
			}
		}
	}
}

// ReadHeader reads a message.
func (c *codec) ReadHeader(r *rpc2.Request, response *rpc2.Response) error {
	data, err := c.frame()
	if err != nil {
		return err
	}
	parts := map[string][]byte{}
	s := &scanner{data: data, ends: c.ends}
	s.object(func(name string) {
		if name == "result" {
			result := *s
			c.result = &result
		}
		parts[name] = s.raw()
	})
	if s.err != nil {
		return s.err
	}
	isNull := func(part string) bool { return parts[part] == nil || string(parts[part]) == "null" }
	if !isNull("method") {
		method := newScanner(parts["method"], nil)
		if r.Method = method.text(); method.err != nil {
			return method.err
		}
		c.body = parts["params"]
		if !isNull("id") {
			c.asked, r.Seq = parts["id"], 1
		}
		return nil
	}
	if response.Seq, err = strconv.ParseUint(string(parts["id"]), 10, 64); err != nil {
		return fmt.Errorf("an answer to nothing: %w", err)
	}
	c.body = parts["result"]
	switch {
	case !isNull("error"):
		if response.Error = string(parts["error"]); response.Error[0] == '"' {
			response.Error = newScanner(parts["error"], nil).text()
		}
	case isNull("result"):
		response.Error = "an answer without a result"
	}
	return nil
}

// ReadRequestBody gives the parameters.
func (c *codec) ReadRequestBody(into any) error { return c.give(into) }

// ReadResponseBody gives the result.
func (c *codec) ReadResponseBody(into any) error { return c.give(into) }

// give gives the body of the last message: as it is to what takes JSON itself.
func (c *codec) give(into any) error {
	body, result := c.body, c.result
	c.body, c.result = nil, nil
	switch into := into.(type) {
	case nil:
		return nil
	case *scanner:
		*into = *result
		return nil
	case *json.RawMessage:
		*into = body
		return nil
	case *[]json.RawMessage:
		s := newScanner(body, nil)
		s.array(func() { *into = append(*into, s.raw()) })
		return s.err
	case json.Unmarshaler:
		return into.UnmarshalJSON(body)
	}
	return json.Unmarshal(body, into)
}

// WriteRequest asks the server.
func (c *codec) WriteRequest(r *rpc2.Request, params any) error {
	if pieces, ok := params.(encoded); ok {
		head := fmt.Appendf(nil, `{"method":%q,"id":%d,"params":`, r.Method, r.Seq)
		return c.send(bytes.Join(append(append(encoded{head}, pieces...), []byte("}")), nil))
	}
	if params == nil {
		params = []any{}
	}
	return c.write(request{Method: r.Method, Params: params, ID: r.Seq})
}

// WriteResponse answers the server's last request.
func (c *codec) WriteResponse(r *rpc2.Response, result any) error {
	if r.Error != "" {
		return c.write(reply{Error: r.Error, ID: c.asked})
	}
	return c.write(reply{Result: result, ID: c.asked})
}

// write sends a message at once, so that others may write too.
func (c *codec) write(m any) error {
	data, err := encode(m)
	if err != nil {
		return &unsendableError{err}
	}
	return c.send(data)
}

func (c *codec) send(data []byte) error {
	if HoldsNUL(data) {
		return &unsendableError{errors.New("a text holds the character U+0000, which a database can't store")}
	}
	if _, err := c.conn.Write(data); err != nil {
		return &unsentError{err}
	}
	return nil
}

// HoldsNUL tells whether a text of encoded JSON has the character that makes a
// server end the connection.
func HoldsNUL(data []byte) bool {
	const nul = `\u0000`
	for {
		i := bytes.Index(data, []byte(nul))
		if i < 0 {
			return false
		}
		before := data[:i]
		if (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 0 { // else it is a backslash, and letters
			return true
		}
		data = data[i+len(nul):]
	}
}

// unsendableError says that a message was not sent, since there is no way to
// tell a server what it holds.
type unsendableError struct{ err error }

func (e *unsendableError) Error() string { return e.err.Error() }
func (e *unsendableError) Unwrap() error { return e.err }

// unsentError says that a connection broke before a message was sent whole: nobody
// acts on a part.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

func (c *codec) Close() error { return c.conn.Close() }

var _ rpc2.Codec = (*codec)(nil)
