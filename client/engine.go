package client

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
)

// Get reads resources back, the built-in lists among them, sorted by kind, VPC
// and name, with the status of their kind.
func (c *Client) Get(ctx context.Context, f engine.Filter) ([]engine.Object, error) {
	query := filterQuery(f)
	query.Set("builtins", "true")
	query.Set("managers", "true")
	objects, found, err := c.list(ctx, query)
	c.leftOut(found)
	return objects, err
}

func (c *Client) leftOut(found model.Diagnostics) {
	if c.options.LeftOut != nil {
		for _, d := range found {
			c.options.LeftOut(d)
		}
	}
}

func filterQuery(f engine.Filter) url.Values {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("kind", strings.ToLower(string(f.Kind)))
	set("vpc", f.VPC)
	set("name", f.Name)
	set("tier", f.Tier)
	set("chassis", f.Chassis)
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(f.Labels)) {
		labels = append(labels, k+"="+f.Labels[k])
	}
	set("labels", strings.Join(labels, ","))
	if f.Up != nil {
		query.Set("up", strconv.FormatBool(*f.Up))
	}
	return query
}

// list reads all pages of a list, and what is told of it.
func (c *Client) list(ctx context.Context, query url.Values) (out []engine.Object, found model.Diagnostics, err error) {
	for {
		var page list
		a, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/resources", query: query, reads: true})
		if err == nil {
			err = decode(a, &page)
		}
		if err != nil {
			return nil, nil, err
		}
		found = append(found, page.Diagnostics...)
		for i := range page.Items {
			o, err := page.Items[i].object()
			if err != nil {
				return nil, nil, err
			}
			if len(page.Managers) == len(page.Items) {
				o.Resource.Manager = page.Managers[i]
			}
			out = append(out, o)
		}
		if page.Continue == "" {
			return out, found, nil
		}
		query.Set("continue", page.Continue)
	}
}

// Names are the names of a kind's resources, for completion.
func (c *Client) Names(ctx context.Context, kind model.Kind, vpc string) ([]string, error) {
	objects, err := c.Get(ctx, engine.Filter{Kind: kind, VPC: vpc})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.Resource.Metadata.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Export are the resources that bring an empty database to the same state.
func (c *Client) Export(ctx context.Context, vpc string) ([]*model.Resource, error) {
	var items list
	a, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/export", query: scope(vpc), reads: true})
	if err == nil {
		err = decode(a, &items)
	}
	if err != nil {
		return nil, err
	}
	c.leftOut(items.Diagnostics)
	return items.resources()
}

func scope(vpc string) url.Values {
	if vpc == "" {
		return nil
	}
	return url.Values{"vpc": {vpc}}
}

// Faults are those that the resources of an input have beside each other and
// beside what is stored. The input may have faults of its own already, so it
// is held against the stored resources here and not sent.
func (c *Client) Faults(ctx context.Context, set *model.Set) (model.Diagnostics, error) {
	filters := []engine.Filter{{Kind: model.KindVPCOffering}}
	for _, vpc := range set.VPCs() {
		filters = append(filters, engine.Filter{VPC: vpc})
	}
	if slices.ContainsFunc(set.Resources, func(r *model.Resource) bool { return r.Kind == model.KindVPCOffering }) {
		filters = []engine.Filter{{}} // it concerns every VPC that uses it
	}
	all := slices.Clone(set.Resources)
	stored := map[model.ID]*model.Resource{}
	for _, f := range filters {
		objects, _, err := c.list(ctx, filterQuery(f))
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			stored[o.Resource.ID()] = o.Resource
			if set.Get(o.Resource.ID()) == nil {
				all = append(all, o.Resource)
			}
		}
	}
	return model.Check(all, func(id model.ID) *model.Resource { return stored[id] }, func(string) bool { return true }), nil
}

// changeQuery are the parameters of Plan and Apply.
func (c *Client) changeQuery(prune bool) url.Values {
	query := url.Values{}
	if prune {
		query.Set("prune", "true")
	}
	c.repair(query)
	c.asManager(query)
	return query
}

func (c *Client) asManager(query url.Values) {
	if c.options.Manager != "" {
		query.Set("manager", c.options.Manager)
	}
}

// confirmOpens refuses to open what is not named.
func confirmOpens(query url.Values, named []reach.Opening) {
	query.Set("confirmOpens", "true")
	var lines []string
	for _, o := range named {
		lines = append(lines, o.String())
	}
	if len(lines) > 0 {
		query.Set("allowOpen", strings.Join(lines, "\n"))
	}
}

// Plan is what Apply would do. Diagnostics, in the error too, stand at the
// places at which the set's resources were read.
func (c *Client) Plan(ctx context.Context, set *model.Set, prune bool) (*engine.Plan, error) {
	body, err := encode(documentsOf(set.Resources))
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/plan", query: c.changeQuery(prune), body: body, reads: true})
	if err != nil {
		return nil, placedError(set, err)
	}
	p := &engine.Plan{}
	if err := decode(a, p); err != nil {
		return nil, err
	}
	p.Diagnostics = place(set, p.Diagnostics)
	for _, part := range p.VPCs {
		if part.Reach != nil {
			part.Reach.Place(lists(set, part.VPC))
		}
	}
	return p, nil
}

// lists are those of a set in a VPC.
func lists(set *model.Set, vpc string) func(name string) *model.Resource {
	return func(name string) *model.Resource { return set.Get(model.ID{Kind: model.KindACL, VPC: vpc, Name: name}) }
}

// Reach tells who reaches whom by what is stored, or with a set as it would be
// when that were applied.
func (c *Client) Reach(ctx context.Context, set *model.Set, o engine.ReachOptions) (*engine.ReachReport, error) {
	query := scope(o.VPC)
	if query == nil {
		query = url.Values{}
	}
	for name, ends := range map[string][]reach.End{"from": o.From, "to": o.To} {
		var words []string
		for _, e := range ends {
			words = append(words, e.Reference())
		}
		if len(words) > 0 {
			query.Set(name, strings.Join(words, ","))
		}
	}
	if o.By != "" {
		query.Set("by", string(o.By))
	}
	if o.Traffic != nil {
		query.Set("port", o.Traffic.String())
	}
	if o.Rules {
		query.Set("rules", "true")
	}
	r := &engine.ReachReport{}
	set, err := c.foresee(ctx, "/v1/reach", query, set, r)
	if err != nil {
		return nil, err
	}
	r.Diagnostics = place(set, r.Diagnostics)
	for _, result := range r.VPCs {
		result.Place(lists(set, result.VPC))
	}
	return r, nil
}

// Verify holds expectations against what is stored, or with a set against what
// would be when that were applied.
func (c *Client) Verify(ctx context.Context, set *model.Set, vpc string) (*engine.VerifyReport, error) {
	r := &engine.VerifyReport{}
	set, err := c.foresee(ctx, "/v1/verify", scope(vpc), set, r)
	if err != nil {
		return nil, err
	}
	r.Diagnostics = place(set, r.Diagnostics)
	for i := range r.Expectations {
		r.Expectations[i].Place(set.Get)
	}
	return r, nil
}

// foresee reads what is told of the stored state, or with a set of the state as it
// would be. It gives the set, an empty one for none.
func (c *Client) foresee(ctx context.Context, path string, query url.Values, set *model.Set, into any) (*model.Set, error) {
	req := call{method: http.MethodGet, path: path, query: query, reads: true}
	if set == nil {
		set = &model.Set{}
	} else {
		body, err := encode(documentsOf(set.Resources))
		if err != nil {
			return nil, err
		}
		req.method, req.body = http.MethodPost, body
	}
	a, err := c.do(ctx, req)
	if err != nil {
		return nil, placedError(set, err)
	}
	return set, decode(a, into)
}

// Apply brings the database to what the set says. With an error too the result
// tells how far it came.
func (c *Client) Apply(ctx context.Context, set *model.Set, prune bool, wait engine.Wait) (*engine.Result, error) {
	return c.apply(ctx, set, c.changeQuery(prune), wait)
}

// ApplyConfirmed is Apply, but a plan that opens anything which is not named is
// refused.
func (c *Client) ApplyConfirmed(ctx context.Context, set *model.Set, prune bool, named []reach.Opening, wait engine.Wait) (*engine.Result, error) {
	query := c.changeQuery(prune)
	confirmOpens(query, named)
	return c.apply(ctx, set, query, wait)
}

func (c *Client) apply(ctx context.Context, set *model.Set, query url.Values, wait engine.Wait) (*engine.Result, error) {
	body, err := encode(documentsOf(set.Resources))
	if err != nil {
		return nil, err
	}
	if within := c.options.ConfirmWithin; within != 0 {
		query.Set("confirmWithin", strconv.Itoa(int(within.Seconds()))+"s")
	}
	r, err := c.change(ctx, call{method: http.MethodPost, path: "/v1/apply", query: query, body: body, wait: wait, breaks: true})
	r.Diagnostics = place(set, r.Diagnostics)
	return r, placedError(set, err)
}

// ApplyPlan commits a plan that was made before. When the database has moved
// on, it is stale, an *engine.ConflictError.
func (c *Client) ApplyPlan(ctx context.Context, p *engine.Plan, wait engine.Wait) (*engine.Result, error) {
	body, err := encode(p)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	c.repair(query)
	return c.change(ctx, call{method: http.MethodPost, path: "/v1/apply", query: query, body: body, media: mediaPlan, wait: wait})
}

func (c *Client) repair(query url.Values) {
	if c.options.Repair {
		query.Set("repair", "true")
	}
}

// Delete removes resources. What others use is refused, or with cascade its
// users go too.
func (c *Client) Delete(ctx context.Context, ids []model.ID, cascade bool, wait engine.Wait) (*engine.Result, error) {
	type name struct {
		Kind model.Kind `json:"kind"`
		VPC  string     `json:"vpc,omitempty"`
		Name string     `json:"name"`
	}
	items := make([]name, len(ids))
	for i, id := range ids {
		items[i] = name(id)
	}
	body, err := encode(map[string]any{"items": items})
	if err != nil {
		return nil, err
	}
	query := url.Values{"cascade": {strconv.FormatBool(cascade)}}
	c.repair(query)
	return c.change(ctx, call{method: http.MethodPost, path: "/v1/delete", query: query, body: body, wait: wait, breaks: true})
}

// ReplaceACL exchanges the list in force at a tier's boundary, in one
// transaction.
func (c *Client) ReplaceACL(ctx context.Context, vpc, tier, acl string, wait engine.Wait) (*engine.Result, error) {
	return c.replaceACL(ctx, vpc, tier, acl, url.Values{}, wait)
}

// ReplaceACLConfirmed is ReplaceACL, but refused where it opens anything which is
// not named.
func (c *Client) ReplaceACLConfirmed(ctx context.Context, vpc, tier, acl string, named []reach.Opening, wait engine.Wait) (*engine.Result, error) {
	query := url.Values{}
	confirmOpens(query, named)
	return c.replaceACL(ctx, vpc, tier, acl, query, wait)
}

func (c *Client) replaceACL(ctx context.Context, vpc, tier, acl string, query url.Values, wait engine.Wait) (*engine.Result, error) {
	path, err := pathOf(model.ID{Kind: model.KindTier, VPC: vpc, Name: tier})
	if err != nil {
		return nil, err
	}
	body, err := encode(map[string]string{"acl": acl})
	if err != nil {
		return nil, err
	}
	return c.change(ctx, call{method: http.MethodPost, path: path + "/acl", query: query, body: body, wait: wait, breaks: true})
}

// change sends a change. The result is never nil.
func (c *Client) change(ctx context.Context, req call) (*engine.Result, error) {
	var r struct {
		engine.Result
		Pending *engine.Pending `json:"pending"`
	}
	a, err := c.do(ctx, req)
	switch {
	case err == nil:
		if err = decode(a, &r); err == nil {
			err = c.arrive(ctx, req.wait, r.Pending)
		}
	case a != nil:
		// A problem tells in the same member how far the change came.
		if decode(a, &r) != nil {
			r.Result = engine.Result{}
		}
		r.Diagnostics = nil
	}
	if r.VPCs == nil {
		r.VPCs = []engine.VPCResult{}
	}
	return &r.Result, err
}

// arrive waits until a change has arrived that had not when the server
// answered, as the engine does: as long as the context lasts. The server waits a
// while at a time, with a change of nothing.
func (c *Client) arrive(ctx context.Context, wait engine.Wait, p *engine.Pending) error {
	for p != nil {
		if patience(ctx) < leastWait || !c.pause(ctx, 1, 0) {
			return fmt.Errorf("the change is in the northbound database, but waiting for %s failed: waiting for %s_cfg to reach %d, at %d: %w",
				p.For, p.For, p.Target, p.Reached, context.DeadlineExceeded)
		}
		body, err := encode(documentsOf(nil))
		if err != nil {
			return err
		}
		a, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/apply", body: body, wait: wait, reads: true})
		if err != nil {
			return fmt.Errorf("the change is in the northbound database, but waiting for %s failed: %w", wait, err)
		}
		var r struct {
			Pending *engine.Pending `json:"pending"`
		}
		if err := decode(a, &r); err != nil {
			return err
		}
		p = r.Pending
	}
	return nil
}

// Drift compares the owned rows of a VPC ("" for all) with the specs that are
// stored with them, in both directions; with repair it mends the rows in one
// transaction.
func (c *Client) Drift(ctx context.Context, vpc string, repair bool, wait engine.Wait) (*engine.DriftReport, error) {
	req := call{method: http.MethodGet, path: "/v1/drift", query: scope(vpc), reads: true}
	if repair {
		req = call{method: http.MethodPost, path: "/v1/drift/repair", query: scope(vpc), wait: wait}
	}
	a, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	var r struct {
		engine.DriftReport
		Pending *engine.Pending `json:"pending"`
	}
	if err := decode(a, &r); err != nil {
		return nil, err
	}
	if !repair && waits(wait) {
		_, err = c.Apply(ctx, &model.Set{}, false, wait)
		return &r.DriftReport, err
	}
	return &r.DriftReport, c.arrive(ctx, wait, r.Pending)
}

// place puts diagnostics where the set's resources were read.
func place(set *model.Set, found model.Diagnostics) model.Diagnostics {
	for i := range found {
		found[i] = set.Place(found[i])
	}
	found.Sort()
	return found
}

func placedError(set *model.Set, err error) error {
	if invalid, ok := err.(*engine.InvalidError); ok {
		return &engine.InvalidError{Diagnostics: place(set, invalid.Diagnostics)}
	}
	return err
}
