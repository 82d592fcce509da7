package model_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// However a list is written, a single one is read as one of many.
func TestOneIsReadAsMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{Name: "list", VPC: "shop", Labels: drawLabels(t)}, Spec: drawACL(t)}
		data, err := json.Marshal(model.Envelope(r, nil))
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "indented") {
			var b bytes.Buffer
			require.NoError(t, json.Indent(&b, data, "", "  "))
			data = b.Bytes()
		}
		input := model.Input{Name: "x", Data: disturb(t, data)}
		one, found := model.LoadOne(input, r.ID())
		set, faults := model.Load(input)
		if one == nil {
			require.True(t, faults.HasErrors())
			return
		}
		require.Equal(t, faults.String(), found.String())
		many := set.Resources[0]
		require.Equal(t, many.ID(), one.ID())
		require.Equal(t, many.Metadata, one.Metadata)
		require.Equal(t, many.Spec, one.Spec)
		for _, field := range []string{"metadata.name", "spec.rules[0].number", "spec.rules[1].tiers[1]", "spec.defaults"} {
			require.Equal(t, many.Fault(field, "", ""), one.Fault(field, "", ""))
		}
	})
}

// disturb changes a text in a place or two, so that it says something else, or
// the same in another way.
func disturb(t *rapid.T, data []byte) []byte {
	for range rapid.IntRange(0, 2).Draw(t, "times") {
		change := rapid.SampledFrom([][2]string{
			{`"number":1`, `"number":01`}, {`"number":`, `"number":1e0,"number":`}, {`"action"`, `"Action"`}, {`"allow"`, `"allowed"`},
			{`"allow"`, `null`}, {`"2001:db8::/32"`, `"2001:db8::1/32"`}, {`"2001:db8::/32"`, `"2001:DB8::/32"`}, {`"0.0.0.0/0"`, `"::ffff:0.0.0.0/96"`},
			{`"0.0.0.0/0"`, `"0.0.0.0/0","0.0.0.0/0"`}, {`"t1"`, `"T1"`}, {`"tcp"`, `"6"`}, {`60002`, `"60002"`}, {`60002`, `60001,60002`}, {`"type"`, `"x":1,"type"`},
			{`"spec":{`, `"status":{},"spec":{`}, {`,"stateless":false`, ``}, {`"log":"info"`, `"log":true`}, {`"code":-1`, `"code":300`}, {`}`, `}}`},
			{`"list"`, `"other"`}, {`"shop"`, `"\u0073hop"`}, {`"kind"`, `"kind":"Tier","kind"`}, {`"description":"`, `"description":"\u0000`},
			{`"rules":[{`, `"rules":[null,{`}, {`"direction":"ingress",`, ``},
		}).Draw(t, "change")
		data = []byte(strings.Replace(string(data), change[0], change[1], 1))
	}
	return data
}

// The rules of a list are encoded and decoded as encoding/json would.
func TestRulesAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{Name: "list", VPC: "shop", Labels: drawLabels(t)}, Spec: drawACL(t)}
		spec := r.Spec.(*model.ACLSpec)
		for i := range spec.Rules {
			if rapid.Bool().Draw(t, "odd") {
				spec.Rules[i].Description = rapid.String().Draw(t, "text")
				spec.Rules[i].Tiers = []string{rapid.String().Draw(t, "tier")}
				spec.Rules[i].CIDRs = []netip.Prefix{{}}
			}
		}
		data, err := model.MarshalStored(r)
		require.NoError(t, err)
		require.Equal(t, compact(t, struct {
			Metadata model.Metadata `json:"metadata"`
			Spec     model.Spec     `json:"spec"`
		}{r.Metadata, spec}), string(data))
		whole, bare, rules, err := model.MarshalList(r)
		require.NoError(t, err)
		require.Equal(t, string(data), whole)
		require.Len(t, rules, len(spec.Rules))
		for i, rule := range spec.Rules {
			require.Equal(t, compact(t, rule), rules[i])
		}
		require.Equal(t, whole, strings.Replace(bare, `"rules":[`, `"rules":[`+strings.Join(rules, ","), 1))

		data = disturb(t, data)
		read, err := model.ParseStored(model.KindACL, data)
		// With a space it is not as it is written.
		generic, other := model.ParseStored(model.KindACL, []byte(strings.Replace(string(data), `"rules":[`, `"rules":[ `, 1)))
		require.Equal(t, other == nil, err == nil)
		require.Equal(t, generic, read)
	})
}

func compact(t require.TestingT, v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(v))
	return strings.TrimSuffix(b.String(), "\n")
}

// An attachment is decoded as encoding/json would, as it is mostly written or
// otherwise.
func TestStoredAttachmentsAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawAttachment(t, 1)
		r := &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{Name: "a", VPC: "shop"}, Spec: spec}
		if rapid.Bool().Draw(t, "plain") {
			spec.Addresses, spec.MAC = []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}, "0a:00:00:00:00:01"
			spec.PortSecurity, spec.Enabled, spec.AllowedAddresses = true, true, nil
		} else {
			r.Metadata.Labels = drawLabels(t)
		}
		data, err := model.MarshalStored(r)
		require.NoError(t, err)
		for _, change := range [][2]string{
			{}, {`"name":"a"`, `"name":""`}, {`"name":"a"`, `"name":"\u0061"`}, {`"name":"a"`, "\"name\":\"a\x01\""}, {`"name":"a"`, `"name":"ä"`},
			{`"name":"a"`, "\"name\":\"a\xff\""}, {`,"vpc":"shop"`, ``}, {`"tier":`, `"Tier":`}, {`"t1"`, `"t1","tier":"t2"`}, {`"addresses":[`, `"addresses":["",`},
			{`"addresses":[`, `"addresses":["10.0.0.9","10.0.0.8",`}, {`"addresses":[`, `"addresses":["x",`}, {`fd00:`, `FD00:`}, {`fd00:`, `fd00::fd00:`},
			{`"mac":"0a:`, `"mac":"0A:`}, {`"mac":"0a:`, `"mac":"`}, {`"interfaceID":"`, `"interfaceID":"","x":"`}, {`"enabled":true`, `"enabled":false`},
			{`"enabled":true`, `"enabled":1`}, {`}}`, `}`}, {`}}`, `}} `}, {`}}`, `}}}`}, {`"interfaceID":`, `"hostname":"h","interfaceID":`},
		} {
			text := strings.Replace(string(data), change[0], change[1], 1)
			read, err := model.ParseStored(model.KindAttachment, []byte(text))
			// With a space it is not as it is written.
			generic, other := model.ParseStored(model.KindAttachment, []byte(" "+text))
			require.Equal(t, other == nil, err == nil, text)
			require.Equal(t, generic, read)
		}
	})
}
