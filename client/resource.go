package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Stored is a resource as it stands on the server.
type Stored struct {
	engine.Object
	// Version changes with the metadata and spec: for WriteOptions.
	Version string
	// Created tells that the call has made the resource, Replayed that an
	// earlier one with the same idempotency key had.
	Created, Replayed bool
	// Pending is what the change has not reached in the time that was waited,
	// nil where it has arrived or nobody waited. The change is stored all the same.
	Pending *engine.Pending
}

// CreateOptions say how to create.
type CreateOptions struct {
	// IdempotencyKey makes Create safe to call again, here or from another
	// machine: with the same key and resource it returns what was made first. 1
	// to 255 printable characters; "" for none.
	IdempotencyKey string
	Wait           engine.Wait
}

// WriteOptions say on what condition to write.
type WriteOptions struct {
	// Version is the one that has to be stored; "" for any. Another one is a
	// *PreconditionError.
	Version string
	// New refuses to replace what is there, by a *PreconditionError.
	New bool
	// Cascade deletes the users of what is deleted too.
	Cascade bool
	Wait    engine.Wait
}

func (o WriteOptions) header() http.Header {
	h := http.Header{}
	if o.Version != "" {
		h.Set("If-Match", strconv.Quote(o.Version))
	}
	if o.New {
		h.Set("If-None-Match", "*")
	}
	return h
}

// again tells whether a call with these conditions may be sent again: the
// first one may have changed what they ask for.
func (o WriteOptions) again() bool { return o.Version == "" && !o.New }

// Create makes a new resource. Without a name the server chooses one; without
// addresses and MAC an attachment gets them. With an idempotency key the call
// is sent again where its answer is lost, and else it is not.
func (c *Client) Create(ctx context.Context, r *model.Resource, o CreateOptions) (*Stored, error) {
	path, err := collectionOf(r.ID())
	if err != nil {
		return nil, err
	}
	body, err := encodeResource(r)
	if err != nil {
		return nil, err
	}
	req := call{method: http.MethodPost, path: path, body: body, header: http.Header{}, wait: o.Wait, again: o.IdempotencyKey != "", breaks: true}
	if o.IdempotencyKey != "" {
		req.header.Set("Idempotency-Key", o.IdempotencyKey)
	}
	return c.stored(ctx, req)
}

// Put creates or replaces a resource. An attachment put without addresses or
// MAC keeps those that it has.
func (c *Client) Put(ctx context.Context, r *model.Resource, o WriteOptions) (*Stored, error) {
	path, err := pathOf(r.ID())
	if err != nil {
		return nil, err
	}
	body, err := encodeResource(r)
	if err != nil {
		return nil, err
	}
	return c.stored(ctx, call{method: http.MethodPut, path: path, body: body, header: o.header(), wait: o.Wait, again: o.again(), breaks: true})
}

// Patch merges a JSON merge patch (RFC 7396) into metadata.labels and spec, as
// in {"spec": {"chassis": "h2", "migratingTo": null}}; patch is anything that
// encodes as one.
func (c *Client) Patch(ctx context.Context, id model.ID, patch any, o WriteOptions) (*Stored, error) {
	path, err := pathOf(id)
	if err != nil {
		return nil, err
	}
	body, err := encode(patch)
	if err != nil {
		return nil, err
	}
	return c.stored(ctx, call{method: http.MethodPatch, path: path, body: body, media: mediaPatch, header: o.header(), wait: o.Wait, breaks: true})
}

// GetOne reads one resource, a built-in list too.
func (c *Client) GetOne(ctx context.Context, id model.ID) (*Stored, error) {
	path, err := pathOf(id)
	if err != nil {
		return nil, err
	}
	return c.stored(ctx, call{method: http.MethodGet, path: path, reads: true})
}

// DeleteOne removes one resource. Without a version it is sent again where its
// answer is lost: then *engine.NotFoundError may mean that the first call has
// removed it.
func (c *Client) DeleteOne(ctx context.Context, id model.ID, o WriteOptions) (*engine.Result, error) {
	path, err := pathOf(id)
	if err != nil {
		return nil, err
	}
	req := call{method: http.MethodDelete, path: path, header: o.header(), wait: o.Wait, again: o.again(), breaks: true}
	if o.Cascade {
		req.query = url.Values{"cascade": {"true"}}
	}
	return c.change(ctx, req)
}

// stored sends a call that is answered with one resource.
func (c *Client) stored(ctx context.Context, req call) (*Stored, error) {
	a, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	var body struct {
		document
		Pending *engine.Pending `json:"pending"`
	}
	if err := decode(a, &body); err != nil {
		return nil, err
	}
	s := &Stored{Pending: body.Pending, Created: a.header.Get("Location") != "", Replayed: a.header.Get("Idempotency-Replayed") == "true"}
	s.Created = s.Created && !s.Replayed
	if s.Version, err = strconv.Unquote(a.header.Get("ETag")); err != nil {
		return nil, fmt.Errorf("reading the server's answer: the ETag %q: %w", a.header.Get("ETag"), err)
	}
	s.Object, err = body.object()
	return s, err
}

// encodeResource is a resource's document, without a name where it has none.
func encodeResource(r *model.Resource) ([]byte, error) {
	data, err := model.MarshalDocument(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	return data, nil
}

// collectionOf is the path of the list in which a resource stands.
func collectionOf(id model.ID) (string, error) {
	word := id.Kind.Plural()
	if id.Kind == model.KindVPCOffering {
		word = "offerings"
	}
	switch {
	case word == "":
		return "", fmt.Errorf("there is no kind %q", id.Kind)
	case id.Kind.Global():
		return "/v1/" + word, nil
	}
	vpc, err := segment(id.VPC)
	return "/v1/vpcs/" + vpc + "/" + word, err
}

// pathOf is the path of a resource.
func pathOf(id model.ID) (string, error) {
	collection, err := collectionOf(id)
	if err != nil {
		return "", err
	}
	name, err := segment(id.Name)
	return collection + "/" + name, err
}

// segment is a name as a segment of a path. One that a path would lose is
// refused: it is no name anyway.
func segment(name string) (string, error) {
	if strings.Trim(name, ".") == "" {
		return "", fmt.Errorf("%q is not a name", name)
	}
	return url.PathEscape(name), nil
}
