package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

const (
	// streamPace is the time between two tokens of a stream.
	streamPace = 10 * time.Millisecond
	// pingPace is the time between two echo requests.
	pingPace = "0.05"
)

// stream is one TCP connection to an echo, with tokens sent at a steady pace.
type stream struct {
	conn  net.Conn
	ended sync.WaitGroup

	mu         sync.Mutex
	sent, back int // tokens
	last       time.Time
	gap        time.Duration
	err        error
}

// token is what a stream sends: its number, in as many bytes.
const token = 8

func newStream(conn net.Conn) *stream {
	s := &stream{conn: conn}
	s.ended.Go(func() { s.note(s.write()) })
	s.ended.Go(func() { s.note(s.read()) })
	return s
}

func (s *stream) write() error {
	ticker := time.NewTicker(streamPace)
	defer ticker.Stop()
	for n := uint64(0); ; n++ {
		if _, err := s.conn.Write(binary.BigEndian.AppendUint64(nil, n)); err != nil {
			return err
		}
		s.mu.Lock()
		s.sent++
		s.mu.Unlock()
		<-ticker.C
	}
}

func (s *stream) read() error {
	for buffer := make([]byte, token); ; {
		if _, err := io.ReadFull(s.conn, buffer); err != nil {
			return err
		}
		now := time.Now()
		s.mu.Lock()
		if number := binary.BigEndian.Uint64(buffer); number != uint64(s.back) {
			s.mu.Unlock()
			return fmt.Errorf("token %d came back in the place of %d", number, s.back)
		}
		if s.back++; s.back > 1 {
			s.gap = max(s.gap, now.Sub(s.last))
		}
		s.last = now
		s.mu.Unlock()
	}
}

// note keeps the error that ended a direction, if it wasn't stop.
func (s *stream) note(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

func (s *stream) tally() Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Tally{Sent: s.sent, Received: s.back, Gap: s.gap}
}

func (s *stream) stop() (Tally, error) {
	err := s.conn.Close()
	s.ended.Wait()
	if err = errors.Join(err, s.err); err != nil {
		return s.tally(), fmt.Errorf("stream to %s: %w", s.conn.RemoteAddr(), err)
	}
	return s.tally(), nil
}

// pinging is a ping(8) that runs until it is stopped.
type pinging struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

func startPing(ctx context.Context, g *lab.Guest, to netip.Addr) (*pinging, error) {
	p := &pinging{cmd: exec.CommandContext(ctx, "ping", "-n", "-q", "-i", pingPace, to.String())}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := g.Do(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("ping from %s: %w", g.Spec.Name, err)
	}
	return p, nil
}

// stop lets ping sum up (SIGINT). Its status is 1 when nothing came back.
func (p *pinging) stop() (Tally, error) {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return Tally{}, fmt.Errorf("stop ping: %w", err)
	}
	err := p.cmd.Wait()
	match := regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`).FindSubmatch(p.out.Bytes())
	if match == nil {
		return Tally{}, fmt.Errorf("ping: %w: %s", err, bytes.TrimSpace(p.out.Bytes()))
	}
	sent, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return Tally{}, err
	}
	received, err := strconv.Atoi(string(match[2]))
	return Tally{Sent: sent, Received: received}, err
}
