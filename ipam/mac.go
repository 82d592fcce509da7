package ipam

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// MAC is the address that an attachment gets when it asks for none: of an
// IPv4 address a.b.c.d `0a:58:` and its four bytes, which no other address
// has; else `0a:59:` and four bytes of a hash, of which try counts the
// attempts (a collision moves on to the next).
//
// The hash permutes the last 32 bits of the address, so that two addresses
// that differ in nothing else never collide on the same attempt.
func MAC(vpc string, first netip.Addr, try int) model.MAC {
	if first.Is4() {
		b := first.As4()
		return model.MAC(fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3]))
	}
	a := first.As16()
	sum := sha256.Sum256(append([]byte(vpc+"\x00"), a[:12]...))
	h := mix(low32(first)^binary.BigEndian.Uint32(sum[:4])) + uint32(try)
	return model.MAC(fmt.Sprintf("0a:59:%02x:%02x:%02x:%02x", byte(h>>24), byte(h>>16), byte(h>>8), byte(h)))
}

// mix is a bijection on 32 bits: xor-shifts and odd factors can be undone.
func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	x ^= x >> 16
	return x
}
