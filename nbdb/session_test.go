package nbdb

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// A connection may break at any time, also when all has been answered that
// connecting asks for: then it is broken, and nothing else is (with libovsdb's
// client this is a race, which ends the program when it is lost).
func TestServerClosesAfterItsLastAnswer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	path := newDir(t) + "/hasty.sock"
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			hasty(conn)
		}
	}()
	broken := 0
	for range 500 {
		s, err := openSession(testContext(t), "unix:"+path, Northbound, false, nil)
		if err != nil {
			require.ErrorIs(t, err, errClosed)
			continue
		}
		asked, err := s.Transact()
		require.NoError(t, err)
		_, err = asked.results(<-asked.done)
		require.Error(t, err)
		broken++
		s.close()
	}
	require.Positive(t, broken)
}

// hasty answers a client that connects, and closes the connection.
func hasty(conn net.Conn) {
	defer conn.Close()
	answers := map[string]string{"list_dbs": `["OVN_Northbound"]`, "get_schema": `{"name":"OVN_Northbound","version":"1.0.0","tables":{}}`}
	for d := json.NewDecoder(conn); ; {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if d.Decode(&request) != nil {
			return
		}
		fmt.Fprintf(conn, `{"id":%s,"result":%s,"error":null}`, request.ID, answers[request.Method])
		if request.Method == "get_schema" {
			return
		}
	}
}
