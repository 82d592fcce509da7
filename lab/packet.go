package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Packet is an IP packet in an Ethernet frame, for frames that a guest's own
// kernel would not send, and to look at those that arrive.
type Packet struct {
	EthDst, EthSrc net.HardwareAddr
	// Src and Dst are of one family, which decides the frame's type.
	Src, Dst netip.Addr
	// Proto is the protocol of Payload (IANA, Assigned Internet Protocol
	// Numbers), which with IPv6 may be that of an extension header.
	Proto uint8
	// TTL is the time to live or hop limit; 0 is 64.
	TTL uint8
	// FragmentID, FragmentOffset (in bytes, a multiple of 8) and MoreFragments
	// make the packet a fragment.
	FragmentID     uint32
	FragmentOffset int
	MoreFragments  bool
	// Payload is what follows the IP header, and the fragment header of IPv6.
	Payload []byte
}

// The protocols that Packet knows by name.
const (
	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58

	protoFragment = 44 // RFC 8200, 4.5
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherRARP = 0x8035

	etherLen = 14
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8
)

// The flags of a TCP segment (RFC 9293, 3.1).
const (
	FlagFIN = 1 << iota
	FlagSYN
	FlagRST
	FlagPSH
	FlagACK
)

// UDP makes a datagram.
func UDP(src, dst netip.AddrPort, data []byte) Packet {
	b := binary.BigEndian.AppendUint16(nil, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(udpLen+len(data)))
	return transport(src.Addr(), dst.Addr(), ProtoUDP, append(append(b, 0, 0), data...), 6)
}

// TCP makes a segment.
func TCP(src, dst netip.AddrPort, flags uint8, seq, ack uint32, data []byte) Packet {
	b := binary.BigEndian.AppendUint16(nil, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint32(b, seq)
	b = binary.BigEndian.AppendUint32(b, ack)
	b = append(b, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	return transport(src.Addr(), dst.Addr(), ProtoTCP, append(b, data...), 16)
}

// ICMP makes a message of ICMP or, between IPv6 addresses, of ICMPv6: an echo,
// a listener report, a neighbour advertisement. body is all that follows the
// checksum.
func ICMP(src, dst netip.Addr, kind, code uint8, body []byte) Packet {
	proto := uint8(ProtoICMP)
	if dst.Is6() {
		proto = ProtoICMPv6
	}
	return transport(src, dst, proto, append([]byte{kind, code, 0, 0}, body...), 2)
}

// transport fills in the checksum, which is at an offset into the payload.
func transport(src, dst netip.Addr, proto uint8, payload []byte, offset int) Packet {
	var pseudo []byte // RFC 9293, 3.1 and RFC 8200, 8.1: these sum up alike
	if proto != ProtoICMP {
		pseudo = append(append(src.AsSlice(), dst.AsSlice()...), 0, proto)
		pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(payload)))
	}
	sum := checksum(append(pseudo, payload...))
	if sum == 0 && proto == ProtoUDP {
		sum = 0xffff // 0 would be «none» (RFC 768)
	}
	binary.BigEndian.PutUint16(payload[offset:], sum)
	return Packet{Src: src, Dst: dst, Proto: proto, Payload: payload}
}

// checksum is the Internet's (RFC 1071).
func checksum(data []byte) uint16 {
	var sum uint32
	for i, b := range data {
		sum += uint32(b) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// Via returns p with the addresses of its frame.
func (p Packet) Via(src, dst net.HardwareAddr) Packet {
	p.EthSrc, p.EthDst = src, dst
	return p
}

// Fragments splits p into fragments with at most size bytes of payload, a
// multiple of 8. p.FragmentID should not be 0.
func (p Packet) Fragments(size int) []Packet {
	var fragments []Packet
	for offset := 0; offset < len(p.Payload); offset += size {
		f := p
		end := min(offset+size, len(p.Payload))
		f.Payload, f.FragmentOffset, f.MoreFragments = p.Payload[offset:end], offset, end < len(p.Payload)
		fragments = append(fragments, f)
	}
	return fragments
}

// IsFragment reports whether p is one fragment of several.
func (p Packet) IsFragment() bool { return p.MoreFragments || p.FragmentOffset > 0 }

// Ports are the source and destination port of a datagram, segment or first
// fragment, else 0.
func (p Packet) Ports() (src, dst uint16) {
	if p.Proto != ProtoTCP && p.Proto != ProtoUDP || p.FragmentOffset > 0 || len(p.Payload) < 4 {
		return 0, 0
	}
	return binary.BigEndian.Uint16(p.Payload), binary.BigEndian.Uint16(p.Payload[2:])
}

// ICMPType is the type of a message of ICMP or ICMPv6, else -1.
func (p Packet) ICMPType() int {
	if p.Proto != ProtoICMP && p.Proto != ProtoICMPv6 || p.FragmentOffset > 0 || len(p.Payload) == 0 {
		return -1
	}
	return int(p.Payload[0])
}

// Frame returns the packet as Guest.Send takes it.
func (p Packet) Frame() []byte {
	if p.TTL == 0 {
		p.TTL = 64
	}
	frame := append(append([]byte{}, p.EthDst...), p.EthSrc...)
	if p.Dst.Is4() {
		return p.appendIPv4(binary.BigEndian.AppendUint16(frame, etherIPv4))
	}
	return p.appendIPv6(binary.BigEndian.AppendUint16(frame, etherIPv6))
}

func (p Packet) appendIPv4(frame []byte) []byte {
	word := uint16(p.FragmentOffset / 8)
	if p.MoreFragments {
		word |= 1 << 13
	}
	header := []byte{4<<4 | ipv4Len/4, 0}
	header = binary.BigEndian.AppendUint16(header, uint16(ipv4Len+len(p.Payload)))
	header = binary.BigEndian.AppendUint16(header, uint16(p.FragmentID))
	header = binary.BigEndian.AppendUint16(header, word)
	header = append(header, p.TTL, p.Proto, 0, 0)
	header = append(append(header, p.Src.AsSlice()...), p.Dst.AsSlice()...)
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return append(append(frame, header...), p.Payload...)
}

func (p Packet) appendIPv6(frame []byte) []byte {
	payload, proto := p.Payload, p.Proto
	if p.IsFragment() {
		word := uint16(p.FragmentOffset)
		if p.MoreFragments {
			word |= 1
		}
		header := binary.BigEndian.AppendUint16([]byte{p.Proto, 0}, word)
		header = binary.BigEndian.AppendUint32(header, p.FragmentID)
		payload, proto = append(header, p.Payload...), protoFragment
	}
	frame = append(frame, 6<<4, 0, 0, 0)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(payload)))
	frame = append(frame, proto, p.TTL)
	frame = append(append(frame, p.Src.AsSlice()...), p.Dst.AsSlice()...)
	return append(frame, payload...)
}

var errNotIP = errors.New("no IP packet")

// ParsePacket reads a frame. A frame of another kind than IP is an error.
func ParsePacket(frame []byte) (Packet, error) {
	if len(frame) < etherLen {
		return Packet{}, fmt.Errorf("read a frame of %d bytes: %w", len(frame), errNotIP)
	}
	p := Packet{EthDst: frame[0:6:6], EthSrc: frame[6:12:12]}
	packet := frame[etherLen:]
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == etherIPv4 && len(packet) >= ipv4Len:
		return p, p.parseIPv4(packet)
	case kind == etherIPv6 && len(packet) >= ipv6Len:
		return p, p.parseIPv6(packet)
	default:
		return Packet{}, fmt.Errorf("read a frame of type %#04x with %d bytes: %w", kind, len(packet), errNotIP)
	}
}

func (p *Packet) parseIPv4(b []byte) error {
	header, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if header < ipv4Len || total < header || total > len(b) {
		return fmt.Errorf("read an IPv4 packet of %d bytes, header %d, total %d: %w", len(b), header, total, errNotIP)
	}
	word := binary.BigEndian.Uint16(b[6:])
	p.FragmentID, p.FragmentOffset, p.MoreFragments = uint32(binary.BigEndian.Uint16(b[4:])), int(word&0x1fff)*8, word&(1<<13) != 0
	p.TTL, p.Proto = b[8], b[9]
	p.Src, p.Dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	p.Payload = b[header:total]
	return nil
}

func (p *Packet) parseIPv6(b []byte) error {
	total := ipv6Len + int(binary.BigEndian.Uint16(b[4:]))
	if total > len(b) {
		return fmt.Errorf("read an IPv6 packet of %d bytes, total %d: %w", len(b), total, errNotIP)
	}
	p.Proto, p.TTL = b[6], b[7]
	p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	p.Payload = b[ipv6Len:total]
	if p.Proto == protoFragment && len(p.Payload) >= 8 {
		word := binary.BigEndian.Uint16(p.Payload[2:])
		p.Proto, p.FragmentID = p.Payload[0], binary.BigEndian.Uint32(p.Payload[4:])
		p.FragmentOffset, p.MoreFragments = int(word&^7), word&1 != 0
		p.Payload = p.Payload[8:]
	}
	return nil
}

// RARP is the frame by which a hypervisor announces a guest that has migrated
// to it (qemu sends it on the guest's behalf).
func RARP(mac net.HardwareAddr) []byte {
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac...)
	frame = binary.BigEndian.AppendUint16(frame, etherRARP)
	// RFC 903: Ethernet, IPv4, lengths, request reverse; addresses unknown.
	frame = append(frame, 0, 1, 8, 0, 6, 4, 0, 3)
	frame = append(append(frame, mac...), 0, 0, 0, 0)
	frame = append(append(frame, mac...), 0, 0, 0, 0)
	return append(frame, make([]byte, 60-len(frame))...)
}
