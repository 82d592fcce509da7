package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// The external_ids of an interface in Open vSwitch that the agent has made.
const (
	idInterface = "iface-id"      // ovn-controller(8)
	idMAC       = "attached-mac"  // ovs-vswitchd.conf.db(5)
	idInstalled = "ovn-installed" // ovn-controller(8): it has the port in service

	idAttachment = nbdb.KeyPrefix + "attachment"  // VPC/NAME
	idRecord     = nbdb.KeyPrefix + "plug"        // a record
	idDigest     = nbdb.KeyPrefix + "spec-digest" // of the attachment's spec, as in the northbound database
	idState      = nbdb.KeyPrefix + "state"       // a state
	idSince      = nbdb.KeyPrefix + "since"       // when it came into that state, RFC 3339
	idLease      = nbdb.KeyPrefix + "lease"       // a Lease, of a guest that is configured by DHCP
	idError      = nbdb.KeyPrefix + "error"       // why it isn't as it should be
	idPostCreate = nbdb.KeyPrefix + "post-create" // an Execution
	idPostDelete = nbdb.KeyPrefix + "post-delete" // an Execution
)

// The states of an interface.
const (
	statePlugging   = "plugging"
	statePlugged    = "plugged"
	stateUnplugging = "unplugging"
)

// record is all that the agent has to know of an attachment to make its
// interface, and to remove it when the attachment has gone. It stands in the
// interface's external_ids.
type record struct {
	Attachment  string             `json:"attachment"`
	InterfaceID string             `json:"interfaceID"`
	Chassis     string             `json:"chassis"` // the name that the hypervisor had
	MAC         model.MAC          `json:"mac"`
	Plug        model.PlugSpec     `json:"plug"`
	Net         translate.GuestNet `json:"net"`
}

// wanted is a port that this chassis is asked to bind and to plug. With err
// set it can't be read: what there is of it stays.
type wanted struct {
	record
	digest string
	err    error
}

// wantedOf is nil for a port that the agent has nothing to do with.
func wantedOf(r nbdb.Request, owner, chassis string) *wanted {
	ids := r.ExternalIDs
	if ids[translate.KeyOwner] != owner || ids[translate.KeySpec] == "" {
		return nil
	}
	w := &wanted{digest: ids[translate.KeyDigest]}
	w.Chassis = chassis
	w.InterfaceID, w.Attachment = r.LogicalPort, r.LogicalPort // the name until it is known
	stored, err := model.ParseStored(model.KindAttachment, []byte(ids[translate.KeySpec]))
	if err != nil {
		w.err = fmt.Errorf("reading the attachment of port %s: %s", model.Brief(r.LogicalPort), model.Brief(err.Error()))
		return w
	}
	spec := stored.Spec.(*model.AttachmentSpec)
	if spec.Plug == nil {
		return nil
	}
	w.Attachment = stored.Metadata.VPC + "/" + stored.Metadata.Name
	w.MAC, w.Plug = spec.MAC, *spec.Plug
	if w.Plug.Name == "" && w.Plug.Type == model.PlugNetns {
		w.Plug.Name = stored.Metadata.VPC + "." + stored.Metadata.Name // labels have no dot
	}
	if err := json.Unmarshal([]byte(ids[translate.KeyNet]), &w.Net); err != nil {
		w.err = fmt.Errorf("reading the network of %s: %w", w.Attachment, err)
	} else if len(w.Net.Addresses) == 0 {
		w.err = fmt.Errorf("reading the network of %s: it has no address", w.Attachment)
	}
	return w
}

// plugged is an interface that the agent has made.
type plugged struct {
	nbdb.Interface
	record record
	bridge string
}

// pluggedOf is false for an interface of somebody else.
func pluggedOf(i nbdb.Interface, bridge, owner string) (plugged, bool) {
	p := plugged{Interface: i, bridge: bridge}
	if i.ExternalIDs[translate.KeyOwner] != owner || i.ExternalIDs[idAttachment] == "" {
		return p, false
	}
	if err := json.Unmarshal([]byte(i.ExternalIDs[idRecord]), &p.record); err != nil {
		return p, false
	}
	return p, p.record.InterfaceID != ""
}

func (p plugged) state() string { return p.ExternalIDs[idState] }

// mine are the pairs by which the agent knows an interface as the one it made.
func (p plugged) mine() map[string]string {
	return map[string]string{translate.KeyOwner: p.ExternalIDs[translate.KeyOwner], idAttachment: p.record.Attachment}
}

// remade tells whether the interface has to be made anew to become as wanted.
func (p plugged) remade(w *wanted) bool {
	was, is := p.record, w.record
	return was.Plug.Type != is.Plug.Type || was.Plug.Name != is.Plug.Name || was.Plug.Configure != is.Plug.Configure || was.Attachment != is.Attachment || was.Chassis != is.Chassis ||
		is.Plug.Type == model.PlugInternal && (was.MAC != is.MAC || was.Net.MTU != is.Net.MTU)
}

// current tells whether it was made from the same spec.
func (p plugged) current(w *wanted) bool {
	return reflect.DeepEqual(p.record, w.record) && p.ExternalIDs[idDigest] == w.digest
}

// interfaceName is the name of the hypervisor's end, at most 15 characters. A
// derived one is a hash; attempts count up where somebody has it already.
func interfaceName(owner string, r record, attempt int) string {
	if r.Plug.Name != "" && r.Plug.Type != model.PlugNetns {
		return r.Plug.Name
	}
	return "vp" + hash(owner, r.InterfaceID, fmt.Sprint(attempt))[:12]
}

func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// markOf is the alias of what the agent makes in the kernel, by which it knows
// it again whatever becomes of Open vSwitch's database.
func markOf(owner, chassis, port string) string { return markPrefix(owner, chassis) + port }

func markPrefix(owner, chassis string) string {
	return "ovn-vpc:" + hash(owner, chassis)[:12] + ":"
}

func (r record) netnsPath(dir string) string { return filepath.Join(dir, r.Plug.Name) }
