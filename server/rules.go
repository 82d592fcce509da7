package server

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// storedRule is a rule as it is answered.
type storedRule struct {
	model.Rule
	Pending *engine.Pending `json:"pending,omitempty"`
}

// ruleList are the rules of a list.
type ruleList struct {
	Items []model.Rule `json:"items"`
}

const rulesPattern = "/v1/vpcs/{vpc}/acls/{name}/rules"

// ruleRoutes are those of single rules of a list.
func (s *Server) ruleRoutes(rs *routes) {
	rule := schemaOf[storedRule](rs.doc)
	result := schemaOf[resultBody](rs.doc)
	body := map[string]*huma.Schema{jsonType: schemaOf[model.Rule](rs.doc), yamlType: schemaOf[model.Rule](rs.doc)}
	answers := func(statuses ...int) map[int]*huma.Schema {
		out := map[int]*huma.Schema{http.StatusAccepted: rule}
		for _, status := range statuses {
			out[status] = rule
		}
		return out
	}
	clash := bodyProblems(http.StatusNotFound, http.StatusConflict)
	for _, rt := range []route{
		{method: http.MethodGet, path: rulesPattern, id: "list-rules", summary: "List the rules of a list", role: Viewer,
			responses: map[int]*huma.Schema{http.StatusOK: schemaOf[ruleList](rs.doc)}, problems: problemStatuses(http.StatusNotFound, http.StatusConflict), handle: s.listRules},
		{method: http.MethodGet, path: rulesPattern + "/{number}", id: "get-rule", summary: "Read one rule", role: Viewer,
			responses: map[int]*huma.Schema{http.StatusOK: rule}, problems: problemStatuses(http.StatusNotFound, http.StatusConflict), handle: s.getRule},
		{method: http.MethodPost, path: rulesPattern, id: "create-rule", summary: "Add a rule to a list", role: Editor,
			description: "Without a number it gets the last rule's + 1. 409 where the number is taken.",
			params:      append(gateParams(), waitParams()...), body: body, responses: answers(http.StatusCreated), headers: []string{"Location"},
			problems: problemStatuses(clash...), handle: s.createRule},
		{method: http.MethodPut, path: rulesPattern + "/{number}", id: "put-rule", summary: "Create or replace one rule", role: Editor,
			description: "The number may be left out of the body. The same again changes nothing.",
			params:      append(gateParams(), waitParams()...), body: body, responses: answers(http.StatusOK, http.StatusCreated), headers: []string{"Location"},
			problems: problemStatuses(clash...), handle: s.putRule},
		{method: http.MethodDelete, path: rulesPattern + "/{number}", id: "delete-rule", summary: "Delete one rule", role: Editor,
			params: append(gateParams(), waitParams()...), responses: map[int]*huma.Schema{http.StatusOK: result, http.StatusAccepted: result},
			problems: problemStatuses(http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity), handle: s.deleteRule},
	} {
		rt.tag = "rules"
		rs.add(rt)
	}
}

func listID(c *exchange) model.ID {
	return model.ID{Kind: model.KindACL, VPC: c.path("vpc"), Name: c.path("name")}
}

// ruleNumber is the one in the path.
func ruleNumber(c *exchange) (int, error) {
	text := c.path("number")
	number, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(number) != text || number < 1 || number > math.MaxInt32 {
		return 0, newProblem(slugNotFound, "%q is no number of a rule", text)
	}
	return number, nil
}

func noRule(id model.ID, number int) *Problem {
	return newProblem(slugNotFound, "%s has no rule %d", id, number)
}

// rules are those of the list that the path names.
func (s *Server) rules(c *exchange) ([]model.Rule, error) {
	id := listID(c)
	found, err := s.engine.Get(c, engine.Filter{Kind: id.Kind, VPC: id.VPC, Name: id.Name})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &engine.NotFoundError{ID: id}
	}
	return found[0].Resource.Spec.(*model.ACLSpec).Rules, nil
}

func (s *Server) listRules(c *exchange) (*answer, error) {
	rules, err := s.rules(c)
	if err != nil {
		return nil, err
	}
	return &answer{body: ruleList{rules}}, nil
}

func (s *Server) getRule(c *exchange) (*answer, error) {
	number, err := ruleNumber(c)
	if err != nil {
		return nil, err
	}
	rules, err := s.rules(c)
	if err != nil {
		return nil, err
	}
	at, there := model.RuleAt(rules, number)
	if !there {
		return nil, noRule(listID(c), number)
	}
	return &answer{body: storedRule{Rule: rules[at]}}, nil
}

// readRule reads the body as a rule, of a number unless that is 0.
func (c *exchange) readRule(number int) (*model.Rule, error) {
	data, _, err := c.body(jsonType, yamlType)
	if err != nil {
		return nil, err
	}
	rule, found := model.LoadRule(model.Input{Data: data}, listID(c))
	if found.HasErrors() {
		return nil, unread(found)
	}
	if number != 0 && rule.Number != 0 && rule.Number != number {
		return nil, newProblem(slugInvalid, "the number is %d, and %d in the path: leave it out", rule.Number, number)
	}
	rule.Number = cmp.Or(rule.Number, number)
	return rule, nil
}

func (s *Server) createRule(c *exchange) (*answer, error) {
	given, err := c.readRule(0)
	if err != nil {
		return nil, err
	}
	if c.request.Header.Get(keyHeader) != "" && given.Number == 0 {
		return nil, newProblem(slugMalformed, "%s is not kept for rules: give the rule a number, with which it is added once", keyHeader)
	}
	rule, place := model.Rule{}, 0
	_, pending, err := s.editRules(c, func(spec *model.ACLSpec) error {
		if rule = *given; rule.Number == 0 {
			if rule.Number = 1; len(spec.Rules) > 0 {
				rule.Number = spec.Rules[len(spec.Rules)-1].Number + 1
			}
			if rule.Number > math.MaxInt32 {
				return newProblem(slugInvalid, "there is no number after the last rule's: give one")
			}
		}
		at, there := model.RuleAt(spec.Rules, rule.Number)
		if there {
			return newProblem(slugExists, "%s has a rule %d", listID(c), rule.Number)
		}
		spec.Rules = slices.Insert(spec.Rules, at, rule)
		place = at
		return nil
	}, func(spec *model.ACLSpec) error {
		if at, there := model.RuleAt(spec.Rules, rule.Number); there && given.Number == 0 && spec.Rules[at].Equal(rule) {
			return newProblem(slugExists, "%s has such a rule %d by now", listID(c), rule.Number)
		}
		return nil
	})
	if err != nil {
		return nil, ofRule(err, place)
	}
	return c.rule(&rule, http.StatusCreated, pending), nil
}

func (s *Server) putRule(c *exchange) (*answer, error) {
	number, err := ruleNumber(c)
	if err != nil {
		return nil, err
	}
	rule, err := c.readRule(number)
	if err != nil {
		return nil, err
	}
	status, place := http.StatusOK, 0
	_, pending, err := s.editRules(c, func(spec *model.ACLSpec) error {
		at, there := model.RuleAt(spec.Rules, number)
		place = at
		if there {
			status, spec.Rules[at] = http.StatusOK, *rule
			return nil
		}
		status, spec.Rules = http.StatusCreated, slices.Insert(spec.Rules, at, *rule)
		return nil
	}, nil)
	if err != nil {
		return nil, ofRule(err, place)
	}
	return c.rule(rule, status, pending), nil
}

// ofRule tells of the faults of one rule by their places in that, which is all that
// was sent, not in the list.
func ofRule(err error, place int) error {
	var invalid *engine.InvalidError
	if !errors.As(err, &invalid) || errors.As(err, new(*Problem)) {
		return err
	}
	found := slices.Clone(invalid.Diagnostics)
	for i := range found {
		found[i].Field = strings.TrimPrefix(found[i].Field, fmt.Sprintf("spec.rules[%d].", place))
	}
	return &engine.InvalidError{Diagnostics: found}
}

// rule is the answer that shows a rule.
func (c *exchange) rule(r *model.Rule, status int, pending *engine.Pending) *answer {
	a := &answer{status: statusOf(pending, status), body: storedRule{*r, pending}}
	if status == http.StatusCreated {
		a.header = map[string]string{"Location": location(listID(c)) + "/rules/" + strconv.Itoa(r.Number)}
	}
	return a
}

func (s *Server) deleteRule(c *exchange) (*answer, error) {
	number, err := ruleNumber(c)
	if err != nil {
		return nil, err
	}
	edited, pending, err := s.editRules(c, func(spec *model.ACLSpec) error {
		at, there := model.RuleAt(spec.Rules, number)
		if !there {
			return noRule(listID(c), number)
		}
		spec.Rules = slices.Delete(spec.Rules, at, at+1)
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	return &answer{status: statusOf(pending, http.StatusOK), body: resultBody{edited.Result, pending}}, nil
}

// editRules changes the rules of the list that the path names; change may alter the
// spec's slice, and be called several times. again is that of an engine.Edit.
func (s *Server) editRules(c *exchange, change, again func(*model.ACLSpec) error) (engine.Edited, *engine.Pending, error) {
	id := listID(c)
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if c.request.Header.Get(name) != "" {
			return engine.Edited{}, nil, newProblem(slugMalformed, "%s is about a list as a whole: put that, or leave it out", name)
		}
	}
	x := engine.Edit{ID: id, Hasty: true, Rules: true}
	if again != nil {
		x.Again = func(now *model.Resource) error {
			if now == nil {
				return nil
			}
			return again(now.Spec.(*model.ACLSpec))
		}
	}
	x.Change = func(now *model.Resource) (*model.Resource, error) {
		if now == nil {
			return nil, &engine.NotFoundError{ID: id}
		}
		next, spec := *now, *now.Spec.(*model.ACLSpec)
		spec.Rules = append(make([]model.Rule, 0, len(spec.Rules)+1), spec.Rules...)
		next.Spec = &spec
		if err := change(&spec); err != nil {
			return nil, err
		}
		if len(spec.Rules) > model.MaxRules { // of one direction, perhaps
			if found := next.Check(); found.HasErrors() {
				return nil, &engine.InvalidError{Diagnostics: found}
			}
		}
		return &next, nil
	}
	return s.edit(c, x)
}
