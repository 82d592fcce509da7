package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// recorded answers every request with the same, and keeps the last one.
type recorded struct {
	*http.Request
	body string
}

func record(t *testing.T, o Options, status int, body string) (*Client, *recorded) {
	last := &recorded{}
	return serve(t, o, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		last.Request, last.body = r, string(data)
		answerWith(w, status, body)
	}), last
}

func TestOneResource(t *testing.T) {
	c, last := record(t, Options{}, http.StatusOK, nicBody)
	got, err := c.GetOne(ctx(t), nic)
	require.NoError(t, err)
	require.Equal(t, nic, got.Resource.ID())
	spec := got.Resource.Spec.(*model.AttachmentSpec)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.1.5")}, spec.Addresses)
	require.False(t, spec.PortSecurity)
	require.True(t, *got.Status.(*engine.AttachmentStatus).Up)
	require.Equal(t, "v1", got.Version)
	require.False(t, got.Created)
	require.Equal(t, "GET /v1/vpcs/shop/attachments/web-1", last.Method+" "+last.RequestURI)

	_, err = c.Put(ctx(t), attachment(), WriteOptions{Version: `a"b`, New: true, Wait: engine.WaitHV})
	require.NoError(t, err)
	require.Equal(t, `"a\"b"`, last.Header.Get("If-Match"))
	require.Equal(t, "*", last.Header.Get("If-None-Match"))
	require.Equal(t, "hv", last.URL.Query().Get("wait"))
	waited, err := time.ParseDuration(last.URL.Query().Get("timeout"))
	require.NoError(t, err)
	require.Positive(t, waited)
	require.LessOrEqual(t, waited, maxWait)
	require.Contains(t, last.body, `"tier":"web"`)

	_, err = c.Patch(ctx(t), nic, json.RawMessage(`{"spec":{"chassis":"h2"}}`), WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, mediaPatch, last.Header.Get("Content-Type"))
	require.JSONEq(t, `{"spec":{"chassis":"h2"}}`, last.body)

	for id, path := range map[model.ID]string{
		{Kind: model.KindVPC, Name: "shop"}:             "/v1/vpcs/shop",
		{Kind: model.KindVPCOffering, Name: "small"}:    "/v1/offerings/small",
		{Kind: model.KindTier, VPC: "shop", Name: "a"}:  "/v1/vpcs/shop/tiers/a",
		{Kind: model.KindACL, VPC: "a/b", Name: "?#%"}:  "/v1/vpcs/a%2Fb/acls/%3F%23%25",
		{Kind: model.KindACL, VPC: "shop", Name: "a;b"}: "/v1/vpcs/shop/acls/a%3Bb",
	} {
		_, err = c.GetOne(ctx(t), id)
		require.NoError(t, err)
		require.Equal(t, path, last.RequestURI)
	}
	for _, id := range []model.ID{{}, {Kind: "Nonsense", Name: "a"}, {Kind: model.KindVPC}, {Kind: model.KindVPC, Name: ".."}, {Kind: model.KindTier, Name: "a"}} {
		_, err = c.GetOne(ctx(t), id)
		require.Error(t, err)
	}
}

func TestOneRule(t *testing.T) {
	const body = `{"number":7,"action":"deny","direction":"egress","protocol":"tcp","ports":[22,"80-90"],"pending":{"for":"sb","target":7,"reached":5}}`
	c, last := record(t, Options{OverrideExpectations: true}, http.StatusAccepted, body)
	rule := model.Rule{Action: model.Deny, Direction: model.Egress, Protocol: model.ProtoTCP, Ports: []model.PortRange{{First: 22, Last: 22}, {First: 80, Last: 90}}}
	const sent = `"action":"deny","direction":"egress","protocol":"tcp","ports":[22,"80-90"]}`
	got, err := c.AddRule(ctx(t), webList, rule, engine.WaitSB)
	require.NoError(t, err)
	require.Equal(t, "POST /v1/vpcs/shop/acls/web/rules", last.Method+" "+last.URL.Path)
	require.JSONEq(t, "{"+sent, last.body)
	require.Equal(t, "sb", last.URL.Query().Get("wait"))
	require.Equal(t, "true", last.URL.Query().Get("overrideExpectations"))
	require.Equal(t, &engine.Pending{For: engine.WaitSB, Target: 7, Reached: 5}, got.Pending)
	require.False(t, got.Created)
	rule.Number = 7
	require.Equal(t, rule, got.Rule)

	_, err = c.PutRule(ctx(t), webList, rule, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, "PUT /v1/vpcs/shop/acls/web/rules/7?overrideExpectations=true", last.Method+" "+last.RequestURI)
	require.JSONEq(t, `{"number":7,`+sent, last.body)
	c, last = record(t, Options{OverrideExpectations: true}, http.StatusOK, `{"vpcs":[]}`)
	_, err = c.DeleteRule(ctx(t), webList, 7, engine.WaitNone)
	require.NoError(t, err)
	require.Equal(t, "DELETE /v1/vpcs/shop/acls/web/rules/7?overrideExpectations=true", last.Method+" "+last.RequestURI)

	last.Request = nil
	for _, id := range []model.ID{nic, {}, {Kind: model.KindACL, Name: "web"}, {Kind: model.KindACL, VPC: "shop"}} {
		_, err = c.AddRule(ctx(t), id, rule, engine.WaitNone)
		require.Error(t, err)
		_, err = c.PutRule(ctx(t), id, rule, engine.WaitNone)
		require.Error(t, err)
		_, err = c.DeleteRule(ctx(t), id, 7, engine.WaitNone)
		require.Error(t, err)
	}
	require.Nil(t, last.Request)
}

// A server behind a path of a proxy.
func TestPathBefore(t *testing.T) {
	c, last := record(t, Options{}, http.StatusOK, nicBody)
	c.base = c.base.JoinPath("sdn/")
	_, err := c.GetOne(ctx(t), nic)
	require.NoError(t, err)
	require.Equal(t, "/sdn/v1/vpcs/shop/attachments/web-1", last.RequestURI)
}

func TestPending(t *testing.T) {
	const pending = `,"pending":{"for":"hv","target":7,"reached":5,"chassis":["h1"]}}`
	c, _ := record(t, Options{}, http.StatusAccepted, nicBody[:len(nicBody)-1]+pending)
	got, err := c.Put(ctx(t), attachment(), WriteOptions{Wait: engine.WaitHV})
	require.NoError(t, err)
	require.Equal(t, &engine.Pending{For: engine.WaitHV, Target: 7, Reached: 5, Chassis: []string{"h1"}}, got.Pending)
}

// The engine's methods wait as long as their context lasts, with an empty change.
func TestArrival(t *testing.T) {
	const body = `{"vpcs":[{"vpc":"shop","landed":1,"planned":1,"done":true}],"pending":{"for":"sb","target":7,"reached":5}}`
	var asked []string
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, r.URL.Path+" "+string(data))
		if len(asked) < 3 {
			answerWith(w, http.StatusAccepted, body)
			return
		}
		answerWith(w, http.StatusOK, `{"vpcs":[]}`)
	})
	r, err := c.ReplaceACL(ctx(t), "shop", "web", "open", engine.WaitSB)
	require.NoError(t, err)
	require.True(t, r.Changed())
	require.Equal(t, []string{`/v1/vpcs/shop/tiers/web/acl {"acl":"open"}`, `/v1/apply {"items":[]}`, `/v1/apply {"items":[]}`}, asked)

	brief, cancel := context.WithTimeout(t.Context(), leastWait)
	defer cancel()
	asked = nil
	r, err = c.ReplaceACL(brief, "shop", "web", "open", engine.WaitSB)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "the change is in the northbound database, but waiting for sb failed: waiting for sb_cfg to reach 7, at 5: context deadline exceeded")
	require.True(t, r.Changed())
	require.Len(t, asked, 1)
}

// What is found on the server stands where the input was written.
func TestPlaces(t *testing.T) {
	set, found := model.Load(model.Input{Name: "a.yaml", Data: []byte(`
apiVersion: ovn-vpc/v1
kind: ACL
metadata: {name: web, vpc: shop}
spec:
  rules:
    - {number: 20, tiers: [nosuch]}
    - {number: 10}
`)})
	require.Empty(t, found)
	c, last := record(t, Options{Manager: "robot"}, http.StatusUnprocessableEntity, `{"type":"urn:ovn-vpc:problem:invalid","diagnostics":[
		{"severity":"error","line":1,"column":300,"resource":"ACL shop/web","field":"spec.rules[1].tiers[0]","problem":"there is no Tier shop/nosuch"}],
		"vpcs":[{"vpc":"shop","done":false,"error":"x"}]}`)
	want := "a.yaml:7:28: error: ACL shop/web: spec.rules[0].tiers[0]: there is no Tier shop/nosuch"
	_, err := c.Plan(ctx(t), set, true)
	require.EqualError(t, err, want)
	require.Equal(t, "manager=robot&prune=true", last.URL.RawQuery)
	r, err := c.Apply(ctx(t), set, false, engine.WaitNone)
	require.EqualError(t, err, want)
	require.Equal(t, "x", r.VPCs[0].Error)
	require.Empty(t, r.Diagnostics)
	require.Equal(t, "manager=robot", last.URL.RawQuery)
}

func TestListsArePaged(t *testing.T) {
	up := true
	var asked []string
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		if r.URL.Query().Get("continue") == "" {
			answerWith(w, http.StatusOK, `{"items":[`+nicBody+`],"managers":["robot"],"continue":"x/y"}`)
			return
		}
		answerWith(w, http.StatusOK, `{"items":[`+nicBody+`]}`)
	})
	got, err := c.Get(ctx(t), engine.Filter{Kind: model.KindAttachment, VPC: "shop", Labels: map[string]string{"b": "2", "a": "1"}, Up: &up, Tier: "web", Chassis: "h1"})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "robot", got[0].Resource.Manager)
	require.Empty(t, got[1].Resource.Manager)
	require.Equal(t, []string{
		"builtins=true&chassis=h1&kind=attachment&labels=a%3D1%2Cb%3D2&managers=true&tier=web&up=true&vpc=shop",
		"builtins=true&chassis=h1&continue=x%2Fy&kind=attachment&labels=a%3D1%2Cb%3D2&managers=true&tier=web&up=true&vpc=shop"}, asked)
}

func TestPatience(t *testing.T) {
	require.Equal(t, maxWait, patience(t.Context()))
	brief, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.LessOrEqual(t, patience(brief), 750*time.Millisecond)
	long, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.Equal(t, maxWait, patience(long))
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
	defer cancel()
	require.Zero(t, patience(over))
}
