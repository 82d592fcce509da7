package lab_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

func TestPacketReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom([]int{4, 16}).Draw(t, "family")
		address := func(name string) netip.Addr {
			a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), length, length).Draw(t, name))
			return a
		}
		hardware := func(name string) net.HardwareAddr { return rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, name) }
		p := lab.Packet{
			EthDst: hardware("ethDst"), EthSrc: hardware("ethSrc"), Src: address("src"), Dst: address("dst"),
			Proto:          rapid.SampledFrom([]uint8{lab.ProtoICMP, lab.ProtoTCP, lab.ProtoUDP, lab.ProtoICMPv6, 132}).Draw(t, "proto"),
			TTL:            rapid.Uint8Min(1).Draw(t, "ttl"),
			FragmentOffset: 8 * rapid.IntRange(0, 8191).Draw(t, "offset"), MoreFragments: rapid.Bool().Draw(t, "more"),
			Payload: rapid.SliceOfN(rapid.Byte(), 0, 1400).Draw(t, "payload"),
		}
		if length == 4 || p.IsFragment() {
			p.FragmentID = uint32(rapid.Uint16().Draw(t, "id"))
		}
		back, err := lab.ParsePacket(p.Frame())
		require.NoError(t, err)
		require.Equal(t, p, back)
		padded, err := lab.ParsePacket(append(p.Frame(), 0, 0, 0))
		require.NoError(t, err)
		require.Equal(t, p, padded, "what Ethernet pads is no payload")
	})
}

func TestParsePacketRefuses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame := rapid.SliceOfN(rapid.Byte(), 0, 80).Draw(t, "frame")
		if len(frame) > 14 {
			kind := rapid.SampledFrom([][]byte{{0x08, 0}, {0x86, 0xdd}, {0x08, 6}}).Draw(t, "kind")
			copy(frame[12:], kind)
		}
		if p, err := lab.ParsePacket(frame); err == nil {
			require.LessOrEqual(t, len(p.Payload)+len(p.EthDst)+len(p.EthSrc), len(frame))
		}
	})
	for _, frame := range [][]byte{nil, make([]byte, 13), lab.RARP(make(net.HardwareAddr, 6)), append(make([]byte, 12), 8, 0, 0x45)} {
		_, err := lab.ParsePacket(frame)
		require.Error(t, err)
	}
}
