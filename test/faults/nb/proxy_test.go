package nb_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

// proxy stands between clients and a server of OVSDB, and breaks a connection
// where it is told to.
type proxy struct {
	socket, server string

	mu    sync.Mutex
	after int // bytes of the answer to the next transaction that writes; -1: pass it
	worst int // connections break by chance, after so many bytes at most; 0: they don't
	cuts  int
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	p := &proxy{socket: filepath.Join(labtest.TempDir(t), "p.sock"), server: server, after: -1}
	l, err := net.Listen("unix", p.socket)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(client)
		}
	}()
	return p
}

func (p *proxy) remote() string { return "unix:" + p.socket }

// cut breaks the connection of the next transaction that writes after so many
// bytes of its answer.
func (p *proxy) cut(after int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = after
}

// spoil breaks all connections from now on, each after so many bytes at most,
// until it is called with 0.
func (p *proxy) spoil(worst int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worst = worst
}

// lasts is after how many bytes a connection breaks.
func (p *proxy) lasts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worst == 0 {
		return math.MaxInt
	}
	return rand.IntN(p.worst)
}

func (p *proxy) broken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
}

// done tells how often a connection was broken, and stops to wait for one.
func (p *proxy) done() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = -1
	return p.cuts
}

// message is what tells of JSON-RPC's.
type message struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
}

// pass hands on all messages, whole, until one side ends.
func (p *proxy) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	type answer struct {
		id    string
		after int
	}
	doomed := make(chan answer, 1)
	go func() {
		defer client.Close() // ends the other direction too
		defer server.Close()
		messages(client, server, func(m message, raw []byte) []byte {
			if m.Method == "transact" && writes(raw) {
				if after := p.take(); after >= 0 {
					doomed <- answer{string(m.ID), after}
				}
			}
			return raw
		})
	}()
	cut, left := answer{}, p.lasts()
	messages(server, client, func(m message, raw []byte) []byte {
		select {
		case cut = <-doomed:
		default:
		}
		if left < len(raw) {
			_, _ = client.Write(raw[:left])
			p.broken()
			return nil
		}
		left -= len(raw)
		if m.Method != "" || cut.id == "" || string(m.ID) != cut.id {
			return raw
		}
		_, _ = client.Write(raw[:min(cut.after, len(raw)-1)])
		return nil
	})
}

func (p *proxy) take() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := p.after
	if after >= 0 {
		p.after = -1
		p.cuts++
	}
	return after
}

// messages hands on one direction, as edit makes each message; nil ends it.
func messages(from io.Reader, to io.Writer, edit func(message, []byte) []byte) {
	for d := json.NewDecoder(from); ; {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return
		}
		var m message
		if json.Unmarshal(raw, &m) != nil {
			return
		}
		out := edit(m, raw)
		if out == nil {
			return
		}
		if _, err := to.Write(out); err != nil {
			return
		}
	}
}

func writes(transaction []byte) bool {
	for _, op := range []string{"insert", "update", "mutate", "delete"} {
		if bytes.Contains(transaction, []byte(`"op":"`+op+`"`)) {
			return true
		}
	}
	return false
}
