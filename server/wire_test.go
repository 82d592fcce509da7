package server_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// raw sends bytes as they are and, if they are cut off there, no more. It reads
// what is answered.
func (f *fixture) raw(text string, cut bool) reply {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	require.NoError(f.t, err)
	defer conn.Close()
	require.NoError(f.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = conn.Write([]byte(text))
	require.NoError(f.t, err)
	if cut {
		require.NoError(f.t, conn.(*net.TCPConn).CloseWrite())
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(f.t, err)
	defer response.Body.Close()
	var b strings.Builder
	_, err = bufio.NewReader(response.Body).WriteTo(&b)
	require.NoError(f.t, err)
	return reply{f.t, response.StatusCode, response.Header, b.String()}
}

// A body that ends before its time changes nothing.
func TestTruncatedBodies(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	body := `{"spec": {"cidrs": ["10.10.0.0/16"]}}`
	head := "PUT /v1/vpcs/shop HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	f.raw(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body)+1, body), true).problem(400, "malformed")
	f.raw(fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", head, len(body), body), true).problem(400, "malformed")
	f.call("GET", "/v1/vpcs/shop", "").problem(404, "not-found")
	f.raw(fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(body), body), false).is(201)
}

// Without authentication a server of one's own machine answers to its own names
// alone, so that no page reaches it by a name of its own.
func TestLocal(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	local := serveLocal(t, f.sandbox)
	for host, status := range map[string]int{"localhost": 200, "localhost:8443": 200, "127.0.0.1:1": 200, "[::1]:8443": 200, "127.1.2.3": 200,
		"evil.example": 403, "192.0.2.1:8443": 403, "127.0.0.1.evil.example:80": 403} {
		require.Equal(t, status, local.raw("GET /v1/vpcs HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n", false).status, host)
	}
	require.Equal(t, 200, f.raw("GET /v1/vpcs HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n", false).status)
}
