package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// sent is a transaction that went through a proxy and writes something.
type sent struct {
	request []byte // whole
	inserts int
}

// proxy stands between clients and a database, and notes what they write.
type proxy struct {
	listener net.Listener
	target   string // the path of the database's socket

	mu       sync.Mutex
	writes   []sent
	followed map[string][]string // columns by table
}

// newProxy listens in dir for clients of the database at remote.
func newProxy(ctx context.Context, dir, remote string) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "proxy.sock"))
	if err != nil {
		return nil, fmt.Errorf("listening between: %w", err)
	}
	p := &proxy{listener: listener, target: strings.TrimPrefix(remote, "unix:"), followed: map[string][]string{}}
	go p.serve()
	return p, nil
}

func (p *proxy) remote() string { return "unix:" + p.listener.Addr().String() }

// close ends the proxy and returns what was written through it.
func (p *proxy) close() ([]sent, error) {
	err := p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes), err
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			server, err := net.Dial("unix", p.target)
			if err != nil {
				_ = client.Close() // the client then says what is wrong
				return
			}
			go func() {
				_, _ = io.Copy(client, server) // ends with either side
				_ = client.Close()
			}()
			_ = p.forward(client, server) // likewise
			_ = server.Close()
		}()
	}
}

// forward hands requests on, one by one.
func (p *proxy) forward(client io.Reader, server io.Writer) error {
	for requests := json.NewDecoder(client); ; {
		var data json.RawMessage
		if err := requests.Decode(&data); err != nil {
			return err
		}
		if err := p.note(data); err != nil {
			return err
		}
		if _, err := server.Write(data); err != nil {
			return err
		}
	}
}

// follows notes what a client monitors.
func (p *proxy) follows(requests []byte) error {
	var tables map[string][]struct{ Columns []string }
	if err := json.Unmarshal(requests, &tables); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for table, monitors := range tables {
		for _, m := range monitors {
			p.followed[table] = append(p.followed[table], m.Columns...)
		}
	}
	return nil
}

// note looks whether a request writes, or begins to follow.
func (p *proxy) note(data []byte) error {
	var r struct {
		Method string
		Params []json.RawMessage
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if strings.HasPrefix(r.Method, "monitor_cond") && len(r.Params) > 2 && string(r.Params[0]) == `"OVN_Northbound"` {
		return p.follows(r.Params[2])
	}
	if r.Method != "transact" {
		return nil
	}
	if len(r.Params) == 0 {
		return errors.New("a transaction on no database")
	}
	s, writes := sent{request: data}, false
	for _, param := range r.Params[1:] {
		var operation struct{ Op string }
		if err := json.Unmarshal(param, &operation); err != nil {
			return err
		}
		switch operation.Op {
		case "insert":
			s.inserts++
			writes = true
		case "update", "mutate", "delete":
			writes = true
		}
	}
	if writes {
		p.mu.Lock()
		p.writes = append(p.writes, s)
		p.mu.Unlock()
	}
	return nil
}
