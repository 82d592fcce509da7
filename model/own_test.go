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

// However a list or an attachment is written, a single one is read as one of many.
func TestOneIsReadAsMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &model.Resource{Kind: model.KindACL, Metadata: model.Metadata{Name: "list", VPC: "shop", Labels: drawLabels(t)}}
		changes, fields := listChanges(), []string{"metadata.name", "spec.rules[0].number", "spec.rules[1].tiers[1]", "spec.defaults"}
		if rapid.Bool().Draw(t, "attachment") {
			r.Kind, r.Spec = model.KindAttachment, drawAttachment(t, 1)
			changes, fields = attachmentChanges(), []string{"metadata.name", "spec.tier", "spec.addresses[0]", "spec.plug.netns"}
		} else {
			r.Spec = drawACL(t)
		}
		data, err := model.MarshalDocument(r)
		require.NoError(t, err)
		require.JSONEq(t, compact(t, model.Envelope(r, nil)), string(data))
		if rapid.Bool().Draw(t, "indented") {
			var b bytes.Buffer
			require.NoError(t, json.Indent(&b, data, "", "  "))
			data = b.Bytes()
		}
		input := model.Input{Name: "x", Data: disturb(t, data, changes)}
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
		for _, field := range fields {
			require.Equal(t, many.Fault(field, "", ""), one.Fault(field, "", ""))
		}
	})
}

// An attachment without a name, a VPC or both is given them, however it is written.
func TestOneIsGivenItsIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{Labels: drawLabels(t)}, Spec: drawAttachment(t, 1)}
		if rapid.Bool().Draw(t, "VPC") {
			r.Metadata.VPC = "shop"
		}
		r.Spec.(*model.AttachmentSpec).InterfaceID = rapid.SampledFrom([]string{"", "eth0"}).Draw(t, "interface")
		data, err := model.MarshalDocument(r)
		require.NoError(t, err)
		require.NotContains(t, string(data), `"name"`)
		data = disturb(t, data, append(attachmentChanges(), [2]string{`"metadata":{`, `"metadata":{"name":null,`}, [2]string{`"kind":`, `"Kind":`}, [2]string{`"metadata":{`, `"metadata":null,"x":{`},
			[2]string{`"apiVersion":`, `"apiVersion":null,"x":`}, [2]string{`"metadata":{`, `"metadata":{"vpc":"other"}, "y":{`}))
		id := model.ID{Kind: model.KindAttachment, VPC: "shop", Name: "a-1"}
		one, found := model.LoadOne(model.Input{Data: data}, id)
		// What is no JSON is read by its nodes.
		same, faults := model.LoadOne(model.Input{Data: append([]byte("# as YAML\n"), data...)}, id)
		require.Equal(t, same == nil, one == nil)
		if one == nil {
			return
		}
		require.Len(t, found, len(faults))
		require.Equal(t, same.ID(), one.ID())
		require.Equal(t, same.Metadata, one.Metadata)
		require.Equal(t, same.Spec, one.Spec)
		line, column := one.Source.Pos("metadata.name")
		wantLine, wantColumn := same.Source.Pos("metadata.name")
		require.Equal(t, []int{wantLine - 1, wantColumn}, []int{line, column})
	})
}

// disturb changes a text in a place or two, so that it says something else, or
// the same in another way.
func disturb(t *rapid.T, data []byte, changes [][2]string) []byte {
	for range rapid.IntRange(0, 2).Draw(t, "times") {
		change := rapid.SampledFrom(changes).Draw(t, "change")
		data = []byte(strings.Replace(string(data), change[0], change[1], 1))
	}
	return data
}

func listChanges() [][2]string {
	return [][2]string{
		{`"number":1`, `"number":01`}, {`"number":`, `"number":1e0,"number":`}, {`"action"`, `"Action"`}, {`"allow"`, `"allowed"`},
		{`"allow"`, `null`}, {`"2001:db8::/32"`, `"2001:db8::1/32"`}, {`"2001:db8::/32"`, `"2001:DB8::/32"`}, {`"0.0.0.0/0"`, `"::ffff:0.0.0.0/96"`},
		{`"0.0.0.0/0"`, `"0.0.0.0/0","0.0.0.0/0"`}, {`"t1"`, `"T1"`}, {`"tcp"`, `"6"`}, {`60002`, `"60002"`}, {`60002`, `60001,60002`}, {`"type"`, `"x":1,"type"`},
		{`"spec":{`, `"status":{},"spec":{`}, {`,"stateless":false`, ``}, {`"log":"info"`, `"log":true`}, {`"code":-1`, `"code":300`}, {`}`, `}}`},
		{`"list"`, `"other"`}, {`"shop"`, `"\u0073hop"`}, {`"kind"`, `"kind":"Tier","kind"`}, {`"description":"`, `"description":"\u0000`},
		{`"rules":[{`, `"rules":[null,{`}, {`"direction":"ingress",`, ``},
	}
}

func attachmentChanges() [][2]string {
	return [][2]string{
		{`"list"`, `"other"`}, {`"list"`, `"List"`}, {`"shop"`, `"\u0073hop"`}, {`"shop"`, `"x"`}, {`"kind"`, `"kind":"Tier","kind"`},
		{`ovn-vpc/v1`, `ovn-vpc/v2`}, {`"spec":{`, `"status":{},"spec":{`}, {`"spec":{`, `"spec":null,"x":{`}, {`"metadata":{`, `"metadata":{"x":1,`},
		{`"tier":`, `"Tier":`}, {`"tier":"t`, `"tier":"t2","tier":"t`}, {`"tier":"`, `"tier":"\u0000`}, {`"tier":"`, `"tier":"_`}, {`"addresses":[`, `"addresses":["",`},
		{`"addresses":[`, `"addresses":["10.0.0.9","10.0.0.9",`}, {`"addresses":[`, `"addresses":["127.0.0.1",`}, {`"fd00:`, `"FD00:`}, {`"mac":"0`, `"mac":"1`}, {`"mac":"`, `"mac":"x`},
		{`"interfaceID":"`, `"interfaceID":" `}, {`"interfaceID":"`, `"interfaceID":null,"x":"`}, {`"portSecurity":true`, `"portSecurity":"true"`}, {`"enabled":true,`, ``}, {`"enabled":true`, `"enabled":1`},
		{`"allowedAddresses":["`, `"allowedAddresses":["1.2.3.4/8","`}, {`"chassis":"`, `"chassis":"ä`}, {`"plug":{`, `"plug":{"x":1,`}, {`}`, `}}`}, {`{`, `[`},
	}
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

		data = disturb(t, data, listChanges())
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
