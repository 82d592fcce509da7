package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/trace"
)

// patience bounds what one case waits for OVN.
const patience = time.Minute

// ovn is a real OVN without hypervisors, and an engine on it.
type ovn struct {
	box      *lab.Sandbox
	bin      *lab.Binaries
	client   *nbdb.Client
	engine   *engine.Engine
	reported int64 // what of northd's log was read
}

func newOVN(t *testing.T) *ovn {
	o := &ovn{box: labtest.NewTestSandbox(t, lab.SandboxOptions{})}
	var err error
	o.bin, err = lab.FindBinaries(o.box.Binaries().Root, o.box.Dir(), "ovn-trace")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o.client, err = nbdb.Dial(ctx, nbdb.Options{Remotes: o.box.NB()})
	require.NoError(t, err)
	t.Cleanup(o.client.Close)
	o.engine = engine.New(o.client, "default", "cli")
	o.engine.OverrideExpectations = true
	return o
}

// rows are all rows of the tables that decide about packets.
func (o *ovn) rows(ctx context.Context) (*nbdb.State, error) {
	var queries []nbdb.Query
	for _, table := range []string{nbdb.TableLogicalSwitch, nbdb.TableLogicalSwitchPort, nbdb.TableLogicalRouter,
		nbdb.TableLogicalRouterPort, nbdb.TableLogicalRouterPolicy, nbdb.TableACL} {
		queries = append(queries, nbdb.Query{Table: table})
	}
	return o.client.Read(ctx, queries...)
}

// remove deletes a VPC with all that is in it.
func (o *ovn) remove(ctx context.Context, vpc string) error {
	_, err := o.engine.Delete(ctx, []model.ID{{Kind: model.KindVPC, Name: vpc}}, true, engine.WaitNone)
	return err
}

// complaints are the warnings and errors in northd's log since last asked.
func (o *ovn) complaints() (string, error) {
	f, err := os.Open(filepath.Join(o.box.Dir(), "northd.log"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.Seek(o.reported, 0); err != nil {
		return "", err
	}
	log := make([]byte, 1<<16)
	n, _ := f.Read(log)
	o.reported += int64(n)
	return grievances(string(log[:n])), nil
}

// grievances are the lines of a log that are warnings or worse. That a switch
// without an enabled port has none to flood to is no fault, and neither is that
// the machine has been slow.
func grievances(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "_MC_flood_l2: unknown logical port") || strings.Contains(line, "|timeval|WARN|") {
			continue
		}
		if strings.Contains(line, "|WARN|") || strings.Contains(line, "|ERR|") || strings.Contains(line, "|EMER|") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// tracer is an ovn-trace(8) that runs as a daemon. It reads the southbound
// database once, when it starts.
type tracer struct {
	ovn  *ovn
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// manyStates is more than the connection states that a case's traces take:
// an ovn-trace uses each --ct up once.
const manyStates = 2000

func (o *ovn) startTracer(ctx context.Context) (*tracer, error) {
	args := []string{"--db=" + o.box.SB(), "--detach", "--no-chdir", "--pidfile=" + o.path("trace.pid"),
		"--unixctl=" + o.path("trace.ctl"), "--log-file=" + o.path("trace.log")}
	args = append(args, slices.Repeat([]string{"--ct=new"}, manyStates)...)
	if _, err := o.bin.Run(ctx, "ovn-trace", args...); err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", o.path("trace.ctl"))
	if err != nil {
		return nil, err
	}
	return &tracer{o, conn, json.NewDecoder(conn), json.NewEncoder(conn)}, nil
}

func (o *ovn) path(name string) string { return filepath.Join(o.box.Dir(), name) }

// call is a command to the daemon (ovs-appctl(8)), by JSON-RPC.
func (t *tracer) call(method string, params ...string) (string, error) {
	if params == nil {
		params = []string{}
	}
	if err := t.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if err := t.out.Encode(map[string]any{"id": 0, "method": method, "params": params}); err != nil {
		return "", err
	}
	var answer struct {
		Result string `json:"result"`
		Error  any    `json:"error"`
	}
	if err := t.in.Decode(&answer); err != nil {
		return "", err
	}
	if answer.Error != nil {
		return "", fmt.Errorf("ovn-trace: %v", answer.Error)
	}
	return answer.Result, nil
}

// stop ends the daemon and returns what it complained of: matches that it
// could not parse, for instance.
func (t *tracer) stop(ctx context.Context) (string, error) {
	_, err := t.call("exit")
	if err != nil {
		return "", err
	}
	if err := t.conn.Close(); err != nil {
		return "", err
	}
	// It removes its pid file last.
	for {
		if _, err := os.Stat(t.ovn.path("trace.pid")); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for ovn-trace to end: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
	log, err := os.ReadFile(t.ovn.path("trace.log"))
	if err != nil {
		return "", err
	}
	return grievances(string(log)), os.Remove(t.ovn.path("trace.log"))
}

// summary is ovn-trace's account of a packet.
func (t *tracer) summary(flow string) (string, error) {
	account, err := t.call("trace", "--summary", flow)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, flow)
	}
	if strings.Contains(account, "use --ct to customize") && !strings.Contains(account, "reject {") {
		return "", fmt.Errorf("ovn-trace ran out of connection states: %s", account)
	}
	return account, nil
}

// judge is ovn-trace's verdict on a packet, ports by their names, and its
// account of it.
func (t *tracer) judge(flow, router, sender string) (verdict, string, error) {
	account, err := t.summary(flow)
	if err != nil {
		return verdict{}, "", err
	}
	v := trace.ReadSummary(account, router, sender)
	return verdict{v.Outcome, v.Ports}, account, nil
}
