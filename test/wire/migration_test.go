package wire_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// attachment applies an attachment of the tier app with more fields.
func (w *wire) attachment(t *testing.T, name, fields string) {
	t.Helper()
	w.apply(t, fmt.Sprintf(`{apiVersion: ovn-vpc/v1, kind: Attachment, metadata: {name: %s, vpc: shop}, spec: {tier: app%s}}`, name, fields))
}

// attached is an attachment's status.
func (w *wire) attached(t *testing.T, name string) *engine.AttachmentStatus {
	t.Helper()
	objects, err := w.engine.Get(t.Context(), engine.Filter{Kind: model.KindAttachment, VPC: "shop", Name: name})
	require.NoError(t, err)
	require.Len(t, objects, 1)
	return objects[0].Status.(*engine.AttachmentStatus)
}

// waitStatus waits for a status.
func (w *wire) waitStatus(t *testing.T, name string, up bool, chassis, reason string) {
	t.Helper()
	var st *engine.AttachmentStatus
	ok := func() bool {
		st = w.attached(t, name)
		return st.Up != nil && *st.Up == up && st.Chassis == chassis && regexp.MustCompile("^("+reason+")$").MatchString(st.Reason)
	}
	for deadline := time.Now().Add(patience); !ok(); {
		require.True(t, time.Now().Before(deadline), "up %t on %q (%s) did not come: up %v on %q (%s)", up, chassis, reason, st.Up != nil && *st.Up, st.Chassis, st.Reason)
		require.NoError(t, w.lab.WaitHV(t.Context()))
	}
}

// migration: a guest moves to another hypervisor, where it is let in by its
// RARP. It keeps its addresses, and a stream of pings to it loses nothing, or
// on a busy machine little.
func (w *wire) migration(t *testing.T) {
	w.lists(t, list{}, open(), open())
	w.attachment(t, "mover", `, addresses: [10.10.2.20, "fd00:10:2::20"], chassis: hv1`)
	source := w.start(t, 0, "shop", "mover", "mover-source")
	w.waitStatus(t, "mover", true, "hv1", "")
	before := w.attached(t, "mover")
	require.NoError(t, w.db1.WaitPing(t.Context(), source.v4))

	const count = 100 // ten seconds
	received := 0
	done := make(chan error, 1)
	go func() {
		var err error
		received, err = w.db1.Ping(t.Context(), source.v4, count)
		done <- err
	}()
	w.attachment(t, "mover", `, addresses: [10.10.2.20, "fd00:10:2::20"], chassis: hv1, migratingTo: hv2`)
	target := w.start(t, 1, "shop", "mover", "mover-target")
	require.NoError(t, target.WaitInstalled(t.Context()))
	require.NoError(t, w.lab.WaitHV(t.Context()))
	require.Equal(t, "hv1", w.attached(t, "mover").Chassis)
	require.NoError(t, target.Send(lab.RARP(target.mac)))
	require.NoError(t, target.WaitPing(t.Context(), target.gw4))
	require.NoError(t, source.Unplug(t.Context()))
	w.attachment(t, "mover", `, addresses: [10.10.2.20, "fd00:10:2::20"], chassis: hv2`)
	w.waitStatus(t, "mover", true, "hv2", "")
	require.NoError(t, <-done)
	t.Logf("%d of %d pings answered during the migration", received, count)
	require.GreaterOrEqual(t, received, count*9/10)

	after := w.attached(t, "mover")
	require.Equal(t, before.Addresses, after.Addresses)
	require.Equal(t, before.MAC, after.MAC)
	straight := crossings{{}, {pings, pings}, {pings, pings}}
	require.Equal(t, straight, w.crossing(t, w.db1, target.v4, w.db1.v4), "the way to where it is now")
	require.NoError(t, target.Unplug(t.Context()))
}

// status tells at each step what became of an attachment, and packets agree.
func (w *wire) status(t *testing.T) {
	w.lists(t, open(), open(), list{})
	const address = `, addresses: [10.10.2.30]`
	w.attachment(t, "late", address)
	w.waitStatus(t, "late", false, "", "no hypervisor has an interface with external_ids:iface-id=shop/late")

	w.attachment(t, "late", address+", chassis: hv1")
	g := w.start(t, 2, "shop", "late", "late")
	w.waitStatus(t, "late", false, "", `the chassis "hv1" has no interface with external_ids:iface-id=shop/late`)
	require.Zero(t, w.pingOnce(t, g), "on a hypervisor that may not bind it")

	w.attachment(t, "late", address+", chassis: nowhere")
	w.waitStatus(t, "late", false, "", `the chassis "nowhere" that it asks for is not registered with OVN`)
	require.Zero(t, w.pingOnce(t, g))

	w.attachment(t, "late", address+", chassis: hv3")
	w.waitStatus(t, "late", true, "hv3", "")
	require.NoError(t, w.web1.WaitPing(t.Context(), g.v4))
	require.NoError(t, g.WaitPing(t.Context(), w.app1.v4))

	w.attachment(t, "late", address+", chassis: hv3, enabled: false")
	require.Zero(t, w.pingOnce(t, g), "disabled, to it")
	received, err := g.Ping(t.Context(), w.app1.v4, 2)
	require.NoError(t, err)
	require.Zero(t, received, "disabled, from it")
	w.waitStatus(t, "late", true, "hv3", `it is disabled \(spec.enabled\)`)

	w.attachment(t, "late", address)
	require.NoError(t, w.web1.WaitPing(t.Context(), g.v4))
	w.waitStatus(t, "late", true, "hv3", "")
	require.NoError(t, g.Unplug(t.Context()))
	w.waitStatus(t, "late", false, "", "no hypervisor has an interface with external_ids:iface-id=shop/late")
}

// pingOnce is how many of two pings from web1 a guest answers.
func (w *wire) pingOnce(t *testing.T, to *guest) int {
	t.Helper()
	received, err := w.web1.Ping(t.Context(), to.v4, 2)
	require.NoError(t, err)
	return received
}
