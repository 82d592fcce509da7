package engine

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
	"github.com/ovn-vpc/ovn-vpc/translate"
)

// Through says by what a VPC's structure was changed.
type Through string

// What changes a VPC's structure.
const (
	ThroughApply    Through = "apply"
	ThroughEdit     Through = "edit" // a call about one resource
	ThroughDelete   Through = "delete"
	ThroughReplace  Through = "acl replace"
	ThroughRollback Through = "rollback"
	ThroughExpiry   Through = "expiry" // a change that nobody confirmed in time was taken back
)

const (
	// maxHistory is how many changes of a VPC are kept.
	maxHistory = 20
	// maxPlain is the length in bytes up to which a change is kept as it is: it takes
	// longer to compress than the database takes to store it.
	maxPlain = 384
	// maxKept bounds what is kept of one change, compressed, in bytes.
	maxKept = 64 << 10
	// maxInflated bounds what is read of it.
	maxInflated = 64 << 20
	// dictionary is what entries are compressed with, text that they have in
	// common: a part of their form, which must never change.
	dictionary = `{"delta":{"spec":{"rules":{":{"stored":{"metadata":{"name":","vpc":"},"spec":{"cidrs":["10."],"gateways":["10.` +
		`"],"acl":"default-deny","dhcp":{"enabled":true,"leaseTime":3600}}}{"number":,"action":"allow","direction":"ingress","protocol":"tcp","ports":[` +
		`],"tiers":["VPC Tier Expectation },"manager":"cli"}{"number":1,"time":"2026-01-01T00:00:00Z","manager":"server","through":"apply",` +
		`"summary":"~1 acl","undo":{"ACL ":{"delta":{"spec":{"rules":{"1":null}}}}}}`
)

// HistoryEntry is one change of a VPC's structure: of the VPC, its tiers, lists
// and expectations, not of its attachments.
type HistoryEntry struct {
	Number     int       `json:"number"` // of the state that it led to
	Time       time.Time `json:"time"`
	Manager    string    `json:"manager"`
	Through    Through   `json:"through"`
	To         *int      `json:"to,omitempty"`         // of a rollback: the state that it went back to
	Part       int       `json:"part,omitempty"`       // of a change in several transactions: how many came before this one
	Overridden bool      `json:"overridden,omitempty"` // it broke expectations knowingly
	Summary    string    `json:"summary"`
	// Changes are missing where NotKept says why the states before this one
	// can't be had any more.
	Changes []ResourceChange `json:"changes,omitempty"`
	NotKept string           `json:"notKept,omitempty"`
}

// History is what is kept of the changes of a VPC, the newest first.
type History struct {
	VPC         string         `json:"vpc"`
	Entries     []HistoryEntry `json:"entries"`
	Unconfirmed *Unconfirmed   `json:"unconfirmed,omitempty"` // the newest change waits for its confirmation
}

// storedChange is an entry as it is kept, under its number: as JSON, one that is
// longer than maxPlain compressed (RFC 1951, with the dictionary) and in base64.
type storedChange struct {
	HistoryEntry
	Undo undo `json:"undo,omitempty"`
}

// undo is what takes a change back: by resource what was stored of it.
type undo map[string]former

// former is what was stored of a resource before a change.
type former struct {
	Delta   json.RawMessage `json:"delta,omitempty"`  // of one that has changed: model.Delta
	Stored  json.RawMessage `json:"stored,omitempty"` // of one that was removed; neither: it was not there
	Manager string          `json:"manager,omitempty"`
	Request string          `json:"request,omitempty"`
}

func (f former) action() Action {
	switch {
	case f.Delta != nil:
		return Change
	case f.Stored != nil:
		return Remove
	}
	return Create
}

// History tells of the last changes of a VPC's structure.
func (e *Engine) History(ctx context.Context, vpc string) (*History, error) {
	home, router := translate.HistoryUUID(e.Owner, vpc), translate.RouterUUID(e.Owner, vpc)
	state, err := e.NB.Read(ctx, nbdb.Query{Table: nbdb.TableNBGlobal},
		nbdb.Query{Table: nbdb.TablePortGroup, Where: map[string]any{"_uuid": string(home)}},
		nbdb.Query{Table: nbdb.TableLogicalRouter, Columns: []string{"_uuid"}, Where: map[string]any{"_uuid": string(router)}})
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	group := nbdb.Lookup[*nbdb.PortGroup](state, home)
	if group == nil && nbdb.Lookup[*nbdb.LogicalRouter](state, router) == nil {
		return nil, &NotFoundError{vpcResource(vpc).ID()}
	}
	h := &History{VPC: vpc, Entries: []HistoryEntry{}}
	for _, global := range nbdb.All[*nbdb.NBGlobal](state) {
		h.Unconfirmed = unconfirmed(global, e.Owner)[vpc]
	}
	for _, c := range slices.Backward(changesOf(group)) {
		h.Entries = append(h.Entries, c.told())
	}
	return h, nil
}

// HistoryState are the VPC, tiers, lists and expectations of a VPC as they were
// after the change of a number.
func (e *Engine) HistoryState(ctx context.Context, vpc string, number int) ([]*model.Resource, error) {
	w, err := e.read(ctx, scope{vpcs: []string{vpc}})
	if err != nil {
		return nil, err
	}
	if id := vpcResource(vpc).ID(); w.before(id) == nil {
		return nil, &NotFoundError{id}
	}
	state, err := w.stateAt(vpc, number)
	return sorted(state), err
}

// changesOf are the changes that a row keeps, the oldest first; nil has none.
func changesOf(home *nbdb.PortGroup) []storedChange {
	var out []storedChange
	for _, number := range historyNumbers(home) {
		c, err := decodeChange(home.ExternalIDs[historyKey(number)])
		if err != nil {
			c = storedChange{HistoryEntry: HistoryEntry{NotKept: "what is stored can't be read: " + model.Brief(err.Error())}}
		}
		c.Number = number
		out = append(out, c)
	}
	return out
}

// historyNumbers are the numbers of the changes that a row keeps, ascending.
func historyNumbers(home *nbdb.PortGroup) []int {
	if home == nil {
		return nil
	}
	var out []int
	for key := range home.ExternalIDs {
		text, ok := strings.CutPrefix(key, translate.KeyHistoryPrefix)
		if number, err := strconv.Atoi(text); ok && err == nil && number > 0 && historyKey(number) == key {
			out = append(out, number)
		}
	}
	slices.Sort(out)
	return out
}

// told is an entry with its changes.
func (c *storedChange) told() HistoryEntry {
	told := c.HistoryEntry
	for name, f := range c.Undo {
		id, _ := model.ParseID(name)
		told.Changes = append(told.Changes, ResourceChange{Action: f.action(), Kind: id.Kind, VPC: id.VPC, Name: id.Name})
	}
	slices.SortFunc(told.Changes, func(a, b ResourceChange) int { return compareIDs(a.ID(), b.ID()) })
	return told
}

// encode is the change as it is kept. What is too large to be kept is left out.
func (e *Engine) encode(c *storedChange) (string, error) {
	data, err := json.Marshal(c)
	if err != nil || len(data) <= maxPlain && !nbdb.HoldsNUL(data) {
		return string(data), err
	}
	var b bytes.Buffer
	w, ok := e.packers.Get().(*flate.Writer)
	if ok {
		w.Reset(&b)
	} else if w, err = flate.NewWriterDict(&b, flate.BestCompression, []byte(dictionary)); err != nil {
		return "", err
	}
	defer e.packers.Put(w)
	_, err = w.Write(data)
	if err = cmp.Or(err, w.Close()); err != nil {
		return "", err
	}
	if b.Len() > maxKept {
		c.Undo, c.NotKept = nil, fmt.Sprintf("what it replaced is too large to be kept: %d kB, of at most %d kB", b.Len()>>10, maxKept>>10)
		return e.encode(c)
	}
	return base64.RawStdEncoding.EncodeToString(b.Bytes()), nil
}

func decodeChange(value string) (storedChange, error) {
	var c storedChange
	data, err := []byte(value), error(nil)
	if !strings.HasPrefix(value, "{") {
		data, err = unpack(value)
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	for name := range c.Undo {
		if _, ok := model.ParseID(name); !ok {
			err = fmt.Errorf("%q is no resource", name)
		}
	}
	return c, err
}

func unpack(value string) ([]byte, error) {
	packed, err := base64.RawStdEncoding.DecodeString(value)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(flate.NewReaderDict(bytes.NewReader(packed), []byte(dictionary)), maxInflated))
}

// historyHome is the row that keeps a VPC's history, nil if it is gone.
func (w *world) historyHome(vpc string) *nbdb.PortGroup {
	return nbdb.Lookup[*nbdb.PortGroup](w.state, translate.HistoryUUID(w.owner, vpc))
}

// structure are the resources of a VPC that its history is about.
func (w *world) structure(vpc string) map[model.ID]*model.Resource {
	out := map[model.ID]*model.Resource{}
	for _, r := range w.lost {
		out[r.ID()] = r
	}
	maps.Copy(out, w.resources)
	maps.DeleteFunc(out, func(id model.ID, _ *model.Resource) bool { return !structural(id.Kind) || vpcOf(id) != vpc })
	return out
}

// structural tells whether a kind is part of a VPC's structure.
func structural(k model.Kind) bool { return k != model.KindAttachment && k != model.KindVPCOffering }

// stateAt is the structure of a VPC after the change of a number: that of now,
// with all later changes taken back.
func (w *world) stateAt(vpc string, number int) (map[model.ID]*model.Resource, error) {
	changes := changesOf(w.historyHome(vpc))
	refuse := func(problem string, args ...any) error {
		return invalid(model.Diagnostics{fault(vpcResource(vpc), problem, "see ovn-vpc history "+vpc, args...)})
	}
	state := w.structure(vpc)
	next := number + 1 // the change that is taken back last
	if len(changes) == 0 || number > changes[len(changes)-1].Number || number < changes[0].Number-1 || number < 1 {
		return nil, refuse("there is no state %d in its history", number)
	}
	for i, c := range slices.Backward(changes) {
		if c.Number < next {
			break
		}
		if i > 0 && changes[i-1].Number != c.Number-1 && c.Number > next {
			return nil, refuse("state %d can't be had any more: the change %d is gone from its history", number, c.Number-1)
		}
		err := c.Undo.take(state)
		if c.NotKept != "" {
			err = errors.New(c.NotKept)
		}
		if err != nil {
			return nil, refuse("state %d can't be had any more: the change %d can't be taken back: %s", number, c.Number, brief(err))
		}
	}
	if state[vpcResource(vpc).ID()] == nil {
		return nil, refuse("there was no such VPC before the change %d", next)
	}
	return state, nil
}

// take takes a change back.
func (u undo) take(state map[model.ID]*model.Resource) error {
	for name, f := range u {
		id, _ := model.ParseID(name)
		switch {
		case f.Stored != nil:
			r, err := model.ParseStored(id.Kind, f.Stored)
			if err != nil {
				return err
			}
			r.Manager, r.Request = f.Manager, f.Request
			state[id] = r
		case f.Delta == nil:
			delete(state, id)
		case state[id] == nil:
			return fmt.Errorf("%s is gone", id)
		default:
			r, err := model.Patched(state[id], f.Delta)
			if err != nil {
				return err
			}
			state[id] = r
		}
	}
	return nil
}
