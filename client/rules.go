package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// StoredRule is a rule as it stands on the server.
type StoredRule struct {
	model.Rule
	// Created tells that the call has made the rule.
	Created bool `json:"-"`
	// Pending is as that of Stored.
	Pending *engine.Pending `json:"pending"`
}

// AddRule adds a rule to a list: with the number 0 behind the others, else in the
// place of its number, which no other rule may have.
func (c *Client) AddRule(ctx context.Context, list model.ID, rule model.Rule, wait engine.Wait) (*StoredRule, error) {
	return c.rule(ctx, list, call{method: http.MethodPost, wait: wait, breaks: true}, "", rule)
}

// PutRule creates the rule of a number, or replaces it.
func (c *Client) PutRule(ctx context.Context, list model.ID, rule model.Rule, wait engine.Wait) (*StoredRule, error) {
	return c.rule(ctx, list, call{method: http.MethodPut, wait: wait, again: true, breaks: true}, "/"+strconv.Itoa(rule.Number), rule)
}

// DeleteRule removes the rule of a number. It is sent again where its answer is
// lost: then an *Error of status 404 may mean that the first call has removed it.
func (c *Client) DeleteRule(ctx context.Context, list model.ID, number int, wait engine.Wait) (*engine.Result, error) {
	path, err := rulesPath(list)
	if err != nil {
		return nil, err
	}
	return c.change(ctx, call{method: http.MethodDelete, path: path + "/" + strconv.Itoa(number), wait: wait, again: true, breaks: true})
}

// rule sends a call that is answered with one rule.
func (c *Client) rule(ctx context.Context, list model.ID, req call, below string, rule model.Rule) (*StoredRule, error) {
	path, err := rulesPath(list)
	if err != nil {
		return nil, err
	}
	req.path = path + below
	var body any = rule
	if rule.Number == 0 {
		body = struct {
			model.Rule
			Number int `json:"number,omitempty"`
		}{Rule: rule}
	}
	if req.body, err = encode(body); err != nil {
		return nil, err
	}
	a, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	s := &StoredRule{Created: a.header.Get("Location") != ""}
	if err := json.Unmarshal(a.body, s); err != nil {
		return nil, fmt.Errorf("reading the server's answer: %w", err)
	}
	return s, nil
}

func rulesPath(list model.ID) (string, error) {
	if list.Kind != model.KindACL {
		return "", fmt.Errorf("%s has no rules", list)
	}
	path, err := pathOf(list)
	return path + "/rules", err
}
