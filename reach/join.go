package reach

import (
	"slices"
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

// said is a list's word on packets to or from an address, and which of the answers
// that it can give to their replies.
type said struct {
	word word
	back int32 // in voice.backs
}

// joiner puts together what the lists of two ends say.
type joiner struct {
	rules   bool // to tell them apart; or else fates have none
	heard   map[model.Direction]map[hearing]*voice
	plain   map[plainly]*saying
	answers map[[2]*traffic.Step[bool]]traffic.Map[string]
}

// hearing is a question: what a list says of addresses.
type hearing struct {
	list *list // nil: all passes
	far  *netipx.IPSet
}

// saying is what a list says, and which replies it lets pass, for each family:
// all if it is stateful.
type saying struct {
	sheets [2]sheet[said]
	backs  [2][]traffic.Map[bool]
}

// plainly is what a list says of addresses that no rule names; nil lets all pass.
type plainly struct {
	list      *list
	direction model.Direction
}

// voice is what a list says of packets to or from the addresses of an end.
type voice struct {
	*axis[said]
	backs [2][]traffic.Map[bool]
	plain *saying // nil where a rule names some of the addresses
}

func newJoiner(rules bool) *joiner {
	return &joiner{rules, map[model.Direction]map[hearing]*voice{model.Ingress: {}, model.Egress: {}}, map[plainly]*saying{}, map[[2]*traffic.Step[bool]]traffic.Map[string]{}}
}

// forget lets go of what is of one sender alone: all of it takes much memory.
func (j *joiner) forget() {
	clear(j.answers)
	clear(j.heard[model.Ingress])
}

// grid is what becomes of all packets between two places.
func (j *joiner) grid(from, to *place) *grid[said, fate] {
	rows, columns, replies := j.voices(from, to)
	return &grid[said, fate]{rows.axis, columns.axis, replies.cases, replies.fate}
}

// voices are what the receiver's list says of the sender's addresses, the
// sender's of the receiver's, and what becomes of replies.
func (j *joiner) voices(from, to *place) (rows, columns *voice, r *replying) {
	rows, columns = j.voice(to.list, from.sends, model.Ingress), j.voice(from.list, to.receives, model.Egress)
	return rows, columns, j.replies(rows, columns)
}

// voice is what a list says of an end; without one all passes.
func (j *joiner) voice(l *list, s space, d model.Direction) *voice {
	h := hearing{l, s.all}
	if known := j.heard[d][h]; known != nil {
		return known
	}
	v := j.hear(h, d)
	v.axis.space = s
	j.heard[d][h] = v
	return v
}

// hear asks a list.
func (j *joiner) hear(h hearing, d model.Direction) *voice {
	if h.list == nil {
		return j.say(h, plainly{direction: model.Ingress}, func() *saying {
			all := sheet[said]{nil, []traffic.Map[said]{traffic.Constant(said{word: newWord(Default, true)})}, traffic.Constant(0)}
			yes := []traffic.Map[bool]{traffic.Constant(true)}
			return &saying{[2]sheet[said]{all, all}, [2][]traffic.Map[bool]{yes, yes}}
		})
	}
	rules, plain := h.list.sheets(h.far, d)
	translate := func() *saying { return j.translate(h, d, rules) }
	if plain {
		return j.say(h, plainly{h.list, d}, translate)
	}
	s := translate()
	return &voice{&axis[said]{sheets: s.sheets}, s.backs, nil}
}

// say is what is said of all addresses alike.
func (j *joiner) say(h hearing, p plainly, translate func() *saying) *voice {
	if j.plain[p] == nil {
		j.plain[p] = translate()
	}
	s := j.plain[p]
	x := &axis[said]{sheets: s.sheets}
	for f, pieces := range byFamily(h.far) {
		x.sheets[f].pieces = pieces
	}
	return &voice{x, s.backs, s}
}

// translate makes words of rules. Which replies a stateless list lets pass are
// packets of the other direction, to or from each piece of the addresses.
func (j *joiner) translate(h hearing, d model.Direction, rules [2]sheet[int]) *saying {
	out, other := &saying{}, [2]sheet[int]{}
	if h.list.spec.Stateless {
		other, _ = h.list.sheets(h.far, opposite(d))
	}
	for f := range rules {
		class := traffic.Constant(0)
		out.backs[f] = []traffic.Map[bool]{traffic.Constant(true)}
		if h.list.spec.Stateless {
			class, out.backs[f] = h.list.backs(other[f], opposite(d))
		}
		out.sheets[f] = translated(rules[f], func(strip traffic.Map[int]) traffic.Map[said] {
			return traffic.Join(strip, class, func(rule, back int) said {
				allow := h.list.action(rule, d) == model.Allow
				if !j.rules {
					rule = Default
				}
				return said{newWord(rule, allow), int32(back)}
			})
		})
	}
	return out
}

// backs are the packets that a list lets pass, by pieces, which have classes.
func (l *list) backs(s sheet[int], d model.Direction) (class traffic.Map[int], backs []traffic.Map[bool]) {
	allowed := mapped(s, func(rule int) bool { return l.action(rule, d) == model.Allow })
	class, examples := classify(allowed)
	for _, piece := range examples {
		backs = append(backs, allowed.column(piece))
	}
	return class, backs
}

// answers tells whether the list lets all replies of a family pass.
func (v *voice) answers(f traffic.Family) bool {
	all := traffic.Constant(true)
	return len(v.backs[f]) == 1 && slices.Equal(v.backs[f][0], all)
}

// replying tells what becomes of the replies to packets between two ends.
type replying struct {
	cases [2]traffic.Map[int]
	texts [2][][]string // of each case, by the rows' backs and the columns'
	width [2]int
}

// nowhere is of packets from or to what isn't there.
func nowhere() *replying {
	return &replying{cases: [2]traffic.Map[int]{traffic.Constant(0), traffic.Constant(0)}}
}

func (j *joiner) replies(rows, columns *voice) *replying {
	r := &replying{}
	for _, f := range traffic.Families() {
		r.width[f] = len(columns.backs[f])
		if rows.answers(f) && columns.answers(f) {
			r.cases[f], r.texts[f] = traffic.Constant(0), [][]string{{""}}
			continue
		}
		var all []traffic.Map[string]
		for _, leave := range rows.backs[f] {
			for _, enter := range columns.backs[f] {
				all = append(all, j.answered(f, leave, enter))
			}
		}
		numbers := map[string]int{}
		var key []byte
		traffic.Together(all, func(s traffic.Span, texts []string) {
			key = key[:0]
			for _, text := range texts {
				key = append(append(key, text...), 0)
			}
			n, ok := numbers[string(key)]
			if !ok {
				n = len(r.texts[f])
				numbers[string(key)] = n
				r.texts[f] = append(r.texts[f], slices.Clone(texts))
			}
			r.cases[f] = r.cases[f].Extend(s.Last, n)
		})
	}
	return r
}

// fate is what becomes of a packet of which both lists have said their word.
func (r *replying) fate(f traffic.Family, row, column said, number int) fate {
	out := fate{egress: column.word, ingress: row.word}
	if out.passes() {
		out.replies = r.texts[f][number][int(row.back)*r.width[f]+int(column.back)]
	}
	return out
}

// answered tells what becomes of replies that one list lets leave, or not, and
// the other enter.
func (j *joiner) answered(f traffic.Family, leave, enter traffic.Map[bool]) traffic.Map[string] {
	key := [2]*traffic.Step[bool]{&leave[0], &enter[0]}
	if known, ok := j.answers[key]; ok {
		return known
	}
	m := replies(f, traffic.Join(leave, enter, func(a, b bool) bool { return a && b }))
	j.answers[key] = m
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
