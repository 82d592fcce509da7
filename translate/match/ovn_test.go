package match

import (
	"context"
	"fmt"
	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

// tracer judges matches by OVN's own programs: each match is a QoS rule and a
// drop ACL of a switch of its own, with two ports, realised by ovn-northd and
// walked by ovn-trace(8).
type tracer struct {
	*testing.T
	box         *lab.Sandbox
	bin         *lab.Binaries
	sock, log   string
	matches     []string // by switch
	tried, held int      // packets, and those that their match held for
}

func newTracer(t *testing.T) *tracer {
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{})
	bin, err := lab.FindBinaries(box.Binaries().Root, box.Dir(), "ovn-trace", "ovs-appctl")
	require.NoError(t, err)
	return &tracer{T: t, box: box, bin: bin, sock: filepath.Join(box.Dir(), "trace.ctl"), log: filepath.Join(box.Dir(), "trace.log")}
}

func switchPort(sw int, side string) string { return fmt.Sprintf("s%d%s", sw, side) }

// load makes a switch for each match and starts an ovn-trace that has read
// them (it reads once, when it starts).
func (tr *tracer) load(matches []string) {
	tr.matches = matches
	for i, m := range matches {
		sw := fmt.Sprintf("s%d", i)
		args := []string{"ls-add", sw}
		for _, side := range []string{"a", "b"} {
			port := switchPort(i, side)
			args = append(args, "--", "lsp-add", sw, port, "--", "lsp-set-addresses", port, "unknown")
		}
		args = append(args, "--", "qos-add", sw, "from-lport", "100", m, "rate=1000", "--", "acl-add", sw, "to-lport", "1000", m, "drop")
		_, err := tr.box.NBCtl(tr.Context(), args...)
		require.NoError(tr, err)
	}
	_, err := tr.box.NBCtl(tr.Context(), "--wait=sb", "sync")
	require.NoError(tr, err)
	_, err = tr.bin.Run(tr.Context(), "ovn-trace", "--db="+tr.box.SB(), "--detach", "--no-chdir",
		"--pidfile="+filepath.Join(tr.box.Dir(), "trace.pid"), "--unixctl="+tr.sock, "--log-file="+tr.log)
	require.NoError(tr, err)
	tr.Cleanup(func() {
		// The test's own context has ended by now.
		_, err := tr.bin.Run(context.Background(), "ovs-appctl", "-t", tr.sock, "exit")
		require.NoError(tr, err)
		for _, file := range []string{tr.log, tr.sock} {
			require.NoError(tr, os.RemoveAll(file))
		}
	})
}

// holds tells whether the switch's match holds for the packet. That the QoS
// rule applies says so; the ACL must say the same, but for what ovn-northd
// lets pass ACLs in any case: neighbour discovery and MLD.
func (tr *tracer) holds(sw int, p Packet) bool {
	flow := microflow(p)
	out, err := tr.bin.Run(tr.Context(), "ovs-appctl", "-t", tr.sock, "trace", "--detailed", "--minimal", fmt.Sprintf("s%d", sw), flow)
	require.NoError(tr, err, flow)
	holds := strings.Contains(out, "ls_in_qos")
	if !ICMP6.holds(&p) || p.ICMPType < 130 || p.ICMPType > 143 {
		require.Equal(tr, holds, !strings.Contains(out, "output(\""), flow+"\n"+out)
	}
	return holds
}

// complaints are the parse errors that ovn-trace logged, by the match.
func (tr *tracer) complaints() string {
	log, err := os.ReadFile(tr.log)
	require.NoError(tr, err)
	var faults []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "pars") && strings.Contains(line, "fail") {
			faults = append(faults, line)
		}
	}
	return strings.Join(faults, "")
}

// microflow writes the packet for ovn-trace.
func microflow(p Packet) string {
	mac := func(f Field, b [6]byte) string {
		return Render(compare(f, eq, fromBytes(b[:])))
	}
	parts := []string{fmt.Sprintf("inport == %q", p.Inport), mac(EthSrc, p.EthSrc), mac(EthDst, p.EthDst),
		fmt.Sprintf("eth.type == 0x%x", p.EthType)}
	number := func(name string, n uint16) { parts = append(parts, fmt.Sprintf("%s == %d", name, n)) }
	family := map[uint16]string{0x800: "4", 0x86dd: "6"}[p.EthType]
	if family == "" {
		return strings.Join(parts, " && ")
	}
	parts = append(parts, "ip"+family+".src == "+p.Src.String(), "ip"+family+".dst == "+p.Dst.String())
	number("ip.proto", uint16(p.Proto))
	number("ip.ttl", uint16(p.TTL))
	if p.Frag {
		number("ip.frag", 3)
		return strings.Join(parts, " && ")
	}
	if name := map[uint8]string{6: "tcp", 17: "udp", 132: "sctp"}[p.Proto]; name != "" {
		number(name+".src", p.SrcPort)
		number(name+".dst", p.DstPort)
	} else if p.Proto == 1 || p.Proto == 58 {
		number("icmp"+family+".type", uint16(p.ICMPType))
		number("icmp"+family+".code", uint16(p.ICMPCode))
	}
	return strings.Join(parts, " && ")
}

const (
	defaultCases    = 60 // random matches to try on a real OVN
	packetsPerMatch = 12 // random packets to try on each match
)

func TestOVNAgrees(t *testing.T) {
	tr := newTracer(t)
	var texts []string
	for i := range testflag.Cases(defaultCases) {
		texts = append(texts, Render(exprs(3, switchPort(i, "a"), switchPort(i, "b"), "nosuch").Example(i)))
	}
	tr.load(texts)
	require.Empty(t, tr.complaints())
	tr.agrees(packetsPerMatch)
	require.Greater(t, tr.held, tr.tried/10, "too few matches hold to prove anything")
	require.Less(t, tr.held, tr.tried-tr.tried/10, "too few matches fail to prove anything")
}

func TestOVNPredicates(t *testing.T) {
	tr := newTracer(t)
	tr.load([]string{"ip", "ip4", "ip6", "arp", "tcp", "udp", "sctp", "icmp", "icmp4", "icmp6", "nd", "nd_ns", "nd_na", "nd_rs", "nd_ra",
		"eth.bcast", "eth.mcast", "ip4.mcast", "ip6.mcast", "ip.is_frag", "ip.first_frag", "ip.later_frag",
		"!eth.mcast", "!ip4.mcast", "ip && !ip.later_frag"})
	require.Empty(t, tr.complaints())
	tr.agrees(4 * packetsPerMatch)
}

// Parse accepts and refuses as OVN does, but for what it doesn't support.
func TestOVNParsesAlike(t *testing.T) {
	tr := newTracer(t)
	accepted, refused := acceptedTexts(), refusedTexts()
	all := slices.Concat(accepted, refused)
	// A marker in each text, so that complaints can be told apart.
	marked := make([]string, len(all))
	for i, s := range all {
		marked[i] = fmt.Sprintf("/*%d*/ %s", i, s)
	}
	tr.load(marked)
	complaints := tr.complaints()
	require.NotEmpty(t, complaints)
	// ovn-trace 26.03 logs the first complaint and keeps quiet about the rest.
	limited := labtest.Root() != "" && strings.Count(complaints, "\n") == 1
	for i, s := range all {
		_, err := Parse(s)
		if i < len(accepted) || !limited {
			assert.Equalf(t, i >= len(accepted), strings.Contains(complaints, fmt.Sprintf("/*%d*/", i)), "OVN on %q", s)
		}
		assert.Equalf(t, i >= len(accepted), err != nil, "Parse on %q: %v", s, err)
	}
	tr.agrees(packetsPerMatch / 2)
}

// agrees compares verdicts on n random packets for each of the matches that
// Parse takes.
func (tr *tracer) agrees(n int) {
	for i, s := range tr.matches {
		e, err := Parse(s)
		if err != nil {
			continue
		}
		for k := range n {
			p := packets(switchPort(i, "a"), switchPort(i, "b")).Example(i*n + k)
			want := tr.holds(i, p)
			require.Equalf(tr, want, Eval(e, p), "match %s\npacket %s", s, microflow(p))
			tr.tried++
			if want {
				tr.held++
			}
		}
	}
}

// Random damage to good texts: whatever Parse lets through, OVN lets through.
func TestOVNTakesWhatParseTakes(t *testing.T) {
	tr := newTracer(t)
	damaged := rapid.Custom(func(t *rapid.T) string {
		s := Render(exprs(2, "a").Draw(t, "expr"))
		for range rapid.IntRange(1, 2).Draw(t, "times") {
			i := rapid.IntRange(0, len(s)).Draw(t, "at")
			n := rapid.IntRange(0, min(3, len(s)-i)).Draw(t, "cut")
			s = s[:i] + pick("", "", "!", "(", ")", "0", "9", "/", " == ", "=", " && ", "||", "{", "}", ",", ":", "f", "\"", "tcp", " <= ").Draw(t, "put") + s[i+n:]
		}
		return s
	})
	var texts []string
	refused, cases := 0, testflag.Cases(defaultCases)
	for i := 0; len(texts) < cases && i < 100*cases; i++ {
		s := damaged.Example(i)
		if _, err := Parse(s); err != nil {
			refused++
		} else {
			texts = append(texts, s)
		}
	}
	require.NotZero(t, refused)
	tr.load(texts)
	require.Empty(t, tr.complaints())
	tr.agrees(3)
}
