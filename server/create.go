package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

const (
	keyHeader    = "Idempotency-Key"
	replayHeader = "Idempotency-Replayed"
	maxKey       = 255
	// suffixLength is how many of suffixBase characters a chosen name ends with.
	suffixLength = 10
	suffixBase   = 36 // 0-9 and a-z
)

func (s *Server) createRoute(rs *routes, col collection) {
	documents := map[string]*huma.Schema{jsonType: kindSchema(col.kind), yamlType: kindSchema(col.kind)}
	created := map[int]*huma.Schema{http.StatusCreated: kindSchema(col.kind), http.StatusAccepted: kindSchema(col.kind)}
	var role Role // for a VPC known only when its name is
	if col.kind != model.KindVPC {
		role = Editor
	}
	rs.add(route{method: http.MethodPost, path: col.pattern(), id: "create-" + col.word, tag: col.word, summary: "Create one " + string(col.kind), role: role,
		description: "Without metadata.name a name is chosen. With an Idempotency-Key the same request again is answered with the resource that it " +
			"created, by any server, as long as that exists.",
		params: append([]*huma.Param{header(keyHeader, "1 to 255 printable characters of the caller's choice, new for each resource")}, append(gateParams(), waitParams()...)...),
		body:   documents, responses: created, headers: []string{"ETag", "Location", replayHeader},
		problems: problemStatuses(bodyProblems(http.StatusNotFound, http.StatusConflict)...),
		handle:   func(c *exchange) (*answer, error) { return s.create(c, col) }})
}

// create makes a resource that is not there.
func (s *Server) create(c *exchange, col collection) (*answer, error) {
	id := col.id(c)
	key, err := keyOf(c, col.pattern())
	if err != nil {
		return nil, err
	}
	id.Name = col.letter + "-" + s.suffix(key)
	data, _, err := c.body(jsonType, yamlType)
	if err != nil {
		return nil, err
	}
	r, err := parse(data, id, false)
	if err != nil {
		return nil, err
	}
	if !may(c, Editor, r.Scope()) {
		return nil, lacking(Editor, r.Scope())
	}
	if err := mayClaim(c, Editor, nil, r); err != nil {
		return nil, err
	}
	if r.Request, err = requestOf(key, r); err != nil {
		return nil, err
	}
	edited, pending, err := s.edit(c, engine.Edit{ID: r.ID(), Hasty: true, Change: func(now *model.Resource) (*model.Resource, error) {
		return created(now, r)
	}})
	if err != nil {
		return nil, err
	}
	a := s.resource(c, edited.Object, http.StatusCreated, pending)
	a.header["Location"] = location(r.ID())
	if edited.Existed {
		a.header[replayHeader] = "true"
	}
	return a, nil
}

// created is the resource as it is to be: new, or the one that the same request
// has created before.
func created(now, r *model.Resource) (*model.Resource, error) {
	if now == nil {
		return r, nil
	}
	key, body, _ := strings.Cut(r.Request, " ")
	key0, body0, _ := strings.Cut(now.Request, " ")
	switch {
	case key == "" || key != key0:
		return nil, newProblem(slugExists, "%s exists", now.ID())
	case body != body0:
		return nil, newProblem(slugKeyReused, "the key has created %s with another body", now.ID())
	}
	return now, nil
}

// keyOf is what a request's key stands for, "" without one: the same for the
// same caller, collection and key, on every server.
func keyOf(c *exchange, pattern string) (string, error) {
	values := c.request.Header.Values(keyHeader)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", newProblem(slugMalformed, "%s: give one, of 1 to %d printable characters", keyHeader, maxKey)
	}
	return digest(principalOf(c).Name, pattern, c.path("vpc"), key), nil
}

// requestOf is what is kept of a request: its key, and a digest of what it asked for.
func requestOf(key string, r *model.Resource) (string, error) {
	if key == "" {
		return "", nil
	}
	stored, err := model.MarshalStored(r)
	if err != nil {
		return "", fmt.Errorf("encoding the request: %w", err)
	}
	return key[:16] + " " + digest(string(stored))[:16], nil
}

// suffix is the end of a name: that of the key, without one any.
func (s *Server) suffix(key string) string {
	n := new(big.Int)
	if key == "" {
		n.SetUint64(s.rand())
	} else {
		n.SetString(key, 16)
	}
	n.Mod(n, new(big.Int).Exp(big.NewInt(suffixBase), big.NewInt(suffixLength), nil))
	text := n.Text(suffixBase)
	return strings.Repeat("0", suffixLength-len(text)) + text
}

// digest is a hash over parts, none of which can be taken for another's beginning.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
