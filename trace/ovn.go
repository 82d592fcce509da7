package trace

import (
	"fmt"
	"slices"
	"strings"
)

// Agrees tells whether a verdict is that of ovn-trace, which does not tell apart
// why a packet is dropped, but where.
func (v Verdict) Agrees(ovn Verdict) bool {
	return v.Outcome.coarse() == ovn.Outcome.coarse() && v.Routed == ovn.Routed && slices.Equal(v.Ports, ovn.Ports)
}

func (o Outcome) coarse() Outcome {
	if o == NoRoute || o == NoHost {
		return Dropped
	}
	return o
}

// ReadSummary makes a verdict of a summary (ovn-trace(8), Summary Output). To a sender
// whose packet was tracked the router's answer is a reply, which passes; that
// it would need another connection state in ovn-trace is overlooked.
func ReadSummary(account, router, sender string) (v Verdict) {
	var stack, outputs []string
	tracked, answered := false, false
	for line := range strings.Lines(account) {
		line = strings.TrimSpace(line)
		opens := strings.HasSuffix(line, "{")
		inRouter := datapath(stack) == router
		v.Routed = v.Routed || inRouter
		switch {
		case strings.HasPrefix(line, "reject {"):
			v.Outcome = Rejected
			return v
		case strings.HasPrefix(line, "ct_next(ct_state="):
			tracked = tracked || !answered
		case opens && (strings.HasPrefix(line, "arp {") || strings.HasPrefix(line, "nd_ns {")):
			v.Outcome = NoHost
			return v
		case inRouter && (opens && isAnswer(line) || isEchoReply(line)):
			answered = true
		case answered && tracked && strings.HasPrefix(line, "egress(") && strings.Contains(line, fmt.Sprintf("outport=%q", sender)):
			v.Outcome = Answered
			return v
		case strings.HasPrefix(line, "/* output to ") && strings.Contains(line, `type "" */`):
			outputs = append(outputs, quoted(line))
		}
		switch {
		case opens:
			stack = append(stack, line)
		case line == "};" && len(stack) > 0:
			stack = stack[:len(stack)-1]
		}
	}
	slices.Sort(outputs)
	switch {
	case len(outputs) == 0:
		v.Outcome = Dropped
	case answered:
		v.Outcome = Answered
	default:
		v.Outcome, v.Ports = Delivered, outputs
	}
	return v
}

func isAnswer(line string) bool {
	switch line {
	case "icmp4 {", "icmp6 {", "tcp_reset {", "sctp_abort {":
		return true
	}
	return false
}

// isEchoReply tells whether an action makes a ping its answer.
func isEchoReply(action string) bool {
	protocol, kind, ok := strings.Cut(action, ".type = ")
	return ok && (protocol == "icmp4" && kind == "0;" || protocol == "icmp6" && kind == "129;")
}

// datapath is the switch or router that the innermost section is of.
func datapath(stack []string) string {
	for _, section := range slices.Backward(stack) {
		if strings.HasPrefix(section, "ingress(dp=") || strings.HasPrefix(section, "egress(dp=") {
			return quoted(section)
		}
	}
	return ""
}

// quoted is the first text in quotes, "" where there is none.
func quoted(line string) string {
	_, rest, _ := strings.Cut(line, `"`)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}
