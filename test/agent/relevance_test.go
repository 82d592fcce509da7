package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

// relevance: while another VPC churns on other hypervisors, this one hears
// nothing of it and has none of its flows.
func (r *rig) relevance(t *testing.T) {
	relay := newRelay(t, r.lab.SB())
	r.agent(t, 1, "--sb", relay.remote)
	r.agent(t, 2)
	r.apply(t, attachment("r1", "web", "hv1", "plug: {type: netns}"))
	r.plugged(t, 1, "r1")
	r.up(t, "r1")
	require.NoError(t, r.lab.WaitHV(t.Context()))
	heard := relay.messages()
	require.NotEmpty(t, heard)

	const other = `
{apiVersion: ovn-vpc/v1, kind: VPC, metadata: {name: other}, spec: {cidrs: [10.20.0.0/16]}}
---
{apiVersion: ovn-vpc/v1, kind: Tier, metadata: {name: t, vpc: other}, spec: {cidrs: [10.20.1.0/24], acl: default-allow}}
`
	churn := func(round int) string {
		docs := other
		for n := range 10 {
			docs += fmt.Sprintf("---\n{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: a%d, vpc: other}, spec: {tier: t, chassis: hv%d, hostname: h%d, plug: {type: netns}}}\n", n, 2+n%2, round)
		}
		return docs
	}
	for round := range 5 {
		r.apply(t, churn(round))
	}
	require.NoError(t, r.lab.WaitHV(t.Context()))
	_, err := r.lab.Sandbox().NBCtl(t.Context(), "--timeout=30", "wait-until", "Logical_Switch_Port", "other/a0", "up=true")
	require.NoError(t, err)
	keys := r.datapaths(t, "other", "other/t")
	require.NotEmpty(t, r.flowsOf(t, 2, keys), "where the VPC is, it has flows")
	require.Empty(t, r.flowsOf(t, 1, keys))
	require.Equal(t, heard, relay.messages(), "nothing but probes")

	r.apply(t, attachment("r1", "web", "hv1", "hostname: news, plug: {type: netns}"))
	require.True(t, waits(func() bool { return len(relay.messages()) > len(heard) }), "what concerns it is heard")
	r.deleteVPC(t, "other")
	r.delete(t, "r1")
	r.gone(t, 1, "r1")
}

// datapaths are the tunnel keys of a router and a switch.
func (r *rig) datapaths(t *testing.T, names ...string) []string {
	t.Helper()
	var keys []string
	for _, name := range names {
		out, err := r.lab.Sandbox().SBCtl(t.Context(), "--bare", "--columns=tunnel_key", "find", "Datapath_Binding", `external_ids:name="`+name+`"`)
		require.NoError(t, err)
		require.Len(t, strings.Fields(out), 1, name)
		keys = append(keys, strings.TrimSpace(out))
	}
	return keys
}

// flowsOf are a hypervisor's flows that match or set a datapath's key.
func (r *rig) flowsOf(t *testing.T, hv int, keys []string) []string {
	t.Helper()
	out, err := r.hv(hv).Run(t.Context(), "ovs-ofctl", "--protocols=OpenFlow15", "dump-flows", "br-int")
	require.NoError(t, err)
	var found []string
	for line := range strings.SplitSeq(out, "\n") {
		for _, key := range keys {
			var n int
			_, err := fmt.Sscan(key, &n)
			require.NoError(t, err)
			if regexp.MustCompile(fmt.Sprintf(`metadata=0x%x\b|0x%x->OXM_OF_METADATA|set_field:0x%x->metadata`, n, n, n)).MatchString(line) {
				found = append(found, line)
			}
		}
	}
	return found
}

// relay passes connections on to a database and keeps what comes back.
type relay struct {
	remote, database string

	mu       sync.Mutex
	listener net.Listener
	open     []net.Conn
	all      []string
}

func newRelay(t *testing.T, database string) *relay {
	t.Helper()
	r := &relay{remote: "unix:" + filepath.Join(labtest.TempDir(t), "sb.sock"), database: database}
	require.NoError(t, r.listen())
	t.Cleanup(r.cut)
	return r
}

func unixPath(remote string) string { return strings.TrimPrefix(remote, "unix:") }

func (r *relay) listen() error {
	listener, err := net.Listen("unix", unixPath(r.remote))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.listener = listener
	r.mu.Unlock()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", unixPath(r.database))
			if err != nil {
				_ = client.Close()
				return
			}
			r.mu.Lock()
			r.open = append(r.open, client, server)
			r.mu.Unlock()
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			}()
			go r.back(client, server)
		}
	}()
	return nil
}

// cut ends all connections and takes no more.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.listener.Close()
	for _, c := range r.open {
		_ = c.Close() // closed already, perhaps
	}
	r.open = nil
}

// back notes all messages but probes and their answers (RFC 7047, 4.1.11).
func (r *relay) back(client, server net.Conn) {
	defer client.Close()
	var kept bytes.Buffer
	d := json.NewDecoder(io.TeeReader(server, io.MultiWriter(client, &kept)))
	for {
		var m struct {
			Method string          `json:"method"`
			ID     json.RawMessage `json:"id"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
		}
		if err := d.Decode(&m); err != nil {
			return
		}
		if m.Method == "echo" || bytes.Contains(m.Result, []byte("libovsdb echo")) {
			continue
		}
		r.mu.Lock()
		r.all = append(r.all, m.Method+string(m.Params)+string(m.Result))
		r.mu.Unlock()
	}
}

func (r *relay) messages() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.all...)
}

// metrics say what the agent has done.
func (r *rig) metrics(t *testing.T) {
	r.agent(t, 1, "--metrics-listen", "127.0.0.1:9476")
	r.apply(t, attachment("m1", "web", "hv1", "plug: {type: netns, postCreateExec: [/bin/true]}"))
	r.plugged(t, 1, "m1")
	var text string
	require.True(t, waits(func() bool {
		text = r.scrape(t)
		return strings.Contains(text, "ovn_vpc_agent_interfaces 1\n")
	}), "%s", text)
	for _, want := range []string{"ovn_vpc_agent_plugs_total 1\n", "ovn_vpc_agent_failing 0\n", "ovn_vpc_agent_connected 1\n",
		"ovn_vpc_agent_plug_seconds_count 1\n", `ovn_vpc_agent_hook_seconds_count{hook="post-create",state="refused"} 1`} {
		require.Contains(t, text, want)
	}
	r.delete(t, "m1")
	r.gone(t, 1, "m1")
	require.True(t, waits(func() bool { return strings.Contains(r.scrape(t), "ovn_vpc_agent_unplugs_total 1\n") }))
}

// scrape reads the metrics, on the hypervisor.
func (r *rig) scrape(t *testing.T) string {
	t.Helper()
	const get = `exec 3<>/dev/tcp/127.0.0.1/9476 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`
	out, err := r.hv(1).Run(t.Context(), "bash", "-c", get)
	if err != nil {
		return err.Error() // it doesn't listen yet
	}
	return out
}
