package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
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
	// A file: a pipe would wake this process with each call that is logged.
	log, err := os.CreateTemp(b.dir, "log-")
	if err == nil {
		s.cmd.Stderr = log
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	defer log.Close()
	if err := s.await(ctx, log.Name()); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// await reads of the log where the server listens, and asks until it is ready.
func (s *served) await(ctx context.Context, log string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for again := time.NewTicker(readyPoll); ; {
		if s.url == "" {
			if s.url, err = listening(log); err != nil {
				return err
			}
		} else if s.ready(ctx) {
			s.Client, err = client.New(client.Options{URL: s.url, Attempts: 1})
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the server: %w", ctx.Err())
		}
	}
}

// listening is where a server says in its log that it listens, "" if it doesn't yet.
func listening(log string) (string, error) {
	data, err := os.ReadFile(log)
	if err != nil {
		return "", fmt.Errorf("reading the server's log: %w", err)
	}
	for text := range bytes.Lines(data) {
		var line struct{ Msg, Address string }
		if json.Unmarshal(text, &line) == nil && line.Msg == "listening" {
			return "http://" + line.Address, nil
		}
	}
	return "", nil
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
