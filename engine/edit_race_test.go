package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// meanwhile is a store on which another writer comes before a transaction, or
// before names are read.
type meanwhile struct {
	engine.Store
	commits  []func() // before each of the first commits
	names    func()
	refusals []error // instead of each of the first commits
}

func (m *meanwhile) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	if len(m.commits) > 0 {
		comes := m.commits[0]
		m.commits = m.commits[1:]
		comes()
	}
	if len(m.refusals) > 0 {
		err := m.refusals[0]
		m.refusals = m.refusals[1:]
		if err != nil {
			return 0, err
		}
	}
	return m.Store.Commit(ctx, p, bump)
}

func (m *meanwhile) Read(ctx context.Context, queries ...nbdb.Query) (*nbdb.State, error) {
	if comes := m.names; comes != nil && queries[0].Table == nbdb.TableLogicalRouterPort {
		m.names = nil
		comes()
	}
	return m.Store.Read(ctx, queries...)
}

var errVersion = errors.New("another version")

// ifMatch is an edit that refuses a resource which is not at a version.
func ifMatch(version string, x engine.Edit) engine.Edit {
	change := x.Change
	x.Change = func(now *model.Resource) (*model.Resource, error) {
		if now == nil || engine.Version(now) != version {
			return nil, errVersion
		}
		return change(now)
	}
	return x
}

// What Change saw holds at the commit, whatever another writer does meanwhile.
func TestPreconditionsHoldAtTheCommit(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	base := map[model.ID]string{
		id(model.KindAttachment, "shop", "a"): att("shop", "a", "web"),
		id(model.KindTier, "shop", "t"):       tier("shop", "t", "10.0.8.0/24"),
		id(model.KindACL, "shop", "l"):        document("ACL", "shop", "l", "rules: [{protocol: tcp}]"),
	}
	other := map[model.ID]string{
		id(model.KindAttachment, "shop", "a"): document("Attachment", "shop", "a", "tier: web, hostname: other"),
		id(model.KindTier, "shop", "t"):       tierWith("shop", "t", "cidrs: [10.0.8.0/24], dhcp: {domain: other}"),
		id(model.KindACL, "shop", "l"):        document("ACL", "shop", "l", "rules: [{protocol: udp}]"),
	}
	mine := map[model.ID]string{
		id(model.KindAttachment, "shop", "a"): document("Attachment", "shop", "a", "tier: web, enabled: false"),
		id(model.KindTier, "shop", "t"):       tierWith("shop", "t", "cidrs: [10.0.8.0/24], dhcp: {leaseTime: 60}"),
		id(model.KindACL, "shop", "l"):        document("ACL", "shop", "l", "rules: [{protocol: sctp}]"),
	}
	slow := connect(t, f.sandbox, "default")
	store := &meanwhile{Store: slow.NB}
	slow.NB = store
	for x := range base {
		t.Run(string(x.Kind), func(t *testing.T) {
			// An update, and a removal, of what is updated meanwhile.
			for _, edit := range []engine.Edit{put(t, mine[x]), remove(x, false)} {
				f.apply(base[x])
				store.commits = []func(){func() { f.apply(other[x]) }}
				edited := slow.edit(ifMatch(engine.Version(f.get(x).Resource), edit))
				require.ErrorIs(t, edited[0].Err, errVersion)
				require.True(t, edited[0].Existed)
				require.Empty(t, store.commits)
				require.Empty(t, edited[0].Result.VPCs)
				f.apply(base[x])
			}
			// A removal meanwhile.
			store.commits = []func(){func() { f.edit(remove(x, false)) }}
			edited := slow.edit(ifMatch(engine.Version(f.get(x).Resource), put(t, mine[x])))
			require.ErrorIs(t, edited[0].Err, errVersion)
			// A creation meanwhile, beside one that is none of its business.
			store.commits = []func(){func() { f.apply(base[x]) }}
			edited = slow.edit(create(t, mine[x]), create(t, att("shop", "beside-"+strings.ToLower(string(x.Kind)), "web")))
			require.ErrorIs(t, edited[0].Err, errExists)
			require.NoError(t, edited[1].Err)
			// The same creation meanwhile is not one's own.
			f.edit(remove(x, false))
			store.commits = []func(){func() { f.apply(base[x]) }}
			edited = slow.edit(create(t, base[x]))
			require.ErrorIs(t, edited[0].Err, errExists)
		})
	}
	f.noDrift()
}

// Between the reading of the VPC and that of names a writer takes the port: it
// is no stranger's.
func TestNamesThatComeBetweenTheReadings(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	slow := connect(t, f.sandbox, "default")
	store := &meanwhile{Store: slow.NB}
	slow.NB = store
	text := document("Attachment", "shop", "a", "tier: web, interfaceID: a-uuid, addresses: [10.0.0.7]")
	store.names = func() { f.apply(strings.ReplaceAll(text, "10.0.0.7", "10.0.0.8")) }
	edited := slow.edit(put(t, text))
	require.Nil(t, store.names)
	require.NoError(t, edited[0].Err)
	require.True(t, edited[0].Existed)
	require.Equal(t, "10.0.0.7", f.attachments("shop")["a"].Addresses[0].String())
	store.names = func() { f.apply(document("Attachment", "shop", "other", "tier: web, interfaceID: b-uuid")) }
	edited = slow.edit(put(t, document("Attachment", "shop", "b", "tier: web, interfaceID: b-uuid")))
	requireCode(t, edited[0].Err, model.CodeTaken, "Attachment shop/other")
	f.noDrift()
}

// An edit that the database itself refuses fails alone too.
func TestWhatTheDatabaseRefuses(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	feature := &nbdb.FeatureError{Table: "Logical_Switch_Port", Column: "new", Schema: "1"}
	f.NB = &meanwhile{Store: f.NB, refusals: []error{feature, nil, feature}}
	edited := f.edit(create(t, att("shop", "a", "web")), create(t, att("shop", "b", "web")), create(t, att("shop", "c", "web")))
	require.NoError(t, edited[0].Err)
	require.ErrorIs(t, edited[1].Err, feature)
	require.NoError(t, edited[2].Err)
	f.checkTier("shop", 2)
}

// severed is a way to the database on which the next transaction, or its
// answer, is lost together with the connection.
type severed struct {
	engine.Store
	mu    sync.Mutex
	armed []string // for each of the next transactions: "request", "answer" or ""
	next  string
}

func sever(t *testing.T, f *fixture) *severed {
	t.Helper()
	server := strings.TrimPrefix(f.sandbox.NB(), "unix:")
	path := filepath.Join(filepath.Dir(server), fmt.Sprintf("severed-%d.sock", len(t.Name())))
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	s := &severed{}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(client, server)
		}
	}()
	c, err := nbdb.Dial(f.ctx, nbdb.Options{Remotes: "unix:" + path})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s.Store = c
	return s
}

func (s *severed) serve(client net.Conn, path string) {
	server, err := net.Dial("unix", path)
	if err != nil {
		_ = client.Close()
		return
	}
	go s.copy(server, client, "request")
	s.copy(client, server, "answer")
}

func (s *severed) copy(to, from net.Conn, what string) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 1<<20)
	for {
		n, err := from.Read(buffer)
		if err != nil || s.lose(what) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (s *severed) lose(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.next == what
	if lost {
		s.next = ""
	}
	return lost
}

func (s *severed) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	s.mu.Lock()
	if len(s.armed) > 0 {
		s.next, s.armed = s.armed[0], s.armed[1:]
	}
	s.mu.Unlock()
	return s.Store.Commit(ctx, p, bump)
}

// An answer that never comes: a retry knows what it has done itself.
func TestUnknownOutcomes(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	slow := connect(t, f.sandbox, "default")
	way := sever(t, f)
	slow.NB = way
	a, b := id(model.KindAttachment, "shop", "a"), id(model.KindAttachment, "shop", "b")
	for _, lost := range []string{"request", "answer"} {
		// Created, by nobody but this call.
		way.armed = []string{lost, lost, lost}
		edited := slow.edit(create(t, att("shop", "a", "web")), create(t, document("Attachment", "shop", "b", "tier: web, addresses: [10.0.0.9]")),
			create(t, att("shop", "none", "nowhere")))
		for i, x := range []model.ID{a, b} {
			require.NoError(t, edited[i].Err, lost)
			require.False(t, edited[i].Existed, lost)
			require.Equal(t, f.get(x), edited[i].Object)
			require.Equal(t, engine.Create, edited[i].Result.VPCs[0].Changes[0].Action)
			require.True(t, edited[i].Result.VPCs[0].Done)
			require.Empty(t, edited[i].Result.VPCs[0].Error)
			require.Equal(t, 1, edited[i].Result.VPCs[0].Landed)
		}
		requireCode(t, edited[2].Err, "", "nowhere")

		// Updated from the version that it asks for, and one that stays.
		way.armed = []string{lost}
		version := engine.Version(f.get(a).Resource)
		edited = slow.edit(ifMatch(version, put(t, document("Attachment", "shop", "a", "tier: web, hostname: h"))), put(t, att("shop", "b", "web")))
		require.NoError(t, edited[0].Err, lost)
		require.True(t, edited[0].Existed)
		require.Equal(t, engine.Change, edited[0].Result.VPCs[0].Changes[0].Action)
		require.NoError(t, edited[1].Err, lost)
		require.Empty(t, edited[1].Result.VPCs)

		// Removed.
		way.armed = []string{lost}
		was := f.get(a)
		edited = slow.edit(ifMatch(engine.Version(was.Resource), remove(a, false)), ifMatch(engine.Version(f.get(b).Resource), remove(b, false)))
		require.NoError(t, edited[0].Err, lost)
		require.NoError(t, edited[1].Err, lost)
		require.Equal(t, was, edited[0].Object)
		require.True(t, edited[0].Existed)
		f.checkTier("shop", 0)
	}
}

// Where somebody has changed it since, nobody can tell; one transaction lands
// whole, so what is with it may tell.
func TestUnknownOutcomesThatOthersHide(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	slow := connect(t, f.sandbox, "default")
	way := sever(t, f)
	a := id(model.KindAttachment, "shop", "a")
	hide := func() { f.apply(document("Attachment", "shop", "a", "tier: web, hostname: other")) }
	lose := func(edits ...engine.Edit) []engine.Edited {
		way.armed = []string{"answer"}
		slow.NB = &hidden{Store: way, comes: hide}
		return slow.edit(edits...)
	}
	edited := lose(create(t, att("shop", "a", "web")))
	var unknown *nbdb.UnknownOutcomeError
	require.ErrorAs(t, edited[0].Err, &unknown)
	require.ErrorIs(t, edited[0].Err, errExists)
	f.edit(remove(a, false))

	edited = lose(create(t, att("shop", "a", "web")), create(t, att("shop", "b", "web")))
	require.NoError(t, edited[0].Err)
	require.False(t, edited[0].Existed)
	require.NoError(t, edited[1].Err)
	f.edit(remove(a, false))

	// A put has no condition that could fail: it is done again.
	edited = lose(put(t, att("shop", "a", "web")))
	require.NoError(t, edited[0].Err)
	require.Empty(t, f.attachments("shop")["a"].Hostname)
}

// hidden is a store on which another writer comes after the first commit.
type hidden struct {
	engine.Store
	comes func()
}

func (h *hidden) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	n, err := h.Store.Commit(ctx, p, bump)
	if comes := h.comes; comes != nil {
		h.comes = nil
		comes()
	}
	return n, err
}

// A cascade of many takes several transactions. What an attempt has done counts
// when the next is overtaken, and is told when it can't go on.
func TestEditsInSeveralTransactions(t *testing.T) {
	const tiers, each = 6, 1950
	f := newFixture(t, false)
	text := strings.Builder{}
	text.WriteString(vpc("shop", "10.0.0.0/8") + document("ACL", "shop", "l", ""))
	for i := range tiers {
		name := fmt.Sprintf("t%d", i)
		text.WriteString(tierWith("shop", name, fmt.Sprintf("cidrs: [10.%d.0.0/16], acl: l", i)))
		for k := range each {
			text.WriteString(att("shop", fmt.Sprintf("a%d-%d", i, k), name))
		}
	}
	f.apply(text.String())
	shop := id(model.KindVPC, "", "shop")
	gone := func() engine.Edit {
		return ifMatch(engine.Version(f.get(shop).Resource), remove(shop, true))
	}
	broken := errors.New("broken")
	nb := f.NB
	f.NB = &meanwhile{Store: nb, refusals: []error{nil, broken}}
	edited, _, err := f.Edit(f.ctx, []engine.Edit{gone()}, false)
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, edited[0].Err, broken)
	require.Equal(t, 1, edited[0].Result.VPCs[0].Landed)
	require.Len(t, f.attachments("shop"), tiers*each-1000)

	way := sever(t, f)
	way.armed = []string{"answer"}
	f.NB = &meanwhile{Store: way, refusals: []error{nil, &nbdb.ConflictError{What: "the test"}}}
	edited, nbCfg, err := f.Edit(f.ctx, []engine.Edit{gone()}, true)
	require.NoError(t, err)
	require.Positive(t, nbCfg)
	require.NoError(t, edited[0].Err)
	require.True(t, edited[0].Existed)
	require.Equal(t, "shop", edited[0].Object.Resource.Metadata.Name)
	result := edited[0].Result.VPCs[0]
	require.True(t, result.Done)
	require.Equal(t, result.Planned, result.Landed)
	require.NotContains(t, f.dump(), "ovn-vpc")
}
