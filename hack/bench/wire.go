package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
)

// wire is a connection to a database by hand: JSON-RPC on its socket (RFC
// 7047), nothing between.
type wire struct {
	net.Conn
	replies *json.Decoder
}

// object is a JSON object to be sent.
type object = map[string]any

func dialWire(ctx context.Context, remote string) (*wire, error) {
	path, ok := strings.CutPrefix(remote, "unix:")
	if !ok {
		return nil, fmt.Errorf("%s is no unix socket", remote)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connecting by hand: %w", err)
	}
	return &wire{Conn: conn, replies: json.NewDecoder(conn)}, nil
}

// request is a JSON-RPC request as it goes over the wire.
func request(method string, params ...any) ([]byte, error) {
	data, err := json.Marshal(object{"id": method, "method": method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("encoding a request: %w", err)
	}
	return data, nil
}

// transaction is a request that carries out operations on the NB.
func transaction(operations ...any) ([]byte, error) {
	return request("transact", append([]any{"OVN_Northbound"}, operations...)...)
}

// exchange sends one request and returns its result, whatever the server asks
// meanwhile answered.
func (w *wire) exchange(data []byte) (json.RawMessage, error) {
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	for {
		var reply struct {
			ID, Method, Params, Result, Error json.RawMessage
		}
		if err := w.replies.Decode(&reply); err != nil {
			return nil, fmt.Errorf("reading the answer: %w", err)
		}
		if bytes.Equal(reply.Method, []byte(`"echo"`)) {
			if err := json.NewEncoder(w).Encode(object{"id": reply.ID, "result": reply.Params, "error": nil}); err != nil {
				return nil, fmt.Errorf("answering an echo: %w", err)
			}
			continue
		}
		if reply.Error != nil && !bytes.Equal(reply.Error, []byte("null")) {
			return nil, fmt.Errorf("the server answers: %s", reply.Error)
		}
		// A failed operation is no error of the request.
		if bytes.Contains(reply.Result, []byte(`"error":"`)) {
			return nil, errors.New("an operation failed: " + string(reply.Result[:min(len(reply.Result), 500)]))
		}
		return reply.Result, nil
	}
}

// query reads rows of a table by hand.
func (w *wire) query(table string) ([]map[string]json.RawMessage, error) {
	data, err := transaction(object{"op": "select", "table": table, "where": []any{}})
	if err != nil {
		return nil, err
	}
	answer, err := w.exchange(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", table, err)
	}
	var results []struct{ Rows []map[string]json.RawMessage }
	if err := json.Unmarshal(answer, &results); err != nil || len(results) != 1 {
		return nil, fmt.Errorf("reading %s: %d results: %w", table, len(results), err)
	}
	return results[0].Rows, nil
}
