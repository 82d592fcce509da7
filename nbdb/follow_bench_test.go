package nbdb

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	ovsclient "github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/stretchr/testify/require"
)

// fill fills a switch with ports such as attachments have.
func fill(t testing.TB, c *Client, number int) {
	sw := &LogicalSwitch{UUID: uid(1), Name: "full", ExternalIDs: ids("full")}
	const batch = 5000
	for from := 0; from < number; from += batch {
		var f Fragment
		if from == 0 {
			f.Rows = append(f.Rows, sw)
		}
		for n := from; n < min(number, from+batch); n++ {
			port := &LogicalSwitchPort{UUID: uid(n + 2), Name: fmt.Sprintf("shop/a-%d", n), ExternalIDs: ids(fmt.Sprintf("address/shop/10.0.%d.%d", n/256, n%256))}
			port.ExternalIDs["ovn-vpc:vpc"], port.ExternalIDs["ovn-vpc:digest"] = "shop", fmt.Sprintf("%016x", n)
			port.ExternalIDs["ovn-vpc:spec"] = fmt.Sprintf(`{"metadata":{"name":"a-%d","vpc":"shop"},"spec":{"tier":"web","addresses":["10.0.%d.%d"],`+
				`"mac":"0a:58:0a:00:%02x:%02x","interfaceID":"shop/a-%d","enabled":true,"portSecurity":true}}`, n, n/256, n%256, n/256, n%256, n)
			f.Rows = append(f.Rows, port)
			f.Edges = append(f.Edges, Edge{Table: TableLogicalSwitch, From: sw.UUID, Column: "ports", Target: port.UUID})
		}
		_, err := c.Commit(t.Context(), Diff(Fragment{}, f), false)
		require.NoError(t, err)
	}
}

// wantedPorts are the columns that a watch of attachments needs.
func wantedPorts() Query {
	return Query{Table: TableLogicalSwitchPort, Columns: []string{"name", "up", columnExternalIDs}, Includes: map[string]string{"ovn-vpc:owner": "default"}}
}

func TestFollowManyPorts(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	fill(t, c, 20000)
	f := (&follower{t: t}).follow(c, wantedPorts())
	rows, states, err := f.look()
	require.NoError(t, err)
	require.Equal(t, 1, states)
	require.Len(t, rows.Rows(TableLogicalSwitchPort), 20000)
	want := read(t, c, wantedPorts())
	require.Equal(t, want.tables[TableLogicalSwitchPort], rows.tables[TableLogicalSwitchPort])
}

// loaded is a sink that waits for the first state.
type loaded chan struct{}

func (loaded) Row(_, _ Row) bool { return true }
func (l loaded) Done()           { l <- struct{}{} }

// cachedPort is wantedPorts for libovsdb.
type cachedPort struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Up          *bool             `ovsdb:"up"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// BenchmarkFollow20000Ports loads them, by Follow and then by a monitor of
// libovsdb's: the processor time of Follow, how many times that the other
// takes, and the memory that stays.
func BenchmarkFollow20000Ports(b *testing.B) {
	const ports = 20000
	s := startServer(b, packagedSchema)
	c, err := Dial(b.Context(), Options{Remotes: s.remote()})
	require.NoError(b, err)
	defer c.Close()
	fill(b, c, ports)
	var followed, monitored time.Duration
	measure := func(metric string, sum *time.Duration, load func() (stop func())) {
		before, start := heap(), busy(b)
		stop := load()
		*sum += busy(b) - start
		b.ReportMetric(float64(heap()-before)/ports, metric)
		stop()
	}
	for b.Loop() {
		measure("B/port", &followed, func() func() {
			ctx, cancel := context.WithCancel(b.Context())
			l, ended := make(loaded, 1), make(chan error, 1)
			go func() { ended <- c.Follow(ctx, l, wantedPorts()) }()
			<-l
			return func() { cancel(); <-ended }
		})
		measure("libovsdb-B/port", &monitored, func() func() {
			tables, err := model.NewClientDBModel(Northbound, map[string]model.Model{TableLogicalSwitchPort: &cachedPort{}})
			require.NoError(b, err)
			conn, err := ovsclient.NewOVSDBClient(tables, ovsclient.WithEndpoint(s.remote()))
			require.NoError(b, err)
			require.NoError(b, conn.Connect(b.Context()))
			_, err = conn.MonitorAll(b.Context())
			require.NoError(b, err)
			require.Equal(b, ports, conn.Cache().Table(TableLogicalSwitchPort).Len())
			return conn.Close
		})
	}
	b.ReportMetric(followed.Seconds()/float64(b.N), "cpu-s/load")
	b.ReportMetric(monitored.Seconds()/followed.Seconds(), "libovsdb-ratio")
}

// busy is the processor time of this process, which does not depend on what
// else the machine does.
func busy(t testing.TB) time.Duration {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// heap is the memory in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
