package ipam

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/model"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestPoolLeavesOutWhatNobodyMayGet(t *testing.T) {
	p, err := NewPool(netip.MustParsePrefix("10.0.0.0/29"), []netip.Addr{addr("10.0.0.1")},
		[]model.AddrRange{{First: addr("10.0.0.3"), Last: addr("10.0.0.4")}})
	require.NoError(t, err)
	require.EqualValues(t, 3, p.Size())
	var got []string
	taken := map[netip.Addr]bool{}
	for range 3 {
		a, ok := p.Pick(1, func(a netip.Addr) bool { return taken[a] })
		require.True(t, ok)
		taken[a] = true
		got = append(got, a.String())
	}
	require.Equal(t, []string{"10.0.0.5", "10.0.0.6", "10.0.0.2"}, got)
	_, ok := p.Pick(1, func(a netip.Addr) bool { return taken[a] })
	require.False(t, ok)
}

func TestPoolOfIPv6(t *testing.T) {
	p, err := NewPool(netip.MustParsePrefix("2001:db8::/64"), []netip.Addr{addr("2001:db8::1")}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1<<32-2, p.Size())
	a, ok := p.Pick(1<<32-3, func(netip.Addr) bool { return false })
	require.True(t, ok)
	require.Equal(t, "2001:db8::ffff:ffff", a.String())
	small, err := NewPool(netip.MustParsePrefix("2001:db8::8/126"), nil, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, small.Size())
}

func TestEmbed(t *testing.T) {
	a, ok := Embed(netip.MustParsePrefix("2001:db8::/64"), addr("10.10.1.5"))
	require.True(t, ok)
	require.Equal(t, "2001:db8::a0a:105", a.String())
	_, ok = Embed(netip.MustParsePrefix("2001:db8::/97"), addr("10.10.1.5"))
	require.False(t, ok)
}

// Whatever the pool and whatever is taken, every address that Pick gives is in
// the prefix and given once, and as many are given as the pool has.
func TestPickNeverGivesAnAddressTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(24, 30).Draw(t, "bits")
		prefix, _ := addr("10.1.2.0").Prefix(bits)
		p, err := NewPool(prefix, []netip.Addr{addr("10.1.2.1")}, nil)
		require.NoError(t, err)
		taken := map[netip.Addr]bool{}
		for range p.Size() {
			a, ok := p.Pick(rapid.Uint64().Draw(t, "seed"), func(a netip.Addr) bool { return taken[a] })
			require.True(t, ok)
			require.False(t, taken[a])
			require.True(t, prefix.Contains(a))
			taken[a] = true
		}
		_, ok := p.Pick(0, func(a netip.Addr) bool { return taken[a] })
		require.False(t, ok)
	})
}

func TestMACIsInjectiveWithinABlock(t *testing.T) {
	require.Equal(t, model.MAC("0a:58:0a:0a:01:05"), MAC("shop", addr("10.10.1.5"), 0))
	rapid.Check(t, func(t *rapid.T) {
		base := addr("2001:db8:1::")
		a := withLow32(base, rapid.Uint32().Draw(t, "a"))
		b := withLow32(base, rapid.Uint32().Draw(t, "b"))
		if a != b {
			require.NotEqual(t, MAC("shop", a, 0), MAC("shop", b, 0))
		}
	})
}
