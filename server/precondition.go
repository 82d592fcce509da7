package server

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// condition is one of If-Match and If-None-Match (RFC 9110, 13.1).
type condition struct {
	given bool
	any   bool     // "*"
	tags  []string // without quotes
}

// preconditions are what a request assumes of the resource as it is.
type preconditions struct {
	match, noneMatch condition
}

const entityTag = `(?:W/)?"([^"\x00-\x20\x7f]*)"`

var (
	entityTags = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(entityTag) })
	tagList    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[ \t,]*` + entityTag + `([ \t]*,[ \t,]*` + entityTag + `)*[ \t,]*$`)
	})
)

// conditionOf reads a header of entity tags. Where comparison is strong weak ones
// are left out of the tags: none of ours is weak. A header that is there and empty
// is refused, since its sender means to assume something.
func conditionOf(h http.Header, name string, weakly bool) (condition, error) {
	if len(h.Values(name)) == 0 {
		return condition{}, nil
	}
	text := strings.TrimSpace(strings.Join(h.Values(name), ", "))
	if text == "*" {
		return condition{given: true, any: true}, nil
	}
	if !tagList().MatchString(text) {
		return condition{}, newProblem(slugMalformed, `%s is neither * nor a list of entity tags such as "abc", "def"`, name)
	}
	c := condition{given: true}
	for _, tag := range entityTags().FindAllStringSubmatch(text, -1) {
		if weakly || !strings.HasPrefix(tag[0], "W/") {
			c.tags = append(c.tags, tag[1])
		}
	}
	return c, nil
}

func preconditionsOf(h http.Header) (p preconditions, err error) {
	if p.match, err = conditionOf(h, "If-Match", false); err == nil {
		p.noneMatch, err = conditionOf(h, "If-None-Match", true)
	}
	return p, err
}

// names tells whether a condition names the resource.
func (c condition) names(now *model.Resource) bool {
	return now != nil && (c.any || slices.Contains(c.tags, engine.Version(now)))
}

// check is nil if the resource is as assumed. now is nil where there is none.
func (p preconditions) check(now *model.Resource) error {
	switch {
	case p.match.given && now == nil:
		return newProblem(slugPrecondition, "If-Match: there is no such resource")
	case p.match.given && !p.match.names(now):
		return newProblem(slugPrecondition, "If-Match: the resource is at %q", engine.Version(now))
	case p.noneMatch.given && p.noneMatch.names(now):
		return newProblem(slugPrecondition, "If-None-Match: the resource is there, at %q", engine.Version(now))
	}
	return nil
}

func matchParams() []*huma.Param {
	return []*huma.Param{header("If-Match", "* or entity tags: 412 unless the resource is there with one of them")}
}
