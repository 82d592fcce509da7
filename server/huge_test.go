package server_test

import (
	"strings"
	"testing"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// Bodies just within the limit that hold as much as they can are refused, as any
// other; not by the deadline.
func TestHugeBodies(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	for name, c := range map[string]struct {
		method, path, body, kind string
		status                   int
	}{
		"elements":  {"PUT", "/v1/vpcs/shop", `{"spec": {"cidrs": [` + strings.Repeat(`"10.0.0.0/8",`, 600_000) + `"x"]}}`, "", 422},
		"fields":    {"PUT", "/v1/vpcs/shop", `{"spec": {` + strings.Repeat(`"a":1,`, 1_300_000) + `"x":1}}`, "", 422},
		"depth":     {"PUT", "/v1/vpcs/shop", `{"spec": ` + strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000) + "}", "", 422},
		"rules":     {"PUT", "/v1/vpcs/shop/acls/x", `{"spec": {"rules": [` + strings.Repeat(`{"ports":[1]},`, 500_000) + `{}]}}`, "", 422},
		"patch":     {"PATCH", "/v1/vpcs/shop", `{"spec": {` + strings.Repeat(`"a":{},`, 1_100_000) + `"x":1}}`, "", 422},
		"documents": {"POST", "/v1/plan", strings.Repeat("---\na: 1\n", 900_000), yamlType, 422},
		"lines":     {"POST", "/v1/plan", strings.Repeat("a: 1\n", 1_600_000), yamlType, 422},
		"flow":      {"POST", "/v1/plan", strings.Repeat("[", 8_000_000), yamlType, 400},
		"quotes":    {"POST", "/v1/plan", strings.Repeat(`"`, 8_000_000), yamlType, 400},
		"items":     {"POST", "/v1/plan", `{"items": [` + strings.Repeat(`{"kind":"VPC"},`, 500_000) + `{}]}`, "", 422},
		"deletions": {"POST", "/v1/delete", `{"items": [` + strings.Repeat(`{"kind":"VPC","name":"a"},`, 300_000) + `{"kind":"VPC","name":"b"}]}`, "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			kind := c.kind
			if kind == "" {
				kind = "application/json"
			}
			r := f.call(c.method, c.path, c.body, "Content-Type", kind)
			r.t = t
			r.is(c.status)
		})
	}
}
