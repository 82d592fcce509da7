package client

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// serve is a server with one handler, and a client of it that loses no time.
func serve(t *testing.T, o Options, handle http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	o.URL = s.URL
	c, err := New(o)
	require.NoError(t, err)
	c.unit = 2 * time.Millisecond
	t.Cleanup(c.Close)
	return c
}

// lose ends a connection without an answer.
func lose(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func answerWith(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", mediaJSON)
	if status >= 400 {
		w.Header().Set("Content-Type", problemType)
	}
	w.Header().Set("ETag", `"v1"`)
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func ctx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var nic = model.ID{Kind: model.KindAttachment, VPC: "shop", Name: "web-1"}

var webList = model.ID{Kind: model.KindACL, VPC: "shop", Name: "web"}

func attachment() *model.Resource {
	spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
	spec.Tier = "web"
	return &model.Resource{Kind: nic.Kind, Metadata: model.Metadata{VPC: nic.VPC, Name: nic.Name}, Spec: spec}
}

const nicBody = `{"apiVersion":"ovn-vpc/v1","kind":"Attachment","metadata":{"name":"web-1","vpc":"shop","later":1},
	"spec":{"tier":"web","addresses":["10.0.1.5"],"interfaceID":"shop/web-1","portSecurity":false,"enabled":true,"later":{"a":1}},
	"status":{"addresses":["10.0.1.5"],"interfaceID":"shop/web-1","up":true,"later":2},"later":3}`

// calls are those of the methods, with whether each may be sent again.
func calls() map[string]struct {
	again bool
	do    func(context.Context, *Client) error
} {
	type entry = struct {
		again bool
		do    func(context.Context, *Client) error
	}
	put := func(o WriteOptions) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { _, err := c.Put(ctx, attachment(), o); return err }
	}
	remove := func(o WriteOptions) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { _, err := c.DeleteOne(ctx, nic, o); return err }
	}
	create := func(o CreateOptions) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { _, err := c.Create(ctx, attachment(), o); return err }
	}
	return map[string]entry{
		"get":  {true, func(ctx context.Context, c *Client) error { _, err := c.GetOne(ctx, nic); return err }},
		"plan": {true, func(ctx context.Context, c *Client) error { _, err := c.Plan(ctx, &model.Set{}, false); return err }},
		"reach": {true, func(ctx context.Context, c *Client) error {
			_, err := c.Reach(ctx, &model.Set{}, engine.ReachOptions{})
			return err
		}},
		"put":             {true, put(WriteOptions{})},
		"put new":         {false, put(WriteOptions{New: true})},
		"put version":     {false, put(WriteOptions{Version: "v0"})},
		"delete":          {true, remove(WriteOptions{})},
		"delete version":  {false, remove(WriteOptions{Version: "v0"})},
		"create":          {false, create(CreateOptions{})},
		"create with key": {true, create(CreateOptions{IdempotencyKey: "k"})},
		"patch": {false, func(ctx context.Context, c *Client) error {
			_, err := c.Patch(ctx, nic, map[string]any{}, WriteOptions{})
			return err
		}},
		"add rule": {false, func(ctx context.Context, c *Client) error {
			_, err := c.AddRule(ctx, webList, model.Rule{}, engine.WaitNone)
			return err
		}},
		"put rule": {true, func(ctx context.Context, c *Client) error {
			_, err := c.PutRule(ctx, webList, model.Rule{Number: 7}, engine.WaitNone)
			return err
		}},
		"delete rule": {true, func(ctx context.Context, c *Client) error {
			_, err := c.DeleteRule(ctx, webList, 7, engine.WaitNone)
			return err
		}},
		"apply": {false, func(ctx context.Context, c *Client) error {
			_, err := c.Apply(ctx, &model.Set{}, false, engine.WaitNone)
			return err
		}},
	}
}

func TestRepetition(t *testing.T) {
	for name, call := range calls() {
		t.Run(name, func(t *testing.T) {
			var lost, away atomic.Int32
			broken := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if lost.Add(1) < 3 {
					lose(t, w)
					return
				}
				answerWith(w, http.StatusOK, nicBody)
			})
			err := call.do(ctx(t), broken)
			without := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if away.Add(1) < 3 {
					answerWith(w, http.StatusServiceUnavailable, `{"type":"urn:ovn-vpc:problem:unavailable","title":"Unavailable"}`)
					return
				}
				answerWith(w, http.StatusOK, nicBody)
			})
			unavailable := call.do(ctx(t), without)
			if call.again {
				require.NoError(t, err)
				require.NoError(t, unavailable)
				require.EqualValues(t, 3, lost.Load())
				require.EqualValues(t, 3, away.Load())
				return
			}
			var unknown *UnknownOutcomeError
			require.ErrorAs(t, err, &unknown)
			require.EqualValues(t, 1, lost.Load())
			var answered *Error
			require.ErrorAs(t, unavailable, &answered)
			require.Equal(t, http.StatusServiceUnavailable, answered.Status)
			require.EqualValues(t, 1, away.Load())
		})
	}
}

// A request that has certainly not arrived may be sent again whatever it is.
func TestNobodyListens(t *testing.T) {
	for name, call := range calls() {
		s := httptest.NewServer(http.NotFoundHandler())
		s.Close()
		c, err := New(Options{URL: s.URL})
		require.NoError(t, err)
		c.unit = 2 * time.Millisecond
		var random atomic.Int32
		c.rand = func() uint64 { random.Add(1); return 0 }
		err = call.do(ctx(t), c)
		require.ErrorContains(t, err, "connection refused", name)
		var unknown *UnknownOutcomeError
		require.False(t, errors.As(err, &unknown), name)
		require.EqualValues(t, defaultAttempts-1, random.Load(), name)
	}
}

// Each body that is sent again is sent whole, with the same key.
func TestRepetitionIsTheSame(t *testing.T) {
	var seen []string
	c := serve(t, Options{UserAgent: "test/1"}, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, r.Method+r.URL.String()+r.Header.Get("Idempotency-Key")+r.UserAgent()+string(body))
		if len(seen) < 3 {
			lose(t, w)
			return
		}
		w.Header().Set("Location", "/v1/vpcs/shop/attachments/web-1")
		w.Header().Set("Idempotency-Replayed", "true")
		answerWith(w, http.StatusCreated, nicBody)
	})
	r := attachment()
	r.Metadata.Name = ""
	got, err := c.Create(ctx(t), r, CreateOptions{IdempotencyKey: "k 1"})
	require.NoError(t, err)
	require.True(t, got.Replayed)
	require.False(t, got.Created)
	require.Equal(t, "v1", got.Version)
	require.Len(t, seen, 3)
	require.Equal(t, seen[0], seen[1])
	require.Equal(t, seen[0], seen[2])
	require.Contains(t, seen[0], "POST/v1/vpcs/shop/attachments")
	require.Contains(t, seen[0], "k 1test/1")
	require.NotContains(t, seen[0], `"name"`)
}

func TestContextEndsRepetition(t *testing.T) {
	brief, cancel := context.WithCancel(ctx(t))
	c := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.Header().Set("Retry-After", "3600")
		answerWith(w, http.StatusServiceUnavailable, "{}")
	})
	c.unit = time.Hour
	_, err := c.GetOne(brief, nic)
	require.Error(t, err)

	hung := make(chan struct{})
	c = serve(t, Options{Timeout: 100 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { <-hung })
	defer close(hung)
	_, err = c.GetOne(ctx(t), nic)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.Put(ctx(t), attachment(), WriteOptions{New: true})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var unknown *UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "2": 2 * time.Second, "3600": maxPause, "-1": 0, "Wed, 21 Oct 2026 07:28:00 GMT": 0} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {text}}), text)
	}
}

func TestErrors(t *testing.T) {
	const urn = `"type":"urn:ovn-vpc:problem:`
	var invalid *engine.InvalidError
	var conflict *engine.ConflictError
	var precondition *PreconditionError
	var missing *engine.NotFoundError
	var unknown *UnknownOutcomeError
	var other *Error
	for _, test := range []struct {
		status int
		body   string
		as     any
		text   string
	}{
		{422, urn + `invalid","diagnostics":[{"severity":"error","resource":"Tier shop/web","field":"spec.acl","problem":"is bad"}]`, &invalid, "error: Tier shop/web: spec.acl: is bad"},
		{409, urn + `in-use","diagnostics":[{"severity":"error","problem":"is in use","code":"in-use"}]`, &invalid, "error: is in use"},
		{409, urn + `conflict","detail":"the plan is stale: it moved"`, &conflict, "the plan is stale: it moved"},
		{412, urn + `precondition","detail":"it is at another version"`, &precondition, "it is at another version"},
		{412, urn + `precondition","detail":"it is at another version"`, &conflict, "it is at another version"},
		{404, urn + `not-found","detail":"Tier shop/web not found"`, &missing, "Tier shop/web not found"},
		{404, urn + `not-found","title":"No such","detail":"there is no such path"`, &other, "the server answers 404 No such: there is no such path (request r1)"},
		{409, urn + `exists","title":"It exists"`, &other, "the server answers 409 It exists (request r1)"},
		{401, urn + `unauthenticated","title":"Who calls is not known"`, &other, "the server answers 401 Who calls is not known (request r1)"},
		{403, urn + `forbidden"`, &other, "the server answers 403 Forbidden (request r1)"},
		{504, urn + `timeout","detail":"no answer"`, &unknown, "it is not known whether the change was made: the server answers 504 Gateway Timeout: no answer (request r1)"},
		{500, `not JSON`, &other, "can't be read"},
		{502, ``, &other, "the server answers 502 Bad Gateway"},
		{307, `"a":1`, &other, "the server answers 307 Temporary Redirect"},
		{200, `"kind":"Nonsense"`, nil, `there is no kind "Nonsense"`},
		{200, `"kind":`, nil, "reading the server's answer"},
		{200, `"kind":"VPC","metadata":{"name":"a"},"spec":{"mtu":"x"}`, nil, "reading the spec of VPC a"},
	} {
		c := serve(t, Options{Attempts: 1}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "r1")
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			answerWith(w, test.status, "{"+test.body+"}")
		})
		_, err := c.GetOne(ctx(t), nic)
		require.ErrorContains(t, err, test.text)
		if test.as != nil {
			require.ErrorAs(t, err, test.as, test.text)
		}
	}
	require.Equal(t, "urn:ovn-vpc:problem:forbidden", failure(&answer{403, http.Header{"Content-Type": {problemType}}, []byte("{" + urn + "forbidden\"}")}).(*Error).Type)
}

// An error page of a proxy, however long, is not shown.
func TestForeignErrors(t *testing.T) {
	c := serve(t, Options{Attempts: 1}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "<html>secret")
	})
	_, err := c.GetOne(ctx(t), nic)
	require.EqualError(t, err, "the server answers 502 Bad Gateway")
}

func TestAnswersAreBounded(t *testing.T) {
	var asked atomic.Int32
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, err := io.WriteString(w, "data: "+strings.Repeat(" ", maxAnswer)); err != nil && r.Context().Err() == nil {
			t.Log(err) // the client is gone
		}
	})
	_, err := c.GetOne(ctx(t), nic)
	require.ErrorIs(t, err, errTooLarge)
	for _, err := range c.Watch(ctx(t), WatchOptions{}) {
		require.ErrorIs(t, err, errTooLarge)
	}
	require.EqualValues(t, 2, asked.Load())
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(" first\n")
	c := serve(t, Options{Token: TokenFile(file)}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the token was sent on")
		}
		w.Header().Set("Location", "/elsewhere")
		answerWith(w, http.StatusTemporaryRedirect, r.Header.Get("Authorization"))
	})
	said := func() string {
		a, err := c.do(ctx(t), call{method: http.MethodGet, path: "/v1/vpcs", reads: true})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "first")
		return string(a.body)
	}
	require.Equal(t, "Bearer first", said())
	write("second")
	require.Equal(t, "Bearer second", said())
	for _, bad := range []string{"", "two words", "sec\x01ret"} {
		write(bad)
		_, err := c.GetOne(ctx(t), nic)
		require.ErrorContains(t, err, "does not hold one token")
		require.NotContains(t, err.Error(), "sec\x01ret")
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerWith(w, http.StatusOK, nicBody) }))
	s.Config.ErrorLog = log.New(t.Output(), "", 0)
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	c, err := New(Options{URL: s.URL, CACert: ca})
	require.NoError(t, err)
	_, err = c.GetOne(ctx(t), nic)
	require.NoError(t, err)

	for _, url := range []string{s.URL, strings.Replace(s.URL, "https", "http", 1)} {
		c, err = New(Options{URL: url})
		require.NoError(t, err)
		c.unit = time.Hour // not even once again
		_, err = c.Put(ctx(t), attachment(), WriteOptions{})
		require.Error(t, err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	c, err = New(Options{URL: strings.Replace(plain.URL, "http", "https", 1)})
	require.NoError(t, err)
	c.unit = time.Hour
	_, err = c.Create(ctx(t), attachment(), CreateOptions{})
	require.ErrorIs(t, err, http.ErrSchemeMismatch)
}

func TestOptions(t *testing.T) {
	token := func() (string, error) { return "secret", nil }
	for _, o := range []Options{
		{}, {URL: "127.0.0.1:8443"}, {URL: "ftp://host"}, {URL: "https://"}, {URL: "https://host/?a=b"}, {URL: "https://user:secret@host"},
		{URL: "https://user:secret@host:port:x"}, {URL: "http://192.0.2.1", Token: token}, {URL: "http://net.example", Token: token},
		{URL: "https://host", CACert: "nosuch"}, {URL: "https://host", CACert: "client_test.go"}, {URL: "https://host", Certificate: "nosuch"},
		{URL: "https://host", Token: TokenFile("nosuch")},
	} {
		_, err := New(o)
		require.Error(t, err, o.URL)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, o := range []Options{
		{URL: "http://192.0.2.1"}, {URL: "http://192.0.2.1", Token: token, Insecure: true}, {URL: "http://localhost:80", Token: token},
		{URL: "http://[::1]:80", Token: token}, {URL: "http://127.1.2.3", Token: token}, {URL: "https://net.example/sdn/", Token: token},
	} {
		_, err := New(o)
		require.NoError(t, err, o.URL)
	}
}
