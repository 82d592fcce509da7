package server_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// open is the list of shop.
const open = "/v1/vpcs/shop/acls/open"

// rules are the numbers and ports of a list's rules.
func (f *fixture) rules(list string) []string {
	f.t.Helper()
	var l struct{ Items []model.Rule }
	f.call("GET", list+"/rules", "").is(200).into(&l)
	out := []string{}
	for _, r := range l.Items {
		line := fmt.Sprint(r.Number)
		for _, p := range r.Ports {
			line += " " + p.String()
		}
		out = append(out, line)
	}
	return out
}

// whole demands that the rows are those that a database has where nothing but
// whole lists were written, and no drift is found.
func (f *fixture) whole() {
	f.t.Helper()
	f.noDrift()
	other := newFixture(f.t, lab.SandboxOptions{NoNorthd: true})
	export := f.call("GET", "/v1/export", "").is(200).text
	other.call("POST", "/v1/apply", export).is(200)
	require.Equal(f.t, other.rows(), f.rows())
}

// rows are those of lists, and those that refer to them, without what has happened
// to them.
func (f *fixture) rows() map[nbdb.UUID]nbdb.Row {
	f.t.Helper()
	tables := []string{nbdb.TableACL, nbdb.TablePortGroup, nbdb.TableLogicalSwitch}
	var queries []nbdb.Query
	for _, table := range tables {
		queries = append(queries, nbdb.Query{Table: table})
	}
	state, err := f.nb.Read(f.t.Context(), queries...)
	require.NoError(f.t, err)
	rows := map[nbdb.UUID]nbdb.Row{}
	for _, table := range tables {
		for _, r := range state.Rows(table) {
			maps.DeleteFunc(r.IDs(), func(key, _ string) bool {
				return strings.HasPrefix(key, translate.KeyHistoryPrefix) || strings.HasPrefix(key, "ovn-vpc-run:")
			})
			rows[r.ID()] = r
		}
	}
	return rows
}

func TestRules(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.ready()
	require.Equal(t, []string{"1 80 8000-9000"}, f.rules(open))

	// Behind the others, and between them.
	added := f.call("POST", open+"/rules", `{"protocol": "tcp", "ports": [22]}`).is(201)
	require.Equal(t, open+"/rules/2", added.header.Get("Location"))
	require.JSONEq(t, `{"number": 2, "action": "allow", "direction": "ingress", "protocol": "tcp", "ports": [22]}`, added.text)
	require.JSONEq(t, added.text, f.call("GET", open+"/rules/2", "").is(200).text)
	f.call("POST", open+"/rules", `{"number": 30, "protocol": "tcp", "ports": [443], "log": true, "description": "why, häufig"}`).is(201)
	f.call("POST", open+"/rules", `{"number": 10, "direction": "egress", "action": "reject"}`).is(201)
	require.Equal(t, []string{"1 80 8000-9000", "2 22", "10", "30 443"}, f.rules(open))
	f.whole()
	commits := f.nb.commits.Load()
	f.call("POST", open+"/rules", `{"number": 10}`).problem(409, "exists")
	require.Equal(t, commits, f.nb.commits.Load())

	// In place of another, the same again, and one that is new.
	put := f.call("PUT", open+"/rules/10", "protocol: tcp\nports: [8080-8090, 8091]\n", "Content-Type", "application/yaml", "Accept", "application/yaml").is(200)
	require.Empty(t, put.header.Get("Location"))
	require.Contains(t, put.text, "number: 10\n")
	require.Equal(t, []string{"1 80 8000-9000", "2 22", "10 8080-8091", "30 443"}, f.rules(open))
	f.whole()
	commits = f.nb.commits.Load()
	f.call("PUT", open+"/rules/10", `{"number": 10, "protocol": "tcp", "ports": ["8080-8091"]}`).is(200)
	require.Equal(t, commits, f.nb.commits.Load(), "a PUT that changes nothing writes nothing")
	made := f.call("PUT", open+"/rules/5", `{"protocol": "udp"}`).is(201)
	require.Equal(t, open+"/rules/5", made.header.Get("Location"))
	for _, rule := range []string{f.call("GET", open+"/rules/30", "").text, f.call("GET", open+"/rules/1", "").text} {
		f.call("PUT", open+"/rules/30", strings.Replace(rule, `"number": 1,`, "", 1)).is(200)
	}
	f.whole()

	// Away: the first, one between and the last.
	for _, number := range []int{1, 10, 30} {
		var result engine.Result
		f.call("DELETE", fmt.Sprintf("%s/rules/%d", open, number), "").is(200).into(&result)
		require.Equal(t, engine.Change, result.VPCs[0].Changes[0].Action)
		f.call("DELETE", fmt.Sprintf("%s/rules/%d", open, number), "").problem(404, "not-found")
	}
	require.Equal(t, []string{"2 22", "5"}, f.rules(open))
	f.whole()
	for _, number := range []int{2, 5} {
		f.call("DELETE", fmt.Sprintf("%s/rules/%d", open, number), "").is(200)
	}
	require.Empty(t, f.rules(open))
	first := f.call("POST", open+"/rules", `{}`).is(201)
	require.Equal(t, open+"/rules/1", first.header.Get("Location"))
	f.whole()
}

// What rules are about, and who uses their list.
func TestRulesOfAnyList(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.call("PATCH", "/v1/vpcs/shop", `{"spec": {"cidrs": ["10.10.0.0/16", "fd00:10::/48"]}}`).is(200)
	f.call("PUT", "/v1/vpcs/shop/tiers/app", `{"spec": {"cidrs": ["10.10.2.0/24", "fd00:10:0:2::/64"], "acl": "open"}}`).is(201)
	f.call("PUT", "/v1/vpcs/shop/tiers/db", `{"spec": {"cidrs": ["10.10.3.0/24"], "acl": "packets"}}`).problem(422, "invalid")
	for name, spec := range map[string]string{"packets": `{"stateless": true, "rules": [{"number": 10}]}`, "unused": `{}`} {
		f.call("PUT", "/v1/vpcs/shop/acls/"+name, `{"spec": `+spec+`}`).is(201)
	}
	f.call("PUT", "/v1/vpcs/shop/tiers/db", `{"spec": {"cidrs": ["10.10.3.0/24"], "acl": "packets"}}`).is(201)
	f.ready()
	both := `{"protocol": "tcp", "ports": [22], "cidrs": ["192.0.2.0/24", "2001:db8::/32"]}`
	for _, list := range []string{"open", "packets", "unused"} {
		path := "/v1/vpcs/shop/acls/" + list + "/rules"
		f.call("PUT", path+"/20", both).is(201)
		f.call("PUT", path+"/30", `{"protocol": "tcp", "ports": [22], "tiers": ["app", "db"], "log": "notice"}`).is(201)
		f.call("PUT", path+"/15", `{"tiers": ["web"], "direction": "egress"}`).is(201)
		f.whole()
		f.call("PUT", path+"/30", both).is(200)
		f.call("PUT", path+"/20", `{"protocol": "tcp", "ports": [22], "tiers": ["db"]}`).is(200)
		f.call("PUT", path+"/15", `{"direction": "ingress", "action": "deny"}`).is(200)
		f.whole()
		f.call("DELETE", path+"/20", "").is(200)
		f.call("DELETE", path+"/30", "").is(200)
	}
	f.whole()

	// What a rule names is in use until it goes.
	f.call("POST", open+"/rules", `{"tiers": ["db"]}`).is(201)
	f.call("DELETE", "/v1/vpcs/shop/tiers/db", "").problem(409, "in-use")
	f.call("DELETE", open+"/rules/16", "").is(200)
	f.call("DELETE", "/v1/vpcs/shop/tiers/db", "").is(200)
	f.whole()
}

// Rules that nothing comes of, and what is said of them.
func TestRefusedRules(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.ready()
	before := f.rows()
	const rules, one, none = open + "/rules", open + "/rules/1", "/v1/vpcs/shop/acls/none/rules"
	yaml := []string{"Content-Type", "application/yaml"}
	last := fmt.Sprintf(`{"number": %d}`, 1<<31-1)
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		slug               string
		words              string
	}{
		"precondition":         {"PUT", one, `{}`, []string{"If-Match", `"x"`}, 400, "malformed", "If-Match is about a list"},
		"no list":              {"POST", none, `{}`, nil, 404, "not-found", "ACL shop/none"},
		"no list, PUT":         {"PUT", none + "/1", `{}`, nil, 404, "not-found", "ACL shop/none"},
		"no list, DELETE":      {"DELETE", none + "/1", "", nil, 404, "not-found", "ACL shop/none"},
		"no list, GET":         {"GET", none, "", nil, 404, "not-found", "ACL shop/none"},
		"no list, GET one":     {"GET", none + "/1", "", nil, 404, "not-found", "ACL shop/none"},
		"no VPC":               {"POST", "/v1/vpcs/none/acls/open/rules", `{}`, nil, 404, "not-found", "ACL none/open"},
		"no rule":              {"GET", rules + "/7", "", nil, 404, "not-found", "ACL shop/open has no rule 7"},
		"no rule, DELETE":      {"DELETE", rules + "/7", "", nil, 404, "not-found", "ACL shop/open has no rule 7"},
		"number 0":             {"PUT", rules + "/0", `{}`, nil, 404, "not-found", "is no number"},
		"number -1":            {"GET", rules + "/-1", "", nil, 404, "not-found", "-1"},
		"number 010":           {"PUT", rules + "/010", `{}`, nil, 404, "not-found", "is no number"},
		"number +1":            {"DELETE", rules + "/+1", "", nil, 404, "not-found", "+1"},
		"number x":             {"DELETE", rules + "/x", "", nil, 404, "not-found", "is no number"},
		"number that is large": {"PUT", rules + "/2147483648", `{}`, nil, 404, "not-found", "is no number"},
		"number beyond":        {"PUT", rules + "/9223372036854775808", `{}`, nil, 404, "not-found", "is no number"},
		"another number":       {"PUT", one, `{"number": 2}`, nil, 422, "invalid", "the number is 2, and 1 in the path"},
		"number 0 in the body": {"PUT", one, `{"number": 0}`, nil, 422, "invalid", "0 is out of range"},
		"number too large":     {"POST", rules, `{"number": 2147483648}`, nil, 422, "invalid", "2147483648 is out of range"},
		"number taken":         {"POST", rules, `{"number": 1}`, nil, 409, "exists", "has a rule 1"},
		"built in":             {"POST", "/v1/vpcs/shop/acls/default-deny/rules", `{}`, nil, 422, "invalid", "is built in"},
		"built in, PUT":        {"PUT", "/v1/vpcs/shop/acls/default-allow/rules/1", `{}`, nil, 422, "invalid", "is built in"},
		"built in, DELETE":     {"DELETE", "/v1/vpcs/shop/acls/default-allow/rules/1", "", nil, 422, "invalid", "is built in"},
		"unknown tier":         {"POST", rules, `{"tiers": ["web", "nosuch"]}`, nil, 422, "invalid", "ACL shop/open: tiers[1]: there is no Tier shop/nosuch"},
		"unknown tier, PUT":    {"PUT", rules + "/7", `{"tiers": ["nosuch"]}`, nil, 422, "invalid", "ACL shop/open: tiers[0]: there is no Tier shop/nosuch"},
		"key without a number": {"POST", rules, `{}`, []string{"Idempotency-Key", "k"}, 400, "malformed", "give the rule a number"},
		"unknown field":        {"POST", rules, `{"port": 22}`, nil, 422, "invalid", "unknown field"},
		"a key twice":          {"POST", rules, `{"protocol": "tcp", "protocol": "udp"}`, nil, 422, "invalid", "twice"},
		"a key twice, YAML":    {"POST", rules, "protocol: tcp\nprotocol: udp\n", yaml, 422, "invalid", "twice"},
		"a list":               {"POST", rules, `[{}]`, nil, 422, "invalid", "a list"},
		"a text":               {"POST", rules, `"x"`, nil, 422, "invalid", "x"},
		"null":                 {"POST", rules, `null`, nil, 422, "invalid", "0 documents"},
		"two documents":        {"POST", rules, "{}\n---\n{}\n", yaml, 422, "invalid", "2 documents"},
		"a resource":           {"POST", rules, `{"spec": {}}`, nil, 422, "invalid", "spec"},
		"truncated":            {"POST", rules, `{"ports": [22`, nil, 400, "malformed", "JSON"},
		"no YAML":              {"PUT", one, "ports: [", yaml, 400, "malformed", "YAML"},
		"empty":                {"POST", rules, "", nil, 400, "malformed", "empty"},
		"XML":                  {"POST", rules, `<rule/>`, []string{"Content-Type", "application/xml"}, 415, "unsupported-media-type", "application/xml"},
		"bad wait":             {"DELETE", one + "?wait=long", "", nil, 400, "malformed", "wait"},
		"unknown query":        {"POST", rules + "?number=7", `{}`, nil, 400, "malformed", "number"},
		"nothing confirmed":    {"POST", rules + "?allowOpen=x", `{}`, nil, 400, "malformed", "allowOpen"},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.call(c.method, c.path, c.body, c.headers...)
			r.t = t
			r.problem(c.status, c.slug)
			require.Contains(t, r.text, c.words)
		})
	}
	require.Equal(t, before, f.rows())
	f.call("POST", rules, last).is(201)
	f.call("POST", rules, `{}`).problem(422, "invalid")
	f.call("DELETE", open+"/rules/2147483647", "").is(200)
	require.Equal(t, before, f.rows())
	f.noDrift()
}

// Faults of a rule come together, each with its place in the body.
func TestFaultsOfARule(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	for _, c := range []struct {
		body    string
		headers []string
		want    []string
	}{
		{"{\"action\": \"pass\",\n \"ports\": [22, 70000],\n \"cidrs\": [\"10.0.0.1/8\"],\n  \"log\": 7}", nil,
			[]string{"1:12 action", "2:16 ports[1]", "3:12 cidrs[0]", "4:10 log"}},
		{"action: pass\nports:\n  - 22\n  - 70000\ncidrs: [10.0.0.1/8]\n", []string{"Content-Type", "application/yaml"},
			[]string{"1:9 action", "4:5 ports[1]", "5:9 cidrs[0]"}},
		{`{"number": -1, "ports": [22], "tiers": ["web", "web"]}`, nil, []string{"1:12 number", "1:25 ports", "1:48 tiers[1]"}},
		{`{"protocol": "icmp", "cidrs": ["2001:db8::/32"]}`, nil, []string{"1:14 protocol"}},
	} {
		for _, call := range [][2]string{{"POST", open + "/rules"}, {"PUT", open + "/rules/1"}} {
			var got []string
			for _, d := range f.call(call[0], call[1], c.body, c.headers...).problem(422, "invalid").Diagnostics {
				require.Equal(t, "ACL shop/open", d.Resource)
				got = append(got, fmt.Sprintf("%d:%d %s", d.Line, d.Column, d.Field))
			}
			require.Equal(t, c.want, got, c.body)
		}
	}
}

// An offering and the number of priorities bound the rules.
func TestRulesAreBounded(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.call("PUT", "/v1/offerings/small", `{"spec": {"capabilities": {"distributedRouting": true}, "limits": {"aclRules": 2}}}`).is(201)
	f.call("PATCH", "/v1/vpcs/shop", `{"spec": {"offering": "small"}}`).is(200)
	f.ready()
	f.call("POST", open+"/rules", `{}`).is(201)
	for _, c := range [][2]string{{"POST", ""}, {"PUT", "/7"}} {
		require.Contains(t, f.call(c[0], open+"/rules"+c[1], `{}`).problem(422, "invalid").Detail, "would have 3 ACL rules")
	}
	f.call("PUT", open+"/rules/2", `{"protocol": "udp"}`).is(200)
	f.call("DELETE", open+"/rules/1", "").is(200)
	f.call("POST", open+"/rules", `{}`).is(201)
	f.whole()

	f.call("PATCH", "/v1/vpcs/shop", `{"spec": {"offering": null}}`).is(200)
	f.call("PUT", open, `{"spec": {}}`).is(200)
	f.stuff(model.MaxRules)
	require.Len(t, f.rules(open), model.MaxRules)
	for _, c := range [][2]string{{"POST", ""}, {"PUT", "/40000"}} {
		p := f.call(c[0], open+"/rules"+c[1], `{}`).problem(422, "invalid")
		require.Contains(t, p.Detail, fmt.Sprintf("at most %d of a direction", model.MaxRules))
	}
}

// stuff stores so many rules with the list of shop, without their rows.
func (f *fixture) stuff(rules int) {
	f.t.Helper()
	var is nbdb.Fragment
	for n := range rules {
		text, err := model.MarshalRule(&model.Rule{Number: n + 1, Action: model.Allow, Direction: model.Ingress, Protocol: model.ProtoAll})
		require.NoError(f.t, err)
		is.Entries = append(is.Entries, nbdb.Entry{Table: nbdb.TablePortGroup, Row: translate.PortGroupUUID("default", "shop", "open"),
			Key: fmt.Sprint(translate.KeyRulePrefix, n+1), Value: text})
	}
	_, err := f.nb.Commit(f.t.Context(), nbdb.Diff(nbdb.Fragment{}, is), false)
	require.NoError(f.t, err)
}

// A rule is held to expectations, and to what it may open, as a list is.
func TestRulesAreGated(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.call("POST", "/v1/apply", example(t, "three-tier"), "Content-Type", yamlType).is(200)
	f.ready()
	const rules = "/v1/vpcs/shop/acls/db/rules"
	before := f.call("GET", "/v1/export", "").text
	wide := `{"number": 5, "protocol": "tcp", "ports": [5432]}`
	for _, c := range [][3]string{{"POST", "", wide}, {"PUT", "/5", wide}} {
		require.Contains(t, f.call(c[0], rules+c[1], c[2]).problem(422, "invalid").Detail, "will not hold")
	}
	require.Equal(t, before, f.call("GET", "/v1/export", "").text)
	f.call("POST", rules+"?overrideExpectations=true", wide).is(201)
	text, err := f.sandbox.NBCtl(t.Context(), "get", "Logical_Router", "shop", `external_ids:ovn-vpc-run\:overridden`)
	require.NoError(t, err)
	require.Contains(t, text, "db-is-private")
	f.call("DELETE", rules+"/5", "").is(200)
	f.whole()

	f.call("DELETE", "/v1/vpcs/shop/expectations/db-is-private", "").is(200)
	const gate, allow = "?confirmOpens=true", "&allowOpen=outside+-%3E+db+tcp+5432%0Aweb+-%3E+db+tcp+5432"
	require.Contains(t, f.call("POST", rules+gate, wide).problem(422, "invalid").Detail, "the plan opens")
	f.call("POST", rules+gate+allow, wide).is(201)
	deny := strings.Replace(wide, `"number"`, `"action": "deny", "number"`, 1)
	f.call("PUT", rules+"/5"+gate, deny).is(200)
	require.Contains(t, f.call("DELETE", rules+"/5"+gate, "").problem(422, "invalid").Detail, "the plan opens")
	f.whole()
}

// A change of the VPC that waits for its confirmation stands in the way.
func TestRulesWhileAChangeWaits(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.ready()
	const change = `{"apiVersion": "ovn-vpc/v1", "kind": "VPC", "metadata": {"name": "shop", "labels": {"a": "c"}}, "spec": {"cidrs": ["10.10.0.0/16"]}}`
	f.call("POST", "/v1/apply?confirmWithin=10m", change).is(200)
	before := f.rows()
	f.call("POST", open+"/rules", `{}`).problem(409, "conflict")
	f.call("PUT", open+"/rules/1", `{}`).problem(409, "conflict")
	f.call("DELETE", open+"/rules/1", "").problem(409, "conflict")
	require.Equal(t, before, f.rows())
	f.call("POST", "/v1/vpcs/shop/confirm", "").is(200)
	f.call("POST", open+"/rules", `{}`).is(201)
	f.whole()

	// Each rule is a change of the history, which can be taken back.
	f.call("DELETE", open+"/rules/1", "").is(200)
	require.Equal(t, []string{"2"}, f.rules(open))
	f.call("POST", "/v1/vpcs/shop/rollback", "").is(200)
	require.Equal(t, []string{"1 80 8000-9000", "2"}, f.rules(open))
	f.whole()
}

func TestRulesWait(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{})
	f.shop()
	f.call("POST", open+"/rules?wait=sb&timeout=60s", `{"protocol": "tcp", "ports": [22]}`).is(201)
	out, err := f.sandbox.SBCtl(t.Context(), "lflow-list", "shop/web")
	require.NoError(t, err)
	require.Contains(t, out, "tcp.dst == 22", "the southbound database has it by now")
	f.call("PUT", open+"/rules/2?wait=sb&timeout=60s", `{"protocol": "tcp", "ports": [23]}`).is(200)
	f.call("DELETE", open+"/rules/2?wait=sb&timeout=60s", "").is(200)

	require.NoError(t, f.sandbox.Stop(t.Context(), "northd"))
	for _, c := range [][3]string{{"POST", "", `{}`}, {"PUT", "/7", `{}`}, {"PUT", "/7", `{"protocol": "tcp"}`}, {"DELETE", "/7", ""}} {
		r := f.call(c[0], open+"/rules"+c[1]+"?wait=hv&timeout=1ms", c[2]).is(202)
		require.Contains(t, r.text, `"pending": {`)
	}
	require.Equal(t, []string{"1 80 8000-9000", "2"}, f.rules(open))
	f.noDrift()
}

// The same rule without a number is another one each time, however fast they come.
func TestSameRuleAgain(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.ready()
	for n := range 20 {
		r := f.call("POST", open+"/rules", `{"protocol": "udp"}`).is(201)
		require.Equal(t, fmt.Sprintf("%s/rules/%d", open, n+2), r.header.Get("Location"))
	}
	f.noDrift()
}

// Many callers of two servers write rules of a list at the same time: none is lost,
// none is told to repeat it, and those of one server don't overtake each other.
func TestRulesTogether(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	other := serveInsecure(t, f.sandbox)
	f.ready()
	other.ready()
	const callers, each = 40, 5
	parallel(t, callers, func(i int) error {
		server := []*fixture{f, other}[i%2]
		for n := range each {
			r, err := server.try("POST", open+"/rules", fmt.Sprintf(`{"protocol": "tcp", "ports": [%d]}`, 1000*(i+1)+n))
			if err != nil || r.status != 201 {
				return fmt.Errorf("%d %s %w", r.status, r.text, err)
			}
		}
		return nil
	})
	require.Less(t, f.nb.commits.Load()+other.nb.commits.Load(), int64(2*callers*each), "those of one server overtake each other")
	rules := f.rules(open)
	require.Len(t, rules, 1+callers*each)
	ports := map[string]bool{}
	for i, rule := range rules {
		number, port, _ := strings.Cut(rule, " ")
		require.Equal(t, fmt.Sprint(i+1), number)
		ports[port] = true
	}
	require.Len(t, ports, 1+callers*each)
	f.whole()
}
