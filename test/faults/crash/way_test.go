package crash_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// message is one of JSON-RPC between a command and the database.
type message struct {
	answer bool // from the database
	writes bool // a transaction that writes, or what became of it
}

// cut is a moment: so much of a message has been passed on.
type cut struct {
	message int     // counted from 0, requests and answers apart
	answer  bool    // of the answers
	part    float64 // 0: nothing of it, 1: all
}

func (c cut) String() string {
	what := "request"
	if c.answer {
		what = "answer"
	}
	return fmt.Sprintf("when %.1f %% of %s %d were passed on", 100*c.part, what, c.message)
}

// way is a way to the database on which messages are counted. Each process has
// one of its own.
type way struct {
	server string

	mu       sync.Mutex
	counts   map[bool]int
	messages []message
	writes   map[string]bool // transactions that write and have no answer yet, by id
	cut      *cut
	// fire is called at the cut, with the connection still open; then it breaks.
	fire func()
	// landed is called when a transaction that writes is answered, before the
	// command hears of it.
	landed func()
}

// newWay listens until the test ends, and gives its remote.
func newWay(t *testing.T, dir, server string) (w *way, remote string) {
	t.Helper()
	w = &way{server: strings.TrimPrefix(server, "unix:"), counts: map[bool]int{}, writes: map[string]bool{}}
	path := filepath.Join(dir, "way.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			command, err := l.Accept()
			if err != nil {
				return // closed
			}
			go w.serve(command)
		}
	}()
	return w, "unix:" + path
}

// begin counts anew.
func (w *way) begin(at *cut, fire, landed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts, w.messages, w.writes = map[bool]int{}, nil, map[string]bool{}
	w.cut, w.fire, w.landed = at, fire, landed
}

func (w *way) serve(command net.Conn) {
	database, err := net.Dial("unix", w.server)
	if err != nil {
		_ = command.Close()
		return
	}
	go w.pass(database, command, false)
	w.pass(command, database, true)
}

func (w *way) pass(to, from net.Conn, answer bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	for messages := json.NewDecoder(from); ; {
		var text json.RawMessage
		if err := messages.Decode(&text); err != nil {
			return
		}
		if part, on := w.look(text, answer); !on {
			_, _ = to.Write(text[:part])
			w.fire()
			return
		}
		if _, err := to.Write(text); err != nil {
			return
		}
	}
}

var writing = regexp.MustCompile(`"op":"(insert|update|mutate|delete)"`)

// look counts a message; on is false where the cut is in it, after part bytes.
func (w *way) look(text []byte, answer bool) (part int, on bool) {
	var head struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(text, &head) // the database judges it
	w.mu.Lock()
	defer w.mu.Unlock()
	id := string(head.ID)
	m := message{answer: answer, writes: answer && w.writes[id]}
	if !answer && head.Method == "transact" && writing.Match(text) {
		m.writes, w.writes[id] = true, true
	}
	if m.writes && answer {
		delete(w.writes, id)
		if w.landed != nil {
			w.landed()
		}
	}
	w.messages = append(w.messages, m)
	n := w.counts[answer]
	w.counts[answer]++
	if c := w.cut; c != nil && c.answer == answer && c.message == n {
		return int(c.part * float64(len(text))), false
	}
	return 0, true
}

// moments are the cuts in and around the messages that have passed, in an order
// by chance: those at transactions that write, and the others.
func (w *way) moments(dice *rand.Rand) (at, elsewhere []cut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := map[bool]int{}
	for _, m := range w.messages {
		all := 1.0
		if m.answer {
			all = 0.999 // with the last one whole the command would end by itself
		}
		for _, part := range []float64{0, dice.Float64(), all} {
			c := cut{message: counts[m.answer], answer: m.answer, part: part}
			if m.writes {
				at = append(at, c)
			} else {
				elsewhere = append(elsewhere, c)
			}
		}
		counts[m.answer]++
	}
	for _, cuts := range [][]cut{at, elsewhere} {
		dice.Shuffle(len(cuts), func(i, j int) { cuts[i], cuts[j] = cuts[j], cuts[i] })
	}
	return at, elsewhere
}
