package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Kind is what is promised of every committed state.
type Kind string

// The kinds of violations.
const (
	Address     Kind = "address"     // an address is held twice in a VPC
	Overlap     Kind = "overlap"     // two tiers of a VPC overlap
	Place       Kind = "place"       // a port is not on its tier's switch alone
	List        Kind = "list"        // a tier's switch has not the rows of its list and its own
	Unexplained Kind = "unexplained" // the owned rows are not what the stored specs translate to
	Foreign     Kind = "foreign"     // one who changed owned rows has changed somebody else's too
)

// Violation is a promise that a committed state breaks.
type Violation struct {
	Transaction Transaction // the one that broke it
	Kind        Kind
	Table       string // of the row that tells, if it is one
	Row         nbdb.UUID
	Key         string // what that row realises
	Problem     string
}

func (v Violation) String() string {
	row := ""
	if v.Row != "" {
		row = strings.TrimSpace(fmt.Sprintf("%s %s %s", v.Table, v.Row, v.Key)) + ": "
	}
	return fmt.Sprintf("%s: %s: %s%s", v.Transaction, v.Kind, row, v.Problem)
}

// Report is what an audit has found.
type Report struct {
	States int // committed states that were checked
	// Violations are those that a transaction brought, each once, however long it
	// lasted.
	Violations []Violation
	// Damage are those that came by transactions that Options names.
	Damage []Violation
	// Standing are all that the last state has.
	Standing []Violation
}

// Options of an audit.
type Options struct {
	// Damages tells which transactions are somebody's who breaks things on purpose;
	// nil: none is.
	Damages func(Transaction) bool
}

// ByHand tells whether ovn-nbctl has made a transaction: it says so, and ovn-vpc
// writes no comment.
func ByHand(tx Transaction) bool { return strings.HasPrefix(tx.Comment, "ovn-nbctl:") }

// Check audits the log of a northbound database file.
func Check(path string, o Options) (*Report, error) {
	c := NewChecker(o)
	if err := ReadLog(path, c.Apply); err != nil {
		return nil, fmt.Errorf("auditing %s: %w", path, err)
	}
	return c.Report(), nil
}

// fault is a violation that lasts until the state changes.
type fault struct {
	kind    Kind
	problem string
}

// Checker checks the states of one database one after another. What a
// transaction did not touch, and what does not depend on that, is not looked at
// again.
type Checker struct {
	options  Options
	state    state
	index    index
	desire   desire
	faults   map[string]map[fault]Violation // by what they are faults of
	residual map[nbdb.UUID]*wanted          // what rows may be too, see deletes
	report   Report
}

// NewChecker begins with an empty database.
func NewChecker(o Options) *Checker {
	return &Checker{options: o,
		state:    state{rows: map[nbdb.UUID]nbdb.Row{}, others: set[nbdb.UUID]{}},
		index:    index{holders: multimap[held, nbdb.UUID]{}, routed: multimap[scope, nbdb.UUID]{}, switches: multimap[nbdb.UUID, nbdb.UUID]{}},
		desire:   newDesire(),
		faults:   map[string]map[fault]Violation{},
		residual: map[nbdb.UUID]*wanted{},
	}
}

// Report is what was found so far.
func (c *Checker) Report() *Report {
	r := c.report
	for _, faults := range c.faults {
		r.Standing = slices.AppendSeq(r.Standing, maps.Values(faults))
	}
	slices.SortFunc(r.Standing, func(a, b Violation) int { return cmp.Compare(a.String(), b.String()) })
	return &r
}

// Apply carries out a transaction and checks the state that it leaves.
func (c *Checker) Apply(tx Transaction) error {
	changes, err := c.state.apply(tx)
	if err != nil {
		return fmt.Errorf("%s: %w", tx, err)
	}
	tx.rows = nil // a violation keeps the rest
	c.report.States++
	c.index.touched = newTouched()
	dirty := set[nbdb.UUID]{}
	var changed []resourceID
	for _, x := range changes {
		dirty[x.uuid] = struct{}{}
		c.index.update(x)
		changed = append(changed, c.desire.update(x)...)
	}
	ahead := deletes(changes)
	resources := c.desire.dependents(changed)
	concerned := c.desire.translate(resources, ahead)
	c.excuse(dirty, changed, concerned, ahead)
	for id := range concerned {
		dirty[id] = struct{}{}
	}
	for _, id := range sortedKeys(dirty) {
		c.explained(tx, id)
	}
	for _, id := range resources {
		c.translated(tx, id)
	}
	c.unique(tx)
	c.apart(tx)
	c.placed(tx)
	c.foreign(tx, changes)
	return nil
}

// settle says what is wrong with a subject in this state. What was not wrong
// with it before, this transaction has brought.
func (c *Checker) settle(tx Transaction, subject string, at Violation, found []fault) {
	now := map[fault]Violation{}
	for _, f := range found {
		v, lasting := c.faults[subject][f]
		if !lasting {
			v = at
			v.Transaction, v.Kind, v.Problem = tx, f.kind, f.problem
			c.record(v)
		}
		now[f] = v
	}
	if c.faults[subject] = now; len(now) == 0 {
		delete(c.faults, subject)
	}
}

func (c *Checker) record(v Violation) {
	if c.options.Damages != nil && c.options.Damages(v.Transaction) {
		c.report.Damage = append(c.report.Damage, v)
	} else {
		c.report.Violations = append(c.report.Violations, v)
	}
}

// row is where a row's violations point.
func (c *Checker) row(id nbdb.UUID) Violation {
	v := Violation{Row: id}
	r := c.state.rows[id]
	if w := c.desire.rows[id]; r == nil && w != nil {
		r = w.row
	}
	if r != nil {
		v.Table, v.Key = r.Table(), r.IDs()[translate.KeyKey]
	}
	return v
}
