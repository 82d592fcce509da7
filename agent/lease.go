package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// Lease is what DHCP has given a guest; it stands in the interface's
// external_ids as JSON. The guest keeps it until another answer comes, also
// beyond its end: OVN gives an attachment's address to nobody else.
type Lease struct {
	Addresses  []netip.Prefix `json:"addresses"`
	Routes     []route        `json:"routes,omitempty"` // of IPv4; those of IPv6 the kernel hears from the router
	MTU        int            `json:"mtu,omitempty"`    // in bytes
	DNS        []netip.Addr   `json:"dns,omitempty"`
	Servers    []string       `json:"servers"` // of DHCPv4 its address, of DHCPv6 its DUID
	ObtainedAt time.Time      `json:"obtainedAt"`
	Seconds    int64          `json:"seconds"` // the shortest of its addresses'; forever at most
	RenewAt    time.Time      `json:"renewAt"`
}

// forever is the length of a lease without an end (RFC 2131, 3.3).
const forever = math.MaxUint32

// Forever tells whether the lease has no end.
func (l *Lease) Forever() bool { return l.Seconds == forever }

// leaseOf is nil where there is none.
func leaseOf(text string) *Lease {
	var l Lease
	if json.Unmarshal([]byte(text), &l) != nil {
		return nil
	}
	return &l
}

// settings of no lease are none.
func (l *Lease) settings() settings {
	if l == nil {
		return settings{}
	}
	return settings{l.MTU, l.Addresses, l.Routes}
}

// configureByLease gives a guest what a lease says, and takes away what only
// an earlier one said.
func (k kernel) configureByLease(r record, now, old *Lease) error {
	ns, err := openNetns(r.netnsPath(k.netnsDir), k.mark(r))
	if err != nil {
		return err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("looking into the network namespace of %s: %w", r.Attachment, err)
	}
	defer h.Close()
	return configure(h, guestPort, r.MAC, now.settings(), old.settings())
}

// renewal is the time until a guest's lease is to be renewed, 0 or less where
// it is due, forever where there is nothing to renew.
func (t *task) renewal() time.Duration {
	if t.want == nil || t.want.Plug.Configure != model.PlugDHCP || len(t.have) == 0 || t.have[0].state() != statePlugged {
		return math.MaxInt64
	}
	lease := leaseOf(t.have[0].ExternalIDs[idLease])
	if lease == nil {
		return 0
	}
	return lease.RenewAt.Sub(t.o.Now())
}

// obtain configures a guest by DHCP where its spec asks for that, and adds the
// lease to the ids that are noted next. It works beside other ports.
func (t *task) obtain(ctx context.Context, p plugged, ids map[string]string, release func()) error {
	if t.want.Plug.Configure != model.PlugDHCP {
		return nil
	}
	release()
	lease, err := t.kernel.exchange(ctx, t.want.record)
	if err != nil {
		return err
	}
	old := leaseOf(p.ExternalIDs[idLease])
	lease.ObtainedAt = t.o.Now().UTC().Truncate(time.Second)
	half := time.Duration(lease.Seconds) * time.Second / 2
	if old != nil && !p.current(t.want) {
		// The specs have just changed: ovn-controller may have answered by the
		// old ones still.
		half = min(half, resync)
	}
	lease.RenewAt = lease.ObtainedAt.Add(half)
	if err := t.kernel.configureByLease(t.want.record, lease, old); err != nil {
		return err
	}
	text, err := json.Marshal(lease)
	if err != nil {
		return fmt.Errorf("encoding the lease of %s: %w", t.want.Attachment, err)
	}
	ids[idLease] = string(text)
	return nil
}

// renew asks again. Until there is an answer the guest keeps what it has.
func (t *task) renew(ctx context.Context, p plugged, release func()) error {
	ids := map[string]string{idError: ""}
	if err := t.obtain(ctx, p, ids, release); err != nil {
		return err
	}
	return t.set(ctx, p, ids)
}
