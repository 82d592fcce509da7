package nbdb

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const packagedSchema = "/usr/share/ovn/ovn-nb.ovsschema"

// server is an ovsdb-server of a test's own, ended with the test.
type server struct {
	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
}

// newDir is a folder whose path is short enough for unix sockets.
func newDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/tmp", "nbdb")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(testContext(t), program, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", program, args, out)
	return string(out)
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// startServer runs a standalone server with the schema and one NB_Global row.
func startServer(t testing.TB, schema string, args ...string) *server {
	s := &server{t: t, dir: newDir(t)}
	db := filepath.Join(s.dir, "nb.db")
	run(t, "ovsdb-tool", "create", db, schema)
	s.args = append([]string{"--unixctl=" + s.dir + "/ctl", "--remote=punix:" + s.dir + "/db.sock"}, args...)
	s.args = append(s.args, db)
	s.start()
	if strings.Contains(schema, "ovn-nb") {
		s.transact(`["OVN_Northbound",{"op":"insert","table":"NB_Global","row":{}}]`)
	}
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command("ovsdb-server", s.args...)
	s.cmd.Env = append(os.Environ(), "OVS_RUNDIR="+s.dir)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	require.NoError(s.t, s.cmd.Start())
	require.NoError(s.t, log.Close())
	s.t.Cleanup(s.stop)
	require.Eventually(s.t, func() bool {
		conn, err := net.Dial("unix", s.dir+"/db.sock")
		if err == nil {
			err = conn.Close()
		}
		_, ctl := os.Stat(s.dir + "/ctl") // it comes last
		return err == nil && ctl == nil
	}, 20*time.Second, 10*time.Millisecond, "the server doesn't listen")
}

// stop kills the server, as a crash would.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	require.NoError(s.t, s.cmd.Process.Kill())
	_ = s.cmd.Wait() // says that it was killed
	s.cmd = nil
}

func (s *server) remote() string { return "unix:" + s.dir + "/db.sock" }

func (s *server) transact(request string) string {
	s.t.Helper()
	out := run(s.t, "ovsdb-client", "-t", "20", "transact", s.remote(), request)
	require.NotContains(s.t, out, `"error"`)
	return out
}

func (s *server) dial() *Client {
	s.t.Helper()
	return dial(s.t, Options{Remotes: s.remote()})
}

func dial(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := Dial(testContext(t), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// editSchema writes a variant of the packaged schema.
func editSchema(t *testing.T, edit func(tables map[string]any)) string {
	t.Helper()
	return editSchemaOf(t, packagedSchema, edit)
}

func editSchemaOf(t *testing.T, path string, edit func(tables map[string]any)) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	edit(schema["tables"].(map[string]any))
	delete(schema, "cksum")
	text, err = json.Marshal(schema)
	require.NoError(t, err)
	edited := filepath.Join(newDir(t), filepath.Base(path))
	require.NoError(t, os.WriteFile(edited, text, 0o600))
	return edited
}

func uid(n int) UUID { return UUID(fmt.Sprintf("%08x-0000-5000-8000-000000000000", n)) }

func ptr[T any](v T) *T { return &v }

func ids(key string) map[string]string {
	return map[string]string{"ovn-vpc:owner": "default", "ovn-vpc:key": key}
}

// sample has a row of every type, with a value in every column that is ours.
func sample() Fragment {
	return Fragment{
		Rows: []Row{
			&LogicalSwitch{UUID: uid(1), Name: "shop/web", OtherConfig: map[string]string{"mcast_snoop": "false"}, ExternalIDs: ids("tier/shop/web")},
			&LogicalSwitchPort{UUID: uid(2), Name: "shop/a", Type: "", Addresses: []string{"0a:58:0a:0a:01:05 10.10.1.5", "unknown"},
				PortSecurity: []string{"0a:58:0a:0a:01:05 10.10.1.5"}, Enabled: ptr(false), Dhcpv4Options: ptr(uid(7)), Dhcpv6Options: ptr(uid(8)),
				Options: map[string]string{"requested-chassis": "h1"}, ExternalIDs: ids("address/shop/10.10.1.5")},
			&LogicalRouter{UUID: uid(3), Name: "shop", Enabled: ptr(true), Options: map[string]string{"chassis": "h3"}, ExternalIDs: ids("vpc/shop")},
			&LogicalRouterPort{UUID: uid(4), Name: "shop/web/gw", MAC: "0e:58:0a:0a:01:01", Networks: []string{"10.10.1.1/24", "fd00::1/64"}, Enabled: ptr(true),
				Ipv6RaConfigs: map[string]string{"address_mode": "slaac"}, Options: map[string]string{"gateway_mtu": "1442"}, ExternalIDs: ids("gateway/shop/web")},
			&LogicalRouterPolicy{UUID: uid(5), Priority: 32000, Match: "ip6.src == fe80::/10", Action: "drop", ExternalIDs: ids("mld/shop")},
			&ACL{UUID: uid(6), Name: ptr("web-10"), Priority: 29999, Direction: "to-lport", Match: `ip4.src == {10.0.0.0/8, 192.168.0.0/16}`, Action: "allow-related",
				Log: true, Severity: ptr("info"), Meter: ptr("m"), Options: map[string]string{"log-related": "true"}, ExternalIDs: ids("acl-rule/shop/web/ingress/10")},
			&DHCPOptions{UUID: uid(7), Cidr: "10.10.1.0/24", Options: map[string]string{"lease_time": "3600", "domain_name": `"a.b"`}, ExternalIDs: ids("dhcp/shop/web/4")},
			&DHCPOptions{UUID: uid(8), Cidr: "fd00::/64", Options: map[string]string{"server_id": "0e:58:0a:0a:01:01"}, ExternalIDs: ids("dhcp/shop/web/6")},
			&PortGroup{UUID: uid(9), Name: "ovnvpc.shop.web", Ports: []UUID{uid(2)}, ExternalIDs: ids("acl/shop/web")},
		},
		Edges: []Edge{
			{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Target: uid(2)},
			{Table: TableLogicalSwitch, From: uid(1), Column: "acls", Target: uid(6)},
			{Table: TablePortGroup, From: uid(9), Column: "acls", Target: uid(6)},
			{Table: TableLogicalRouter, From: uid(3), Column: "ports", Target: uid(4)},
			{Table: TableLogicalRouter, From: uid(3), Column: "policies", Target: uid(5)},
		},
	}
}

// everything is a query for each table.
func everything() []Query {
	var queries []Query
	for table := range rowTypes() {
		queries = append(queries, Query{Table: table})
	}
	return queries
}

// asFragment is a state as one fragment, NB_Global left away.
func asFragment(s *State) Fragment {
	var f Fragment
	for table := range rowTypes() {
		if table == TableNBGlobal {
			continue
		}
		for _, r := range s.Rows(table) {
			f.Rows = append(f.Rows, r)
			f.Edges = append(f.Edges, EdgesOf(r)...)
		}
	}
	return f
}

func commit(t testing.TB, c *Client, p Plan) {
	t.Helper()
	_, err := c.Commit(testContext(t), p, false)
	require.NoError(t, err)
}

func read(t testing.TB, c *Client, queries ...Query) *State {
	t.Helper()
	if len(queries) == 0 {
		queries = everything()
	}
	s, err := c.Read(testContext(t), queries...)
	require.NoError(t, err)
	return s
}
