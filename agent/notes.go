package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// The external_ids of the integration bridge about attachments without an
// interface that could bear them; VPC/NAME follows.
const (
	noteFailed    = nbdb.KeyPrefix + "failed/"    // a failure
	noteUnplugged = nbdb.KeyPrefix + "unplugged/" // a removal
)

// unpluggedMost is how many notes of removals are kept.
const unpluggedMost = 20

// failure is why an attachment has no interface yet.
type failure struct {
	Owner string    `json:"owner"`
	Error string    `json:"error"`
	Since time.Time `json:"since"`
}

// removal is what became of an interface that is no longer there.
type removal struct {
	Owner      string         `json:"owner"`
	Interface  string         `json:"interface"`
	Type       model.PlugType `json:"type"`
	At         time.Time      `json:"at"`
	PostDelete *Execution     `json:"postDelete,omitempty"`
}

// noteOf reads a note, the zero value from what is none.
func noteOf[T any](text string) T {
	var note T
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		return *new(T)
	}
	return note
}

func noted(note any) string {
	text, err := json.Marshal(note)
	if err != nil {
		return "" // there is no note that can't be encoded
	}
	return string(text)
}

// noteError notes why the port isn't as it should be: with its interface, or
// with the bridge while it has none.
func (t *task) noteError(ctx context.Context, why error) error {
	if len(t.have) > 0 {
		if t.have[0].ExternalIDs[idError] == why.Error() {
			return nil
		}
		return t.set(ctx, t.have[0], map[string]string{idError: why.Error()})
	}
	key := noteFailed + t.want.Attachment
	note := noteOf[failure](t.vs.Bridges[t.bridge].ExternalIDs[key])
	if note.Owner == t.o.Owner && note.Error == why.Error() {
		return nil
	}
	if note.Owner != t.o.Owner {
		note = failure{Owner: t.o.Owner, Since: t.o.Now().UTC().Truncate(time.Second)}
	}
	note.Error = why.Error()
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	if err := t.ovs.SetBridge(ctx, t.bridge, map[string]string{key: noted(note)}); err != nil {
		return fmt.Errorf("noting the error with bridge %s: %w", t.bridge, err)
	}
	return nil
}

// unplugged is the note of an interface's removal.
func (t *task) unplugged(p plugged, hook *Execution) map[string]string {
	return map[string]string{noteUnplugged + p.record.Attachment: noted(removal{Owner: t.o.Owner, Interface: p.Name,
		Type: p.record.Plug.Type, At: t.o.Now().UTC().Truncate(time.Second), PostDelete: hook})}
}

// tidy removes the notes of failures that are none any more, and the oldest of
// too many removals.
func (s *watch) tidy(ctx context.Context, ids map[string]string, want map[string]*wanted, have map[string][]plugged) error {
	failing := map[string]bool{}
	for port, w := range want {
		failing[w.Attachment] = len(have[port]) == 0
	}
	drop := map[string]string{}
	var removals []string
	for key, text := range ids {
		if name, ok := strings.CutPrefix(key, noteFailed); ok && !failing[name] && noteOf[failure](text).Owner == s.o.Owner {
			drop[key] = ""
		}
		if strings.HasPrefix(key, noteUnplugged) && noteOf[removal](text).Owner == s.o.Owner {
			removals = append(removals, key)
		}
	}
	slices.SortFunc(removals, func(a, b string) int {
		return cmp.Or(noteOf[removal](ids[b]).At.Compare(noteOf[removal](ids[a]).At), strings.Compare(a, b))
	})
	for _, key := range removals[min(unpluggedMost, len(removals)):] {
		drop[key] = ""
	}
	if len(drop) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.ovs.SetBridge(ctx, s.bridge, drop)
}
