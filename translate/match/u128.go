package match

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// u128 is an unsigned number as wide as the widest field.
type u128 struct{ hi, lo uint64 }

func (a u128) and(b u128) u128 { return u128{a.hi & b.hi, a.lo & b.lo} }

func (a u128) shl(n int) u128 {
	if n >= 64 {
		return u128{hi: a.lo << (n - 64)}
	}
	return u128{a.hi<<n | a.lo>>(64-n), a.lo << n}
}

func (a u128) compare(b u128) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

// width is the number of bits up to the highest that is set.
func (a u128) width() int {
	if a.hi != 0 {
		return 64 + bits.Len64(a.hi)
	}
	return bits.Len64(a.lo)
}

// ones has the lowest n bits set, n in 0..128.
func ones(n int) u128 {
	if n <= 64 {
		return u128{lo: ^(^uint64(0) << n)}
	}
	return u128{^(^uint64(0) << (n - 64)), ^uint64(0)}
}

// prefixMask has the first n of width bits set.
func prefixMask(n, width int) u128 {
	return ones(n).shl(width - n)
}

// prefixLen is the n of the prefixMask that a is, or -1.
func (a u128) prefixLen(width int) int {
	n := bits.OnesCount64(a.hi) + bits.OnesCount64(a.lo)
	if a != prefixMask(n, width) {
		return -1
	}
	return n
}

// fromBytes reads at most 16 bytes, most significant first.
func fromBytes(b []byte) u128 {
	var a [16]byte
	copy(a[16-len(b):], b)
	return u128{binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])}
}

func (a u128) bytes() (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], a.hi)
	binary.BigEndian.PutUint64(b[8:], a.lo)
	return b
}

func fromAddr(a netip.Addr) u128 { return fromBytes(a.AsSlice()) }

// addr is the address of 32 or 128 bits that a is.
func (a u128) addr(width int) netip.Addr {
	b := a.bytes()
	if width == 32 {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}
