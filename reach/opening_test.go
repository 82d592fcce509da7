package reach_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/reach"
)

func TestEnds(t *testing.T) {
	for text, want := range map[string]reach.End{
		"outside": {Kind: reach.Outside}, "web": {Name: "web"}, "tier/outside": {Kind: reach.Tier, Name: "outside"},
		"attachment/web-1": {Kind: reach.Attachment, Name: "web-1"},
	} {
		e, err := reach.ParseEnd(text)
		require.NoError(t, err)
		require.Equal(t, want, e)
		require.Equal(t, text, e.Reference())
	}
	for _, text := range []string{"", "tier/", "vpc/x", "tier/a/b", "a,b", "outside/x"} {
		_, err := reach.ParseEnd(text)
		require.Error(t, err, text)
	}
}

func opening(t *testing.T, text string) reach.Opening {
	o, err := reach.ParseOpening(text)
	require.NoError(t, err)
	return o
}

func TestOpenings(t *testing.T) {
	for _, text := range []string{"app -> db tcp 3306", "outside -> web tcp 80, 443; icmp echo", "tier/outside -> web all but tcp 22, fragments"} {
		require.Equal(t, text, opening(t, text).String())
	}
	require.Equal(t, opening(t, "app -> db tcp 22"), opening(t, " app->db  tcp/22"))
	for _, text := range []string{"", "app -> db", "app db tcp 22", "app -> db http", "attachment/a -> db all", "a b -> db all", "-> db all"} {
		_, err := reach.ParseOpening(text)
		require.Error(t, err, text)
	}
}

func TestUnnamed(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/change.txtar")
	require.NoError(t, err)
	d := reach.Diff(policy(t, archive, "before/"), policy(t, archive, "after/"), reach.Tier)
	require.Equal(t, d.Opens, d.Unnamed(nil))
	var all []reach.Opening
	for _, c := range d.Opens {
		all = append(all, opening(t, c.FromEnd.String()+" -> "+c.ToEnd.String()+" "+c.Traffic))
	}
	require.Empty(t, d.Unnamed(all))
	require.Len(t, d.Unnamed(all[1:]), 1)

	// The same of what was kept in a file.
	data, err := json.Marshal(d)
	require.NoError(t, err)
	var kept reach.Difference
	require.NoError(t, json.Unmarshal(data, &kept))
	require.Equal(t, d.String(), kept.String())
	require.Len(t, kept.Unnamed(nil), len(d.Opens))
	require.Empty(t, kept.Unnamed(all))
	kept.Opens[0].Traffic = "what can't be read"
	require.Len(t, kept.Unnamed(all), 1)

	// A part of it, and another direction.
	d = &reach.Difference{Opens: []reach.Change{{FromEnd: reach.End{Kind: reach.Tier, Name: "a"}, ToEnd: reach.End{Kind: reach.Tier, Name: "b"}, Traffic: "tcp 22, 80"}}}
	left := d.Unnamed([]reach.Opening{opening(t, "a -> b tcp 1-79"), opening(t, "b -> a all"), opening(t, "a -> outside all")})
	require.Len(t, left, 1)
	require.Equal(t, "a -> b tcp 80", left[0].What())
}

// Work follows what changes, not what there is.
func TestWork(t *testing.T) {
	changed := func(list string) *reach.Policy {
		resources := large(1)
		for _, r := range resources {
			if r.Metadata.Name == list {
				r.Spec = large(20)[manyTiers].Spec // another list
			}
		}
		p, err := reach.New("v", resources)
		require.NoError(t, err)
		return p
	}
	before := changed("")
	require.Zero(t, reach.Work(before, changed("")))
	one, all := reach.Work(before, changed("l007")), reach.Work(nil, before)
	require.Positive(t, one)
	require.Greater(t, all, 10*one)
}
