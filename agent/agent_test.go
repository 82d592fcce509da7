package agent

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

func someRecord() record {
	return record{Attachment: "shop/web-1", InterfaceID: "shop/web-1", MAC: "0a:58:0a:0a:01:05",
		Plug: model.PlugSpec{Type: model.PlugNetns, Name: "shop.web-1"},
		Net:  translate.GuestNet{Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.5/24")}, MTU: 1442}}
}

func TestInterfaceNames(t *testing.T) {
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		r := someRecord()
		r.InterfaceID = rapid.StringN(1, 253, -1).Draw(t, "id")
		name := interfaceName("default", r, 0)
		require.LessOrEqual(t, len(name), 15)
		require.Regexp(t, `^vp[0-9a-f]{12}$`, name)
		require.Contains(t, []string{"", r.InterfaceID}, seen[name])
		seen[name] = r.InterfaceID
		require.NotEqual(t, name, interfaceName("default", r, 1), "where it is taken")
		require.NotEqual(t, name, interfaceName("other", r, 0))
		r.Plug = model.PlugSpec{Type: model.PlugTap, Name: "mine"}
		require.Equal(t, "mine", interfaceName("default", r, 1))
	})
	require.NotEqual(t, markOf("a", "bc", "x"), markOf("ab", "c", "x"))
}

func TestWanted(t *testing.T) {
	ids := func(pairs ...string) nbdb.Request {
		r := nbdb.Request{LogicalPort: "shop/web-1", ExternalIDs: map[string]string{translate.KeyOwner: "default",
			translate.KeySpec: `{"metadata":{"name":"web-1","vpc":"shop"},"spec":{"tier":"web","chassis":"hv1","plug":{"type":"netns"}}}`,
			translate.KeyNet:  `{"addresses":["10.10.1.5/24"],"gateways":["10.10.1.1"],"vpc":["10.10.0.0/16"],"mtu":1442}`}}
		for i := 0; i < len(pairs); i += 2 {
			r.ExternalIDs[pairs[i]] = pairs[i+1]
		}
		return r
	}
	w := wantedOf(ids(), "default", "hv1")
	require.NoError(t, w.err)
	require.Equal(t, "shop.web-1", w.Plug.Name)
	require.Nil(t, wantedOf(ids(), "other", "hv1"), "another installation's")
	require.Nil(t, wantedOf(ids(translate.KeySpec, ""), "default", "hv1"), "somebody else's port")
	require.Nil(t, wantedOf(ids(translate.KeySpec, `{"metadata":{"name":"web-1","vpc":"shop"},"spec":{"tier":"web"}}`), "default", "hv1"))
	for _, broken := range []nbdb.Request{
		ids(translate.KeySpec, `{"metadata":{"name":"web-1","vpc":"shop"},"spec":{"fieldOfTomorrow":1}}`),
		ids(translate.KeyNet, ""), ids(translate.KeyNet, `{"mtu":1442}`),
	} {
		w := wantedOf(broken, "default", "hv1")
		require.Error(t, w.err, "it is kept, and not taken for unwanted")
		_, err := (&task{want: w}).reconcile(t.Context(), func() {})
		require.ErrorIs(t, err, w.err)
	}
}

func TestHookArguments(t *testing.T) {
	r := someRecord()
	require.Equal(t, []string{"vp0", "a=10.10.1.5,10.10.1.5", "0a:58:0a:0a:01:05", "$ifname ${x}", "a b"},
		expand([]string{"${ifname}", "a=${address},${address}", "${mac}", "$ifname ${x}", "a b"}, r, "vp0"))
	require.Equal(t, []string{"${mac}"}, expand([]string{"${ifname}"}, r, "${mac}"), "what was put in is not looked at again")
}

func TestHookRuns(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$# $PWD $HOME\"; env | sort\nprintf '\\000\\377'\nexit $1\n"), 0o755))
	h := hooks{allowed: []string{program}, timeout: time.Minute, now: time.Now}
	e := h.run(t.Context(), []string{program, "0"}, someRecord(), "vp0")
	require.Equal(t, HookDone, e.State, e)
	require.True(t, strings.HasPrefix(e.Output, "1 / \nLC_ALL="), e.Output)
	require.Equal(t, e, executionOf(e.String()), "what is not text comes through as well")
	require.NotContains(t, e.String(), "\x00")
	require.Equal(t, 7, *h.run(t.Context(), []string{program, "7"}, someRecord(), "vp0").Exit)
	require.Equal(t, hookRefused, h.run(t.Context(), []string{program + "x"}, someRecord(), "vp0").State)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, hookInterrupted, h.run(canceled, []string{program, "0"}, someRecord(), "vp0").State)
	require.Empty(t, executionOf("no JSON").State)
}

func TestTailKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out, all := &tail{}, ""
		for _, part := range rapid.SliceOf(rapid.StringMatching(`[a-z]{0,700}`)).Draw(t, "parts") {
			n, err := out.Write([]byte(part))
			require.NoError(t, err)
			require.Equal(t, len(part), n)
			all += part
		}
		require.Equal(t, all[max(0, len(all)-hookOutput):], out.String())
	})
}

// The queue never works twice on a port at once, tries failures again later and
// later, and a changed wish at once.
func TestQueue(t *testing.T) {
	now := time.Unix(0, 0)
	q := newQueue(func() time.Time { return now })
	failed := errors.New("failed")
	runs := 0
	try := func(version string) {
		q.see("p")
		q.start(t.Context(), "p", version, func(context.Context, func()) (bool, error) { runs++; return false, failed })
		q.wait()
	}
	try("a")
	try("a")
	require.Equal(t, 1, runs)
	require.Equal(t, 1, q.failing())
	require.Equal(t, retryFirst, q.next(time.Hour))
	now = now.Add(retryFirst)
	try("a")
	require.Equal(t, 2, runs)
	require.Equal(t, 2*retryFirst, q.next(time.Hour))
	try("b")
	require.Equal(t, 3, runs)
	for range 100 {
		now = now.Add(time.Hour)
		try("b")
	}
	require.Equal(t, retryMost, q.next(time.Hour))

	blocked, ran := make(chan struct{}), make(chan struct{})
	q.see("q")
	q.start(t.Context(), "q", "", func(_ context.Context, release func()) (bool, error) {
		release()
		close(ran)
		<-blocked
		return true, nil
	})
	<-ran
	require.Equal(t, map[string]bool{"q": true}, q.busy())
	require.Empty(t, q.slots, "a hook holds up nobody else")
	q.start(t.Context(), "q", "", func(context.Context, func()) (bool, error) { panic("a second time at once") })
	q.keep(nil)
	require.Len(t, q.ports, 1)
	close(blocked)
	q.wait()
	q.keep(nil)
	require.Empty(t, q.ports)
}
