// Package ipam chooses addresses and MACs out of what is free. It keeps
// nothing: what is taken is told to it, and whether a choice holds is decided
// by whoever commits it.
package ipam

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// Pool is the set of addresses of one prefix that may be handed out without
// being asked for: no network or broadcast address, no gateway, nothing
// reserved. Of an IPv6 prefix only the first 2^32 addresses are used.
type Pool struct {
	Prefix netip.Prefix
	ranges []netipx.IPRange
	ends   []uint64 // cumulated sizes
}

// NewPool makes the pool of a prefix.
func NewPool(prefix netip.Prefix, gateways []netip.Addr, reserved []model.AddrRange) (*Pool, error) {
	var b netipx.IPSetBuilder
	whole := netipx.RangeOfPrefix(prefix)
	if prefix.Addr().Is6() {
		whole = netipx.IPRangeFrom(whole.From(), lastOfBlock(prefix))
	}
	b.AddRange(whole)
	b.Remove(prefix.Addr())
	if prefix.Addr().Is4() {
		b.Remove(whole.To())
	}
	for _, g := range gateways {
		b.Remove(g)
	}
	for _, r := range reserved {
		b.RemoveRange(netipx.IPRangeFrom(r.First, r.Last))
	}
	set, err := b.IPSet()
	if err != nil {
		return nil, fmt.Errorf("making the pool of %s: %w", prefix, err)
	}
	p := &Pool{Prefix: prefix}
	var end uint64
	for _, r := range set.Ranges() {
		end += uint64(low32(r.To())) - uint64(low32(r.From())) + 1
		p.ranges = append(p.ranges, r)
		p.ends = append(p.ends, end)
	}
	return p, nil
}

// Size is the number of addresses in the pool.
func (p *Pool) Size() uint64 {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[len(p.ends)-1]
}

// Pick chooses a free address: the first that skip doesn't refuse, from a
// place that seed decides. ok is false when all are refused.
func (p *Pool) Pick(seed uint64, skip func(netip.Addr) bool) (a netip.Addr, ok bool) {
	size := p.Size()
	if size == 0 {
		return netip.Addr{}, false
	}
	start := seed % size
	for n := uint64(0); n < size; n++ {
		a = p.at((start + n) % size)
		if !skip(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// at is the address with the index i.
func (p *Pool) at(i uint64) netip.Addr {
	k := 0
	for p.ends[k] <= i {
		k++
	}
	if k > 0 {
		i -= p.ends[k-1]
	}
	from := p.ranges[k].From()
	return withLow32(from, low32(from)+uint32(i))
}

// Embed is the IPv6 address of prefix whose last 32 bits are those of the IPv4
// address: as unique as that one. ok is false when the prefix leaves no room.
func Embed(prefix netip.Prefix, v4 netip.Addr) (a netip.Addr, ok bool) {
	if !prefix.Addr().Is6() || !v4.Is4() || prefix.Bits() > 96 {
		return netip.Addr{}, false
	}
	b := v4.As4()
	return withLow32(prefix.Masked().Addr(), binary.BigEndian.Uint32(b[:])), true
}

// lastOfBlock is the last of the first 2^32 addresses of an IPv6 prefix.
func lastOfBlock(p netip.Prefix) netip.Addr {
	if p.Bits() >= 96 {
		return netipx.PrefixLastIP(p)
	}
	return withLow32(p.Masked().Addr(), math.MaxUint32)
}

func low32(a netip.Addr) uint32 {
	if a.Is4() {
		b := a.As4()
		return binary.BigEndian.Uint32(b[:])
	}
	b := a.As16()
	return binary.BigEndian.Uint32(b[12:])
}

func withLow32(a netip.Addr, n uint32) netip.Addr {
	if a.Is4() {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], n)
		return netip.AddrFrom4(b)
	}
	b := a.As16()
	binary.BigEndian.PutUint32(b[12:], n)
	return netip.AddrFrom16(b)
}

// InBlock tells whether an IPv6 address is one of those that the pool of
// prefix hands out: within it, MAC never collides on its first try.
func InBlock(prefix netip.Prefix, a netip.Addr) bool {
	return prefix.Addr().Is6() && prefix.Contains(a) && a.Compare(lastOfBlock(prefix)) <= 0
}
