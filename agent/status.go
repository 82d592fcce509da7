package agent

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Status is what an agent has noted of an attachment.
type Status struct {
	Attachment string         `json:"attachment"` // VPC/NAME
	Interface  string         `json:"interface,omitempty"`
	Netns      string         `json:"netns,omitempty"` // the guest's network namespace
	Type       model.PlugType `json:"type,omitempty"`
	State      string         `json:"state"`          // plugging, plugged, unplugging, failed, unplugged
	Since      time.Time      `json:"since,omitzero"` // of the state
	Addresses  []netip.Prefix `json:"addresses,omitempty"`
	Lease      *Lease         `json:"lease,omitempty"`
	Error      string         `json:"error,omitempty"`
	PostCreate *Execution     `json:"postCreate,omitempty"`
	PostDelete *Execution     `json:"postDelete,omitempty"`
}

// The states of attachments without an interface.
const (
	stateFailed    = "failed"
	stateUnplugged = "unplugged"
)

// StatusOf reads all that the agent of an installation has noted in a
// hypervisor's Open vSwitch, ordered by attachment, the latest first.
func StatusOf(vs *nbdb.VSwitch, owner string) []Status {
	all := []Status{}
	for name, bridge := range vs.Bridges {
		for _, i := range bridge.Interfaces {
			if p, ours := pluggedOf(i, name, owner); ours {
				all = append(all, p.status())
			}
		}
		for key, text := range bridge.ExternalIDs {
			if attachment, ok := strings.CutPrefix(key, noteFailed); ok {
				if f := noteOf[failure](text); f.Owner == owner {
					all = append(all, Status{Attachment: attachment, State: stateFailed, Since: f.Since, Error: f.Error})
				}
			}
			if attachment, ok := strings.CutPrefix(key, noteUnplugged); ok {
				if r := noteOf[removal](text); r.Owner == owner {
					all = append(all, Status{Attachment: attachment, Interface: r.Interface, Type: r.Type, State: stateUnplugged, Since: r.At, PostDelete: r.PostDelete})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(strings.Compare(a.Attachment, b.Attachment), b.Since.Compare(a.Since), strings.Compare(a.State, b.State))
	})
	return all
}

func (p plugged) status() Status {
	ids := p.ExternalIDs
	s := Status{Attachment: p.record.Attachment, Interface: p.Name, Type: p.record.Plug.Type, State: p.state(), Addresses: p.record.Net.Addresses,
		Lease: leaseOf(ids[idLease]), Error: ids[idError], PostCreate: hookOf(ids[idPostCreate])}
	if s.Type == model.PlugNetns {
		s.Netns = p.record.Plug.Name
	}
	if len(p.record.Plug.PostDeleteExec) > 0 {
		s.PostDelete = hookOf(ids[idPostDelete])
	}
	if since, err := time.Parse(time.RFC3339, ids[idSince]); err == nil {
		s.Since = since
	}
	if p.record.Plug.Configure == model.PlugDHCP {
		s.Addresses = s.Lease.settings().addresses
	}
	if s.Error == "" && p.OFPort < 0 {
		s.Error = "Open vSwitch: " + p.Error
	}
	return s
}

func hookOf(text string) *Execution {
	e := executionOf(text)
	if e.State == "" {
		return nil
	}
	return &e
}
