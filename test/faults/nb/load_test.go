package nb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/test/mirror"
)

const (
	// writers call at the same time; each has at most so many attachments, but for
	// every lasting-th, which stays.
	writers, most, lasting = 6, 8, 10
	// freshness is how old an acknowledged change may be that a server does not
	// show: a leader that is cut off finds out within a few seconds.
	freshness = 10 * time.Second
)

// acknowledged is an attachment that a server or a command has said to be there.
type acknowledged struct {
	address netip.Addr
	at      time.Time
}

// load is what is written and read while the database fails.
type load struct {
	*stage
	over  atomic.Bool // what runs ends, and nothing new begins
	all   sync.WaitGroup
	calls atomic.Int64
	again atomic.Int64 // calls that were made once more
	round atomic.Int64 // the last that a command has said to be applied

	mu      sync.Mutex
	live    map[string]acknowledged
	gone    map[string]time.Time // acknowledged deletions
	oldest  time.Duration        // how old the oldest change was that a server did not show
	faults  []error
	mirrors []*mirror.Mirror
	hangUp  context.CancelFunc
	watches sync.WaitGroup
}

// begin starts writers, readers and watches.
func (s *stage) begin() *load {
	l := &load{stage: s, live: map[string]acknowledged{}, gone: map[string]time.Time{}}
	ctx := s.t.Context()
	for i := range writers {
		l.run(func() error { return l.write(ctx, i) })
	}
	l.run(func() error { return l.commands(ctx) })
	watching, hangUp := context.WithCancel(ctx)
	l.hangUp = hangUp
	for i, c := range s.clients {
		l.run(func() error { return l.read(ctx, i) })
		m := &mirror.Mirror{}
		l.mirrors = append(l.mirrors, m)
		l.watches.Go(func() { l.fault(m.Follow(watching, c)) })
	}
	return l
}

func (l *load) run(do func() error) { l.all.Go(func() { l.fault(do()) }) }

func (l *load) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.faults = append(l.faults, err)
	}
}

// write attaches and detaches by the servers.
func (l *load) write(ctx context.Context, who int) error {
	var mine []string
	for n := 0; !l.over.Load(); n++ {
		name, err := l.attach(ctx, fmt.Sprintf("w%d-%d", who, n), n%2 == 0)
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		if n%lasting > 0 {
			mine = append(mine, name)
		}
		for len(mine) > most {
			if err := l.detach(ctx, mine[0]); err != nil {
				return fmt.Errorf("detach %s: %w", mine[0], err)
			}
			mine = mine[1:]
		}
		<-time.After(time.Duration(rand.IntN(int(pause)))) // the VPC is to stay small
	}
	return nil
}

// attach puts an attachment of the name, or creates one of a name that the server
// chooses.
func (l *load) attach(ctx context.Context, name string, named bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var got *client.Stored
	tried, err := l.settled(ctx, func(ctx context.Context, c *client.Client) (err error) {
		if named {
			got, err = c.Put(ctx, attachment(name), client.WriteOptions{})
		} else {
			got, err = c.Create(ctx, attachment(""), client.CreateOptions{IdempotencyKey: name})
		}
		return err
	})
	l.calls.Add(1)
	l.again.Add(int64(tried - 1))
	if err != nil {
		return name, err
	}
	if tried == 1 && (!got.Created || got.Replayed) {
		return name, fmt.Errorf("it was there before: created %t, replayed %t", got.Created, got.Replayed)
	}
	return got.Resource.Metadata.Name, l.acknowledge(got.Resource)
}

func (l *load) acknowledge(r *model.Resource) error {
	given := r.Spec.(*model.AttachmentSpec).Addresses
	if len(given) != 1 {
		return fmt.Errorf("the addresses are %v", given)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live[r.Metadata.Name] = acknowledged{given[0], time.Now()}
	return nil
}

func (l *load) detach(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.mu.Lock()
	delete(l.live, name) // from now on it may be there or not
	l.mu.Unlock()
	tried, err := l.settled(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.DeleteOne(ctx, attachmentID(name), client.WriteOptions{})
		return err
	})
	l.calls.Add(1)
	l.again.Add(int64(tried - 1))
	var missing *engine.NotFoundError
	if errors.As(err, &missing) && tried > 1 {
		err = nil // the call that had no answer has done it
	}
	if err == nil {
		l.mu.Lock()
		l.gone[name] = time.Now()
		l.mu.Unlock()
	}
	return err
}

// commands applies a VPC of its own, another way each time, until that is done.
func (l *load) commands(ctx context.Context) error {
	for n := int64(1); !l.over.Load(); n++ {
		text := document("VPC", "cli", "", "cidrs: [10.20.0.0/16]") + document("Tier", "t", "cli", fmt.Sprintf("cidrs: [10.20.0.0/24], dhcp: {leaseTime: %d}", 600+n)) +
			document("ACL", "l", "cli", fmt.Sprintf("rules: [{protocol: tcp, ports: [%d]}]", n)) + document("Attachment", fmt.Sprintf("c%d", n%20), "cli", "tier: t")
		bound, cancel := context.WithTimeout(ctx, patience)
		err := l.apply(bound, text)
		for err != nil && bound.Err() == nil {
			l.again.Add(1)
			<-time.After(pause)
			err = l.apply(bound, text)
		}
		cancel()
		if err != nil {
			return err
		}
		l.calls.Add(1)
		l.round.Store(n)
	}
	return nil
}

// read looks whether a server shows what was acknowledged, by whomever.
func (l *load) read(ctx context.Context, i int) error {
	for !l.over.Load() {
		name, since, there := l.pick()
		if name != "" {
			bound, cancel := context.WithTimeout(ctx, patience)
			_, err := l.clients[i].GetOne(bound, attachmentID(name))
			cancel()
			var missing *engine.NotFoundError
			shown := err == nil
			if (shown || errors.As(err, &missing)) && shown != there {
				if err := l.stale(name, there, since); err != nil {
					return fmt.Errorf("server %d: %w", i, err)
				}
			}
		}
		<-time.After(pause)
	}
	return nil
}

// pick is an acknowledged attachment, or one whose deletion was.
func (l *load) pick() (name string, since time.Time, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, a := range l.live { // by chance
		if since = a.at; rand.IntN(2) == 0 {
			return name, since, true
		}
	}
	for name, since := range l.gone {
		return name, since, false
	}
	return "", since, false
}

// stale notes that a server did not show what had been acknowledged before it
// was asked. What has changed meanwhile does not count.
func (l *load) stale(name string, there bool, since time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, still := l.live[name]; there && !still {
		return nil
	}
	age := time.Since(since)
	l.oldest = max(l.oldest, age)
	if age > freshness {
		return fmt.Errorf("%s was acknowledged %s ago (there: %t), and is not shown so", name, age, there)
	}
	return nil
}

// end lets what runs come to its end, and holds the servers and the database
// against what was acknowledged.
func (l *load) end(nbctl func(context.Context, ...string) (string, error)) {
	l.t.Helper()
	l.over.Store(true)
	l.all.Wait()
	ctx := l.t.Context()
	for i, c := range l.clients {
		objects, err := c.Get(ctx, engine.Filter{Kind: model.KindAttachment, VPC: vpc})
		require.NoError(l.t, err)
		l.compare(i, objects)
		tier, err := c.GetOne(ctx, model.ID{Kind: model.KindTier, VPC: "cli", Name: "t"})
		require.NoError(l.t, err)
		require.EqualValues(l.t, 600+l.round.Load(), tier.Resource.Spec.(*model.TierSpec).DHCP.LeaseTime)
	}
	l.mirrored(l.mirrors)
	l.hangUp()
	l.watches.Wait()
	require.NoError(l.t, errors.Join(l.faults...))
	names, err := nbctl(ctx, "--bare", "--columns=name", "find", "Logical_Switch_Port", `type=""`)
	require.NoError(l.t, err)
	rows := slices.DeleteFunc(strings.Fields(names), func(name string) bool { return !strings.HasPrefix(name, vpc+"/") })
	require.Len(l.t, rows, len(l.live))
	_, err = l.command(ctx, "drift", "--exit-code")
	require.NoError(l.t, err)
	l.healthy()
	l.t.Logf("%d calls, %d made again; %d attachments stay, %d were deleted, %d applies by commands; a read was behind by %s at most",
		l.calls.Load(), l.again.Load(), len(l.live), len(l.gone), l.round.Load(), l.oldest.Round(time.Millisecond))
}

// compare holds a server's attachments against what was acknowledged.
func (l *load) compare(server int, objects []engine.Object) {
	l.t.Helper()
	have, owners := map[string]netip.Addr{}, map[netip.Addr]string{}
	for _, o := range objects {
		spec, name := o.Resource.Spec.(*model.AttachmentSpec), o.Resource.Metadata.Name
		require.Len(l.t, spec.Addresses, 1, name)
		require.Empty(l.t, owners[spec.Addresses[0]], "server %d: %s is also that of %s", server, spec.Addresses[0], name)
		have[name], owners[spec.Addresses[0]] = spec.Addresses[0], name
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	want := map[string]netip.Addr{}
	for name, a := range l.live {
		want[name] = a.address
		require.Equal(l.t, a.address, have[name], "server %d: %s is lost, or has another address", server, name)
	}
	for name := range maps.Keys(have) {
		require.Contains(l.t, want, name, "server %d: it is there, and was not acknowledged or is deleted", server)
	}
}
