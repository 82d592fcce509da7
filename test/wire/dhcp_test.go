package wire_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// The types of messages of DHCP (RFC 2132, 9.6) and DHCPv6 (RFC 8415, 7.3).
const (
	dhcpDiscover = 1
	dhcpOffer    = 2
	dhcpRequest  = 3
	dhcpAck      = 5

	dhcp6Solicit   = 1
	dhcp6Advertise = 2
	dhcp6Request   = 3
	dhcp6Reply     = 7
)

// udpHeader is the length of a UDP header.
const udpHeader = 8

// dhcpCookie begins the options of DHCP (RFC 2131, 3).
func dhcpCookie() []byte { return []byte{99, 130, 83, 99} }

// dhcp is a message of a client (RFC 2131, 2).
func dhcp(mac net.HardwareAddr, xid uint32, kind byte, client netip.Addr, options ...[]byte) []byte {
	b := make([]byte, 236)
	b[0], b[1], b[2] = 1, 1, 6
	binary.BigEndian.PutUint32(b[4:], xid)
	copy(b[12:], client.AsSlice())
	copy(b[28:], mac)
	b = append(append(b, dhcpCookie()...), 53, 1, kind)
	for _, option := range options {
		b = append(b, option...)
	}
	return append(b, 255)
}

// dhcpOption is one option of DHCP: code, length, value.
func dhcpOption(code byte, value []byte) []byte {
	return append([]byte{code, byte(len(value))}, value...)
}

// dhcpMessage reads an answer: the address given, and the options by code. ok
// is false for anything else than a DHCP answer to xid.
func dhcpMessage(p lab.Packet, xid uint32) (given netip.Addr, options map[byte][]byte, ok bool) {
	src, dst := p.Ports()
	if p.Proto != lab.ProtoUDP || src != 67 || dst != 68 || len(p.Payload) < udpHeader+240 {
		return netip.Addr{}, nil, false
	}
	b := p.Payload[udpHeader:]
	if binary.BigEndian.Uint32(b[4:]) != xid || !bytes.Equal(b[236:240], dhcpCookie()) {
		return netip.Addr{}, nil, false
	}
	options = map[byte][]byte{}
	for rest := b[240:]; len(rest) >= 2 && rest[0] != 255; {
		if rest[0] == 0 {
			rest = rest[1:]
			continue
		}
		end := min(2+int(rest[1]), len(rest))
		options[rest[0]], rest = rest[2:end], rest[end:]
	}
	return netip.AddrFrom4([4]byte(b[16:20])), options, true
}

// dhcp6 is a message of a client that asks for one address (RFC 8415, 8).
func dhcp6(mac net.HardwareAddr, xid uint32, kind byte, more ...[]byte) []byte {
	b := []byte{kind, byte(xid >> 16), byte(xid >> 8), byte(xid)}
	duid := append([]byte{0, 3, 0, 1}, mac...) // DUID-LL (RFC 8415, 11.4)
	b = append(b, dhcp6Option(1, duid)...)
	b = append(b, dhcp6Option(3, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})...) // IA_NA
	for _, option := range more {
		b = append(b, option...)
	}
	return b
}

func dhcp6Option(code uint16, value []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, code)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(value))), value...)
}

// dhcp6Message reads an answer to xid: its type and its options by code.
func dhcp6Message(p lab.Packet, xid uint32) (kind byte, options map[uint16][]byte, ok bool) {
	src, dst := p.Ports()
	if p.Proto != lab.ProtoUDP || src != 547 || dst != 546 || len(p.Payload) < udpHeader+4 {
		return 0, nil, false
	}
	b := p.Payload[udpHeader:]
	if binary.BigEndian.Uint32(b)&0xffffff != xid&0xffffff {
		return 0, nil, false
	}
	options = map[uint16][]byte{}
	for rest := b[4:]; len(rest) >= 4; {
		end := min(4+int(binary.BigEndian.Uint16(rest[2:])), len(rest))
		options[binary.BigEndian.Uint16(rest)], rest = rest[4:end], rest[end:]
	}
	return b[0], options, true
}
