package nb_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
	"github.com/ovn-vpc/ovn-vpc/test/mirror"
)

// After an older backup has taken the database's place, what there is, is what
// the backup has: for servers, for those who watch, and for what is made anew.
func TestOlderBackup(t *testing.T) {
	t.Parallel() // it waits most of the time
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	s, ctx := newStage(t, box.NB()), t.Context()
	s.found()
	create := func(n int, key string) *client.Stored {
		t.Helper()
		got, err := s.clients[n%2].Create(ctx, attachment(""), client.CreateOptions{IdempotencyKey: key})
		require.NoError(t, err)
		require.False(t, got.Replayed)
		return got
	}
	var kept, lost []*client.Stored
	for n := range 6 {
		kept = append(kept, create(n, fmt.Sprint("kept", n)))
	}
	watching, hangUp := context.WithCancel(ctx)
	defer hangUp()
	mirrors := make([]*mirror.Mirror, len(s.clients))
	for i, c := range s.clients {
		mirrors[i] = &mirror.Mirror{}
		go func() { assert.NoError(t, mirrors[i].Follow(watching, c)) }()
	}
	file, backup := database(box.Dir(), "nb"), filepath.Join(t.TempDir(), "backup.db")
	require.NoError(t, box.Stop(ctx, "nb"))
	duplicate(t, file, backup)
	require.NoError(t, box.Start(ctx))
	s.serves(ctx)

	for n := range 6 {
		lost = append(lost, create(n, fmt.Sprint("lost", n)))
	}
	gone := kept[0].Resource.ID()
	_, err := s.clients[0].DeleteOne(ctx, gone, client.WriteOptions{})
	require.NoError(t, err)
	plan := filepath.Join(t.TempDir(), "plan.json")
	spec := filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(spec, []byte(document("Tier", "web", vpc, "cidrs: [10.10.0.0/17], dhcp: {leaseTime: 700}")), 0o600))
	require.NoError(t, s.apply(ctx, document("Tier", "web", vpc, "cidrs: [10.10.0.0/17], dhcp: {leaseTime: 600}")))
	_, err = s.command(ctx, "plan", "-f", spec, "--out", plan)
	require.NoError(t, err)

	r := s.ask()
	require.NoError(t, box.Stop(ctx, "nb"))
	later := filepath.Join(t.TempDir(), "later.db")
	duplicate(t, file, later)
	duplicate(t, backup, file)
	require.NoError(t, box.Start(ctx))
	s.restored(kept, lost, gone)
	s.serves(ctx)
	r.end(nil)
	s.mirrored(mirrors) // now: what is made anew has the names of what was lost
	_, err = s.command(ctx, "apply", "--plan", plan)
	require.ErrorContains(t, err, "the plan is stale")

	for n := range 6 {
		// What the keys had created is not there, so they create again.
		kept = append(kept, create(n+1, fmt.Sprint("lost", n)))
	}
	apart(t, kept)
	s.mirrored(mirrors)
	_, err = s.command(ctx, "drift", "--exit-code")
	require.NoError(t, err)
	s.healthy()
	faults.Audit(t, 1, file, later)
}

// restored demands that the servers show what the backup has from their first
// answers on: what was kept, with the one that was gone since, and nothing lost.
func (s *stage) restored(kept, lost []*client.Stored, gone model.ID) {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	for i, c := range s.clients {
		var objects []engine.Object
		require.Eventually(t, func() bool {
			var err error
			objects, err = c.Get(ctx, engine.Filter{Kind: model.KindAttachment})
			return err == nil
		}, patience, pause)
		require.Len(t, objects, len(kept), "server %d", i)
		_, err := c.GetOne(ctx, lost[0].Resource.ID())
		var missing *engine.NotFoundError
		require.ErrorAs(t, err, &missing)
		back, err := c.GetOne(ctx, gone)
		require.NoError(t, err)
		require.Equal(t, kept[0].Version, back.Version)
	}
}

// mirrored waits until who watches each server knows what that lists.
func (s *stage) mirrored(mirrors []*mirror.Mirror) {
	s.t.Helper()
	for i, c := range s.clients {
		require.EventuallyWithT(s.t, func(t *assert.CollectT) {
			listed, err := mirror.List(s.t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, mirrors[i].Differs(listed))
		}, patience, 4*pause, "server %d: a watch and a list differ", i)
	}
}

// apart demands that no two have one address.
func apart(t *testing.T, all []*client.Stored) {
	t.Helper()
	holders := map[netip.Addr]string{}
	for _, k := range all {
		address := k.Resource.Spec.(*model.AttachmentSpec).Addresses[0]
		require.Empty(t, holders[address], "%s is given to %s too", address, k.Resource.Metadata.Name)
		holders[address] = k.Resource.Metadata.Name
	}
}

func duplicate(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o640))
}
