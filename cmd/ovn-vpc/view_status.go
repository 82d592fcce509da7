package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/agent"
)

func (a *app) statusTable(all []agent.Status) error {
	rows := [][]string{{"ATTACHMENT", "INTERFACE", "NETNS", "TYPE", "STATE", "SINCE", "ADDRESSES", "LEASE", "HOOKS", "ERROR"}}
	for _, s := range all {
		rows = append(rows, []string{s.Attachment, s.Interface, s.Netns, string(s.Type), s.State, moment(s.Since), list(s.Addresses), leased(s.Lease),
			hooks(s), printable(s.Error)})
	}
	return a.align("", rows)
}

// moment is a time, "" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func leased(l *agent.Lease) string {
	switch {
	case l == nil:
		return ""
	case l.Forever():
		return "forever"
	}
	return "until " + moment(l.ObtainedAt.Add(time.Duration(l.Seconds)*time.Second))
}

// hooks is what became of those that there are.
func hooks(s agent.Status) string {
	var parts []string
	for _, h := range []struct {
		name string
		*agent.Execution
	}{{"post-create", s.PostCreate}, {"post-delete", s.PostDelete}} {
		if h.Execution == nil {
			continue
		}
		text := h.name + " " + h.State
		if h.Exit != nil {
			text += fmt.Sprintf(" (%d)", *h.Exit)
		}
		if h.Seconds > 0 {
			text += fmt.Sprintf(" %gs", h.Seconds)
		}
		if said := lastLine(h.Error + "\n" + h.Output); said != "" && h.State != agent.HookDone {
			text += ": " + said
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// lastLine is the last line of a text that isn't empty, its end at the most.
func lastLine(text string) string {
	const most = 40
	text = strings.TrimSpace(text)
	line := []rune(printable(text[strings.LastIndexByte(text, '\n')+1:]))
	if len(line) > most {
		return "…" + string(line[len(line)-most:])
	}
	return string(line)
}

// printable is a text without what would break a table, or a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
