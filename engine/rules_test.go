package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Rules whose rows are known from earlier edits are held against the database all
// the same: what somebody has done to them by hand is mended by the next edit.
func TestKnownRulesAreHeldAgainstTheDatabase(t *testing.T) {
	f := newFixture(t, false)
	shop(f)
	f.mirror()
	f.Engine = f.Repairing()                  // also what can't be read any more
	other := connect(t, f.sandbox, "default") // reads the database
	mended := 0
	rapid.Check(t, func(r *rapid.T) {
		f.putRules(r)
		if rapid.Bool().Draw(r, "other") {
			other.putRules(r)
		}
		if rapid.Bool().Draw(r, "tampered") {
			mended += f.tamperRule(r)
		}
		f.putRules(r)
		other.noDrift()
	})
	require.Positive(t, mended)
}

// putRules gives the list l, which guards the tier web, some of six rules.
func (f *fixture) putRules(r *rapid.T) {
	var rules []string
	for number := 1; number <= 6; number++ {
		rule := fmt.Sprintf("{number: %d, protocol: tcp, ports: [%d]", number, rapid.IntRange(1, 2).Draw(r, "port"))
		switch rapid.IntRange(0, 3).Draw(r, "rule") {
		case 0:
			continue
		case 1:
			rule += ", tiers: [web], log: true"
		case 2:
			rule += `, cidrs: [192.0.2.0/24], description: "a & b"`
		}
		rules = append(rules, rule+"}")
	}
	spec := fmt.Sprintf("stateless: %t, rules: [%s]", rapid.IntRange(0, 3).Draw(r, "stateless") == 0, strings.Join(rules, ", "))
	for _, text := range []string{document("ACL", "shop", "l", spec), tierWith("shop", "web", "cidrs: [10.0.0.0/24], acl: l")} {
		require.NoError(r, f.edit(put(f.t, text))[0].Err)
	}
}

// tamperRule changes the row of one of the rules, or what is stored of it, if there
// are any.
func (f *fixture) tamperRule(r *rapid.T) int {
	number := rapid.IntRange(1, 6).Draw(r, "number")
	row := strings.TrimSpace(f.nbctl("--bare", "--columns=_uuid", "find", "ACL", fmt.Sprintf(`external_ids:"ovn-vpc:key"="acl-rule/shop/l/ingress/%d"`, number)))
	if row == "" {
		return 0
	}
	switch rapid.IntRange(0, 4).Draw(r, "what") {
	case 0:
		f.nbctl("set", "ACL", row, "action=drop")
	case 1:
		f.nbctl("set", "ACL", row, "priority=7")
	case 2:
		f.nbctl("set", "ACL", row, "match=ip4")
	case 3:
		f.nbctl("remove", "Port_Group", "ovnvpc.shop.l", "acls", row)
	case 4:
		f.nbctl("set", "Port_Group", "ovnvpc.shop.l", fmt.Sprintf(`external_ids:"ovn-vpc:rule/%d"="{}"`, number))
	}
	return 1
}

// A rule is named by its number as it is written, however large that is, whether it
// alone changes or more of its list.
func TestFieldsOfARuleWithALargeNumber(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + acl("shop", "l", "{number: 2147483646}"))
	for _, spec := range []string{"rules: [{number: 2147483646, action: deny}]", "stateless: true, rules: [{number: 2147483646, action: reject}]"} {
		p, err := f.Plan(f.ctx, load(t, document("ACL", "shop", "l", spec)), false)
		require.NoError(t, err)
		require.Equal(t, "spec.rules[number=2147483646].action", p.VPCs[0].Changes[0].Fields[0].Field)
	}
}
