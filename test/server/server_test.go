// Package server_test runs several servers and commands on one OVN, under load,
// and kills them.
package server_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
	"github.com/ovn-vpc/ovn-vpc/test/mirror"
)

var calls = flag.Int("calls", 1500, "number of calls that attach or detach; the whole is go test ./test/server -calls 5000")

const (
	vpc = "shop"
	// callers call at the same time, and each has at most so many attachments.
	callers, most = 64, 8
	// change is after how many calls a caller changes a tier or list before its
	// own call; kills are how many servers are killed in all.
	change, kills = 25, 6
	// bound is for the whole load.
	bound = 10 * time.Minute
	// patience bounds what becomes of it.
	patience = 2 * time.Minute
)

func tiers() []string { return []string{"web", "app", "db", "cache"} }

// spec is the VPC as it is applied the n-th time.
func spec(n int) string {
	text := fmt.Sprintf("apiVersion: ovn-vpc/v1\nkind: VPC\nmetadata: {name: %s}\nspec: {cidrs: [10.10.0.0/16]}\n", vpc)
	for i, name := range tiers() {
		text += fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: Tier\nmetadata: {name: %s, vpc: %s, labels: {round: %q}}\n"+
			"spec: {cidrs: [10.10.%d.0/24], acl: %s, dhcp: {leaseTime: %d}}\n", name, vpc, fmt.Sprint(n), i+1, lists()[n%2], 3600+n%7)
	}
	for _, name := range lists() {
		text += fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: ACL\nmetadata: {name: %s, vpc: %s}\n"+
			"spec: {rules: [{protocol: tcp, ports: [%d]}, {tiers: [web, db]}, {number: 100, action: deny, cidrs: [192.0.2.%d/32]}]}\n", name, vpc, 8000+n, n%256)
	}
	return text
}

func lists() []string { return []string{"day", "night"} }

// load is one run of it.
type load struct {
	*fleet
	ledger  ledger
	started atomic.Int64 // calls
	changes atomic.Int64
	dir     string
}

// TestLoad has many callers attach and detach by three servers, while others
// change tiers and lists by servers and by commands, and while servers are
// killed. What was acknowledged has to hold, whoever acknowledged it.
func TestLoad(t *testing.T) {
	l := &load{fleet: newFleet(t, 3, lab.SandboxOptions{}), ledger: ledger{live: map[string]*holding{}}, dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	require.NoError(t, l.apply(ctx, 0, "--nb", l.box.NB()))
	watching, hangUp := context.WithCancel(t.Context())
	mirrors, watches := make([]*mirror.Mirror, len(l.clients)), sync.WaitGroup{}
	for i, c := range l.clients {
		mirrors[i] = &mirror.Mirror{}
		watches.Go(func() {
			if err := mirrors[i].Follow(watching, c); err != nil {
				t.Error(err)
			}
		})
	}
	began := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if err := l.work(ctx); err != nil {
				t.Error(err)
				cancel() // the others need not go on
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	require.False(t, t.Failed())
	l.tell(took)
	l.verify()
	l.agree(mirrors)
	hangUp()
	watches.Wait()
	l.healthy()
	faults.Audit(t, kills, filepath.Join(l.box.Dir(), "nb.db"))
}

// work is one caller's.
func (l *load) work(ctx context.Context) error {
	var mine []*holding
	for {
		n := int(l.started.Add(1))
		if n > *calls {
			return nil
		}
		if each := max(1, *calls/kills); n%each == each/2 {
			if err := l.kill(ctx); err != nil {
				return err
			}
		}
		if n%change == 0 {
			if err := l.alter(ctx, n/change); err != nil {
				return fmt.Errorf("change %d: %w", n/change, err)
			}
			l.changes.Add(1)
		}
		if len(mine) < most && (len(mine) == 0 || rand.IntN(100) < 55) {
			h, err := l.attach(ctx, fmt.Sprintf("call-%d", n))
			if err != nil {
				return fmt.Errorf("attach %d: %w", n, err)
			}
			mine = append(mine, h)
			continue
		}
		i := rand.IntN(len(mine))
		if err := l.detach(ctx, mine[i]); err != nil {
			return fmt.Errorf("detach %s: %w", mine[i].name, err)
		}
		mine = slices.Delete(mine, i, i+1)
	}
}

// attach creates an attachment whose name and address a server chooses. The key
// is what keeps it one, whichever servers are asked.
func (l *load) attach(ctx context.Context, key string) (*holding, error) {
	spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
	spec.Tier = tiers()[rand.IntN(len(tiers()))]
	r := &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: vpc}, Spec: spec}
	var got *client.Stored
	err := l.call(ctx, func(c *client.Client) (err error) {
		got, err = c.Create(ctx, r, client.CreateOptions{IdempotencyKey: key})
		return err
	})
	if err != nil {
		return nil, err
	}
	given := got.Resource.Spec.(*model.AttachmentSpec).Addresses
	if len(given) != 1 {
		return nil, fmt.Errorf("the addresses are %v", given)
	}
	return l.ledger.attached(got.Resource.Metadata.Name, given[0]), nil
}

func (l *load) detach(ctx context.Context, h *holding) error {
	l.ledger.leaving(h)
	tried := 0
	err := l.call(ctx, func(c *client.Client) error {
		tried++
		_, err := c.DeleteOne(ctx, model.ID{Kind: model.KindAttachment, VPC: vpc, Name: h.name}, client.WriteOptions{})
		return err
	})
	var missing *engine.NotFoundError
	if tried > 1 && errors.As(err, &missing) {
		err = nil // a server that gave no answer had done it
	}
	if err == nil {
		l.ledger.detached(h)
	}
	return err
}

// alter changes a tier or a list, each time in another way.
func (l *load) alter(ctx context.Context, n int) error {
	tier, acl := tiers()[n%len(tiers())], lists()[n%len(lists())]
	extra := &model.TierSpec{}
	switch n % 7 {
	case 0:
		return l.apply(ctx, n, "--nb", l.box.NB())
	case 1:
		return l.command(ctx, "acl", "replace", vpc, tier, acl, "--nb", l.box.NB())
	case 2:
		return l.call(ctx, func(c *client.Client) error {
			_, err := c.ReplaceACL(ctx, vpc, tier, "default-allow", engine.WaitNone)
			return err
		})
	case 3:
		return l.call(ctx, func(c *client.Client) error {
			_, err := c.Patch(ctx, model.ID{Kind: model.KindTier, VPC: vpc, Name: tier}, map[string]any{"spec": map[string]any{"dhcp": map[string]any{"leaseTime": 600 + n}}}, client.WriteOptions{})
			return err
		})
	case 4:
		return l.call(ctx, func(c *client.Client) error {
			_, err := c.Patch(ctx, model.ID{Kind: model.KindACL, VPC: vpc, Name: acl}, map[string]any{"spec": map[string]any{"rules": []any{map[string]any{"protocol": "udp", "ports": []int{n}}}}}, client.WriteOptions{})
			return err
		})
	case 5:
		*extra = *model.NewSpec(model.KindTier).(*model.TierSpec)
		extra.CIDRs = []netip.Prefix{netip.MustParsePrefix("10.10.200.0/24")}
		return l.call(ctx, func(c *client.Client) error {
			_, err := c.Put(ctx, &model.Resource{Kind: model.KindTier, Metadata: model.Metadata{VPC: vpc, Name: "extra"}, Spec: extra}, client.WriteOptions{})
			return err
		})
	}
	err := l.call(ctx, func(c *client.Client) error {
		_, err := c.DeleteOne(ctx, model.ID{Kind: model.KindTier, VPC: vpc, Name: "extra"}, client.WriteOptions{})
		return err
	})
	var missing *engine.NotFoundError
	if errors.As(err, &missing) {
		return nil // another caller's turn to make it has not come
	}
	return err
}

// apply applies the spec's n-th version by the command.
func (l *load) apply(ctx context.Context, n int, flags ...string) error {
	file := filepath.Join(l.dir, fmt.Sprintf("%d.yaml", n))
	if err := os.WriteFile(file, []byte(spec(n)), 0o600); err != nil {
		return fmt.Errorf("writing the spec: %w", err)
	}
	return l.command(ctx, append([]string{"apply", "-f", file}, flags...)...)
}

// tell reports what the load has cost.
func (l *load) tell(took time.Duration) {
	m := l.metrics()
	l.t.Logf("%d calls and %d changes in %.1f s (%.0f/s), %d kills, %d calls again; transactions %.0f, plans %.0f, replans %.0f, conflicts %.0f, calls in a transaction %.1f",
		*calls, l.changes.Load(), took.Seconds(), float64(*calls)/took.Seconds(), l.kills, l.retries.Load(), m["ovn_vpc_transactions_total"],
		m["ovn_vpc_plans_total"], m["ovn_vpc_replans_total"], m["ovn_vpc_conflicts_total"], m["ovn_vpc_group_commit_calls_sum"]/m["ovn_vpc_group_commit_calls_count"])
}

// verify holds the databases against what was acknowledged.
func (l *load) verify() {
	require.NoError(l.t, l.ledger.overlap())
	objects, err := l.clients[0].Get(l.t.Context(), engine.Filter{Kind: model.KindAttachment})
	require.NoError(l.t, err)
	owners, ids := map[netip.Addr]string{}, []string{}
	for _, o := range objects {
		spec, name := o.Resource.Spec.(*model.AttachmentSpec), o.Resource.Metadata.Name
		require.Len(l.t, spec.Addresses, 1, name)
		require.Empty(l.t, owners[spec.Addresses[0]], "%s is also that of %s", spec.Addresses[0], name)
		owners[spec.Addresses[0]] = name
		h := l.ledger.live[name]
		require.NotNil(l.t, h, "%s is there, and was not acknowledged or is deleted", name)
		require.Equal(l.t, h.address, spec.Addresses[0], name)
		ids = append(ids, spec.InterfaceID)
	}
	require.Len(l.t, objects, len(l.ledger.live), "something acknowledged is lost")
	slices.Sort(ids)
	_, err = l.box.NBCtl(l.t.Context(), "--wait=sb", "sync")
	require.NoError(l.t, err)
	for _, in := range []struct {
		table, column string
		list          func(context.Context, ...string) (string, error)
	}{{"Logical_Switch_Port", "name", l.box.NBCtl}, {"Port_Binding", "logical_port", l.box.SBCtl}} {
		names, err := ports(in.list(l.t.Context(), "--bare", "--columns="+in.column, "find", in.table, `type=""`))
		require.NoError(l.t, err)
		require.Equal(l.t, ids, names, in.table)
	}
}

// agree demands that all who watch, and all servers, come to know the same.
func (l *load) agree(mirrors []*mirror.Mirror) {
	for i, m := range mirrors {
		require.EventuallyWithT(l.t, func(t *assert.CollectT) {
			listed, err := mirror.List(l.t.Context(), l.clients[i])
			require.NoError(t, err)
			require.NoError(t, m.Differs(listed))
		}, patience, 200*time.Millisecond, "server %d: a watch and a list differ", i)
		n := m.Counts()
		l.t.Logf("watch of server %d: %d events, %d times from where it was, %d resets", i, n.Events, n.Resumed, n.Resets)
		require.Positive(l.t, n.Resumed)
	}
}
