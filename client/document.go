package client

import (
	"encoding/json"
	"fmt"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// document is a resource as the server writes it.
type document struct {
	Kind     model.Kind      `json:"kind"`
	Metadata model.Metadata  `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
	Status   json.RawMessage `json:"status"`
}

// object reads a document into the types of its kind.
func (d *document) object() (engine.Object, error) {
	spec := model.NewSpec(d.Kind)
	if spec == nil {
		return engine.Object{}, fmt.Errorf("reading the server's answer: there is no kind %q", d.Kind)
	}
	o := engine.Object{Resource: &model.Resource{Kind: d.Kind, Metadata: d.Metadata, Spec: spec}}
	if err := json.Unmarshal(d.Spec, spec); err != nil {
		return o, fmt.Errorf("reading the spec of %s: %w", o.Resource.ID(), err)
	}
	if len(d.Status) == 0 {
		return o, nil
	}
	o.Status = newStatus(d.Kind)
	if err := json.Unmarshal(d.Status, o.Status); err != nil {
		return o, fmt.Errorf("reading the status of %s: %w", o.Resource.ID(), err)
	}
	return o, nil
}

func newStatus(kind model.Kind) any {
	switch kind {
	case model.KindVPC:
		return new(engine.VPCStatus)
	case model.KindVPCOffering:
		return new(engine.OfferingStatus)
	case model.KindTier:
		return new(engine.TierStatus)
	case model.KindACL:
		return new(engine.ACLStatus)
	case model.KindAttachment:
		return new(engine.AttachmentStatus)
	}
	return new(map[string]any)
}

// list is a list of resources, one page of it.
type list struct {
	Items    []document `json:"items"`
	Continue string     `json:"continue"`
	Managers []string   `json:"managers"` // of the items, where they were asked for
	// Diagnostics tell what is left out.
	Diagnostics model.Diagnostics `json:"diagnostics"`
}

func (l *list) resources() ([]*model.Resource, error) {
	var out []*model.Resource
	for i := range l.Items {
		o, err := l.Items[i].object()
		if err != nil {
			return nil, err
		}
		out = append(out, o.Resource)
	}
	return out, nil
}

// documents are resources as they are sent.
type documents struct {
	Items []model.Document `json:"items"`
}

func documentsOf(resources []*model.Resource) documents {
	d := documents{Items: make([]model.Document, len(resources))}
	for i, r := range resources {
		d.Items[i] = model.Envelope(r, nil)
	}
	return d
}
