package client

import (
	"cmp"
	"context"
	"net/http"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// Trace tells what becomes of traffic. Rules of the set are told with their
// places in its files.
func (c *Client) Trace(ctx context.Context, q engine.TraceQuery) (*engine.TraceReport, error) {
	set := cmp.Or(q.Set, &model.Set{})
	request := struct {
		engine.TraceQuery
		Items []model.Document `json:"items,omitempty"`
	}{q, documentsOf(set.Resources).Items}
	body, err := encode(request)
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/trace", body: body, reads: true})
	if err != nil {
		return nil, placedError(set, err)
	}
	r := &engine.TraceReport{}
	if err := decode(a, r); err != nil {
		return nil, err
	}
	r.Diagnostics = place(set, r.Diagnostics)
	r.Locate(set)
	return r, nil
}

// Explain finds the rows that a text speaks of, and what is behind them.
func (c *Client) Explain(ctx context.Context, text string, set *model.Set) ([]engine.Explanation, error) {
	set = cmp.Or(set, &model.Set{})
	body, err := encode(struct {
		Text  string           `json:"text"`
		Items []model.Document `json:"items,omitempty"`
	}{text, documentsOf(set.Resources).Items})
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/explain", body: body, reads: true})
	if err != nil {
		return nil, placedError(set, err)
	}
	var found struct{ Items []engine.Explanation }
	if err := decode(a, &found); err != nil {
		return nil, err
	}
	for i := range found.Items {
		found.Items[i].Locate(set)
	}
	return found.Items, nil
}
