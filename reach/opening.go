package reach

import (
	"fmt"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/traffic"
)

// Opening is traffic between two ends that somebody agrees to.
type Opening struct {
	From, To End
	Traffic  traffic.Set
}

// ParseOpening reads FROM -> TO TRAFFIC, such as "app -> db tcp 3306" or
// "outside -> web tcp 80, 443; icmp echo".
func ParseOpening(text string) (Opening, error) {
	var o Opening
	from, rest, ok := strings.Cut(text, "->")
	to, what, named := strings.Cut(strings.TrimSpace(rest), " ")
	if !ok || !named {
		return o, fmt.Errorf("%q is not FROM -> TO TRAFFIC, such as app -> db tcp 3306", text)
	}
	var err error
	if o.From, err = tierEnd(strings.TrimSpace(from)); err != nil {
		return o, err
	}
	if o.To, err = tierEnd(to); err != nil {
		return o, err
	}
	o.Traffic, err = traffic.Parse(what)
	return o, err
}

// tierEnd reads a tier's name, tier/NAME, or outside.
func tierEnd(text string) (End, error) {
	e, err := ParseEnd(text)
	if err == nil && e.Kind == "" {
		e.Kind = Tier
	}
	if err == nil && e.Kind == Attachment {
		err = fmt.Errorf("%q is neither a tier nor outside", text)
	}
	return e, err
}

// String is what ParseOpening reads.
func (o Opening) String() string {
	return fmt.Sprintf("%s -> %s %s", o.From, o.To, o.Traffic)
}

// Unnamed is what opens of which no opening tells: each change with the traffic
// that is left of it. An opening holds for all addresses of its ends.
func (d *Difference) Unnamed(named []Opening) []Change {
	var out []Change
	for _, c := range d.Opens {
		set, possible, err := c.set, c.possible, error(nil)
		if set.Empty() { // it comes from a file
			set, err = traffic.Parse(c.Traffic)
			possible = traffic.All()
		}
		left := set
		for _, o := range named {
			if o.From == c.FromEnd && o.To == c.ToEnd {
				left = left.Minus(o.Traffic)
			}
		}
		if err == nil && left.Empty() {
			continue
		}
		if !left.Equal(set) {
			c.set, c.Traffic = left, left.Text(possible)
		}
		out = append(out, c)
	}
	return out
}

// What is a change without the rules: "app -> db tcp 3306".
func (c Change) What() string {
	return c.FromEnd.String() + " -> " + c.ToEnd.String() + " " + Part{Traffic: c.Traffic, From: c.From, To: c.To}.text()
}
