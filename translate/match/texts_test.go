package match

// acceptedTexts are accepted by OVN and by Parse.
func acceptedTexts() []string {
	return []string{
		`1`, `0`, `!1`, `(1)`, `!(0)`, `((tcp))`, `tcp && /* web */ tcp.dst == 80`,
		`ip4`, `ip4 && tcp`, `ip4 || ip6 || arp`, `(ip4 && tcp) || udp`, `!eth.mcast`, `!(eth.mcast)`, `!eth.bcast && ip4`,
		`ip4 && !ip.is_frag`, `!ip.first_frag && !ip.later_frag && ip`, `!ip4.mcast && ip4`, `!ip6.mcast && ip6`,
		`tcp.dst == 80`, `80 == tcp.dst`, `tcp.dst == {80}`, `tcp.dst == {80, 443}`, `tcp.dst=={80 443,}`, `{80, 443} == tcp.dst`,
		`tcp.dst != {80, 443}`, `!(tcp.dst == 80)`, `!(tcp.dst == 80 || udp.dst == 53)`, `!(!(tcp.dst == 80))`,
		`tcp.dst < 80`, `80 > tcp.dst`, `tcp.dst >= 80 && tcp.dst <= 90`, `80 <= tcp.dst <= 90`, `90 >= tcp.dst >= 80`, `80 < tcp.dst < 90`,
		`80 < tcp.dst <= 90`, `!(80 <= tcp.dst <= 90)`, `!(80 < tcp.dst <= 90)`, `90 <= tcp.dst <= 80`, `80 > tcp.dst > 90`,
		`tcp.dst == 0x50`, `tcp.dst == 0X0050`, `tcp.dst == 65535`, `tcp.dst == 0x1000/0xf000`, `tcp.dst == 0/0xff`, `tcp.dst == 80/127`,
		`tcp.dst == 81/80`, `tcp.dst == 0/0`, `tcp.dst != 0/0`, `tcp.dst == {0/0xff00, 443}`,
		`ip.proto == 6`, `ip.proto == {6, 17}`, `!(ip.proto != 6)`, `!(ip.proto != {6, 17})`, `6 == ip.proto`, `ip.ttl == 255`, `ip.proto == 255`,
		`icmp4.type == 8 && icmp4.code == 0`, `icmp6.type == {135, 136}`, `icmp || icmp4 || icmp6`, `nd || nd_ns || nd_na || nd_rs || nd_ra`,
		`eth.type == 0x800`, `eth.type == {0x806, 2048}`,
		`ip4.src == 10.0.0.0/8`, `ip4.src == 10.1.2.3`, `ip4.src == 10.1.2.3/8`, `ip4.src == 10.0.0.1/255.0.0.255`, `ip4.dst == 0.0.0.0/0`,
		`ip4.dst == {0.0.0.0/0, 10.0.0.0/8}`, `ip4.src == 167772161`, `ip4.src == 0x0a000001`, `ip4.src != 10.0.0.0/8`, `ip4.src > 10.0.0.0`,
		`10.0.0.0 <= ip4.src <= 10.0.0.9`, `10.0.0.0/8 == ip4.src`,
		`ip6.src == ::`, `ip6.src == ::/0`, `ip6.src == fe80::/10`, `ip6.dst == FD00::1`, `ip6.src == fe80::1/ffff::ffff`, `ip6.src == 10.0.0.0/8`,
		`ip6.src == ::ffff:10.1.2.0/120`, `ip6.src == {fe80::/10, fd00::/8} && ip6.dst != fe80::/10`, `ip6.src == 0xfe800000000000000000000000000001`,
		`ip6.src == 0/0xffffffffffffffffffffffffffffffff`, `ip6.src <= fe80::1`,
		`eth.src == 0a:58:0a:01:02:03`, `eth.dst == 0e:58:00:00:00:00/ff:fe:00:00:00:00`, `eth.dst != 0E:58:00:00:00:00/ff:fe:00:00:00:00`,
		`eth.dst == {01:00:5e:00:00:01, ff:ff:ff:ff:ff:ff}`, `eth.src == 0x0a580a010203`, `eth.src < 0a:58:0a:01:02:03`,
		`inport == "a"`, `"a" == inport`, `inport == {"a", "b"}`, `!(inport != "a")`, `inport == "a\u0062\"\\\/"`, `inport == ""`, `inport == "é"`,
	}
}

// refusedTexts are refused by OVN and by Parse.
func refusedTexts() []string {
	return []string{
		``, ` `, `// tcp`, `tcp &&`, `&& tcp`, `tcp & udp`, `tcp | udp`, `tcp udp`, `(tcp`, `tcp)`, `()`, `!`, `/* tcp`, `tcp /`,
		`tcp && ip4 || udp`, `tcp || ip4 && udp`, `(tcp && ip4 || udp)`, `2`, `!!eth.mcast`, `!eth.dst == 0a:58:0a:01:02:03`, `!tcp.dst == 80`,
		`!tcp`, `!ip4`, `!ip`, `!(tcp && tcp.dst == 80)`, `!nd`, `!icmp`, `!arp`, `!(!(!tcp))`,
		`tcp.dst`, `tcp.dst = 80`, `tcp.dst ==`, `== 80`, `tcp.dst == tcp.src`, `80 == 80`, `80`, `tcp.dst == {}`, `tcp.dst == {80`, `tcp.dst == {,80}`,
		`tcp.dst == {80,,443}`, `tcp.dst == 65536`, `tcp.dst == {80, 65536}`, `ip.proto == 256`, `icmp4.type == 256`, `icmp4.type == -1`, `tcp.dst == 080`,
		`tcp.dst == 0x`, `tcp.dst == 0xg`, `tcp.dst == 18446744073709551616`, `tcp.dst == 80/0x7f`, `tcp.dst == 10.0.0.1`, `tcp.dst == 0x1ffff/0x1ffff`,
		`tcp.dst < {80, 443}`, `tcp.dst < {80}`, `{80} < tcp.dst`, `tcp.dst < 80/127`, `80 <= tcp.dst >= 90`, `80 == tcp.dst == 80`, `80 < tcp.dst != 90`, `80 <= tcp.dst <= 90 <= 100`,
		`0 <= icmp4.type <= 8`, `icmp4.type != 8`, `!(icmp4.type == 8)`, `icmp6.code < 3`, `ip.proto != 6`, `ip.proto < 6`, `1 <= ip.proto <= 6`, `ip.ttl > 1`, `eth.type != 0x800`,
		`ip4.src == 10.0.0.0/33`, `ip4.src == 10.0.0`, `ip4.src == 10.0.0.256`, `ip4.src == fe80::1`, `ip6.src == fe80::/129`, `ip6.src == fe80:::1`, `ip6.src == fe80::1%eth0`,
		`ip4.src == 10.0.0.0/0xff`, `ip4.src == {10.0.0.1, "a"}`, `ip4.src == 4294967296`, `ip6.src == 0x100000000000000000000000000000000`,
		`eth.src == 0a:58:0a:01:02`, `eth.src == 0a-58-0a-01-02-03`, `eth.src == 0a:58:0a:01:02:03/16`, `ip4.src == 0a:58:0a:01:02:03`,
		`inport != "a"`, `!(inport == "a")`, `inport < "a"`, `inport == a`, `inport == 1`, `inport == "a`, `inport == "\q"`, `tcp.dst == "80"`, `inport`,
		`inport == {"a", 1}`, `inport == "\u0000"`, `tcp.dst == 80;`, `tcp.dst == 80 #`, `tcp..dst == 80`, `nosuch`, `nosuch == 1`, `nosuch(1)`, `ip4.src == $nosuch`, `inport == @nosuch`,
	}
}
