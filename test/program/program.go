// Package program builds ovn-vpc and runs its server, for tests of the whole.
package program

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds the start and the end of a process.
const patience = time.Minute

// Build is the path of the program, built for this test from the folder of the
// module.
func Build(t testing.TB, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ovn-vpc")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/ovn-vpc")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// Server is a process of `ovn-vpc serve` that can be killed and started again:
// it then has the same address, and its log goes on.
type Server struct {
	program string
	flags   []string
	log     string
	address string
	cmd     *exec.Cmd
	ended   chan error // has the outcome of the process, once
}

// Serve runs a server until the test ends; it then has to end by itself, without
// a failure.
func Serve(t testing.TB, program string, flags ...string) *Server {
	t.Helper()
	s := &Server{program: program, flags: flags, log: filepath.Join(t.TempDir(), "log")}
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.stop(), "the server's end") })
	return s
}

// URL is where the server is.
func (s *Server) URL() string { return "http://" + s.address }

// Start starts the process, and returns when it is ready.
func (s *Server) Start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the server's log: %w", err)
	}
	args := append([]string{"serve", "--insecure", "--log-format", "json", "--listen", cmp.Or(s.address, "127.0.0.1:0")}, s.flags...)
	s.cmd, s.ended = exec.Command(s.program, args...), make(chan error, 1)
	s.cmd.Stderr = log
	if err := errors.Join(s.cmd.Start(), log.Close()); err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for again := time.NewTicker(20 * time.Millisecond); ; {
		if err = s.ready(ctx); err == nil {
			return nil
		}
		select {
		case <-again.C:
		case outcome := <-s.ended:
			s.ended <- outcome
			return fmt.Errorf("the server has ended: %w: %s", outcome, s.tail())
		case <-ctx.Done():
			return fmt.Errorf("the server does not become ready: %w: %s", err, s.tail())
		}
	}
}

// ready asks the server whether it is, once its log says where it listens.
func (s *Server) ready(ctx context.Context) error {
	if s.address == "" {
		for _, line := range s.Log() {
			if line.Msg == "listening" {
				s.address = line.Address
			}
		}
		if s.address == "" {
			return errors.New("it does not listen yet")
		}
	}
	_, err := s.Get(ctx, "/readyz")
	return err
}

// Get reads a path of the server, whose answer has to be 200.
func (s *Server) Get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, resp.Status, body.Bytes())
	}
	return body.Bytes(), nil
}

// Metrics are the values of the server's metrics by name, added up over labels.
func (s *Server) Metrics(ctx context.Context) (map[string]float64, error) {
	text, err := s.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		series, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && strings.Contains(series, "{") {
			number = line[strings.LastIndex(line, "}")+1:]
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if name, _, _ := strings.Cut(series, "{"); err == nil && name != "#" {
			values[name] += value
		}
	}
	return values, nil
}

// Kill ends the process at once, without a warning.
func (s *Server) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing the server: %w", err)
	}
	<-s.ended
	return nil
}

func (s *Server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("it had ended before: %w: %s", err, s.tail())
	}
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		return errors.Join(errors.New("it doesn't end on SIGTERM"), s.Kill())
	}
}

// Line is one line of a server's log.
type Line struct {
	Level, Msg, Address string
	Status              int
	Text                string // the whole line
}

// Log is the server's log, also of the processes before this one.
func (s *Server) Log() []Line {
	file, err := os.Open(s.log)
	if err != nil {
		return nil
	}
	defer file.Close()
	var lines []Line
	for text := bufio.NewScanner(file); text.Scan(); {
		line := Line{Text: text.Text()}
		if json.Unmarshal(text.Bytes(), &line) != nil {
			line.Level = "TEXT" // what the runtime says when a process dies
		}
		line.Text = text.Text()
		lines = append(lines, line)
	}
	return lines
}

// Complaints are the lines of the log that nothing from outside may cause:
// neither a caller, nor a database that is away or slow.
func (s *Server) Complaints() []string {
	var found []string
	for _, line := range s.Log() {
		away := line.Status == http.StatusServiceUnavailable || line.Status == http.StatusGatewayTimeout
		if line.Level == "ERROR" && !away || line.Level == "TEXT" {
			found = append(found, line.Text)
		}
	}
	return found
}

// tail is the end of the log.
func (s *Server) tail() string {
	lines := s.Log()
	var text []string
	for _, line := range lines[max(0, len(lines)-20):] {
		text = append(text, line.Text)
	}
	return strings.Join(text, "\n")
}
