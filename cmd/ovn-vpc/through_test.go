package main

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/server"
)

// TestScriptThroughServer runs the same scripts as TestScript, but the commands
// go to a server on the database: they say and do the same. Where a script
// gives --nb, --sb or --owner, that command goes to the database as before.
// Those named offline-* ask nobody.
func TestScriptThroughServer(t *testing.T) {
	for _, file := range scripts(t) {
		name := scriptName(file)
		if strings.HasPrefix(name, "offline-") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scriptSandbox(t, name)
			url, calls := serve(t, s, "--insecure")
			t.Cleanup(func() { require.Positive(t, calls.Load(), "no command has asked the server") })
			runScript(t, file, s, "OVN_VPC_SERVER="+url)
		})
	}
}

// TestCommandsWithTLS runs a script on a server with TLS, tokens and client
// certificates.
func TestCommandsWithTLS(t *testing.T) {
	s := scriptSandbox(t, "still-")
	ca := newAuthority(t)
	ca.issue("server", ca.cert, ca.key)
	ca.issue("robot", ca.cert, ca.key)
	file := ca.file
	token, credential, err := server.NewToken(rand.Reader)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file("token"), []byte(token+"\n"), 0o600))
	require.NoError(t, os.WriteFile(file("tokens"), []byte("robot editor shop cert:CN=robot\nreader viewer * "+credential+"\n"), 0o600))
	url, _ := serve(t, s, "--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--client-ca", file("ca.pem"), "--tokens", file("tokens"))
	runScript(t, "testdata/tls.txtar", s, "OVN_VPC_SERVER="+url, "CERTS="+ca.dir)
}

// serve runs a server on a sandbox until the test ends. calls counts the calls
// of its log.
func serve(t *testing.T, s *lab.Sandbox, flags ...string) (url string, calls *atomic.Int64) {
	args := append([]string{"serve", "--nb", s.NB(), "--sb", s.SB(), "--listen", "127.0.0.1:0", "--log-format", "json"}, flags...)
	cmd := exec.Command("ovn-vpc", args...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	address, read := make(chan string, 1), make(chan struct{})
	calls = &atomic.Int64{}
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			t.Log(lines.Text())
			var line struct{ Msg, Address, Route string }
			switch err := json.Unmarshal(lines.Bytes(), &line); {
			case err != nil:
			case line.Msg == "listening":
				address <- line.Address
			case line.Msg == "call" && strings.Contains(line.Route, "/v1/"):
				calls.Add(1)
			}
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		<-read
		require.NoError(t, cmd.Wait(), "the server ends without a failure")
	})
	select {
	case url = <-address:
	case <-read:
		t.Fatal("the server has ended")
	}
	scheme, caller := "http://", http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	if slices.Contains(flags, "--tls-cert") {
		scheme = "https://"
	}
	url = scheme + url
	require.Eventually(t, func() bool {
		resp, err := caller.Get(url + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "the server is not ready")
	return url, calls
}
