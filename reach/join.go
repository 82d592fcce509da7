package reach

import (
	"encoding/binary"
	"strings"

	"go4.org/netipx"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// word is what a list says: by which rule, and whether the packet may go on.
type word int32

func newWord(rule int, allow bool) word {
	if allow {
		return word(rule<<1 | 1)
	}
	return word(rule << 1)
}

func (w word) rule() int   { return int(w >> 1) }
func (w word) allow() bool { return w&1 == 1 }

// fate is what becomes of a packet.
type fate struct {
	egress, ingress word
	replies         string
}

func (f fate) passes() bool { return f.egress.allow() && f.ingress.allow() }

// joiner puts together what the lists of two ends say. Pairs of the same two
// judgements are put together once.
type joiner struct {
	rules  bool // to tell them apart; or else fates have none
	spoken map[speech]traffic.Map[word]
	words  map[string]traffic.Map[word] // one of each content
	cells  map[[4]*traffic.Step[word]]traffic.Map[fate]
}

// speech is a list's map of a direction, by its first step.
type speech struct {
	list      *list
	direction model.Direction
	rules     *traffic.Step[int]
}

func newJoiner(rules bool) *joiner {
	return &joiner{rules, map[speech]traffic.Map[word]{}, map[string]traffic.Map[word]{}, map[[4]*traffic.Step[word]]traffic.Map[fate]{}}
}

// forget lets go of what was put together: with another sender little of it
// comes up again, and all of it takes much memory.
func (j *joiner) forget() { clear(j.cells) }

// grids are what becomes of all packets between two places, by families.
func (j *joiner) grids(from, to *place) (grids [2]grid[fate]) {
	rows, columns := judged(to.list, from.sends.all, model.Ingress), judged(from.list, to.receives.all, model.Egress)
	for f := range grids {
		grids[f].from, grids[f].to = far(rows, traffic.Family(f)), far(columns, traffic.Family(f))
	}
	for _, in := range rows {
		for _, out := range columns {
			if in.Family == out.Family {
				g := &grids[in.Family]
				g.cells = append(g.cells, j.cell(from.list, to.list, out, in))
			}
		}
	}
	return grids
}

// judged is a list's judgements, without a list one for each family.
func judged(l *list, far *netipx.IPSet, d model.Direction) []Judgement {
	if l != nil {
		return l.judge(far, d)
	}
	var byFamily [2][]netipx.IPRange
	for _, r := range far.Ranges() {
		f := familyOf(r.From())
		byFamily[f] = append(byFamily[f], r)
	}
	var out []Judgement
	for f, ranges := range byFamily {
		if len(ranges) > 0 {
			out = append(out, Judgement{Family: traffic.Family(f), Far: rangeSet(ranges)})
		}
	}
	return out
}

func far(js []Judgement, f traffic.Family) (out []*netipx.IPSet) {
	for _, j := range js {
		if j.Family == f {
			out = append(out, j.Far)
		}
	}
	return out
}

// cell is what becomes of packets that the sender's list and the receiver's
// judge so.
func (j *joiner) cell(from, to *list, out, in Judgement) traffic.Map[fate] {
	egress, ingress := j.say(from, model.Egress, out.Family, out.Rules), j.say(to, model.Ingress, out.Family, in.Rules)
	// The receiver's list lets replies out, the sender's lets them in.
	leave, enter := j.say(to, model.Egress, out.Family, in.Back), j.say(from, model.Ingress, out.Family, out.Back)
	key := [4]*traffic.Step[word]{&egress[0], &ingress[0], &leave[0], &enter[0]}
	if known, ok := j.cells[key]; ok {
		return known
	}
	m := traffic.Join(egress, ingress, func(e, i word) fate { return fate{egress: e, ingress: i} })
	if in.Back != nil || out.Back != nil {
		back := traffic.Join(leave, enter, func(a, b word) bool { return a.allow() && b.allow() })
		m = traffic.Join(m, replies(out.Family, back), func(f fate, replies string) fate {
			if f.passes() {
				f.replies = replies
			}
			return f
		})
	}
	j.cells[key] = m
	return m
}

// say is a list's words on a family's packets. An end without a list lets all
// pass, and so does a stateful list with replies.
func (j *joiner) say(l *list, d model.Direction, f traffic.Family, rules traffic.Map[int]) traffic.Map[word] {
	if l == nil || rules == nil {
		return intern(j.words, f, traffic.Constant(newWord(Default, true)))
	}
	s := speech{l, d, &rules[0]}
	if known, ok := j.spoken[s]; ok {
		return known
	}
	m := traffic.Join(rules, traffic.Constant(true), func(rule int, _ bool) word {
		allow := l.action(rule, d) == model.Allow
		if !j.rules {
			rule = Default
		}
		return newWord(rule, allow)
	})
	m = intern(j.words, f, m)
	j.spoken[s] = m
	return m
}

// intern is the one map of a family and a content.
func intern[V int | word](known map[string]traffic.Map[V], f traffic.Family, m traffic.Map[V]) traffic.Map[V] {
	key := binary.AppendVarint(nil, int64(f))
	for _, step := range m {
		key = binary.AppendVarint(binary.AppendUvarint(key, uint64(step.Last)), int64(step.Value))
	}
	if one, ok := known[string(key)]; ok {
		return one
	}
	known[string(key)] = m
	return m
}

// Dropped is what Part.Replies says where no reply comes back.
const Dropped = "dropped"

// replies says for each first packet what becomes of its answers, given what
// passes on the way back. ICMP has answers to some types alone, and errors are
// left out.
func replies(f traffic.Family, back traffic.Map[bool]) traffic.Map[string] {
	passes := traffic.OnLine(f, back.Spans(func(passes bool) bool { return passes }))
	var layers []traffic.Layer[string]
	add := func(asked traffic.Set, text string) {
		layers = append(layers, traffic.Layer[string]{Spans: asked.Spans(f), Value: text})
	}
	icmp, questions := icmpQuestions(f)
	for question, answer := range questions {
		if !passes.Contains(traffic.Packet{Family: f, Protocol: icmp, Type: answer}) {
			add(traffic.ICMPTypes(f, question, question), Dropped)
		}
	}
	for p := range 256 {
		protocol := uint8(p)
		whole := traffic.Protocol(protocol).Only(f)
		switch {
		case protocol == icmp:
		case traffic.HasPorts(protocol):
			// Nothing has port 0 (RFC 6335).
			ports := traffic.Ports(protocol, 1, 65535).Only(f)
			open := passes.Intersect(ports)
			switch {
			case open.Empty():
				add(whole, Dropped)
			case !open.Equal(ports):
				_, numbers, _ := strings.Cut(open.Text(traffic.All().Only(f)), " ")
				add(whole, "to ports "+numbers)
			}
		case passes.Intersect(whole).Empty():
			add(whole, Dropped)
		}
	}
	return traffic.Paint(layers, "")
}

// icmpQuestions are the types of a family's ICMP that have an answer, and its
// type (RFC 792, RFC 950, RFC 4443, RFC 4620).
func icmpQuestions(f traffic.Family) (icmp uint8, answers map[uint8]uint8) {
	if f == traffic.IPv4 {
		return traffic.ICMP, map[uint8]uint8{8: 0, 13: 14, 15: 16, 17: 18}
	}
	return traffic.ICMPv6, map[uint8]uint8{128: 129, 139: 140}
}

// Answered is traffic that has replies: all but what of ICMP is no question.
func Answered() traffic.Set {
	set := traffic.All()
	for _, f := range traffic.Families() {
		icmp, questions := icmpQuestions(f)
		set = set.Minus(traffic.Protocol(icmp).Only(f))
		for question := range questions {
			set = set.Union(traffic.ICMPTypes(f, question, question))
		}
	}
	return set
}
