package nb_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
)

const (
	ruleVPC = "ruled"
	// rulers edit rules at the same time; each has at most so many of a list.
	rulers, mostRules = 6, 30
	// quota is the limit of the VPC's attachments.
	quota = 5
)

// ruleLists are lists of two tiers, of one, and of nobody.
func ruleLists() []string { return []string{"day", "night", "spare"} }

func listID(name string) model.ID { return model.ID{Kind: model.KindACL, VPC: ruleVPC, Name: name} }

// ruleLoad is what edits single rules while the database fails. Each writer has
// numbers of its own, between those of the others.
type ruleLoad struct {
	*stage
	over  atomic.Bool
	all   sync.WaitGroup
	calls atomic.Int64
	again atomic.Int64

	mu    sync.Mutex
	rules map[string]map[int]model.Rule // acknowledged, by list
	marks map[string]bool               // of rules without a number of which the outcome is unknown
	held  map[string]bool               // attachments that were acknowledged
	most  int
	fault []error
}

func (s *stage) foundRules() *ruleLoad {
	s.t.Helper()
	text := document("VPCOffering", "few", "", fmt.Sprintf("capabilities: {distributedRouting: true}, limits: {attachments: %d}", quota)) +
		document("VPC", ruleVPC, "", "cidrs: [10.30.0.0/16], offering: few")
	for _, name := range append(ruleLists(), "tail") {
		text += document("ACL", name, ruleVPC, "rules: []")
	}
	for i, acl := range []string{"day", "day", "tail"} {
		text += document("Tier", fmt.Sprintf("t%d", i), ruleVPC, fmt.Sprintf("cidrs: [10.30.%d.0/24], acl: %s", i, acl))
	}
	require.NoError(s.t, s.apply(s.t.Context(), text))
	l := &ruleLoad{stage: s, rules: map[string]map[int]model.Rule{}, marks: map[string]bool{}, held: map[string]bool{}}
	for _, name := range ruleLists() {
		l.rules[name] = map[int]model.Rule{}
	}
	ctx := s.t.Context()
	for who := range rulers {
		l.run(func() error { return l.write(ctx, who) })
	}
	l.run(func() error { return l.shift(ctx) })
	for who := range 4 {
		l.run(func() error { return l.attach(ctx, who) })
	}
	return l
}

func (l *ruleLoad) run(do func() error) {
	l.all.Go(func() {
		if err := do(); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.fault = append(l.fault, err)
		}
	})
}

func (l *ruleLoad) settle(ctx context.Context, do func(context.Context, *client.Client) error) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tried, err := l.settled(ctx, do)
	l.calls.Add(1)
	l.again.Add(int64(tried - 1))
	return tried, err
}

func isStatus(err error, status int) bool {
	var refused *client.Error
	var missing *engine.NotFoundError
	return errors.As(err, &refused) && refused.Status == status || status == http.StatusNotFound && errors.As(err, &missing)
}

func newRule(number int, text string) model.Rule {
	r := model.Rule{Number: number, Action: model.Allow, Direction: model.Ingress, Protocol: "tcp", Description: text,
		Ports: []model.PortRange{{First: uint16(1 + rand.IntN(60000)), Last: 60001}}}
	if rand.IntN(4) == 0 {
		r.Tiers = []string{"t0", "t2"}
	}
	if rand.IntN(4) == 0 {
		r.Direction = model.Egress
	}
	return r
}

// write is one writer's: it puts, adds and deletes rules of its numbers.
func (l *ruleLoad) write(ctx context.Context, who int) error {
	mine := map[string][]int{}
	for n := 0; !l.over.Load(); n++ {
		list := ruleLists()[rand.IntN(len(ruleLists()))]
		var err error
		switch x := rand.IntN(10); {
		case len(mine[list]) > 0 && (x < 2 || len(mine[list]) > mostRules):
			i := rand.IntN(len(mine[list]))
			err = l.remove(ctx, list, mine[list][i])
			mine[list] = slices.Delete(mine[list], i, i+1)
		case len(mine[list]) > 0 && x < 4:
			r := newRule(mine[list][rand.IntN(len(mine[list]))], fmt.Sprintf("put %d-%d", who, n))
			err = l.put(ctx, list, r)
		case x == 5:
			err = l.append(ctx, "tail", fmt.Sprintf("appended %d-%d", who, n))
		case x == 6:
			err = l.wrong(ctx, list, who, n)
		default:
			r := newRule((1+rand.IntN(300))*rulers+who, fmt.Sprintf("added %d-%d", who, n))
			if slices.Contains(mine[list], r.Number) {
				continue
			}
			mine[list] = append(mine[list], r.Number)
			err = l.add(ctx, list, r)
		}
		if err != nil {
			return fmt.Errorf("writer %d, call %d, list %s: %w", who, n, list, err)
		}
	}
	return nil
}

func (l *ruleLoad) note(list string, number int, r *model.Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r == nil {
		delete(l.rules[list], number)
		return
	}
	l.rules[list][number] = *r
}

func (l *ruleLoad) add(ctx context.Context, list string, r model.Rule) error {
	tried, err := l.settle(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.AddRule(ctx, listID(list), r, engine.WaitNone)
		if isStatus(err, http.StatusConflict) { // taken: by the call before, or the database kept changing
			if is, missing := l.ruleOf(ctx, c, list, r.Number); missing == nil && is.Equal(r) {
				return nil
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("adding %d (%d calls): %w", r.Number, tried, err)
	}
	l.note(list, r.Number, &r)
	return nil
}

func (l *ruleLoad) ruleOf(ctx context.Context, c *client.Client, list string, number int) (model.Rule, error) {
	o, err := c.GetOne(ctx, listID(list))
	if err != nil {
		return model.Rule{}, err
	}
	for _, r := range o.Resource.Spec.(*model.ACLSpec).Rules {
		if r.Number == number {
			return r, nil
		}
	}
	return model.Rule{}, fmt.Errorf("no rule %d", number)
}

func (l *ruleLoad) put(ctx context.Context, list string, r model.Rule) error {
	_, err := l.settle(ctx, func(ctx context.Context, c *client.Client) error {
		got, err := c.PutRule(ctx, listID(list), r, engine.WaitNone)
		if err == nil && got.Created {
			return fmt.Errorf("rule %d was not there", r.Number)
		}
		return err
	})
	if err == nil {
		l.note(list, r.Number, &r)
	}
	return err
}

func (l *ruleLoad) remove(ctx context.Context, list string, number int) error {
	tried, err := l.settle(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.DeleteRule(ctx, listID(list), number, engine.WaitNone)
		return err
	})
	if err != nil && !(tried > 1 && isStatus(err, http.StatusNotFound)) {
		return fmt.Errorf("deleting %d (%d calls): %w", number, tried, err)
	}
	l.note(list, number, nil)
	return nil
}

// append adds a rule without a number, once.
func (l *ruleLoad) append(ctx context.Context, list, mark string) error {
	r := newRule(0, mark)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := l.clients[rand.IntN(2)].AddRule(ctx, listID(list), r, engine.WaitNone)
	l.calls.Add(1)
	switch {
	case err == nil:
		// Others may not have its number: it is taken out again.
		return l.removeAppended(ctx, list, got.Rule, r)
	case unsettled(err), isStatus(err, http.StatusConflict):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.marks[mark] = true
		return nil
	}
	return fmt.Errorf("appending: %w", err)
}

func (l *ruleLoad) removeAppended(ctx context.Context, list string, got, asked model.Rule) error {
	asked.Number = got.Number
	if !got.Equal(asked) {
		return fmt.Errorf("%v was added, not %v", got, asked)
	}
	return l.remove(ctx, list, got.Number)
}

// wrong asks for what is refused.
func (l *ruleLoad) wrong(ctx context.Context, list string, who, n int) error {
	r := newRule(2_000_000+n*rulers+who, "wrong")
	r.Tiers = []string{"nowhere"}
	_, err := l.settle(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.AddRule(ctx, listID(list), r, engine.WaitNone)
		return err
	})
	if err == nil {
		return errors.New("a rule that names a tier which is not there was added")
	}
	return nil
}

// shift gives tiers other lists, makes and deletes tiers, and puts labels to whole
// lists.
func (l *ruleLoad) shift(ctx context.Context) error {
	for n := 0; !l.over.Load(); n++ {
		list := ruleLists()[n%3]
		var err error
		switch n % 5 {
		case 0:
			_, err = l.settle(ctx, func(ctx context.Context, c *client.Client) error {
				_, err := c.ReplaceACL(ctx, ruleVPC, "t1", list, engine.WaitNone)
				return err
			})
		case 1, 2:
			err = l.stamp(ctx, list, n)
		case 3:
			err = l.applied(ctx, document("Tier", "extra", ruleVPC, "cidrs: [10.30.9.0/24], acl: "+list))
		case 4:
			_, err = l.settle(ctx, func(ctx context.Context, c *client.Client) error {
				_, err := c.DeleteOne(ctx, model.ID{Kind: model.KindTier, VPC: ruleVPC, Name: "extra"}, client.WriteOptions{})
				return err
			})
			if isStatus(err, http.StatusNotFound) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("shift %d: %w", n, err)
		}
		<-time.After(pause)
	}
	return nil
}

func (l *ruleLoad) applied(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := l.apply(ctx, text)
	for err != nil && ctx.Err() == nil {
		<-time.After(pause)
		err = l.apply(ctx, text)
	}
	return err
}

// stamp puts a list as it was read, with another label: a rule that has come
// meanwhile must not be lost.
func (l *ruleLoad) stamp(ctx context.Context, list string, n int) error {
	_, err := l.settle(ctx, func(ctx context.Context, c *client.Client) error {
		o, err := c.GetOne(ctx, listID(list))
		if err != nil {
			return err
		}
		r := *o.Resource
		r.Metadata.Labels = map[string]string{"stamp": fmt.Sprint(n)}
		_, err = c.Put(ctx, &r, client.WriteOptions{Version: engine.Version(o.Resource)})
		var changed *client.PreconditionError
		if errors.As(err, &changed) {
			return nil
		}
		return err
	})
	return err
}

// attach attaches by fixed names and without, up to the quota and past it.
func (l *ruleLoad) attach(ctx context.Context, who int) error {
	var mine []string
	for n := 0; !l.over.Load(); n++ {
		if len(mine) > 2 || len(mine) > 0 && rand.IntN(2) == 0 {
			name := mine[0]
			mine = mine[1:]
			l.hold(name, false)
			tried, err := l.settle(ctx, func(ctx context.Context, c *client.Client) error {
				_, err := c.DeleteOne(ctx, model.ID{Kind: model.KindAttachment, VPC: ruleVPC, Name: name}, client.WriteOptions{})
				return err
			})
			if err != nil && !(tried > 1 && isStatus(err, http.StatusNotFound)) {
				return fmt.Errorf("detach %s: %w", name, err)
			}
			continue
		}
		spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
		spec.Tier = fmt.Sprintf("t%d", rand.IntN(3))
		r := &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: ruleVPC}, Spec: spec}
		var got *client.Stored
		_, err := l.settle(ctx, func(ctx context.Context, c *client.Client) (err error) {
			got, err = c.Create(ctx, r, client.CreateOptions{IdempotencyKey: fmt.Sprintf("q%d-%d", who, n)})
			return err
		})
		var full *engine.InvalidError
		switch {
		case errors.As(err, &full):
		case err != nil:
			return fmt.Errorf("attach: %w", err)
		default:
			mine = append(mine, got.Resource.Metadata.Name)
			l.hold(got.Resource.Metadata.Name, true)
		}
	}
	return nil
}

func (l *ruleLoad) hold(name string, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !there {
		delete(l.held, name)
		return
	}
	l.held[name] = true
	l.most = max(l.most, len(l.held))
}

// end holds the servers against what was acknowledged.
func (l *ruleLoad) end() {
	l.t.Helper()
	l.over.Store(true)
	l.all.Wait()
	ctx := l.t.Context()
	require.NoError(l.t, errors.Join(l.fault...))
	require.LessOrEqual(l.t, l.most, quota)
	for i, c := range l.clients {
		for _, list := range append(ruleLists(), "tail") {
			o, err := c.GetOne(ctx, listID(list))
			require.NoError(l.t, err)
			want := slices.SortedFunc(maps.Values(l.rules[list]), func(a, b model.Rule) int { return cmp.Compare(a.Number, b.Number) })
			have := slices.DeleteFunc(slices.Clone(o.Resource.Spec.(*model.ACLSpec).Rules), func(r model.Rule) bool { return l.marks[r.Description] })
			require.True(l.t, slices.EqualFunc(want, have, model.Rule.Equal), "server %d: %s has %v, not %v", i, list, have, want)
		}
		objects, err := c.Get(ctx, engine.Filter{Kind: model.KindAttachment, VPC: ruleVPC})
		require.NoError(l.t, err)
		names := map[string]bool{}
		for _, o := range objects {
			names[o.Resource.Metadata.Name] = true
		}
		require.Equal(l.t, l.held, names)
		h, err := c.History(ctx, ruleVPC)
		require.NoError(l.t, err)
		for j := range h.Entries[1:] {
			require.Equal(l.t, h.Entries[j].Number-1, h.Entries[j+1].Number)
		}
	}
	_, err := l.command(ctx, "drift", "--exit-code")
	require.NoError(l.t, err)
	l.healthy()
	l.t.Logf("%d calls, %d made again; rules %d, %d, %d; %d of unknown outcome; at most %d attachments", l.calls.Load(), l.again.Load(),
		len(l.rules["day"]), len(l.rules["night"]), len(l.rules["spare"]), len(l.marks), l.most)
}

// Rules of which the change was acknowledged stay so, and no others come, whatever
// befalls the database and the servers.
func TestRulesWhileStoppedAndRestarted(t *testing.T) {
	t.Parallel() // it waits most of the time
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	s, ctx := newStage(t, box.NB()), t.Context()
	s.found()
	l := s.foundRules()
	tried := testflag.Cases(4)
	for n := range tried {
		<-time.After(2 * time.Second)
		switch n % 3 {
		case 0:
			require.NoError(t, box.Signal(ctx, "nb", syscall.SIGSTOP))
			<-time.After(3 * time.Second)
			require.NoError(t, box.Signal(ctx, "nb", syscall.SIGCONT))
		case 1:
			require.NoError(t, box.Signal(ctx, "nb", syscall.SIGKILL))
			<-time.After(time.Second)
			require.NoError(t, box.Start(ctx))
		case 2:
			server := s.servers[rand.IntN(len(s.servers))]
			require.NoError(t, server.Kill())
			require.NoError(t, server.Start(ctx))
		}
		t.Logf("fault %d: it serves again after %s", n, s.serves(ctx))
	}
	l.end()
	faults.Audit(t, tried, database(box.Dir(), "nb"))
}

// In a cluster whose leader is killed they do too.
func TestRulesInACluster(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := labtest.NewTestCluster(t, lab.SandboxOptions{NoNorthd: true})
	s, ctx := newStage(t, c.NB()), t.Context()
	s.found()
	l := s.foundRules()
	tried := testflag.Cases(2)
	for n := range tried {
		<-time.After(2 * time.Second)
		require.NoError(t, c.Signal(ctx, leader(ctx, t, c), syscall.SIGKILL))
		<-time.After(time.Second)
		t.Logf("fault %d: it serves again after %s", n, s.serves(ctx))
		require.NoError(t, c.Start(ctx))
	}
	l.end()
	faults.Audit(t, tried, files(c)...)
}
