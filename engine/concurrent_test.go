package engine_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// writerEnv makes the test binary a process that applies attachments and
// nothing else: its value is the remote.
const (
	writerEnv = "OVN_VPC_TEST_WRITER"
	batchEnv  = "OVN_VPC_TEST_WRITER_BATCH" // name, tier, number, batch
)

// writer applies attachments in batches and says on stderr what failed.
func writer(remote string) int {
	args := strings.Split(os.Getenv(batchEnv), ",")
	number, err1 := strconv.Atoi(args[2])
	batch, err2 := strconv.Atoi(args[3])
	if err1 != nil || err2 != nil {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := nbdb.Dial(ctx, nbdb.Options{Remotes: remote})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	e := engine.New(c, "default", args[0])
	for i := 0; i < number; i += batch {
		var text strings.Builder
		for k := i; k < i+batch; k++ {
			text.WriteString(att("shop", fmt.Sprintf("%s-%d", args[0], k), args[1]))
		}
		set, ds := model.Load(model.Input{Name: "spec", Data: []byte(text.String())})
		if ds.HasErrors() {
			fmt.Fprintln(os.Stderr, ds)
			return 1
		}
		if _, err := e.Apply(ctx, set, false, engine.WaitNone); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func startWriter(t *testing.T, remote, name, tier string, number, batch int) func() {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), writerEnv+"="+remote, fmt.Sprintf("%s=%s,%s,%d,%d", batchEnv, name, tier, number, batch))
	require.NoError(t, cmd.Start())
	return func() {
		t.Helper()
		require.NoError(t, cmd.Wait(), stderr.String())
	}
}

// checkTier holds the tier's attachments to what must be true of them after
// any number of writers.
func (f *fixture) checkTier(vpc string, number int) {
	f.t.Helper()
	seen, macs := map[netip.Addr]string{}, map[model.MAC]string{}
	all := f.attachments(vpc)
	require.Len(f.t, all, number)
	for name, spec := range all {
		for _, a := range spec.Addresses {
			require.Empty(f.t, seen[a], "%s has an address of %s", name, seen[a])
			seen[a] = name
		}
		require.Empty(f.t, macs[spec.MAC], "%s has a MAC of %s", name, macs[spec.MAC])
		macs[spec.MAC] = name
	}
	// Drift would name a port that is on no switch or on the wrong one.
	f.noDrift()
}

func TestTwoProcessesAThousandAttachmentsEach(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/20"))
	one := startWriter(t, f.sandbox.NB(), "one", "web", 1000, 1000)
	two := startWriter(t, f.sandbox.NB(), "two", "web", 1000, 1000)
	one()
	two()
	f.checkTier("shop", 2000)
}

func TestTwoProcessesInSmallBatchesWhileTheTierChanges(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16, 2001:db8::/48") + tier("shop", "web", "10.0.0.0/20, 2001:db8::/64") +
		tier("shop", "doomed", "10.0.128.0/24") + att("shop", "passenger", "doomed") +
		document("ACL", "shop", "open", "rules: [{protocol: tcp}]"))
	one := startWriter(t, f.sandbox.NB(), "one", "web", 300, 10)
	two := startWriter(t, f.sandbox.NB(), "two", "web", 300, 10)
	for i := range 20 {
		list := []string{"open", "default-deny"}[i%2]
		_, err := f.ReplaceACL(f.ctx, "shop", "web", list, engine.WaitNone)
		require.NoError(t, err)
		f.apply(document("ACL", "shop", "open", fmt.Sprintf("rules: [{protocol: tcp, ports: [%d]}, {number: %d}]", i+1, i+10)))
	}
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "doomed"}}, true, engine.WaitNone)
	require.NoError(t, err)
	one()
	two()
	f.checkTier("shop", 600)
}

// Tiers that overlap, in two inputs at once: one of them is refused.
func TestOverlappingTiersAtOnce(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16"))
	const writers = 8
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			c := connect(t, f.sandbox, "default")
			set := load(t, tier("shop", fmt.Sprintf("t%d", i), fmt.Sprintf("10.0.0.0/%d", 20+i)))
			_, errs[i] = c.Apply(c.ctx, set, false, engine.WaitNone)
		})
	}
	wg.Wait()
	landed := 0
	for _, err := range errs {
		if err == nil {
			landed++
			continue
		}
		var invalid *engine.InvalidError
		require.ErrorAs(t, err, &invalid)
	}
	require.Equal(t, 1, landed)
	f.noDrift()
}

// Claims that the row's UUID does not lock: fixed MACs and second addresses,
// against each other and against plain allocations.
func TestFixedClaimsAtOnce(t *testing.T) {
	f := newFixture(t, false)
	// Reserved: or else a writer without a claim might be given what others claim.
	f.apply(vpc("shop", "10.0.0.0/16, 2001:db8::/48") +
		tierWith("shop", "web", "cidrs: [10.0.0.0/27, 2001:db8::/64], reserved: [10.0.0.9-10.0.0.20]"))
	const writers = 12
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			c := connect(t, f.sandbox, "default")
			spec := "tier: web"
			switch i % 3 {
			case 0:
				spec += `, mac: "02:00:00:00:00:01"`
			case 1:
				spec += fmt.Sprintf(`, addresses: [10.0.0.%d, 10.0.0.9]`, 10+i)
			}
			_, errs[i] = c.Apply(c.ctx, load(t, document("Attachment", "shop", fmt.Sprintf("a%d", i), spec)), false, engine.WaitNone)
		})
	}
	wg.Wait()
	landed := 0
	for i, err := range errs {
		if err == nil {
			landed++
		} else {
			require.NotEqual(t, 2, i%3, err)
			var invalid *engine.InvalidError
			require.ErrorAs(t, err, &invalid)
		}
	}
	require.Equal(t, 1+1+writers/3, landed)
	f.checkTier("shop", landed)
}

// rival is a store on which another writer comes between the reading and the
// last look for rows without marks.
type rival struct {
	engine.Store
	refuse bool   // the next transaction, as overtaken
	comes  func() // once
}

func (r *rival) Commit(ctx context.Context, p nbdb.Plan, bump bool) (int, error) {
	if r.refuse {
		r.refuse = false
		return 0, &nbdb.ConflictError{What: "the test"}
	}
	return r.Store.Commit(ctx, p, bump)
}

func (r *rival) Read(ctx context.Context, queries ...nbdb.Query) (*nbdb.State, error) {
	if comes := r.comes; comes != nil && queries[0].Where["_uuid"] != nil {
		r.comes = nil
		comes()
	}
	return r.Store.Read(ctx, queries...)
}

// A row that another writer has just made is not one that has lost its marks:
// its address is not taken over.
func TestAnAddressIsNotTakenFromAWriterThatWasFaster(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/24"))
	fast, slow := connect(t, f.sandbox, "default"), connect(t, f.sandbox, "default")
	claim := "tier: web, addresses: [10.0.0.9]"
	store := &rival{Store: slow.NB, refuse: true}
	store.comes = func() { fast.apply(document("Attachment", "shop", "fast", claim)) }
	slow.NB = store
	_, err := slow.Apply(slow.ctx, load(t, document("Attachment", "shop", "slow", claim)), false, engine.WaitNone)
	require.Nil(t, store.comes, "nobody has looked for rows without marks")
	var invalid *engine.InvalidError
	require.ErrorAs(t, err, &invalid)
	f.checkTier("shop", 1)
	require.Contains(t, f.attachments("shop"), "fast")
}

// A tier that is deleted while attachments are created in it: none is left
// without a switch.
func TestTierDeletedWhileAttachmentsCome(t *testing.T) {
	f := newFixture(t, false)
	f.apply(vpc("shop", "10.0.0.0/16") + tier("shop", "web", "10.0.0.0/20"))
	const writers = 6
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			c := connect(t, f.sandbox, "default")
			for k := range 20 {
				_, err := c.Apply(c.ctx, load(t, att("shop", fmt.Sprintf("a%d-%d", i, k), "web")), false, engine.WaitNone)
				if err != nil {
					var invalid *engine.InvalidError
					require.ErrorAs(t, err, &invalid)
					return
				}
			}
		})
	}
	_, err := f.Delete(f.ctx, []model.ID{{Kind: model.KindTier, VPC: "shop", Name: "web"}}, true, engine.WaitNone)
	require.NoError(t, err)
	wg.Wait()
	require.Empty(t, f.attachments("shop"))
	require.NotContains(t, f.dump(), "Logical_Switch_Port table\n_uuid")
	f.noDrift()
}
