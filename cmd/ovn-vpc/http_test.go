package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// httpPatience is how long a server may take to listen.
const httpPatience = 10 * time.Second

// httpMain is the program `http METHOD URL [BODY [NAME: VALUE]...]`: the status
// and the headers go to stderr, the body to stdout. It waits until somebody listens.
func httpMain() {
	if err := httpCall(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func httpCall(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: http METHOD URL [BODY [NAME: VALUE]...]")
	}
	body := ""
	if len(args) > 2 {
		body = args[2]
	}
	for deadline := time.Now().Add(httpPatience); ; {
		request, err := http.NewRequest(args[0], args[1], strings.NewReader(body))
		if err != nil {
			return err
		}
		for _, header := range args[min(3, len(args)):] {
			name, value, _ := strings.Cut(header, ": ")
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		defer response.Body.Close()
		fmt.Fprintln(os.Stderr, response.StatusCode)
		if err := response.Header.Write(os.Stderr); err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, response.Body)
		return err
	}
}

// freePort sets a variable to a port that nobody listens on.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport VARIABLE")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	ts.Check(listener.Close())
}
