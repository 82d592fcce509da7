package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// History tells of the last changes of a VPC's structure.
func (c *Client) History(ctx context.Context, vpc string) (*engine.History, error) {
	h := &engine.History{}
	return h, c.about(ctx, vpc, call{method: http.MethodGet, path: "/history", reads: true}, h)
}

// HistoryState are the VPC, tiers, lists and expectations of a VPC as they were
// after the change of a number.
func (c *Client) HistoryState(ctx context.Context, vpc string, number int) ([]*model.Resource, error) {
	var items list
	if err := c.about(ctx, vpc, call{method: http.MethodGet, path: "/history/" + strconv.Itoa(number), reads: true}, &items); err != nil {
		return nil, err
	}
	return items.resources()
}

// PlanRollback is what Rollback would do.
func (c *Client) PlanRollback(ctx context.Context, vpc string, o engine.RollbackOptions) (*engine.Plan, error) {
	p := &engine.Plan{}
	return p, c.about(ctx, vpc, call{method: http.MethodGet, path: "/rollback", query: rollbackQuery(o), reads: true}, p)
}

// Rollback brings a VPC's structure back to what it was. Its attachments stay as
// they are.
func (c *Client) Rollback(ctx context.Context, vpc string, o engine.RollbackOptions, wait engine.Wait) (*engine.Result, error) {
	path, err := pathOf(model.ID{Kind: model.KindVPC, Name: vpc})
	if err != nil {
		return nil, err
	}
	query := rollbackQuery(o)
	if o.Unconfirmed != 0 {
		query.Set("unconfirmed", strconv.Itoa(o.Unconfirmed))
	}
	if o.ConfirmOpens {
		confirmOpens(query, o.Openings)
	}
	c.asManager(query)
	return c.change(ctx, call{method: http.MethodPost, path: path + "/rollback", query: query, wait: wait, breaks: true})
}

func rollbackQuery(o engine.RollbackOptions) url.Values {
	query := url.Values{}
	if o.To != 0 {
		query.Set("to", strconv.Itoa(o.To))
	}
	if o.Cascade {
		query.Set("cascade", "true")
	}
	return query
}

// Confirm lets the change of a VPC that waits for its confirmation stand. One
// that comes too late is an *engine.ConflictError.
func (c *Client) Confirm(ctx context.Context, vpc string) (*engine.Unconfirmed, error) {
	u := &engine.Unconfirmed{}
	return u, c.about(ctx, vpc, call{method: http.MethodPost, path: "/confirm"}, u)
}

// about sends a call whose path is below that of a VPC.
func (c *Client) about(ctx context.Context, vpc string, req call, into any) error {
	path, err := pathOf(model.ID{Kind: model.KindVPC, Name: vpc})
	if err != nil {
		return err
	}
	req.path = path + req.path
	a, err := c.do(ctx, req)
	if err != nil {
		return err
	}
	return decode(a, into)
}
