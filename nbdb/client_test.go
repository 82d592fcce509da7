package nbdb

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/stretchr/testify/require"
)

func TestRemotes(t *testing.T) {
	cwd, err := os.Getwd()
	require.NoError(t, err)
	good := map[string][]string{
		"unix:/run/ovn/nb.sock":               {"unix:/run/ovn/nb.sock"},
		"unix:nb.sock":                        {"unix:" + cwd + "/nb.sock"},
		"unix:/a b/50%.sock":                  {"unix:/a%20b/50%25.sock"},
		"tcp:127.0.0.1:6641":                  {"tcp:127.0.0.1:6641"},
		"tcp:[::1]:6641, ssl:nb.example:6641": {"tcp:[::1]:6641", "ssl:nb.example:6641"},
	}
	for in, want := range good {
		got, err := parseRemotes(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
	for in, message := range map[string]string{
		"":                "no remote given",
		"/run/nb.sock":    "no connection method",
		"unix:":           "no file",
		"tcp:127.0.0.1":   "missing port",
		"tcp:::1:6641":    "too many colons",
		"tcp:h:0":         "1..65535",
		"tcp::6641":       "no host",
		"ssl:h:65536":     "1..65535",
		"ptcp:6641":       "to listen",
		"http:h:1":        "unknown connection method",
		"unix:/a,udp:h:1": "unknown connection method",
	} {
		_, err := Dial(testContext(t), Options{Remotes: in})
		require.ErrorContains(t, err, message, in)
		require.ErrorContains(t, err, "a remote reads unix:FILE")
		require.NotContains(t, err.Error(), "\n")
	}
}

func freePort(t *testing.T, host string) string {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func TestUnreachable(t *testing.T) {
	dir := newDir(t)
	closed := "tcp:127.0.0.1:" + freePort(t, "127.0.0.1")
	for _, remotes := range []string{"unix:" + dir + "/none.sock", closed, closed + ",unix:" + dir + "/none.sock"} {
		start := time.Now()
		_, err := Dial(testContext(t), Options{Remotes: remotes})
		require.Error(t, err)
		require.Less(t, time.Since(start), 5*time.Second, "a refusal is final at once")
		require.Contains(t, err.Error(), "connecting to OVN_Northbound at "+remotes)
		require.NotContains(t, err.Error(), "\n")
	}
	// A listener that never answers: the deadline counts.
	l, err := net.Listen("unix", dir+"/mute.sock")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, Options{Remotes: "unix:" + dir + "/mute.sock"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "mute.sock")

	s := startServer(t, packagedSchema)
	_, err = Dial(testContext(t), Options{Remotes: s.remote(), Database: "Nothing"})
	require.ErrorContains(t, err, "target database Nothing not found")
}

func TestTCPOverIPv6(t *testing.T) {
	port := freePort(t, "::1")
	startServer(t, packagedSchema, "--remote=ptcp:"+port+":[::1]")
	c := dial(t, Options{Remotes: "tcp:[::1]:" + port})
	commit(t, c, Diff(Fragment{}, sample()))
}

func TestServerRestart(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	f := sample()
	commit(t, c, Diff(Fragment{}, f))
	s.stop()
	_, err := c.Read(testContext(t), everything()...)
	require.ErrorContains(t, err, s.remote())
	require.NotContains(t, err.Error(), "\n")
	s.start()
	require.True(t, Diff(asFragment(read(t, c)), f).Empty())
	s.stop()
	s.start()
	require.True(t, Diff(asFragment(read(t, c)), f).Empty())
	s.stop()
	s.start()
	// Whether the break is noticed before or after sending is a matter of
	// timing; either way the second attempt tells.
	_, err = c.Commit(testContext(t), Diff(f, Fragment{}), false)
	if err != nil {
		var unknown *UnknownOutcomeError
		require.ErrorAs(t, err, &unknown)
		commit(t, c, Diff(asFragment(read(t, c)), Fragment{}))
	}
	require.Empty(t, asFragment(read(t, c)).Rows)
}

// TestServerStopsInTheMiddle freezes the server: neither a small nor a large
// transaction may hang beyond the deadline, and its outcome is unknown.
func TestServerStopsInTheMiddle(t *testing.T) {
	s := startServer(t, packagedSchema)
	for ports, timeout := range map[int]time.Duration{1: time.Second, 20000: 5 * time.Second} {
		c := s.dial()
		plan := Diff(Fragment{}, manyPortsOf(uid(ports), ports))
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		start := time.Now()
		_, err := c.Commit(ctx, plan, false)
		cancel()
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
		var unknown *UnknownOutcomeError
		require.ErrorAs(t, err, &unknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(start), time.Minute)
		read(t, c, Query{Table: TableLogicalSwitch}) // the client goes on
	}
	c := s.dial()
	done := make(chan error, 1)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	go func() {
		_, err := c.Commit(testContext(t), Diff(Fragment{}, sample()), false)
		done <- err
	}()
	s.stop()
	err := <-done
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
}

func TestDeadlineOverIsNotUnknown(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := c.Commit(ctx, Diff(Fragment{}, sample()), false)
	require.ErrorIs(t, err, context.Canceled)
	var unknown *UnknownOutcomeError
	require.NotErrorAs(t, err, &unknown)
}

// manyPortsOf is a switch with ports.
func manyPortsOf(sw UUID, n int) Fragment {
	f := Fragment{Rows: []Row{&LogicalSwitch{UUID: sw, Name: "big", ExternalIDs: ids("tier/shop/big")}}}
	for i := range n {
		address := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		port := uid(1<<20 + n<<8 + i)
		f.Rows = append(f.Rows, &LogicalSwitchPort{UUID: port, Name: fmt.Sprintf("big-%d/%d", n, i),
			Addresses: []string{"0a:58:00:00:00:01 " + address}, PortSecurity: []string{"0a:58:00:00:00:01 " + address},
			Options: map[string]string{"requested-chassis": "h1"},
			ExternalIDs: map[string]string{"ovn-vpc:owner": "default", "ovn-vpc:key": "address/shop/" + address,
				"ovn-vpc:spec": `{"metadata":{"name":"a","vpc":"shop"},"spec":{"tier":"big","addresses":["` + address + `"]}}`}})
		f.Edges = append(f.Edges, Edge{Table: TableLogicalSwitch, From: sw, Column: "ports", Target: port})
	}
	return f
}

func TestTenThousandPorts(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	f := manyPortsOf(uid(1), 10000)
	start := time.Now()
	plan := Diff(Fragment{}, f)
	t.Logf("diff: %v", time.Since(start))
	start = time.Now()
	_, err := plan.Operations(c.Schema())
	require.NoError(t, err)
	t.Logf("operations: %v", time.Since(start))
	start = time.Now()
	commit(t, c, plan)
	t.Logf("commit: %v", time.Since(start))
	start = time.Now()
	s := read(t, c, Query{Table: TableLogicalSwitchPort})
	t.Logf("read: %v", time.Since(start))
	require.Len(t, All[*LogicalSwitchPort](s), 10000)
	start = time.Now()
	s = read(t, c)
	require.True(t, Diff(asFragment(s), f).Empty())
	t.Logf("read all and diff: %v", time.Since(start))
}

func TestQueries(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	commit(t, c, Diff(Fragment{}, sample()))
	names := func(s *State, table string) (names []string) {
		for _, r := range s.Rows(table) {
			names = append(names, NameOf(r))
		}
		return names
	}
	s := read(t, c,
		Query{Table: TableLogicalSwitch, Includes: map[string]string{"ovn-vpc:key": "tier/shop/web"}, Columns: []string{"name"}},
		Query{Table: TableLogicalSwitch, Where: map[string]any{"_uuid": string(uid(1))}, Columns: []string{"ports"}},
		Query{Table: TableLogicalSwitchPort, Where: map[string]any{"name": "other"}},
		Query{Table: TablePortGroup, Match: "acls", Ref: uid(6)},
		Query{Table: TableLogicalRouter, Match: "ports", Ref: uid(6)})
	require.Equal(t, &LogicalSwitch{UUID: uid(1), Name: "shop/web", Ports: []UUID{uid(2)}}, Lookup[*LogicalSwitch](s, uid(1)))
	require.Empty(t, names(s, TableLogicalSwitchPort))
	require.Equal(t, []string{"ovnvpc.shop.web"}, names(s, TablePortGroup))
	require.Empty(t, names(s, TableLogicalRouter))
	require.Nil(t, Lookup[*ACL](s, uid(6)))
	_, err := c.Read(testContext(t), Query{Table: "Nothing"})
	require.ErrorContains(t, err, `no row type for table "Nothing"`)
	empty, err := c.Read(testContext(t))
	require.NoError(t, err)
	require.Empty(t, empty.Rows(TableACL))
}

func TestWaitCfg(t *testing.T) {
	s := startServer(t, packagedSchema)
	c := s.dial()
	require.NoError(t, c.WaitCfg(testContext(t), "sb_cfg", 0))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	before := c.current()
	err := c.WaitCfg(ctx, "sb_cfg", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "waiting for sb_cfg to reach 1, at 0")
	after := c.current()
	require.Same(t, before, after, "a wait that is given up has taken the connection from others")

	done := make(chan error, 1)
	go func() { done <- c.WaitCfg(testContext(t), "hv_cfg", 2) }()
	for _, value := range []string{"1", "2"} {
		select {
		case err := <-done:
			t.Fatal("over too early: ", err)
		default:
		}
		s.transact(`["OVN_Northbound",{"op":"update","table":"NB_Global","where":[],"row":{"hv_cfg":` + value + `}}]`)
	}
	require.NoError(t, <-done)
}

// authority makes certificates as a test needs them.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: newDir(t)}
	a.cert, a.key = a.issue("ca", true, nil, nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

func (a *authority) issue(name string, isCA bool, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: isCA, BasicConstraintsValid: true,
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	a.write(name, "CERTIFICATE", der)
	a.write(name+"-key", "PRIVATE KEY", private)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	require.NoError(a.t, os.WriteFile(a.file(name), block, 0o600))
}

func TestSSL(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for _, name := range []string{"server", "client"} {
		ours.issue(name, false, ours.cert, ours.key)
		theirs.issue(name, false, theirs.cert, theirs.key)
	}
	port := freePort(t, "127.0.0.1")
	startServer(t, packagedSchema, "--remote=pssl:"+port+":127.0.0.1", "--private-key="+ours.file("server-key"),
		"--certificate="+ours.file("server"), "--ca-cert="+ours.file("ca"))
	o := Options{Remotes: "ssl:127.0.0.1:" + port, PrivateKey: ours.file("client-key"), Certificate: ours.file("client"), CACert: ours.file("ca")}
	c := dial(t, o)
	commit(t, c, Diff(Fragment{}, sample()))
	(&follower{t: t}).follow(c, followed()...).sees(c, followed()...)
	unchecked := o
	unchecked.CACert = "none"
	dial(t, unchecked)

	refused := map[string]func(*Options){
		"signed by unknown authority":                     func(o *Options) { o.CACert = theirs.file("ca") },
		"(give the certificate of its CA by -C)":          func(o *Options) { o.CACert = theirs.file("ca") },
		"needs -p KEY":                                    func(o *Options) { o.PrivateKey = "" },
		"no such file":                                    func(o *Options) { o.Certificate = ours.file("absent") },
		"no certificate in":                               func(o *Options) { o.CACert = ours.file("client-key") },
		"connecting to":                                   func(o *Options) { o.PrivateKey, o.Certificate = theirs.file("client-key"), theirs.file("client") },
		"(does it know the CA of the certificate of -c?)": func(o *Options) { o.PrivateKey, o.Certificate = theirs.file("client-key"), theirs.file("client") },
		"private key does not match":                      func(o *Options) { o.PrivateKey = theirs.file("client-key") },
	}
	for message, change := range refused {
		wrong := o
		change(&wrong)
		_, err := Dial(testContext(t), wrong)
		require.ErrorContains(t, err, message)
		require.False(t, strings.Contains(err.Error(), "PRIVATE KEY"), "a key in a message")
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestOneClientManyUsers commits from several goroutines at once.
func TestOneClientManyUsers(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	base := Fragment{Rows: []Row{&LogicalSwitch{UUID: uid(1), Name: "s", ExternalIDs: ids("s")}}}
	commit(t, c, Diff(Fragment{}, base))
	const users = 50
	errs := make(chan error, users)
	for i := range users {
		go func() {
			port := &LogicalSwitchPort{UUID: uid(100 + i), Name: fmt.Sprint(i), ExternalIDs: ids(fmt.Sprint(i))}
			_, err := c.Commit(t.Context(), Diff(Fragment{}, Fragment{Rows: []Row{port},
				Edges: []Edge{{Table: TableLogicalSwitch, From: uid(1), Column: "ports", Target: port.UUID}}}), false)
			errs <- err
		}()
	}
	for range users {
		require.NoError(t, <-errs)
	}
	require.Len(t, Lookup[*LogicalSwitch](read(t, c), uid(1)).Ports, users)
}

// A connection that turns out to be broken when something is to be sent is made anew,
// once, unless something may have been sent.
func TestBrokenBeforeSending(t *testing.T) {
	c := startServer(t, packagedSchema).dial()
	const tries = 50 // whether it is noticed before is chance
	unsent := 0
	for i := range tries {
		asked, breaks := 0, 1+i%2
		_, sent, err := c.transact(testContext(t), func(*Schema) ([]ovsdb.Operation, error) {
			if asked++; asked <= breaks {
				require.NoError(t, c.current().rpc.Close())
			}
			return []ovsdb.Operation{wait(TableNBGlobal, nil, []string{columnUUID}, ovsdb.WaitConditionEqual)}, nil
		})
		switch {
		case sent:
			require.True(t, asked <= breaks == (err != nil), err)
		default:
			unsent++
			require.Error(t, err)
			require.Equal(t, 2, asked)
		}
		if asked == 2 {
			unsent++
		}
	}
	require.NotZero(t, unsent)
}
