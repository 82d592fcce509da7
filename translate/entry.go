package translate

import (
	"encoding/json"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// StoredEntry is a resource without a row of its own as it stands in the
// external_ids of another row: an offering in NB_Global, which installations
// share, an expectation at its VPC's router and in its second copy.
type StoredEntry struct {
	Owner   string          `json:"owner"`
	Manager string          `json:"manager"`
	Request string          `json:"request,omitempty"`
	Stored  json.RawMessage `json:"stored"`
}

// ParseEntry is the resource that an entry's value stores, nil if it is none of
// the owner's.
func ParseEntry(kind model.Kind, owner, value string) (*model.Resource, error) {
	var e StoredEntry
	if err := json.Unmarshal([]byte(value), &e); err != nil || e.Owner != owner {
		return nil, err
	}
	r, err := model.ParseStored(kind, e.Stored)
	if err != nil {
		return nil, err
	}
	r.Manager, r.Request = e.Manager, e.Request
	return r, nil
}

func (b *builder) entry(table string, row nbdb.UUID, prefix string) error {
	stored, err := model.MarshalStored(b.resource)
	if err != nil {
		return err
	}
	value, err := json.Marshal(StoredEntry{Owner: b.Owner, Manager: b.resource.Manager, Request: b.resource.Request, Stored: stored})
	if err != nil {
		return err
	}
	b.Entries = append(b.Entries, nbdb.Entry{Table: table, Row: row, Key: prefix + b.resource.Metadata.Name, Value: string(value)})
	return nil
}
