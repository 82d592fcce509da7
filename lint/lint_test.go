package lint_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/internal/golden"
	"github.com/ovn-vpc/ovn-vpc/lint"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// TestGolden lints the VPC v of each archive. The file used has lines
// `tier family number`: addresses in use.
func TestGolden(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "want", outcome)
}

func outcome(t *testing.T, archive *txtar.Archive) []byte {
	var inputs []model.Input
	var used lint.Used
	for _, f := range archive.Files {
		switch f.Name {
		case "want":
		case "used":
			used = usedOf(t, string(f.Data))
		default:
			inputs = append(inputs, model.Input{Name: f.Name, Data: f.Data})
		}
	}
	set, found := model.Load(inputs...)
	found = append(found, model.Check(set.Resources, func(model.ID) *model.Resource { return nil }, func(string) bool { return true })...)
	require.Empty(t, found.Errors(), found.String())
	found, err := lint.Check("v", set.Resources, used)
	require.NoError(t, err)
	require.Empty(t, found.Errors())
	return []byte(found.String())
}

func usedOf(t *testing.T, text string) lint.Used {
	numbers := map[string]uint64{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		n, err := strconv.ParseUint(words[2], 10, 64)
		require.NoError(t, err)
		numbers[words[0]+" "+words[1]] = n
	}
	return func(tier string, f traffic.Family) uint64 { return numbers[tier+" "+f.String()] }
}

// The examples show how it is done: nothing is to be said of them.
func TestExamples(t *testing.T) {
	entries, err := os.ReadDir("../examples")
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		folder := filepath.Join("../examples", e.Name())
		inputs, found := model.ReadPaths([]string{folder}, nil)
		require.Empty(t, found.String())
		set, found := model.Load(inputs...)
		require.Empty(t, found.String())
		for _, vpc := range set.VPCs() {
			found, err := lint.Check(vpc, set.Resources, nil)
			require.NoError(t, err)
			require.Empty(t, found.String(), folder)
		}
	}
}

func TestAttached(t *testing.T) {
	guest := func(vpc, name, tier string, addresses ...string) *model.Resource {
		spec := &model.AttachmentSpec{Tier: tier}
		for _, a := range addresses {
			spec.Addresses = append(spec.Addresses, netip.MustParseAddr(a))
		}
		return &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{Name: name, VPC: vpc}, Spec: spec}
	}
	used := lint.Attached("v", []*model.Resource{guest("v", "a", "t", "10.0.0.5", "10.0.0.6"), guest("v", "b", "t"), guest("v", "c", "u", "fd00::5"), guest("w", "d", "t")})
	require.EqualValues(t, 3, used("t", traffic.IPv4))
	require.EqualValues(t, 1, used("t", traffic.IPv6))
	require.EqualValues(t, 0, used("u", traffic.IPv4))
	require.EqualValues(t, 1, used("u", traffic.IPv6))
}

func TestFails(t *testing.T) {
	tier := &model.Resource{Kind: model.KindTier, Metadata: model.Metadata{Name: "t", VPC: "v"}, Spec: &model.TierSpec{ACL: "x"}}
	_, err := lint.Check("v", []*model.Resource{tier}, nil)
	require.ErrorContains(t, err, "no list x")
}
