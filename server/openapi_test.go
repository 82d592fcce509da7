package server_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func TestOpenAPI(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	r := f.call("GET", "/openapi.json", "").is(200)
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Responses   map[string]json.RawMessage
		}
		Components struct{ Schemas map[string]json.RawMessage }
	}
	require.NoError(t, json.Unmarshal([]byte(r.text), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.NotEmpty(t, doc.Paths["/v1/vpcs/{vpc}/tiers/{name}"]["put"].Responses["201"])
	for path, operations := range doc.Paths {
		for method, o := range operations {
			require.NotEmpty(t, o.OperationID, "%s %s", method, path)
			require.NotEmpty(t, o.Responses, "%s %s", method, path)
		}
	}
	for _, kind := range model.Kinds() {
		require.NotEmpty(t, doc.Components.Schemas[string(kind)])
	}
	for _, ref := range regexp.MustCompile(`#/components/schemas/([^"]+)`).FindAllStringSubmatch(r.text, -1) {
		require.Contains(t, doc.Components.Schemas, ref[1])
	}
}

func TestDocsLoadNothingFromElsewhere(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	r := f.call("GET", "/docs", "").is(200)
	require.Contains(t, r.header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotRegexp(t, `https?://|src=|@import`, r.text)
}
