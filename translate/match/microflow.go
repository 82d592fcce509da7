package match

import (
	"fmt"
	"net"
	"strings"
)

// Microflow writes a packet for ovn-trace(8).
func Microflow(k Packet) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	add("inport == %q", k.Inport)
	add("eth.src == %s && eth.dst == %s", net.HardwareAddr(k.EthSrc[:]), net.HardwareAddr(k.EthDst[:]))
	v := "4"
	if k.EthType == 0x86dd {
		v = "6"
	}
	add("ip%s.src == %s && ip%s.dst == %s && ip.ttl == %d", v, k.Src, v, k.Dst, k.TTL)
	add("ip.proto == %d", k.Proto)
	if k.Frag {
		add("ip.frag == 3")
		return strings.Join(parts, " && ")
	}
	switch k.Proto {
	case 6, 17, 132:
		name := map[uint8]string{6: "tcp", 17: "udp", 132: "sctp"}[k.Proto]
		add("%s.src == %d && %s.dst == %d", name, k.SrcPort, name, k.DstPort)
	case 1, 58:
		if (k.Proto == 1) == (v == "4") {
			add("icmp%s.type == %d && icmp%s.code == %d", v, k.ICMPType, v, k.ICMPCode)
		}
	}
	return strings.Join(parts, " && ")
}
