package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// An update leaves what a fresh start makes: for random specs A and B, A then
// B with prune gives the rows that the resulting specs give in an empty
// database, and those specs are B's with addresses filled in; also where rows
// of A were damaged by hand before B, and where one document of B is applied
// alone, without prune, so that others have to follow. Where B can't follow A
// it is refused, and nothing is written.
func TestAnUpdateMakesWhatAFreshApplyMakes(t *testing.T) {
	updated, fresh := newFixture(t, false), newFixture(t, false)
	refused, cases := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		updated.clear()
		fresh.clear()
		shapes := []shape{drawShape(rt, "a"), drawShape(rt, "b")}
		a := updateSpec(rt, shapes[0])
		b := updateSpec(rt, rapid.SampledFrom([]shape{shapes[0], shapes[0].grown(rt), shapes[0].grown(rt), shapes[1]}).Draw(rt, "shape of B"))
		_, err := updated.Apply(updated.ctx, parse(rt, a), false, engine.WaitNone)
		require.NoError(rt, err, "A:\n%s", a)
		prune, damaged := true, false
		switch rapid.SampledFrom([]string{"whole", "damaged", "part", "part"}).Draw(rt, "how") {
		case "damaged":
			damaged = true
			for range rapid.IntRange(1, 3).Draw(rt, "damages") {
				updated.damage(rt)
			}
		case "part":
			b, prune = part(rt, b), false
		}
		first := updated.rows()
		cases++
		_, err = updated.Apply(updated.ctx, parse(rt, b), prune, engine.WaitNone)
		if invalid := (*engine.InvalidError)(nil); errors.As(err, &invalid) {
			refused++
			require.Equal(rt, first, updated.rows(), "a refused update has written something")
			return
		}
		require.NoError(rt, err, "A:\n%s\nB:\n%s", a, b)
		drift, err := updated.Drift(updated.ctx, "", false, engine.WaitNone)
		require.NoError(rt, err)
		if damaged && len(drift.Faults) > 0 {
			// A tier that lost its switch and its registry is no resource that a
			// prune could know of: what is left of it is for the repair.
			for _, fault := range drift.Faults {
				require.Equal(rt, engine.DriftLeftover, fault.Kind, "%+v\nA:\n%s\nB:\n%s", fault, a, b)
				for _, r := range parse(rt, b).Resources {
					require.NotEqual(rt, r.ID().String(), fault.Resource, "%+v\nA:\n%s\nB:\n%s", fault, a, b)
				}
			}
			drift, err = updated.Drift(updated.ctx, "", true, engine.WaitNone)
			require.NoError(rt, err)
			require.True(rt, drift.Repaired)
		} else {
			require.Empty(rt, drift.Faults, "A:\n%s\nB:\n%s", a, b)
		}
		again, err := updated.Plan(updated.ctx, parse(rt, b), prune)
		require.NoError(rt, err)
		require.True(rt, again.Empty(), "a second apply of B changes something:\n%s", b)

		exported, err := updated.Export(updated.ctx, "")
		require.NoError(rt, err)
		holdsInput(rt, parse(rt, b), exported, prune)
		_, err = fresh.Apply(fresh.ctx, parse(rt, envelopes(rt, exported)), false, engine.WaitNone)
		require.NoError(rt, err)
		require.Equal(rt, fresh.rows(), updated.rows(), "A:\n%s\nB:\n%s", a, b)
	})
	require.Less(t, refused, cases/2+1, "most updates were refused: the test proves little")
}

// clear empties the database behind the engine's back.
func (f *fixture) clear() {
	f.nbctl("--all", "destroy", "Logical_Router", "--", "--all", "destroy", "Logical_Switch", "--", "--all", "destroy", "Port_Group",
		"--", "--all", "destroy", "DHCP_Options", "--", "clear", "NB_Global", ".", "external_ids")
}

// damage destroys or changes a row. Homes of lists stay: the second copy of a
// VPC stands in one, and a list has none.
func (f *fixture) damage(t *rapid.T) {
	table := rapid.SampledFrom([]string{"Logical_Router", "Logical_Switch", "Logical_Switch_Port", "Logical_Router_Port",
		"ACL", "Port_Group", "DHCP_Options"}).Draw(t, "table")
	ids := strings.Fields(f.nbctl("--bare", "--columns=_uuid", "list", table))
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	id, clear := rapid.SampledFrom(ids).Draw(t, "row"), rapid.Bool().Draw(t, "clear")
	switch {
	case table == "ACL":
		f.nbctl("set", table, id, "match=ip4", "priority=7")
	case table == "Logical_Switch_Port":
		f.nbctl("set", table, id, "addresses=unknown", "port_security=[]", "name="+id)
	case table == "Logical_Router_Port":
		f.nbctl("set", table, id, `mac="02:00:00:00:00:01"`, "networks=192.0.2.1/24")
	case clear && table == "Port_Group":
		f.nbctl("clear", table, id, "acls")
	case clear && table != "DHCP_Options":
		f.nbctl("clear", table, id, "ports")
	case table != "Port_Group" || strings.Contains(f.nbctl("get", table, id, "name"), "attachments"):
		f.nbctl("destroy", table, id)
	}
}

// rows is the database as text, without what differs between two databases
// that hold the same: the global row's UUID, notes of the running engine, and the history.
func (f *fixture) rows() string {
	text := regexp.MustCompile(`"ovn-vpc-(run|history):[^"]*"=("([^"\\]|\\.)*"|[^",}]*),? ?`).ReplaceAllString(f.dump(), "")
	var tables []string
	for _, table := range regexp.MustCompile(`(?m)^(\w+) table$`).Split(text, -1) {
		rows := strings.Split(strings.TrimSpace(table), "\n\n")
		slices.Sort(rows)
		table = strings.Join(rows, "\n\n")
		if strings.Contains(table, "nb_cfg_timestamp") {
			table = regexp.MustCompile(`(?m)^(_uuid|nb_cfg|connections).*`).ReplaceAllString(table, "")
		}
		tables = append(tables, table)
	}
	return strings.Join(tables, "\n\n")
}

func parse(t *rapid.T, text string) *model.Set {
	set, ds := model.Load(model.Input{Name: "spec.yaml", Data: []byte(text)})
	require.False(t, ds.HasErrors(), "%s\n%s", ds, text)
	return set
}

func envelopes(t *rapid.T, resources []*model.Resource) string {
	var documents []model.Document
	for _, r := range resources {
		documents = append(documents, model.Envelope(r, nil))
	}
	var text strings.Builder
	require.NoError(t, model.EncodeYAML(&text, documents...))
	return text.String()
}

// part is one document of a kind.
func part(t *rapid.T, text string) string {
	kind := rapid.SampledFrom([]string{"VPC", "Tier", "Tier", "ACL", "Attachment"}).Draw(t, "kind")
	documents := slices.DeleteFunc(strings.Split(text, documentEnd), func(d string) bool {
		return !strings.Contains(d, `"kind":"`+kind+`"`)
	})
	if len(documents) == 0 {
		return text
	}
	return rapid.SampledFrom(documents).Draw(t, "part")
}

// holdsInput compares what is stored with what was asked for: the same
// resources, all others only where nothing was pruned, with the same specs, but
// for addresses and MACs left open.
func holdsInput(t *rapid.T, input *model.Set, stored []*model.Resource, pruned bool) {
	got := map[model.ID]string{}
	for _, r := range stored {
		put, asked := *r, input.Get(r.ID())
		if asked == nil && !pruned {
			continue
		}
		if asked != nil && r.Kind == model.KindAttachment {
			spec, want := *r.Spec.(*model.AttachmentSpec), asked.Spec.(*model.AttachmentSpec)
			require.NotEmpty(t, spec.Addresses)
			require.NotEmpty(t, spec.MAC)
			if len(want.Addresses) == 0 {
				spec.Addresses = nil
			}
			if want.MAC == "" {
				spec.MAC = ""
			}
			put.Spec = &spec
		}
		got[r.ID()] = storedText(t, &put)
	}
	want := map[model.ID]string{}
	for _, r := range input.Resources {
		want[r.ID()] = storedText(t, r)
	}
	require.Equal(t, want, got)
}

func storedText(t *rapid.T, r *model.Resource) string {
	text, err := model.MarshalStored(r)
	require.NoError(t, err)
	return string(text)
}

// shape is what a specification's prefixes are. A prefix can't be taken from
// an attachment, so most updates keep it or add to it. In another shape most
// attachments have other names: they go, and their tiers' prefixes can move.
type shape struct {
	name     string
	six      bool
	prefixes [4][][2]string // by tier: the network, without and with the rest
}

func drawShape(t *rapid.T, name string) shape {
	s := shape{name: name, six: rapid.Bool().Draw(t, "IPv6")}
	for i, block := range rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "blocks") {
		list := [][2]string{{fmt.Sprintf("10.%d.0.", block), "0/24"}}
		if rapid.IntRange(0, 3).Draw(t, "second prefix") == 0 {
			list = append(list, [2]string{fmt.Sprintf("10.%d.1.", block), "0/24"})
		}
		if s.six && rapid.Bool().Draw(t, "IPv6 prefix") {
			list = append(list, [2]string{fmt.Sprintf("fd00:10:0:%d::", block), "/64"})
		}
		s.prefixes[i] = list
	}
	return s
}

// grown has one more prefix in some tiers, in the first place or the last.
func (s shape) grown(t *rapid.T) shape {
	for i := range s.prefixes {
		more := [2]string{fmt.Sprintf("10.%d.0.", 10+i), "0/24"}
		switch rapid.IntRange(0, 2).Draw(t, "growth") {
		case 1:
			s.prefixes[i] = append([][2]string{more}, s.prefixes[i]...)
		case 2:
			s.prefixes[i] = append(slices.Clone(s.prefixes[i]), more)
		}
	}
	return s
}

// specDrawer draws the documents of one VPC, over few names, prefixes and
// addresses, so that two specs have much in common.
type specDrawer struct {
	*rapid.T
	shape shape
	docs  []string
	lists []string
	tiers []string
	hosts []int // host numbers that are not given yet
	ids   []int // interface IDs that are not given yet
}

func updateSpec(t *rapid.T, shape shape) string {
	d := &specDrawer{T: t, shape: shape, lists: []string{"default-allow", "default-deny"}}
	d.hosts = rapid.Permutation(numbers(5, 40)).Draw(t, "hosts")
	d.ids = rapid.Permutation(numbers(1, 12)).Draw(t, "interface IDs")
	d.network()
	drawn := []int{}
	for i := range 4 {
		if d.often("tier") {
			drawn = append(drawn, i)
			d.tiers = append(d.tiers, fmt.Sprintf("t%d", i))
		}
	}
	for i := range 3 {
		if d.often("list") {
			d.list(fmt.Sprintf("l%d", i))
		}
	}
	for k, name := range d.tiers {
		d.tier(name, shape.prefixes[drawn[k]])
	}
	return strings.Join(d.docs, documentEnd)
}

const documentEnd = "\n---\n"

func numbers(first, last int) []int {
	var list []int
	for n := first; n <= last; n++ {
		list = append(list, n)
	}
	return list
}

func (d *specDrawer) often(what string) bool { return rapid.IntRange(0, 3).Draw(d.T, what) > 0 }
func (d *specDrawer) rarely(what string) bool {
	return !d.often(what)
}

func pick[T any](d *specDrawer, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(d.T, what)
}

func (d *specDrawer) add(kind, name string, spec map[string]any) {
	meta := map[string]any{"name": name}
	if kind != "VPC" && kind != "VPCOffering" {
		meta["vpc"] = "shop"
	}
	if d.rarely("labels") {
		meta["labels"] = map[string]any{"env": pick(d, "label", "prod", "test")}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": model.APIVersion, "kind": kind, "metadata": meta, "spec": spec})
	require.NoError(d.T, err)
	d.docs = append(d.docs, string(text))
}

func (d *specDrawer) network() {
	spec := map[string]any{"cidrs": []string{"10.0.0.0/8"}, "mtu": pick(d, "mtu", 1442, 1442, 1400)}
	if d.shape.six {
		spec["cidrs"] = []string{"10.0.0.0/8", "fd00:10::/32"}
	}
	if d.rarely("central") {
		spec["distributedRouting"], spec["chassis"] = false, pick(d, "chassis", "h1", "h2")
	}
	// Offerings are never pruned: one is always there.
	d.add("VPCOffering", "small", map[string]any{"capabilities": map[string]any{"distributedRouting": true},
		"limits": map[string]any{"tiers": pick(d, "limit", 4, 5), "attachments": pick(d, "limit", 100, 50)}})
	if d.rarely("offering") {
		spec["offering"] = "small"
	}
	d.add("VPC", "shop", spec)
}

func (d *specDrawer) list(name string) {
	rules, number := []any{}, 0
	for range rapid.IntRange(0, 4).Draw(d.T, "rules") {
		number += pick(d, "gap", 1, 10, 100000)
		rules = append(rules, d.rule(number))
	}
	d.lists = append(d.lists, name)
	d.add("ACL", name, map[string]any{"rules": rules, "stateless": d.rarely("stateless"),
		"defaults": map[string]any{"ingress": pick(d, "default", "deny", "allow", "reject"), "egress": pick(d, "default", "deny", "allow", "reject")}})
}

func (d *specDrawer) rule(number int) map[string]any {
	rule := map[string]any{"number": number, "action": pick(d, "action", "allow", "deny", "reject"), "direction": pick(d, "direction", "ingress", "egress")}
	switch protocol := pick(d, "protocol", "all", "tcp", "udp", "icmp", "icmpv6", "47"); protocol {
	case "tcp", "udp":
		rule["protocol"], rule["ports"] = protocol, pick(d, "ports", []any{}, []any{80}, []any{443, "8000-9000"})
	case "icmp", "icmpv6":
		rule["protocol"], rule["icmp"] = protocol, pick(d, "icmp", map[string]any{"type": 8}, map[string]any{"type": 3, "code": 1}, map[string]any{})
	default:
		rule["protocol"] = protocol
		rule["cidrs"] = pick(d, "cidrs", []string{}, []string{"192.0.2.0/24"}, []string{"192.0.2.0/24", "2001:db8::/32"}, []string{"::/0"})
	}
	if len(d.tiers) > 0 && d.often("far tiers") {
		rule["tiers"] = []string{rapid.SampledFrom(d.tiers).Draw(d.T, "far tier")}
	}
	rule["log"] = pick[any](d, "log", false, false, true, "alert")
	return rule
}

func (d *specDrawer) tier(name string, prefixes [][2]string) {
	if d.rarely("turned round") {
		prefixes = slices.Clone(prefixes)
		slices.Reverse(prefixes)
	}
	var cidrs, gateways []string
	for _, p := range prefixes {
		cidrs = append(cidrs, p[0]+p[1])
		gateways = append(gateways, p[0]+"99")
	}
	spec := map[string]any{"cidrs": cidrs, "acl": rapid.SampledFrom(d.lists).Draw(d.T, "acl"), "dhcp": d.dhcp()}
	if d.rarely("gateways") {
		spec["gateways"] = gateways
	}
	if d.rarely("reserved") {
		spec["reserved"] = []string{prefixes[0][0] + "60-" + prefixes[0][0] + "90"}
	}
	d.add("Tier", name, spec)
	for k := range 3 {
		if d.often("attachment") {
			d.attachment(fmt.Sprintf("%s-%s-%d", name, d.shape.name, k), name, prefixes)
		}
	}
}

func (d *specDrawer) dhcp() map[string]any {
	spec := map[string]any{"enabled": d.often("dhcp")}
	if d.rarely("DHCP settings") {
		spec["leaseTime"] = 600
		spec["dnsServers"] = []string{"10.0.0.3", "fd00:10::53"}
		spec["domain"] = "shop.example"
		spec["options"] = map[string]any{"ntp_server": "192.0.2.1"}
	}
	return spec
}

func (d *specDrawer) attachment(name, tier string, prefixes [][2]string) {
	spec := map[string]any{"tier": tier, "portSecurity": d.often("port security"), "enabled": d.often("enabled")}
	if d.rarely("fixed address") {
		addresses := []string{}
		for _, p := range prefixes[:rapid.IntRange(1, len(prefixes)).Draw(d.T, "addresses")] {
			addresses = append(addresses, fmt.Sprint(p[0], d.hosts[0]))
		}
		d.hosts, spec["addresses"] = d.hosts[1:], addresses
	}
	if d.rarely("fixed MAC") {
		spec["mac"] = fmt.Sprintf("02:00:00:00:00:%02x", d.hosts[0])
		d.hosts = d.hosts[1:]
	}
	if d.rarely("interface ID") {
		spec["interfaceID"] = fmt.Sprintf("if-%d", d.ids[0])
		d.ids = d.ids[1:]
	}
	if d.rarely("on a chassis") {
		spec["chassis"] = "h1"
		if d.rarely("migrating") {
			spec["migratingTo"] = "h2"
		}
	}
	if d.rarely("allowed") {
		spec["allowedAddresses"] = []string{"10.9.9.9", "192.0.2.0/24"}
	}
	if d.rarely("hostname") {
		spec["hostname"] = "guest"
	}
	d.add("Attachment", name, spec)
}
