package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"syscall"
	"time"

	"github.com/ovn-vpc/ovn-vpc/client"
)

const (
	// readyPatience bounds the start of a server.
	readyPatience = 10 * time.Minute
	// readyPoll is the time between two questions whether it is ready.
	readyPoll = 5 * time.Millisecond
)

// served is a process of `ovn-vpc serve`, with a client of it.
type served struct {
	*client.Client
	url string
	cmd *exec.Cmd
}

// serve starts a server on a database and returns when it is ready.
func (b *bench) serve(ctx context.Context, databases ...string) (*served, error) {
	args := append([]string{"serve", "--insecure", "--log-format", "json", "--listen", "127.0.0.1:0"}, databases...)
	s := &served{cmd: exec.Command(b.program, args...)}
	log, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	if err := s.await(ctx, log); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// await reads of the log where the server listens, and asks until it is ready.
func (s *served) await(ctx context.Context, log io.ReadCloser) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for lines := bufio.NewScanner(log); s.url == ""; {
		var line struct{ Msg, Address string }
		if !lines.Scan() {
			return errors.New("the server has ended before it listened")
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			s.url = "http://" + line.Address
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }() // ends with the process
	if s.Client, err = client.New(client.Options{URL: s.url, Attempts: 1}); err != nil {
		return err
	}
	for again := time.NewTicker(readyPoll); ; {
		if s.ready(ctx) {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the server: %w", ctx.Err())
		}
	}
}

func (s *served) ready(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	return err == nil && errors.Join(answer.Body.Close()) == nil && answer.StatusCode == http.StatusOK
}

func (s *served) stop() error {
	if s.Client != nil {
		s.Close()
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending the server: %w", err)
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the server's end: %w", err)
	}
	return nil
}
